package audit

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/canon"
	"guild/internal/hand/dm"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/seal"
)

// Witnessing configures countersignatures.
type Witnessing struct {
	Fold   *Witnesses
	Keyer  nostr.Keyer
	PubKey nostr.PubKey

	Inbox  func(ctx context.Context, p nostr.PubKey) []string                       // relays at which p reads private messages
	Send   func(ctx context.Context, v guild.Verified, relays []string) error       // nil error once a relay took the event
	Served func(request nostr.ID) (customer nostr.PubKey, relays []string, ok bool) // of a request that we have delivered; at which relays the customer reads
}

// asks lists the questions to providers about the latest seal, once it is published.
func (s *Step) asks() (work []due.Work) {
	last, ok := s.fold.Last()
	if s.c.Witness == nil || s.c.Publish == nil || !ok || len(last.Relays) == 0 {
		return nil
	}
	for _, w := range s.c.Witness.Fold.wanted(last) {
		asked := func(failed string) due.Decision {
			return func(tx *journal.Tx) error {
				if s.c.Witness.Fold.of(w.Provider).ask(last) {
					tx.Append(fact.WitnessAsked{Provider: w.Provider, Size: last.Size, Root: last.Root, Checkpoint: last.Event, Failed: failed})
				}
				return nil
			}
		}
		work = append(work, due.Work{
			Key: fmt.Sprintf("ask %s to countersign %s", w.Provider.Hex(), last.Event.ID.Hex()), Guard: fact.SealSubject, Lease: 2 * time.Minute,
			Act: func(ctx context.Context) (due.Decision, error) {
				if err := s.ask(ctx, w, last); err != nil {
					return nil, fmt.Errorf("ask %.8s to countersign the seal of %d entries: %w", w.Provider.Hex(), last.Size, err)
				}
				return asked(""), nil
			},
			Park: func(tx *journal.Tx, reason string) { _ = asked(guild.Cut(reason, 500))(tx) }, // it returns no error
		})
	}
	return work
}

// ask sends a provider the checkpoint, the entry with its latest receipt, and the proofs that the checkpoint covers the entry
// and follows from what the provider may have countersigned before.
func (s *Step) ask(ctx context.Context, w wanted, last Sealed) error {
	entry, err := s.c.Journal.Stored(ctx, w.Entry)
	if err != nil {
		return err
	}
	m := dm.Witness{Request: w.Attempt, Checkpoint: last.Event, Entry: entry}
	if m.Proof, err = s.c.Journal.Prove(ctx, w.Entry, last.Size); err != nil {
		return err
	}
	before := w.Asked
	if signed, ok := s.c.Witness.Fold.Of(w.Provider); ok {
		before = append([]Cosigned{signed}, before...)
	}
	for _, c := range before {
		g, err := s.c.Journal.ProveConsistency(ctx, c.Size, last.Size)
		if err != nil {
			return err
		}
		m.Consistency = append(m.Consistency, g)
	}
	content, err := m.Encode()
	if err != nil {
		return err
	}
	letter := dm.Message{Content: content, Subject: "Please countersign a checkpoint"}
	wrap, _, err := dm.Wrap(ctx, s.c.Witness.Keyer, s.c.Witness.PubKey, w.Provider, letter, s.c.Now())
	if err != nil {
		return err
	}
	v, err := guild.Verify(wrap)
	if err != nil {
		return err
	}
	return s.c.Witness.Send(ctx, v, s.c.Witness.Inbox(ctx, w.Provider))
}

// clockSlack limits the seconds by which a provider's clock may be behind ours; the same as in package verify.
const clockSlack = 3600

