package work

import (
	"golang.org/x/time/rate"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// offersPerMinute is how many offers we make at most: whoever asks everybody must not make everybody answer for ever.
const offersPerMinute = 30

// newOffers is the pace of our offers.
func newOffers() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(offersPerMinute)/60, offersPerMinute)
}

// unreadable tells a customer that its request cannot be read, if it is for us.
func (w *Work) unreadable(from string, e nostr.Event, err error) error {
	if first := e.Tags.Find("p"); first == nil || first[1] != w.c.PubKey.Hex() {
		return guild.Drop(guild.Malformed, "%v", err) // what is encrypted for another is not for us to read
	}
	return w.turnDown(from, e, nip90.Request{Encrypted: isSealed(e)}, refuse(guild.Malformed, "this request cannot be read: %v", err))
}

// worksUnasked reports whether a request that names nobody is worked on here as if it named us: the service says so,
// it costs nothing, and there is something to work on.
func (w *Work) worksUnasked(r nip90.Request) bool {
	s, ok := w.service(r.Get(nip90.ParamJobType), r.Kind)
	if !ok || !s.Open || s.Price > 0 || r.Solicits() {
		return false
	}
	_, err := r.Bundle()
	return err == nil || isPlain(r)
}

// offer answers a request that names nobody, or asks for no more, with what we would do it for. Nobody works on it
// until its customer comes with a request that names us, and nothing of it becomes a fact.
func (w *Work) offer(from string, e nostr.Event, r nip90.Request) error {
	s, ok := w.service(r.Get(nip90.ParamJobType), r.Kind)
	if !ok {
		return guild.Drop(guild.Misdirected, "task %.80q of kind %d", r.Get(nip90.ParamJobType), r.Kind)
	}
	if !w.open(s.D) {
		return guild.Drop(guild.Flood, "the service %q takes nothing now", s.D)
	}
	if refused := s.Terms.check(e, r); refused != nil {
		return guild.Drop(refused.reason, "request %.8s: %.200s", e.ID.Hex(), refused.text)
	}
	if all, theirs := w.fold.waiting(s.D, e.PubKey); all >= s.Slots+s.Queue || theirs >= s.Terms.Each {
		return guild.Drop(guild.Flood, "the queue of %q is full", s.D)
	}
	now := w.c.Now()
	if !w.doors.tells(e.PubKey, now) || !w.offers.AllowN(now, 1) {
		return guild.Drop(guild.Flood, "%d offers a minute are enough", offersPerMinute)
	}
	say := nip90.Feedback{Status: nip90.Processing, Text: "offer"}
	if s.Price > 0 {
		say = nip90.Feedback{Status: nip90.PaymentRequired, Text: "offer", Amount: s.Price}
	}
	received := fact.RequestReceived{Request: e.ID, Customer: e.PubKey, Encrypted: r.Encrypted != "", Relays: r.Relays, From: from}
	select {
	case w.talk <- told{request: received, say: say}:
		return nil
	default:
		return guild.Drop(guild.Flood, "too much to tell")
	}
}
