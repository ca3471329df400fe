package work

import (
	"cmp"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Judgements is the fold of customers' verdicts on our deliveries, and of our objections. It remembers the latest
// deliveries.
type Judgements struct{ *fold.State[judgements] }

type judgements struct {
	Open    fold.Table[string, served] `json:"open"`    // by the request's id in hex: those that go on, and the latest delivered ones
	Done    []string                   `json:"done"`    // those of Open that were delivered, the oldest first
	Pending fold.Table[string, bool]   `json:"pending"` // requests with an objection to send
	Latest  []string                   `json:"latest"`  // requests with a verdict, the latest verdict last
}

// served is a request with its verdicts. Said and Against are never changed in place.
type served struct {
	Customer nostr.PubKey `json:"customer"`
	Task     string       `json:"task"`
	Relays   []string     `json:"relays,omitempty"` // of the customer
	Done     bool         `json:"done,omitempty"`   // delivered
	Said     []remark     `json:"said,omitempty"`   // verdicts, at most maxSaid
	Against  *against     `json:"against,omitempty"`
}

// remark is one verdict of a customer.
type remark struct {
	fact.RequestJudged
	At int64 `json:"at"` // Unix ms when it was recorded
}

// against is our objection.
type against struct {
	Message nostr.ID `json:"message"`
	Answers nostr.ID `json:"answers"` // the message with the verdict
	Reason  string   `json:"reason"`
	At      int64    `json:"at"` // Unix ms
	Sent    bool     `json:"sent,omitempty"`
	Failed  string   `json:"failed,omitempty"` // why it was given up unsent
}

// Bounds on what is remembered.
const (
	maxSaid   = 2   // verdicts on one delivery: the first, and one after an objection
	maxLatest = 100 // deliveries that are listed
	maxHomes  = 4   // relays of a customer
)

// NewJudgements returns an empty fold.
func NewJudgements() *Judgements { return &Judgements{fold.NewState[judgements]("judgements", 2)} }

// Judgement is a customer's verdict on one delivery of ours, with our objection to it.
type Judgement struct {
	Request  nostr.ID
	Customer nostr.PubKey
	Task     string
	At       int64 // Unix ms of the latest verdict
	Outcome  guild.Outcome
	Score    guild.Score
	Before   guild.Outcome // outcome of the first verdict if this is the second; else ""
	Text     string        // by the customer: untrusted, cut and without control characters
	Until    int64         // Unix s: the customer takes an objection until then; 0 if it takes none

	Objection string // our reason; "" without an objection
	Sent      bool   // a relay took the objection
	Failed    string // why it was given up unsent
}

// Latest lists the deliveries with the latest verdicts, the latest first, at most 100.
func (f *Judgements) Latest() []Judgement {
	var all []Judgement
	f.View(func(s *judgements) {
		for _, hex := range slices.Backward(s.Latest) {
			if r, ok := s.Open.Get(hex); ok && len(r.Said) > 0 {
				all = append(all, r.judgement())
			}
		}
	})
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

// latest returns the message with the latest verdict, zero without any.
func (s served) latest() nostr.ID {
	if len(s.Said) == 0 {
		return nostr.ID{}
	}
	return s.Said[len(s.Said)-1].Message
}

// of returns a request, and whether it was delivered.
func (f *Judgements) of(request nostr.ID) (served, bool) {
	r := fold.Read(f.State, func(s *judgements) served { return s.Open.Of(request.Hex()) })
	return r, r.Done
}

// pending lists the requests with an objection to send, by their ids in hex.
func (f *Judgements) pending() map[string]served {
	all := map[string]served{}
	f.View(func(s *judgements) {
		for hex := range s.Pending.All() {
			all[hex] = s.Open.Of(hex)
		}
	})
	return all
}

// Apply implements fold.Fold.
func (f *Judgements) Apply(e fact.Entry) {
	if e.Subject.Noun() != "request" {
		return
	}
	f.Change(func(s *judgements) {
		for _, one := range e.Facts {
			s.apply(one, e)
		}
	})
}

func (s *judgements) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.RequestReceived:
		homes := slices.Clip(slices.Compact(append([]string{one.From}, one.Relays...)))
		s.Open.Set(one.Request.Hex(), served{Customer: one.Customer, Task: one.Task, Relays: homes[:min(len(homes), maxHomes)]})
	case fact.RequestFinished:
		s.finished(one)
	case fact.RequestCancelled:
		s.Open.Delete(one.Request.Hex())
	case fact.RequestJudged:
		s.edit(one.Request.Hex(), func(r *served) { r.Said = append(slices.Clip(r.Said), remark{one, e.At}) })
		s.spoken(one.Request.Hex())
	case fact.RequestObjected:
		s.objected(one, e.At)
	case fact.EffectParked:
		s.gaveUp(one)
	}
}

func (s *judgements) edit(request string, by func(*served)) {
	if r, ok := s.Open.Get(request); ok {
		by(&r)
		s.Open.Set(request, r)
	}
}

// finished keeps a delivered request, and drops the oldest beyond maxDone.
func (s *judgements) finished(one fact.RequestFinished) {
	request := one.Request.Hex()
	switch {
	case !s.Open.Has(request):
	case one.Ending != delivered:
		s.Open.Delete(request)
	default:
		s.edit(request, func(r *served) { r.Done = true })
		s.Done = append(s.Done, request)
		if len(s.Done) > maxDone {
			s.Open.Delete(s.Done[0])
			s.Pending.Delete(s.Done[0])
			s.Done = s.Done[1:]
		}
	}
}

// spoken moves a request to the end of those with a verdict.
func (s *judgements) spoken(request string) {
	latest := slices.DeleteFunc(slices.Clone(s.Latest), func(other string) bool { return other == request })
	latest = append(latest, request)
	s.Latest = latest[max(0, len(latest)-maxLatest):]
}

func (s *judgements) objected(one fact.RequestObjected, at int64) {
	request := one.Request.Hex()
	s.edit(request, func(r *served) {
		if one.Sent {
			if r.Against != nil {
				now := *r.Against
				now.Sent = true
				r.Against = &now
			}
			s.Pending.Delete(request)
			return
		}
		r.Against = &against{Message: one.Message, Answers: r.latest(), Reason: one.Reason, At: at}
		s.Pending.Set(request, true)
	})
}

// gaveUp notes that an objection was given up unsent.
func (s *judgements) gaveUp(p fact.EffectParked) {
	for request := range s.pendingNow() {
		if objecting(request) != p.Effect {
			continue
		}
		s.Pending.Delete(request)
		s.edit(request, func(r *served) {
			if r.Against != nil {
				now := *r.Against
				now.Failed = cmp.Or(p.Reason, "it failed")
				r.Against = &now
			}
		})
	}
}

// pendingNow copies Pending, so that entries can be deleted from it meanwhile.
func (s *judgements) pendingNow() map[string]bool {
	now := map[string]bool{}
	for request := range s.Pending.All() {
		now[request] = true
	}
	return now
}
