package work

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"fiatjaf.com/nostr"

	"guild/internal/due"
	"guild/internal/fact"
)

// Fold is the state of every request to us.
type Fold struct {
	mu       sync.RWMutex
	requests map[nostr.ID]request
	open     map[nostr.ID]bool // derived: not finished, or not yet answered
}

// request is one request to us. Once it is answered only what tells a repetition is kept.
type request struct {
	ID       nostr.ID     `json:"id"`
	Customer nostr.PubKey `json:"customer"`
	Service  string       `json:"service"`            // d of ours
	Ending   string       `json:"ending,omitempty"`   // how we finished it
	Withdrew bool         `json:"withdrew,omitempty"` // the customer did
	Parked   string       `json:"parked,omitempty"`   // why nobody works on it any more

	At       int64                 `json:"at,omitempty"` // Unix ms when it came
	Received *fact.RequestReceived `json:"received,omitempty"`
	Finished *fact.RequestFinished `json:"finished,omitempty"`
	Sent     []nostr.ID            `json:"sent,omitempty"` // answers that a relay has, or would never take
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{requests: map[nostr.ID]request{}, open: map[nostr.ID]bool{}} }

// Name implements fold.Fold.
func (*Fold) Name() string { return "work" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 2 }

func (f *Fold) request(id nostr.ID) (request, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	r, ok := f.requests[id]
	return r, ok
}

// pending lists the requests that something is due for, the oldest first.
func (f *Fold) pending() []request {
	f.mu.RLock()
	pending := make([]request, 0, len(f.open))
	for id := range f.open {
		pending = append(pending, f.requests[id])
	}
	f.mu.RUnlock()
	slices.SortFunc(pending, func(a, b request) int {
		return cmp.Or(cmp.Compare(a.At, b.At), slices.Compare(a.ID[:], b.ID[:]))
	})
	return pending
}

// counts is what a service has done; Queued is everything not finished.
func (f *Fold) counts(d string) Status {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var s Status
	for _, r := range f.requests {
		switch {
		case r.Service != d || r.Withdrew:
		case r.Ending == "":
			s.Queued++
		case r.Ending == delivered:
			s.Delivered++
		default:
			s.Failed++
		}
	}
	return s
}

// waiting is the number of requests to a service that are not finished.
func (f *Fold) waiting(d string) int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := 0
	for id := range f.open {
		if r := f.requests[id]; r.Service == d && r.Ending == "" {
			n++
		}
	}
	return n
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	if e.Subject.Noun() != "request" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e.At)
	}
}

func (f *Fold) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.RequestReceived:
		f.requests[one.Request] = request{ID: one.Request, Customer: one.Customer, Service: one.Service,
			At: at, Received: &one}
		f.open[one.Request] = true
	case fact.RequestCancelled:
		if r, ok := f.requests[one.Request]; ok {
			r.Withdrew = true
			f.requests[one.Request] = r
			f.forget(one.Request)
		}
	case fact.RequestFinished:
		f.finished(one)
	case fact.EffectSettled:
		f.published(one.Effect)
	case fact.EffectParked:
		f.parked(one)
		f.published(one.Effect)
	}
}

func (f *Fold) finished(one fact.RequestFinished) {
	r, ok := f.requests[one.Request]
	if !ok || r.Received == nil {
		return
	}
	r.Finished, r.Ending = &one, one.Ending
	f.requests[one.Request] = r
	if len(one.Answers) == 0 {
		f.forget(one.Request)
	}
}

// parked notes that a request will not be worked on again.
func (f *Fold) parked(p fact.EffectParked) {
	for id := range f.open {
		if doing(id) == p.Effect {
			r := f.requests[id]
			r.Parked = p.Reason
			f.requests[id] = r
		}
	}
}

// published notes that an answer is with a relay, or that no relay would take it.
func (f *Fold) published(effect string) {
	for id := range f.open {
		r := f.requests[id]
		if r.Finished == nil {
			continue
		}
		for _, answer := range r.Finished.Answers {
			if due.Publishing(answer.ID) != effect || slices.Contains(r.Sent, answer.ID) {
				continue
			}
			r.Sent = append(slices.Clone(r.Sent), answer.ID)
			f.requests[id] = r
			if len(r.Sent) == len(r.Finished.Answers) {
				f.forget(id)
			}
			return
		}
	}
}

// forget drops all of a request but what tells a repetition and counts.
func (f *Fold) forget(id nostr.ID) {
	r := f.requests[id]
	r.Received, r.Finished, r.Sent = nil, nil, nil
	f.requests[id] = r
	delete(f.open, id)
}

// Snapshot implements fold.Fold.
func (f *Fold) Snapshot() ([]byte, error) {
	f.mu.RLock()
	all := slices.AppendSeq(make([]request, 0, len(f.requests)), maps.Values(f.requests))
	f.mu.RUnlock()
	slices.SortFunc(all, func(a, b request) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return json.Marshal(all)
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var all []request
	if err := json.Unmarshal(b, &all); err != nil {
		return fmt.Errorf("work: %w", err)
	}
	if all == nil {
		return errors.New("work: the snapshot is empty")
	}
	fresh := NewFold()
	for _, r := range all {
		fresh.requests[r.ID] = r
		if r.Received != nil {
			fresh.open[r.ID] = true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests, f.open = fresh.requests, fresh.open
	return nil
}
