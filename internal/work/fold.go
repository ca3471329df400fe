package work

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/fold"
)

// Fold is the state of every request to us, and of our services.
type Fold struct {
	mu       sync.RWMutex
	requests fold.Table[nostr.ID, request]
	services fold.Table[string, past]    // by d, whether they are offered now or not
	keys     fold.Table[keyed, nostr.ID] // the latest request that repeats no other, of each key
	open     map[nostr.ID]bool           // derived: not finished, or not yet answered
	regulars map[nostr.PubKey]bool       // derived: customers to whom something was delivered
}

// past is what is kept of a service.
type past struct {
	State     State `json:"state,omitempty"` // Open if empty
	Delivered int   `json:"delivered,omitempty"`
	Failed    int   `json:"failed,omitempty"`
	LatencyMs int64 `json:"latency_ms,omitempty"` // of all that was delivered, together
}

// request is one request to us. Once it is answered only what tells a repetition is kept.
type request struct {
	ID       nostr.ID     `json:"id"`
	Customer nostr.PubKey `json:"customer"`
	Service  string       `json:"service"`            // d of ours
	Ending   string       `json:"ending,omitempty"`   // how we finished it
	Withdrew bool         `json:"withdrew,omitempty"` // the customer did
	Parked   string       `json:"parked,omitempty"`   // why nobody works on it any more
	Key      string       `json:"key,omitempty"`      // the customer's idempotency key
	Ended    uint64       `json:"ended,omitempty"`    // with a key: the entry that finished it

	At       int64                 `json:"at,omitempty"` // Unix ms when it came
	Received *fact.RequestReceived `json:"received,omitempty"`
	Finished *fact.RequestFinished `json:"finished,omitempty"`
	Sent     []nostr.ID            `json:"sent,omitempty"` // answers that a relay has, or would never take
}

// repeats reports whether the request gets the answer of another one.
func (r request) repeats() bool { return r.Received != nil && r.Received.Repeats != nostr.ID{} }

// NewFold returns an empty fold.
func NewFold() *Fold {
	return &Fold{open: map[nostr.ID]bool{}, regulars: map[nostr.PubKey]bool{}}
}

// Name implements fold.Fold.
func (*Fold) Name() string { return "work" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 3 }

func (f *Fold) request(id nostr.ID) (request, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	r, ok := f.requests.Get(id)
	return r, ok
}

// pending lists the requests that something is due for, the oldest first.
func (f *Fold) pending() []request {
	f.mu.RLock()
	pending := make([]request, 0, len(f.open))
	for id := range f.open {
		pending = append(pending, f.requests.Of(id))
	}
	f.mu.RUnlock()
	slices.SortFunc(pending, func(a, b request) int {
		return cmp.Or(cmp.Compare(a.At, b.At), slices.Compare(a.ID[:], b.ID[:]))
	})
	return pending
}

// state is what a service was told last.
func (f *Fold) state(d string) State {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return cmp.Or(f.services.Of(d).State, Open)
}

// counts is what a service has done; Queued is everything not finished.
func (f *Fold) counts(d string) Status {
	f.mu.RLock()
	defer f.mu.RUnlock()
	h := f.services.Of(d)
	s := Status{Figures: Figures{Delivered: h.Delivered, Failed: h.Failed}}
	if h.Delivered > 0 {
		s.Latency = time.Duration(h.LatencyMs/int64(h.Delivered)) * time.Millisecond
	}
	for id := range f.open {
		if r := f.requests.Of(id); r.Service == d && r.Ending == "" {
			s.Queued++
		}
	}
	return s
}

// waiting is the number of requests to a service that are not finished: all of them, and those of one customer.
func (f *Fold) waiting(d string, customer nostr.PubKey) (all, theirs int) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for id := range f.open {
		if r := f.requests.Of(id); r.Service == d && r.Ending == "" {
			all++
			if r.Customer == customer {
				theirs++
			}
		}
	}
	return all, theirs
}

// hasServed reports whether anything was ever delivered to a customer.
func (f *Fold) hasServed(customer nostr.PubKey) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.regulars[customer]
}

// standing finds the request of a customer whose answer another one with the same key gets: it goes on, or was
// delivered. What failed or was taken back may be asked again; then, and without a key, it is the zero ID.
func (f *Fold) standing(customer nostr.PubKey, key string) nostr.ID {
	if key == "" {
		return nostr.ID{}
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	r, ok := f.requests.Get(f.keys.Of(keyed{customer, key}))
	if !ok || r.Withdrew || r.Ending != "" && r.Ending != delivered {
		return nostr.ID{}
	}
	return r.ID
}

// Finished reports whether a guard is that of a request which was answered, or taken back.
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
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e)
	}
}

func (f *Fold) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.RequestReceived:
		f.received(one, e.At)
	case fact.RequestCancelled:
		if r, ok := f.requests.Get(one.Request); ok {
			r.Withdrew = true
			f.requests.Set(one.Request, r)
			f.forget(one.Request)
		}
	case fact.RequestFinished:
		f.finished(one, e)
	case fact.ServicePaused:
		f.turn(one.Service, pausedState(one))
	case fact.ServiceResumed:
		f.turn(one.Service, "")
	case fact.EffectSettled:
		f.published(one.Effect)
	case fact.EffectParked:
		f.parked(one)
		f.published(one.Effect)
	}
}

