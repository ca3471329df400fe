package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/nutshell"
)

// Bounds on what a provider may send.
const (
	maxDelivery = 64 << 20          // bytes of a packed delivery
	maxVerdict  = 16 << 20          // bytes of a stored verdict
	maxAnswer   = fact.MaxEntry / 2 // bytes of a result event that is kept in the journal
	maxQuote    = 16 << 10          // bytes of a quote that is kept there
	maxHeard    = 100               // feedback events that are kept, however fast they come
	slowly      = 30 * time.Second  // least time between those after that
	maxWords    = 256               // ids of feedback events of an attempt that are remembered
)

// Observe takes a result (6000-6999) or feedback (7000). Only the provider that was asked is listened to. What
// changes nothing is a *guild.DropError.
//
// The event is taken apart here, once, and only as far as needed. Its e tags say whether it answers a solicitation or an
// attempt. It is decrypted only for a provider that was asked, so that strangers cannot make us decrypt, and at most once:
// to find its attempt, if the e tags name none, and to read it, if the attempt still waits.
func (j *Jobs) Observe(ctx context.Context, v guild.Verified) error {
	e := v.Event()
	if e.Kind != nip90.KindFeedback && !nip90.IsResult(int(e.Kind)) {
		return guild.Drop(guild.Unexpected, "kind %d", e.Kind)
	}
	if len(e.Tags) > nip90.MaxTags {
		return guild.Drop(guild.Unrequested, "kind %d from %.8s has %d tags", e.Kind, e.PubKey.Hex(), len(e.Tags))
	}
	var requests []nostr.ID // that it names
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "e" {
			continue
		}
		if id, err := nostr.IDFromHex(tag[1]); err == nil {
			requests = append(requests, id)
		}
	}
	open := once(nip90.OpenWith(ctx, j.c.Keyer))
	for _, id := range requests {
		if job, ok := j.fold.solicitation(id); ok {
			return j.observeOffer(ctx, e, open, job, id)
		}
	}
	a, job, err := j.correlate(e, requests, open)
	switch {
	case err != nil:
		return err
	case !a.State.Waiting():
		return over(e, a)
	case e.Kind == nip90.KindFeedback:
		f, err := nip90.ParseFeedback(e, open)
		if err != nil {
			return guild.Drop(guild.Malformed, "%v", err)
		}
		return j.takeFeedback(ctx, e, f, a, job)
	case int(e.Kind) != a.answersIn(job):
		return j.mismatch(ctx, e, a, job)
	}
	r, err := nip90.ParseResult(e, open)
	if err != nil {
		return guild.Drop(guild.Malformed, "%v", err)
	}
	return j.takeResult(ctx, e, r, a, job)
}

// once returns an Opener for a single event, which is decrypted when it is first asked for.
func once(open nip90.Opener) nip90.Opener {
	var plaintext string
	var err error
	opened := false
	return func(sender nostr.PubKey, ciphertext string) (string, error) {
		if !opened {
			plaintext, err = open(sender, ciphertext)
			opened = true
		}
		return plaintext, err
	}
}

// mismatch holds it against a provider, once, that it answers in a kind that is not the request's + 1000 (the
// partnership protocol, section 2.1.2). The right result may still come.
func (j *Jobs) mismatch(ctx context.Context, e nostr.Event, a Attempt, job *Job) error {
	what := fmt.Sprintf("answered in kind %d instead of %d", e.Kind, a.answersIn(job))
	err := j.decide(ctx, e, a, job, func(tx *journal.Tx, now Attempt) {
		if now.Broke == "" {
			tx.Append(fact.AttemptProgressed{Attempt: a.ID, Event: e.ID, Status: "wrong-kind", Text: what, Fault: true})
		}
	})
	if err != nil {
		return err
	}
	return guild.Drop(guild.WrongKind, "%.8s %s", e.PubKey.Hex(), what)
}