// Countersigned records the countersignature of a seal that its author was asked for. The error is a *guild.DropError if it was
// not asked for, or has a form with which our exports would not hold.
func (s *Step) Countersigned(ctx context.Context, v guild.Verified) error {
	w, err := seal.ParseWitness(v)
	if err != nil {
		return guild.Drop(guild.Malformed, "%s", err)
	}
	e := v.Event()
	if s.c.Witness == nil || w.Customer != s.c.Witness.PubKey || w.Checkpoint.Journal != s.c.Journal.ID() {
		return guild.Drop(guild.Misdirected, "a countersignature of another journal")
	}
	if !slices.EqualFunc(e.Tags, w.Event(0).Tags, slices.Equal[nostr.Tag]) {
		return guild.Drop(guild.Malformed, "a countersignature with other tags than it says")
	}
	return s.c.Journal.Do(ctx, fact.SealSubject, "", func(tx *journal.Tx) error {
		provider := s.c.Witness.Fold.of(e.PubKey)
		answers := func(size uint64, root guild.Hash, checkpoint nostr.Event) bool {
			return size == w.Checkpoint.Size && root == w.Checkpoint.Root && e.CreatedAt+clockSlack >= checkpoint.CreatedAt
		}
		asked := slices.ContainsFunc(provider.Asked, func(c Cosigned) bool { return answers(c.Size, c.Root, c.Checkpoint) })
		if last, ok := s.fold.Last(); !asked && ok && provider.ask(last) && answers(last.Size, last.Root, last.Event) {
			// The answer came before the question was recorded.
			tx.Append(fact.WitnessAsked{Provider: e.PubKey, Size: last.Size, Root: last.Root, Checkpoint: last.Event})
			asked = true
		}
		if !asked {
			return guild.Drop(guild.Unrequested, "a countersignature of %d entries that %.8s was not asked for", w.Checkpoint.Size, e.PubKey.Hex())
		}
		tx.Append(fact.SealWitnessed{Provider: e.PubKey, Size: w.Checkpoint.Size, Event: e})
		return nil
	})
}

// Asked countersigns the checkpoint of a customer, if it covers a job that we did for the customer and has all entries of the
// one that we have countersigned before. The error is a *guild.DropError if it does not.
func (s *Step) Asked(ctx context.Context, m dm.Message) error {
	w, err := dm.DecodeWitness(m.Content)
	if err != nil {
		return err
	}
	if s.c.Witness == nil || s.c.Signer == nil {
		return guild.Drop(guild.Unexpected, "we countersign nothing")
	}
	customer, relays, ok := s.c.Witness.Served(w.Request)
	if !ok || customer != m.From {
		return guild.Drop(guild.Unrequested, "a checkpoint about no delivery of ours to %.8s", m.From.Hex())
	}
	point, err := covers(w, customer)
	if err != nil {
		return guild.Drop(guild.Malformed, "%s", err)
	}
	if err := s.follows(customer, point, w); err != nil {
		return err
	}
	signed, err := guild.Sign(ctx, s.c.Signer, seal.Witness{Customer: customer, Checkpoint: point}.Event(s.c.Now().Unix()))
	if err != nil {
		return fmt.Errorf("countersign a checkpoint: %w", err)
	}
	return s.c.Journal.Do(ctx, fact.SealSubject, "", func(tx *journal.Tx) error {
		if err := s.follows(customer, point, w); err != nil { // another question may have come first
			return err
		}
		tx.Append(fact.CheckpointWitnessed{Customer: customer, Journal: point.Journal, Size: point.Size, Root: point.Root, Entry: w.Proof.Index,
			Event: signed.Event(), Relays: relays})
		return nil
	})
}