func (f *Fold) received(one fact.RequestReceived, at int64) {
	r := request{ID: one.Request, Customer: one.Customer, Service: one.Service, Key: one.Key, At: at, Received: &one}
	f.requests.Set(one.Request, r)
	f.open[one.Request] = true
	if one.Key != "" && !r.repeats() {
		f.keys.Set(keyed{one.Customer, one.Key}, one.Request)
	}
}

func pausedState(p fact.ServicePaused) State {
	if p.Drain {
		return Draining
	}
	return Paused
}

func (f *Fold) turn(d string, s State) {
	h := f.services.Of(d)
	h.State = s
	f.services.Set(d, h)
}

func (f *Fold) finished(one fact.RequestFinished, e fact.Entry) {
	r, ok := f.requests.Get(one.Request)
	if !ok || r.Received == nil {
		return
	}
	if r.Ending == "" && !r.repeats() {
		f.tally(r, one.Ending, e.At)
	}
	r.Finished, r.Ending = &one, one.Ending
	if one.Ending == delivered {
		f.regulars[r.Customer] = true
	}
	if r.Key != "" {
		r.Ended = e.Seq
	}
	f.requests.Set(one.Request, r)
	if len(one.Answers) == 0 {
		f.forget(one.Request)
	}
}

// tally counts how a request ended for its service.
func (f *Fold) tally(r request, ending string, at int64) {
	h := f.services.Of(r.Service)
	if ending == delivered {
		h.Delivered++
		h.LatencyMs += max(0, at-r.At)
	} else {
		h.Failed++
	}
	f.services.Set(r.Service, h)
}

// parked notes that a request will not be worked on again.
func (f *Fold) parked(p fact.EffectParked) {
	for id := range f.open {
		if doing(id) == p.Effect {
			r := f.requests.Of(id)
			r.Parked = p.Reason
			f.requests.Set(id, r)
		}
	}
}

// published notes that an answer is with a relay, or that no relay would take it.
func (f *Fold) published(effect string) {
	for id := range f.open {
		r := f.requests.Of(id)
		if r.Finished == nil {
			continue
		}
		for _, answer := range r.Finished.Answers {
			if due.Publishing(answer.ID) != effect || slices.Contains(r.Sent, answer.ID) {
				continue
			}
			r.Sent = append(slices.Clone(r.Sent), answer.ID)
			f.requests.Set(id, r)
			if len(r.Sent) == len(r.Finished.Answers) {
				f.forget(id)
			}
			return
		}
	}
}

// forget drops all of a request but what tells a repetition and counts.
func (f *Fold) forget(id nostr.ID) {
	r := f.requests.Of(id)
	r.Received, r.Finished, r.Sent = nil, nil, nil
	f.requests.Set(id, r)
	delete(f.open, id)
}

// stored is the fold in a snapshot.
type stored struct {
	Requests []request                 `json:"requests"`
	Services *fold.Table[string, past] `json:"services"`
	Keys     []nostr.ID                `json:"keys,omitempty"` // the requests that stand for theirs
}

// Freeze implements fold.Fold.
func (f *Fold) Freeze() func() ([]byte, error) {
	f.mu.Lock()
	requests, services, keys := f.requests.Clone(), f.services.Clone(), f.keys.Clone()
	f.mu.Unlock()
	return func() ([]byte, error) {
		s := stored{make([]request, 0, requests.Len()), &services, make([]nostr.ID, 0, keys.Len())}
		for _, r := range requests.All() {
			s.Requests = append(s.Requests, r)
		}
		for _, id := range keys.All() {
			s.Keys = append(s.Keys, id)
		}
		slices.SortFunc(s.Requests, func(a, b request) int { return slices.Compare(a.ID[:], b.ID[:]) })
		slices.SortFunc(s.Keys, func(a, b nostr.ID) int { return slices.Compare(a[:], b[:]) })
		return fold.Encode(s)
	}
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var s stored
	if err := fold.Decode(b, &s); err != nil {
		return fmt.Errorf("work: %w", err)
	}
	if s.Requests == nil || s.Services == nil {
		return errors.New("work: the snapshot is empty")
	}
	fresh := NewFold()
	fresh.services = *s.Services
	for _, r := range s.Requests {
		fresh.requests.Set(r.ID, r)
		if r.Received != nil {
			fresh.open[r.ID] = true
		}
		if r.Ending == delivered {
			fresh.regulars[r.Customer] = true
		}
	}
	for _, id := range s.Keys {
		r := fresh.requests.Of(id)
		fresh.keys.Set(keyed{r.Customer, r.Key}, id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests, f.services, f.open, f.keys, f.regulars = fresh.requests, fresh.services, fresh.open, fresh.keys, fresh.regulars
	return nil
}
