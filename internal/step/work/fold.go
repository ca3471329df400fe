package work

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Fold is the state of all requests to us, and of our services.
type Fold struct{ *fold.State[state] }

type state struct {
	Requests fold.Table[nostr.ID, request] `json:"requests"`
	Services fold.Table[string, past]      `json:"services"` // by d, also those not offered any more
	Keys     fold.Table[keyed, nostr.ID]   `json:"keys"`     // the latest request with each key that does not repeat another

	open     map[nostr.ID]bool     // requests that are not finished or not yet answered
	regulars map[nostr.PubKey]bool // customers that we delivered to
}

// Derive computes which requests are open, and which customers were served.
func (s *state) Derive() {
	s.open, s.regulars = map[nostr.ID]bool{}, map[nostr.PubKey]bool{}
	for id, r := range s.Requests.All() {
		if r.Received != nil {
			s.open[id] = true
		}
		if r.Ending == delivered {
			s.regulars[r.Customer] = true
		}
	}
}

// past counts the ended requests to a service.
type past struct {
	State     State `json:"state,omitempty"` // Open if empty
	Delivered int   `json:"delivered,omitempty"`
	Failed    int   `json:"failed,omitempty"`
	LatencyMs int64 `json:"latency_ms,omitempty"` // sum over all delivered requests
}

// request is one request to us. Once its answer is published, the fields that tell a repetition remain.
type request struct {
	ID       nostr.ID     `json:"id"`
	Customer nostr.PubKey `json:"customer"`
	Service  string       `json:"service"`            // d of ours
	Ending   string       `json:"ending,omitempty"`   // delivered, refused, failed or unpaid
	Withdrew bool         `json:"withdrew,omitempty"` // the customer withdrew it
	Parked   string       `json:"parked,omitempty"`   // why it is not worked on any more
	Key      string       `json:"key,omitempty"`      // the customer's idempotency key
	Ended    uint64       `json:"ended,omitempty"`    // with a key: the entry that finished it

	At       int64                 `json:"at,omitempty"` // Unix ms when it came
	Received *fact.RequestReceived `json:"received,omitempty"`
	Quoted   *fact.RequestQuoted   `json:"quoted,omitempty"`
	Asked    bool                  `json:"asked,omitempty"` // a relay has our quote, or that was given up
	Finished *fact.RequestFinished `json:"finished,omitempty"`
	Sent     []nostr.ID            `json:"sent,omitempty"` // answers that a relay has, or that were given up
}

// repeats reports whether the request gets the answer to another one.
func (r request) repeats() bool { return r.Received != nil && r.Received.Repeats != nostr.ID{} }

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("work", 5)} }

func (f *Fold) request(id nostr.ID) (r request, ok bool) {
	f.View(func(s *state) { r, ok = s.Requests.Get(id) })
	return r, ok
}

// pending lists the requests that are not answered, the oldest first.
func (f *Fold) pending() []request {
	var pending []request
	f.View(func(s *state) {
		for id := range s.open {
			pending = append(pending, s.Requests.Of(id))
		}
	})
	slices.SortFunc(pending, func(a, b request) int {
		return cmp.Or(cmp.Compare(a.At, b.At), slices.Compare(a.ID[:], b.ID[:]))
	})
	return pending
}

// state returns the recorded state of a service.
func (f *Fold) state(d string) State {
	return cmp.Or(fold.Read(f.State, func(s *state) past { return s.Services.Of(d) }).State, Open)
}

// counts returns the figures of a service.
func (f *Fold) counts(d string) Status {
	h := fold.Read(f.State, func(s *state) past { return s.Services.Of(d) })
	status := Status{Figures: Figures{Delivered: h.Delivered, Failed: h.Failed}}
	if h.Delivered > 0 {
		status.Latency = time.Duration(h.LatencyMs/int64(h.Delivered)) * time.Millisecond
	}
	return status
}

// hasServed reports whether anything was ever delivered to a customer.
func (f *Fold) hasServed(customer nostr.PubKey) bool {
	return fold.Read(f.State, func(s *state) bool { return s.regulars[customer] })
}

// standing returns the request of a customer that a new one with this key repeats: one that goes on, or that was delivered.
// It returns the zero ID if there is no such request. One that failed or was withdrawn is not repeated, but done again.
func (f *Fold) standing(customer nostr.PubKey, key string) nostr.ID {
	if key == "" {
		return nostr.ID{}
	}
	r := fold.Read(f.State, func(s *state) request { return s.Requests.Of(s.Keys.Of(keyed{customer, key})) })
	if r.Withdrew || r.Ending != "" && r.Ending != delivered {
		return nostr.ID{}
	}
	return r.ID
}

