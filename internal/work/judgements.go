package work

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
)

// Judgements is the fold of what customers say of our deliveries, and of what we say against that. It remembers the
// latest deliveries.
type Judgements struct {
	mu    sync.RWMutex
	state judgements
}

type judgements struct {
	Open    fold.Table[string, served] `json:"open"`             // requests in hex: those that go on, and the latest delivered
	Done    []string                   `json:"done,omitempty"`   // of those, what was delivered, the oldest first
	Pending fold.Table[string, bool]   `json:"pending"`          // whose customer is to hear our objection
	Latest  []string                   `json:"latest,omitempty"` // that customers spoke of, the latest last
}

// served is a request as far as its customer may speak of it. What it points to is never changed in place.
type served struct {
	Customer nostr.PubKey `json:"customer"`
	Task     string       `json:"task"`
	Relays   []string     `json:"relays,omitempty"` // at which the customer may be found
	Done     bool         `json:"done,omitempty"`   // delivered
	Said     []remark     `json:"said,omitempty"`   // by the customer, at most maxSaid
	Against  *against     `json:"against,omitempty"`
}

// remark is one word of a customer on a delivery.
type remark struct {
	fact.RequestJudged
	At int64 `json:"at"` // Unix ms when we heard it
}

// against is our objection.
type against struct {
	Message nostr.ID `json:"message"`
	Answers nostr.ID `json:"answers"` // the customer's message
	Reason  string   `json:"reason"`
	At      int64    `json:"at"` // Unix ms
	Sent    bool     `json:"sent,omitempty"`
	Failed  string   `json:"failed,omitempty"` // why it was not sent, when that was given up
}

// Bounds on what is remembered.
const (
	maxSaid   = 2   // verdicts on one delivery: the first, and that after an objection
	maxLatest = 100 // deliveries that are listed
	maxHomes  = 4   // relays of a customer
)

// NewJudgements returns an empty fold.
func NewJudgements() *Judgements { return &Judgements{} }

// Name implements fold.Fold.
func (*Judgements) Name() string { return "judgements" }

// Version implements fold.Fold.
func (*Judgements) Version() int { return 1 }

// Judgement is what a customer says of one delivery of ours, and what we say against that.
type Judgement struct {
	Request  nostr.ID
	Customer nostr.PubKey
	Task     string
	At       int64 // Unix ms of the latest verdict
	Outcome  guild.Outcome
	Score    guild.Score
	Before   guild.Outcome // of the first verdict, when there is another; else ""
	Text     string        // the customer's words: foreign, cut and without control characters
	Until    int64         // Unix s: as long as the customer hears an objection; 0 when it is final

	Objection string // our reason; "" without one
	Sent      bool   // and a relay took it
	Failed    string // or why none did, when that was given up
}

// Latest lists the deliveries that customers spoke of last, the latest first; at most 100.
func (f *Judgements) Latest() []Judgement {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var all []Judgement
	for _, hex := range slices.Backward(f.state.Latest) {
		if s, ok := f.state.Open.Get(hex); ok && len(s.Said) > 0 {
			all = append(all, s.judgement())
		}
	}
	return all
}

func (s served) judgement() Judgement {
	last := s.Said[len(s.Said)-1]
	j := Judgement{Request: last.Request, Customer: s.Customer, Task: s.Task, At: last.At, Outcome: last.Outcome, Score: last.Score,
		Text: last.Text, Until: last.Until}
	if len(s.Said) > 1 {
		j.Before = s.Said[0].Outcome
	}
	if a := s.Against; a != nil {
		j.Objection, j.Sent, j.Failed = a.Reason, a.Sent, a.Failed
	}
	return j
}

// latest is the message in which the customer said its latest word; zero without any.
func (s served) latest() nostr.ID {
	if len(s.Said) == 0 {
		return nostr.ID{}
	}
	return s.Said[len(s.Said)-1].Message
}

// of returns what is known of a request that was delivered.
func (f *Judgements) of(request nostr.ID) (served, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	s, ok := f.state.Open.Get(request.Hex())
	return s, ok && s.Done
}

// pending lists the requests whose customer is to hear our objection, by their ids in hex.
func (f *Judgements) pending() map[string]served {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := make(map[string]served, f.state.Pending.Len())
	for hex := range f.state.Pending.All() {
		all[hex] = f.state.Open.Of(hex)
	}
	return all
}