// decide runs a decision on an attempt that must still wait for the provider. An event that was taken before decides
// nothing: relays send stored events again whenever they are asked.
func (j *Jobs) decide(ctx context.Context, e nostr.Event, a Attempt, job *Job, d func(*journal.Tx, Attempt)) error {
	var dropped error
	err := j.c.Journal.Do(ctx, fact.JobSubject(job.Job), e.ID.Hex(), func(tx *journal.Tx) error {
		now, job, ok := j.fold.Attempt(a.ID)
		dropped = nil
		switch {
		case !ok || !now.State.Waiting():
			dropped = over(e, now)
		case slices.Contains(now.Words, e.ID):
		case tx.Now().After(job.deadline()) && e.Kind != nip90.KindFeedback:
			dropped = guild.Drop(guild.Late, "the deadline of job %s has passed", job.Job.Short())
		default:
			d(tx, now)
		}
		return nil
	})
	return errors.Join(err, dropped)
}

// over returns why an attempt that has moved on takes nothing more, nil for an event that a relay merely sends again.
func over(e nostr.Event, a Attempt) error {
	if e.ID == a.Result || e.ID == a.Answered || e.Kind == nip90.KindFeedback && int64(e.CreatedAt)*1000 <= a.Over {
		return nil
	}
	if a.Delivery.IsZero() || e.Kind == nip90.KindFeedback {
		return guild.Drop(guild.Late, "attempt %.8s is %s", a.ID.Hex(), a.State)
	}
	return guild.Drop(guild.Second, "attempt %.8s is %s", a.ID.Hex(), a.State)
}

// takeResult records the delivery in a result, or why it is refused.
func (j *Jobs) takeResult(ctx context.Context, e nostr.Event, r nip90.Result, a Attempt, job *Job) error {
	if a.Encrypted && r.Encrypted == "" {
		return j.refuse(ctx, e, a, job, fact.AttemptRefused{Reason: "answered an encrypted request in clear", Fault: true, Clear: true})
	}
	p, plain, err := j.received(ctx, e, r, job)
	switch {
	case plain && err != nil && !errors.Is(err, errEmpty):
		return fmt.Errorf("result %.8s: %w", e.ID.Hex(), err)
	case err != nil:
		return j.fault(ctx, e, a, job, guild.Cut(fmt.Sprintf("the result holds no delivery: %v", err), 500))
	}
	if p.Size > maxDelivery {
		return j.fault(ctx, e, a, job, fmt.Sprintf("the delivery of %d bytes is too large", p.Size))
	}
	d := fact.AttemptDelivered{
		Attempt: a.ID, Result: e.ID, Delivery: p.Hash, Size: p.Size, Away: away(p), Plain: plain, Behaviour: r.Behaviour,
		NudgesLeftOut: min(r.LeftOut, len(job.Nudges)), Usage: r.Usage,
	}
	if job.Settle != nil && job.Settle.How == Postpaid && r.Invoice != "" && len(r.Invoice) <= maxInvoice {
		d.Bill = &fact.Bill{Amount: r.Amount, Invoice: r.Invoice}
	}
	return j.deliver(ctx, e, a, job, d, p.Inline)
}

// deliver stores the event and the delivery before the fact that names them, unless the delivery declines the job: what no fact
// names could not be erased with the job. inline is the delivery, or nil if it is not inside the event.
func (j *Jobs) deliver(ctx context.Context, e nostr.Event, a Attempt, job *Job, d fact.AttemptDelivered, inline []byte) error {
	if reason := declined(inline); reason != "" {
		return j.refuse(ctx, e, a, job, fact.AttemptRefused{Reason: reason})
	}
	j.storing.RLock()
	defer j.storing.RUnlock()
	raw, err := json.Marshal(e)
	if err == nil {
		err = j.keep(ctx, &d, e, raw, inline)
	}
	if err != nil {
		return fmt.Errorf("result %.8s: %w", e.ID.Hex(), err)
	}
	return j.decide(ctx, e, a, job, func(tx *journal.Tx, now Attempt) {
		d.LatencyMs = tx.Now().UnixMilli() - max(now.Asked, now.At) - now.Idle
		tx.Append(d)
	})
}

