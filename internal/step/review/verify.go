package review

import (
	"context"
	"errors"
	"fmt"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip89"
	"guild/receipt"
)

// Limits on verifying receipts.
const (
	atOnce = 4
	looks  = 3
)

// errFalse matches errors about a receipt that does not prove a review. Another try would not help.
var errFalse = errors.New("the receipt does not prove it")

// verifiable reports whether a review names a receipt that could be verified.
func (o *opinion) verifiable() bool {
	return o.evidence.Receipt != "" && !o.evidence.ReceiptHash.IsZero()
}

// verify returns an error unless a receipt proves a review. It must be valid, have the hash and id that the review
// names, and be of the same provider, task and verdict.
//
// A receipt does not name the customer, so anybody can cite it. It therefore raises the weight of a reviewer that
// counts already, and gives no weight to one that does not.
func (o *opinion) verify(raw []byte) error {
	r, err := receipt.Decode(raw)
	if err == nil {
		err = r.Validate()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errFalse, err)
	}
	hash, err := r.Hash()
	e := o.evidence
	switch {
	case err != nil || hash != e.ReceiptHash:
		return fmt.Errorf("%w: its hash differs", errFalse)
	case r.ID != e.Receipt:
		return fmt.Errorf("%w: its id differs", errFalse)
	case r.ProviderPubKey != o.subject:
		return fmt.Errorf("%w: it is about another provider", errFalse)
	case nip89.Word(r.Task) != nip89.Word(o.task):
		return fmt.Errorf("%w: it is about another task", errFalse)
	case r.VerdictHash.IsZero() || r.VerdictHash != e.VerdictHash:
		return fmt.Errorf("%w: the verdict differs", errFalse)
	case o.request != (nostr.ID{}) && o.request != r.RequestEvent:
		return fmt.Errorf("%w: the request differs", errFalse)
	}
	return nil
}

// due lists the receipts to verify. Only those of reviewers that count are in it, so that strangers cannot make this
// node fetch anything.
func (o *others) due() (work []due.Work) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for p := range o.untold {
		if len(work) == atOnce {
			break
		}
		work = append(work, o.look(p, *o.by[p]))
	}
	return work
}

// look returns the effect that fetches and verifies the receipt of a review. It appends no facts and can be repeated,
// so it needs no claim.
func (o *others) look(p place, said opinion) due.Work {
	return due.Work{Key: "verify the receipt of review " + said.id.Hex(), Guard: fact.ReviewSubject(said.task, guild.Service{PubKey: said.subject}), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			raw, err := o.c.Receipt(ctx, said.evidence.ReceiptHash)
			if err == nil {
				err = said.verify(raw)
			}
			err = o.looked(ctx, p, said, err)
			return func(*journal.Tx) error { return nil }, err
		}}
}

// looked notes the result of verifying a receipt.
func (o *others) looked(ctx context.Context, p place, said opinion, failed error) error {
	o.writes.Lock()
	defer o.writes.Unlock()
	o.mu.Lock()
	now := o.by[p]
	if now == nil || now.id != said.id {
		o.mu.Unlock()
		return nil // replaced meanwhile by another review
	}
	changed := *now
	changed.tried++
	changed.proven = failed == nil
	o.by[p] = &changed
	over := failed == nil || errors.Is(failed, errFalse) || changed.tried >= looks
	if over {
		delete(o.untold, p)
	}
	o.mu.Unlock()
	switch {
	case failed == nil:
		return o.rewrite(ctx, p, said)
	case !over:
		return fmt.Errorf("%w: the receipt of review %.8s: %w", due.ErrLater, said.id.Hex(), failed)
	}
	return nil
}

// rewrite notes in SEEN that a receipt was verified.
func (o *others) rewrite(ctx context.Context, p place, said opinion) error {
	for m, err := range o.c.Journal.Seen(ctx, p.subject()) {
		if err != nil {
			return err
		}
		_, s, e, err := parseSighting(m)
		if err != nil || e.ID != said.id {
			continue
		}
		raw, err := e.MarshalJSON()
		if err != nil {
			return err
		}
		return o.keep(ctx, p, s.From, raw)
	}
	return nil
}
