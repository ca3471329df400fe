package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip13"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// Terms are the conditions on which a service takes requests.
type Terms struct {
	Allow     []nostr.PubKey // customers that may ask; all if empty
	Judges    []nostr.PubKey // arbiters whose rulings on escrow are accepted
	MinBid    guild.Msat     // a lower bid is refused
	PoW       int            // leading zero bits that a request's id must have (NIP-13)
	PerMinute int            // requests of one customer; any number if zero
	Each      int            // unfinished requests of one customer; the slots and half of the queue if zero
	Prepaid   guild.Trust    // score of a customer below which it has to pay before the work, whatever becomes of it
}

// refusal says why a request is not taken.
type refusal struct {
	reason guild.Reason // for our counters
	text   string       // for the customer
	amount guild.Msat   // the bid that would be enough, if the bid is the reason
	spam   bool         // the customer asks too often
}

// tooOften returns a refusal that counts against the customer.
func tooOften(format string, args ...any) *refusal {
	why := refuse(guild.Flood, format, args...)
	why.spam = true
	return why
}

func refuse(r guild.Reason, format string, args ...any) *refusal {
	return &refusal{reason: r, text: fmt.Sprintf(format, args...)}
}

// admit returns why a service does not take a request, or nil. Checks that use up a customer's limits come last, so that a
// request that is refused for another reason costs its customer nothing.
func (w *Work) admit(s Service, e nostr.Event, r nip90.Request) *refusal {
	switch {
	case w.Draining():
		return refuse(guild.Flood, "at capacity, try again later")
	case w.state(s.D) != Open:
		return refuse(guild.Flood, "paused: busy, try again later")
	}
	if refused := s.Terms.check(e, r); refused != nil {
		return refused
	}
	if err := w.check(r); err != nil {
		return refuse(guild.Malformed, "%v", err)
	}
	if s.Check != nil {
		if err := s.Check(r); err != nil {
			return refuse(guild.Malformed, "%v", err)
		}
	}
	if !w.limits.allowRequest(s, e.PubKey, w.c.Now()) {
		return tooOften("busy: %d requests of one customer in a minute, try again later", s.Terms.PerMinute)
	}
	q := w.waiting(s, e.PubKey)
	if refused := w.scored(s, e.PubKey, q.theirs+q.theirUnpaid); refused != nil {
		return refused
	}
	stranger := len(s.Terms.Allow) == 0 && !w.fold.hasServed(e.PubKey)
	repeats := w.fold.standing(e.PubKey, r.Get(nip90.ParamIdempotencyKey)) != nostr.ID{}
	switch {
	case repeats && !w.limits.allowIdle(e.PubKey, w.c.Now()):
		return tooOften("busy: it repeats another request, and you repeat too many, try again later")
	case q.queued >= s.Slots+s.Queue:
		return refuse(guild.Flood, "at capacity, try again later")
	case q.theirs+q.theirUnpaid >= s.Terms.Each:
		return tooOften("at capacity: %d of your requests are not finished, try again later", q.theirs+q.theirUnpaid)
	case stranger && q.theirUnpaid >= unpaidOne:
		return tooOften("at capacity: %d of your requests are not paid, try again later", q.theirUnpaid)
	case stranger && q.unpaid >= unpaidAll:
		return refuse(guild.Flood, "busy: too many requests of new customers are not paid, try again later")
	case stranger && !w.limits.allowNewcomer(w.c.Now()):
		return refuse(guild.Flood, "busy: too many new customers, try again later")
	}
	return nil
}

// How many requests to a service may wait for their price: of one customer that we never delivered to, and of all customers. They
// take no place in the queue, as nobody works on them: else two customers without money could close a service to everybody.
const (
	unpaidOne = 8
	unpaidAll = 512
)

// queue counts the unfinished requests to a service.
type queue struct {
	queued, unpaid      int // that wait for a worker or have one, and that wait for their price
	theirs, theirUnpaid int // the same of one customer
}

// waiting counts the unfinished requests to a service, and those of a customer among them.
func (w *Work) waiting(s Service, customer nostr.PubKey) (q queue) {
	for _, r := range w.fold.pending() {
		if r.Service != s.D || r.Ending != "" {
			continue
		}
		mine, all := &q.theirs, &q.queued
		if w.awaitsMoney(r) {
			mine, all = &q.theirUnpaid, &q.unpaid
		}
		*all++
		if r.Customer == customer {
			*mine++
		}
	}
	return q
}