// away returns where to fetch a delivery that is not inside the result, nil for one that is.
func away(p nip90.Parcel) *fact.Place {
	if p.Inline != nil {
		return nil
	}
	place := &fact.Place{URL: p.URL}
	if p.Key != nil {
		place.Key = hex.EncodeToString(p.Key[:])
	}
	return place
}

// keep stores a result and the delivery inside it. A small result is kept in the journal; then the delivery is only a
// copy, which restore can make again. A large one becomes two blobs.
func (j *Jobs) keep(ctx context.Context, d *fact.AttemptDelivered, e nostr.Event, raw, inline []byte) (err error) {
	d.Event = guild.Sum(raw)
	if inline != nil && len(raw) <= maxAnswer {
		d.Answer = &e
		if d.Plain { // another version of the program might pack it differently
			_, err = j.c.Blobs.PutBytes(ctx, inline)
			return err
		}
		_, err = j.c.Blobs.PutCopy(ctx, inline)
		return err
	}
	if _, err = j.c.Blobs.PutBytes(ctx, raw); err == nil && inline != nil {
		_, err = j.c.Blobs.PutBytes(ctx, inline)
	}
	return err
}

// declined returns why a delivery is not to be judged: its own status is blocked or failed. It returns "" for any other,
// also for one that cannot be read, which the judge rejects.
func declined(bundle []byte) string {
	if len(bundle) == 0 {
		return ""
	}
	var raw []byte
	_, err := nutshell.Extract(bytes.NewReader(bundle), int64(len(bundle)), nutshell.DefaultLimits(), func(e nutshell.Entry, r io.Reader) (err error) {
		if e.Path == nutshell.ResultFile {
			raw, err = io.ReadAll(r)
		}
		return err
	})
	if err != nil {
		return ""
	}
	result, err := nutshell.ParseResult(raw)
	if err != nil || result.Status != "blocked" && result.Status != "failed" {
		return ""
	}
	return fmt.Sprintf("delivered as %s: %.200s", result.Status, result.Summary)
}

// takeFeedback records feedback of any dialect.
func (j *Jobs) takeFeedback(ctx context.Context, e nostr.Event, f nip90.Feedback, a Attempt, job *Job) error {
	switch f.Status {
	case nip90.PaymentRequired:
		return j.quote(ctx, e, a, job, f)
	case nip90.Error:
		return j.refuse(ctx, e, a, job, fact.AttemptRefused{Reason: guild.Cut(wordsOf(f), 500), Later: f.Busy(), Price: f.Amount})
	case nip90.Partial:
		return j.progress(ctx, e, a, job, fact.AttemptProgressed{Text: cmp.Or(f.Content, f.Text), Status: string(f.Status)}) // the part itself
	case nip90.Other:
		return j.progress(ctx, e, a, job, fact.AttemptProgressed{Text: strings.TrimSuffix(f.RawStatus+": "+wordsOf(f), ": "), Status: string(f.Status)})
	case nip90.Processing:
		text, capacity := processing(f)
		return j.progress(ctx, e, a, job, fact.AttemptProgressed{Text: text, Status: string(f.Status), Capacity: capacity})
	}
	return j.progress(ctx, e, a, job, fact.AttemptProgressed{Text: wordsOf(f), Status: string(f.Status)})
}

// maxInvoice is the longest Lightning invoice that is read, in bytes.
const maxInvoice = 4 << 10

// progress records feedback and extends the patience. It drops feedback that comes too often: a provider must not be able
// to fill the journal, from which nothing is deleted.
func (j *Jobs) progress(ctx context.Context, e nostr.Event, a Attempt, job *Job, said fact.AttemptProgressed) error {
	flood := false
	err := j.decide(ctx, e, a, job, func(tx *journal.Tx, now Attempt) {
		flood = now.Heard >= maxHeard && tx.Now().UnixMilli()-now.Last < slowly.Milliseconds()
		if flood {
			return
		}
		said.Attempt, said.Event, said.Text = a.ID, e.ID, guild.Cut(said.Text, 2000)
		said.Silence = tx.Now().Add(j.c.Patience.Extend).UnixMilli()
		tx.Append(said)
	})
	if err == nil && flood {
		return guild.Drop(guild.Flood, "feedback on %.8s", a.ID.Hex())
	}
	return err
}