// Apply implements fold.Fold.
func (f *Judgements) Apply(e fact.Entry) {
	if e.Subject.Noun() != "request" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e)
	}
}

func (f *Judgements) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.RequestReceived:
		homes := slices.Clip(slices.Compact(append([]string{one.From}, one.Relays...)))
		f.state.Open.Set(one.Request.Hex(), served{Customer: one.Customer, Task: one.Task, Relays: homes[:min(len(homes), maxHomes)]})
	case fact.RequestFinished:
		f.finished(one)
	case fact.RequestCancelled:
		f.state.Open.Delete(one.Request.Hex())
	case fact.RequestJudged:
		f.edit(one.Request.Hex(), func(s *served) { s.Said = append(slices.Clip(s.Said), remark{one, e.At}) })
		f.spoken(one.Request.Hex())
	case fact.RequestObjected:
		f.objected(one, e.At)
	case fact.EffectParked:
		f.gaveUp(one)
	}
}

func (f *Judgements) edit(request string, by func(*served)) {
	if s, ok := f.state.Open.Get(request); ok {
		by(&s)
		f.state.Open.Set(request, s)
	}
}

// finished keeps what was delivered, and lets the oldest go.
func (f *Judgements) finished(one fact.RequestFinished) {
	request := one.Request.Hex()
	switch {
	case !f.state.Open.Has(request):
	case one.Ending != delivered:
		f.state.Open.Delete(request)
	default:
		f.edit(request, func(s *served) { s.Done = true })
		if f.state.Done = append(f.state.Done, request); len(f.state.Done) > maxDone {
			f.state.Open.Delete(f.state.Done[0])
			f.state.Pending.Delete(f.state.Done[0])
			f.state.Done = f.state.Done[1:]
		}
	}
}

// spoken puts a request at the end of those that customers spoke of.
func (f *Judgements) spoken(request string) {
	latest := slices.DeleteFunc(slices.Clone(f.state.Latest), func(r string) bool { return r == request })
	latest = append(latest, request)
	f.state.Latest = latest[max(0, len(latest)-maxLatest):]
}

func (f *Judgements) objected(one fact.RequestObjected, at int64) {
	request := one.Request.Hex()
	f.edit(request, func(s *served) {
		if one.Sent {
			if s.Against != nil {
				now := *s.Against
				now.Sent = true
				s.Against = &now
			}
			f.state.Pending.Delete(request)
			return
		}
		s.Against = &against{Message: one.Message, Answers: s.latest(), Reason: one.Reason, At: at}
		f.state.Pending.Set(request, true)
	})
}

// gaveUp notes that an objection could not be sent.
func (f *Judgements) gaveUp(p fact.EffectParked) {
	for request := range f.pendingNow() {
		if objecting(request) != p.Effect {
			continue
		}
		f.state.Pending.Delete(request)
		f.edit(request, func(s *served) {
			if s.Against != nil {
				now := *s.Against
				now.Failed = cmp.Or(p.Reason, "it failed")
				s.Against = &now
			}
		})
	}
}

// pendingNow is a copy, so that entries can be deleted.
func (f *Judgements) pendingNow() map[string]bool {
	now := map[string]bool{}
	for request := range f.state.Pending.All() {
		now[request] = true
	}
	return now
}

// Freeze implements fold.Fold.
func (f *Judgements) Freeze() func() ([]byte, error) {
	f.mu.Lock() // a table notes that it was copied
	state := judgements{f.state.Open.Clone(), slices.Clone(f.state.Done), f.state.Pending.Clone(), slices.Clone(f.state.Latest)}
	f.mu.Unlock()
	return func() ([]byte, error) { return fold.Encode(state) }
}

// Restore implements fold.Fold.
func (f *Judgements) Restore(b []byte) error {
	var fresh struct {
		Open    *fold.Table[string, served] `json:"open"`
		Done    []string                    `json:"done"`
		Pending *fold.Table[string, bool]   `json:"pending"`
		Latest  []string                    `json:"latest"`
	}
	if err := fold.Decode(b, &fresh); err != nil {
		return fmt.Errorf("judgements: %w", err)
	}
	if fresh.Open == nil || fresh.Pending == nil {
		return errors.New("judgements: the snapshot is incomplete")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = judgements{*fresh.Open, fresh.Done, *fresh.Pending, fresh.Latest}
	return nil
}