// Finished reports whether a guard belongs to a request that was answered or withdrawn.
func (f *Fold) Finished(guard fact.Subject) bool {
	id, err := nostr.IDFromHex(strings.TrimPrefix(string(guard), "request."))
	if err != nil || guard.Noun() != "request" {
		return false
	}
	r, ok := f.request(id)
	return ok && r.Received == nil
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	if noun := e.Subject.Noun(); noun != "request" && noun != "service" {
		return
	}
	f.Change(func(s *state) {
		for _, one := range e.Facts {
			s.apply(one, e)
		}
	})
}

func (s *state) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.RequestReceived:
		s.received(one, e.At)
	case fact.RequestCancelled:
		if r, ok := s.Requests.Get(one.Request); ok {
			r.Withdrew = true
			s.Requests.Set(one.Request, r)
			s.forget(one.Request)
		}
	case fact.RequestQuoted:
		if r, ok := s.Requests.Get(one.Request); ok {
			r.Quoted = &one
			s.Requests.Set(one.Request, r)
		}
	case fact.RequestFinished:
		s.finished(one, e)
	case fact.ServicePaused:
		s.turn(one.Service, pausedState(one))
	case fact.ServiceResumed:
		s.turn(one.Service, "")
	case fact.EffectSettled:
		s.published(one.Effect)
	case fact.EffectParked:
		s.parked(one)
		s.published(one.Effect)
	}
}

func (s *state) received(one fact.RequestReceived, at int64) {
	r := request{ID: one.Request, Customer: one.Customer, Service: one.Service, Key: one.Key, At: at, Received: &one}
	s.Requests.Set(one.Request, r)
	s.open[one.Request] = true
	if one.Key != "" && !r.repeats() {
		s.Keys.Set(keyed{one.Customer, one.Key}, one.Request)
	}
}

func pausedState(p fact.ServicePaused) State {
	if p.Drain {
		return Draining
	}
	return Paused
}

func (s *state) turn(d string, to State) {
	h := s.Services.Of(d)
	h.State = to
	s.Services.Set(d, h)
}

func (s *state) finished(one fact.RequestFinished, e fact.Entry) {
	r, ok := s.Requests.Get(one.Request)
	if !ok || r.Received == nil {
		return
	}
	if r.Ending == "" && !r.repeats() {
		s.tally(r, one.Ending, e.At)
	}
	r.Finished, r.Ending = &one, one.Ending
	if one.Ending == delivered {
		s.regulars[r.Customer] = true
	}
	if r.Key != "" {
		r.Ended = e.Seq
	}
	s.Requests.Set(one.Request, r)
	if len(one.Answers) == 0 {
		s.forget(one.Request)
	}
}

// tally counts how a request ended for its service. One that was never paid says nothing about the work.
func (s *state) tally(r request, ending string, at int64) {
	h := s.Services.Of(r.Service)
	switch ending {
	case delivered:
		h.Delivered++
		h.LatencyMs += max(0, at-r.At)
	case refused, failed:
		h.Failed++
	}
	s.Services.Set(r.Service, h)
}

// parked notes that the runner gave up the work on a request.
func (s *state) parked(p fact.EffectParked) {
	for id := range s.open {
		if doing(id) == p.Effect {
			r := s.Requests.Of(id)
			r.Parked = p.Reason
			s.Requests.Set(id, r)
		}
	}
}

// published notes that a relay has an answer, or that it was given up.
func (s *state) published(effect string) {
	for id := range s.open {
		r := s.Requests.Of(id)
		if r.Quoted != nil && due.Publishing(r.Quoted.Answer.ID) == effect {
			r.Asked = true
			s.Requests.Set(id, r)
			return
		}
		if r.Finished == nil {
			continue
		}
		for _, answer := range r.Finished.Answers {
			if due.Publishing(answer.ID) != effect || slices.Contains(r.Sent, answer.ID) {
				continue
			}
			r.Sent = append(slices.Clone(r.Sent), answer.ID)
			s.Requests.Set(id, r)
			if len(r.Sent) == len(r.Finished.Answers) {
				s.forget(id)
			}
			return
		}
	}
}

// forget drops the fields of a request that only unanswered ones need.
func (s *state) forget(id nostr.ID) {
	r := s.Requests.Of(id)
	r.Received, r.Quoted, r.Finished, r.Sent = nil, nil, nil, nil
	s.Requests.Set(id, r)
	delete(s.open, id)
}
