package work

import (
	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// worksUnasked reports whether we work on a request that names no provider as if it named us: the service is open and
// costs nothing, and the request has something to work on.
func (w *Work) worksUnasked(r nip90.Request) bool {
	s, ok := w.service(r.Get(nip90.ParamJobType), r.Kind)
	if !ok || !s.Open || s.Price > 0 || r.Solicits() {
		return false
	}
	_, err := r.Bundle()
	return err == nil || isPlain(r)
}

// offer answers a request that names no provider, or that asks for offers, with our price. Nothing is recorded. Work begins
// when the customer sends a request that names us.
func (w *Work) offer(received fact.RequestReceived, r nip90.Request) error {
	e := received.Event
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
	if q := w.waiting(s, e.PubKey); q.queued >= s.Slots+s.Queue || q.theirs+q.theirUnpaid >= s.Terms.Each {
		return guild.Drop(guild.Flood, "the queue of %q is full", s.D)
	}
	if !w.limits.allowOffer(e.PubKey, w.c.Now()) {
		return guild.Drop(guild.Flood, "%d offers a minute are enough", offersPerMinute)
	}
	terms := nip90.Feedback{Status: nip90.Processing, Text: "offer"}
	if s.Price > 0 {
		terms = s.priced("offer")
	}
	if !w.tell(answer{to: received, feedback: terms}) {
		return guild.Drop(guild.Flood, "too many answers wait to be published")
	}
	return nil
}