// covers returns the checkpoint in a question, after a check that the customer signed it, and that it covers an entry which
// records the request.
func covers(w dm.Witness, customer nostr.PubKey) (seal.Checkpoint, error) {
	v, err := guild.Verify(w.Checkpoint)
	if err != nil {
		return seal.Checkpoint{}, err
	}
	point, err := seal.ParseCheckpoint(v)
	if err != nil {
		return seal.Checkpoint{}, err
	}
	switch {
	case v.Event().PubKey != customer:
		return seal.Checkpoint{}, fmt.Errorf("the checkpoint is signed by %.8s", v.Event().PubKey.Hex())
	case w.Proof.Size != point.Size:
		return seal.Checkpoint{}, fmt.Errorf("the proof is of %d entries, and the checkpoint of %d", w.Proof.Size, point.Size)
	case !records(w.Entry, w.Request):
		return seal.Checkpoint{}, fmt.Errorf("the entry does not record the request %.8s", w.Request.Hex())
	}
	return point, w.Proof.Check(seal.Leaf(w.Entry), point.Root)
}

// records reports whether an entry of a journal records the receipt for a request.
func records(entry []byte, request nostr.ID) bool {
	subject, body, _ := bytes.Cut(entry, []byte("\n"))
	var decision struct {
		Facts []struct {
			Type    string `json:"type"`
			Attempt string `json:"attempt"`
		} `json:"facts"`
	}
	canonical, err := canon.Canonical(body)
	if err != nil || !strings.HasPrefix(string(subject), "job.") || json.Unmarshal(canonical, &decision) != nil {
		return false
	}
	recorded := fact.AttemptRecorded{}.Type()
	for _, f := range decision.Facts {
		if f.Type == recorded && f.Attempt == request.Hex() {
			return true
		}
	}
	return false
}

// follows checks that a checkpoint may be countersigned after the latest of its journal that was. We sign one a minute at most,
// and maxAsks for one receipt, as an answer can get lost. So a customer cannot fill our journal.
func (s *Step) follows(customer nostr.PubKey, point seal.Checkpoint, w dm.Witness) error {
	last, known, journals := s.c.Witness.Fold.seen(customer, point.Journal)
	switch {
	case !known && journals >= maxJournals:
		return guild.Drop(guild.Flood, "%.8s has over %d journals", customer.Hex(), maxJournals)
	case !known:
		return nil
	case point.Size <= last.Size || w.Proof.Index < last.Size && last.Times >= maxAsks:
		return guild.Drop(guild.Repeated, "a checkpoint of %d entries, and we have countersigned one of %d that covers the same job", point.Size, last.Size)
	}
	if s.c.Now().UnixMilli()-last.At < between {
		return guild.Drop(guild.Flood, "a checkpoint of %.8s within a minute of another", customer.Hex())
	}
	i := slices.IndexFunc(w.Consistency, func(g seal.Consistency) bool { return g.From == last.Size && g.To == point.Size })
	if i < 0 {
		return guild.Drop(guild.Inconsistent, "no proof that the checkpoint of %d entries follows from that of %d", point.Size, last.Size)
	}
	if err := w.Consistency[i].Check(last.Root, point.Root); err != nil {
		return guild.Drop(guild.Inconsistent, "%s", err)
	}
	return nil
}

// countersignatures lists ours that no relay has yet.
func (s *Step) countersignatures() (work []due.Work) {
	if s.c.Witness == nil {
		return nil
	}
	for _, one := range s.c.Witness.Fold.unsent() {
		published := func(failed string) due.Decision {
			return func(tx *journal.Tx) error {
				tx.Append(fact.WitnessPublished{Event: one.Event.ID, Failed: failed})
				return nil
			}
		}
		work = append(work, due.Work{
			Key: due.Publishing(one.Event.ID), Guard: fact.SealSubject, Tries: 8,
			Act: func(ctx context.Context) (due.Decision, error) {
				v, err := guild.Verify(one.Event)
				if err == nil {
					err = s.c.Witness.Send(ctx, v, one.Relays)
				}
				if err != nil {
					return nil, fmt.Errorf("publish a countersignature: %w", err)
				}
				return published(""), nil
			},
			Park: func(tx *journal.Tx, reason string) { _ = published(guild.Cut(reason, 500))(tx) }, // it returns no error
		})
	}
	return work
}