// quote records what the provider asks for. If the order says how providers are paid, pay answers it; else the attempt ends.
func (j *Jobs) quote(ctx context.Context, e nostr.Event, a Attempt, job *Job, f nip90.Feedback) error {
	named := nip90.HoldOf(f.Extra)
	held := a.Planned.Hold != nil && named == a.Planned.Hold.Hash && f.Invoice != "" && (f.Terms == "" || j.c.Locks == nil || !j.c.Locks(f.Terms))
	return j.decide(ctx, e, a, job, func(tx *journal.Tx, now Attempt) {
		quoted := fact.AttemptQuoted{
			Attempt: a.ID, Amount: f.Amount, Invoice: guild.Cut(f.Invoice, maxInvoice), Key: a.Planned.Key, Event: e.ID, Terms: guild.Cut(f.Terms, 4<<10),
			Rates: f.Rates, Hold: held,
		}
		unpaid := func(format string, args ...any) {
			tx.Append(quoted, fact.AttemptRefused{Attempt: a.ID, Reason: fmt.Sprintf(format, args...), Event: e.ID, Unpaid: true})
		}
		switch {
		case a.Planned.Hold == nil && nip90.IsHeld(f.Extra): // the receipt could not prove a payment for which the provider claims that
			unpaid("says of its invoice that you chose the payment hash, and you did not")
		case job.Settle == nil:
			unpaid("wants %s first, and the order pays nothing: --settle is free or not given", priceOf(f))
		case (job.Settle.How == Postpaid || job.Settle.How == Escrow) && f.Invoice == "" && f.Terms == "":
			unpaid("wants %s first, and takes neither Lightning nor ecash", priceOf(f))
		case job.Settle.How == Postpaid:
			unpaid("wants %s first, and the order pays afterwards (--settle prepaid)", priceOf(f))
		case job.Settle.How == Onchain && nip90.BitcoinOf(f.Extra) == "":
			unpaid("wants %s first, and takes no payment on the chain (--settle)", priceOf(f))
		case job.Settle.How == Prepaid && (f.Invoice == "" || !job.Settle.InBitcoin()) && f.Terms == "":
			unpaid("wants %s first, and takes neither Lightning nor ecash", priceOf(f))
		case job.Settle.How == Escrow && f.Terms == "" && !held:
			unpaid("wants %s first, and takes no ecash in escrow (--settle prepaid pays before the work)", priceOf(f))
		case now.State != guild.Quoted: // its second quote is not answered
			quoted.Silence = tx.Now().Add(j.c.Patience.Extend).UnixMilli()
			if size := len(e.String()); size <= maxQuote {
				quoted.Answer = &e
			}
			if job.Settle.How == Onchain {
				quoted.Bitcoin = guild.Cut(nip90.BitcoinOf(f.Extra), maxInvoice)
			}
			tx.Append(quoted)
		}
	})
}

// priceOf names the price in a quote.
func priceOf(f nip90.Feedback) string {
	if f.Amount == 0 && f.Text != "" {
		return guild.Cut(f.Text, 60)
	}
	return f.Amount.String()
}

func (j *Jobs) refuse(ctx context.Context, e nostr.Event, a Attempt, job *Job, refused fact.AttemptRefused) error {
	refused.Attempt, refused.Event = a.ID, e.ID
	return j.decide(ctx, e, a, job, func(tx *journal.Tx, _ Attempt) { tx.Append(refused) })
}

// fault ends the attempt because the provider broke the protocol, and holds that against it.
func (j *Jobs) fault(ctx context.Context, e nostr.Event, a Attempt, job *Job, reason string) error {
	return j.decide(ctx, e, a, job, func(tx *journal.Tx, _ Attempt) {
		tx.Append(fact.AttemptRefused{Attempt: a.ID, Reason: reason, Fault: true, Event: e.ID})
	})
}