// scored returns why a customer is not served because of its earlier requests, or nil. Customers that the owner lists are
// not scored.
func (w *Work) scored(s Service, p nostr.PubKey, unfinished int) *refusal {
	if w.c.Customers == nil || slices.Contains(s.Terms.Allow, p) {
		return nil
	}
	policy := w.c.Customers.policy
	score := w.c.Customers.Score(w.c.Customers.Of(p), w.limits.refusalsOf(p, w.c.Now()))
	switch {
	case score < policy.Lowest:
		return refuse(lowScore, "not taken: too many of your earlier requests here came to nothing")
	case score < policy.Low && unfinished > 0:
		return refuse(guild.Flood, "at capacity: you may have one request here at a time, try again later")
	}
	return nil
}

// paysAhead reports whether a customer has to pay before the work, as it is not known well enough to lock the price.
func (w *Work) paysAhead(s Service, p nostr.PubKey) bool {
	if w.c.Customers == nil || slices.Contains(s.Terms.Allow, p) {
		return false
	}
	return w.c.Customers.Score(w.c.Customers.Of(p), w.limits.refusalsOf(p, w.c.Now())) < s.Terms.Prepaid
}

// check returns the term that a request does not meet, or nil.
func (t Terms) check(e nostr.Event, r nip90.Request) *refusal {
	switch {
	case len(t.Allow) > 0 && !slices.Contains(t.Allow, e.PubKey):
		return refuse(unlisted, "this service is only for customers that its owner lists, and you are not among them")
	case difficulty(e) < t.PoW:
		return tooLittle(t.PoW, e)
	case r.Bid < t.MinBid:
		refused := refuse(lowBid, "the least bid is %d msat, and this request bids %d", int64(t.MinBid), int64(r.Bid))
		refused.amount = t.MinBid
		return refused
	}
	return nil
}

// Reasons for which a request that does not meet the terms is dropped.
const (
	unlisted guild.Reason = "customer not listed"
	lowBid   guild.Reason = "bid too low"
	lowWork  guild.Reason = "too little proof of work"
	lowScore guild.Reason = "customer scored too low"
)

func tooLittle(bits int, e nostr.Event) *refusal {
	return refuse(lowWork, "proof of work is wanted: %d bits (NIP-13), and this request has %d", bits, difficulty(e))
}

// difficulty returns the proof of work of a request (NIP-13): the leading zero bits of its id, but no more than the target
// in its nonce tag. Zeros beyond the target are luck, not work.
func difficulty(e nostr.Event) int {
	bits := nip13.Difficulty(e.ID)
	if nonce := e.Tags.Find("nonce"); len(nonce) > 2 {
		target, err := strconv.Atoi(nonce[2])
		if err != nil || target < 0 {
			return 0
		}
		return min(bits, target)
	}
	return bits
}

// leastWork returns the least proof of work that any service accepts. Requests with less are not even decrypted.
func (w *Work) leastWork() int {
	least := -1
	for _, s := range w.services {
		if least < 0 || s.Terms.PoW < least {
			least = s.Terms.PoW
		}
	}
	return max(0, least)
}

// turnDown drops a request and tells the customer why, within the limits: a flood of requests must not make us publish a
// flood. A refusal is no fact, so that strangers cannot fill the journal; the latest that were told are remembered.
func (w *Work) turnDown(ctx context.Context, received fact.RequestReceived, why *refusal) error {
	e := received.Event
	dropped := guild.Drop(why.reason, "request %.8s: %.200s", e.ID.Hex(), why.text)
	if e.Tags.FindWithValue("p", w.c.PubKey.Hex()) == nil {
		return dropped // a request that names no provider is for those that accept it
	}
	if why.spam {
		w.limits.refused(e.PubKey, w.c.Now())
	}
	if !w.limits.allowAnswer(e.PubKey, w.c.Now()) {
		w.c.Log.Debug("a request is refused without a word", "request", e.ID.Hex(), "why", why.text)
		return dropped
	}
	if err := w.remember(ctx, e.ID); err != nil {
		return err
	}
	w.notify(Refused, received, why.text)
	a := failure(received, why.text)
	a.feedback.Amount = why.amount
	if !w.tell(a) {
		w.c.Log.Debug("too busy to decline a request", "request", e.ID.Hex())
	}
	return dropped
}

// isEncrypted reports whether a request is encrypted, without decrypting it.
func isEncrypted(e nostr.Event) bool {
	_, err := nip90.ParseRequest(e, nil)
	return errors.Is(err, nip90.ErrEncrypted)
}
