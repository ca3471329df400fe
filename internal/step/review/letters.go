package review

import (
	"cmp"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Letters is the fold of the verdicts that providers are told of, and of their objections. It forgets an attempt once
// nobody may object to its verdict any more.
type Letters struct{ *fold.State[letters] }

// letters is the state of the fold. Order may only be appended to and cut at the front, because a snapshot shares its
// array.
type letters struct {
	Jobs     fold.Table[guild.JobID, string] `json:"jobs"`     // open job → task
	Open     fold.Table[string, exchange]    `json:"open"`     // attempts without a verdict, by the id in hex
	Judged   fold.Table[string, exchange]    `json:"judged"`   // attempts with a recent or disputed verdict
	Order    []judgedAt                      `json:"order"`    // of the judged ones, the oldest first
	Owed     fold.Table[string, bool]        `json:"owed"`     // judged attempts whose provider has to be told
	Messages fold.Table[string, string]      `json:"messages"` // id of our message → the attempt that it is about
	Objected fold.Table[string, []int64]     `json:"objected"` // provider's key → times of its recent objections, in Unix ms
}

// exchange holds one attempt, its verdict, and the messages about it. The slices in it are never changed in place.
type exchange struct {
	Job      guild.JobID   `json:"job"`
	Attempt  nostr.ID      `json:"attempt"`
	Provider guild.Service `json:"provider"`
	Task     string        `json:"task"`

	At       int64         `json:"at,omitempty"` // Unix ms of the latest verdict
	Outcome  guild.Outcome `json:"outcome,omitempty"`
	Score    guild.Score   `json:"score,omitempty"`
	Passed   int           `json:"passed,omitempty"`
	Expected int           `json:"expected,omitempty"`
	Cause    string        `json:"cause,omitempty"`
	Verdict  guild.Hash    `json:"verdict,omitzero"`

	Recorded int64      `json:"recorded,omitempty"` // Unix ms; 0 until the record of the latest verdict is written
	Receipt  string     `json:"receipt,omitempty"`
	Stored   guild.Hash `json:"stored,omitzero"`
	Round    int        `json:"round,omitempty"` // number of records

	Disputed bool     `json:"disputed,omitempty"` // it is being judged again
	Objected bool     `json:"objected,omitempty"` // the provider has used its one objection
	Failed   bool     `json:"failed,omitempty"`   // it could not be judged again
	Kept     int64    `json:"kept,omitempty"`     // Unix ms: the start of the time for which it is kept
	Messages []string `json:"messages,omitempty"` // the ids of ours, in hex
}

// judgedAt holds the time of an attempt's verdict, in Unix ms.
type judgedAt struct {
	Attempt string `json:"attempt"`
	At      int64  `json:"at"`
}

// young is the time in ms for which an attempt is kept after its verdict. It is longer than the time to object, and as
// long as the delivery can be judged again.
const young = 48 * 60 * 60 * 1000

// NewLetters returns an empty fold.
func NewLetters() *Letters { return &Letters{fold.NewState[letters]("letters", 2)} }

// of returns the exchange of an attempt that has a verdict.
func (f *Letters) of(attempt nostr.ID) (x exchange, ok bool) {
	f.View(func(s *letters) { x, ok = s.Judged.Get(attempt.Hex()) })
	return x, ok
}

// about finds the exchange that a message of ours is about.
func (f *Letters) about(message nostr.ID) (x exchange, ok bool) {
	f.View(func(s *letters) {
		var id string
		id, ok = s.Messages.Get(message.Hex())
		if ok {
			x, ok = s.Judged.Get(id)
		}
	})
	return x, ok
}

// owed lists the attempts whose providers have to be told, in the order of their records.
func (f *Letters) owed() (all []exchange) {
	f.View(func(s *letters) {
		all = make([]exchange, 0, s.Owed.Len())
		for id := range s.Owed.All() {
			all = append(all, s.Judged.Of(id))
		}
	})
	slices.SortFunc(all, func(a, b exchange) int {
		return cmp.Or(cmp.Compare(a.Recorded, b.Recorded), slices.Compare(a.Attempt[:], b.Attempt[:]))
	})
	return all
}

// owes reports whether the provider has yet to be told of this record of the verdict.
func (f *Letters) owes(x exchange) bool {
	id := x.Attempt.Hex()
	return fold.Read(f.State, func(s *letters) bool { return s.Owed.Has(id) && s.Judged.Of(id).Round == x.Round })
}

// objections counts a provider's objections in the 24 hours before now (Unix ms).
func (f *Letters) objections(p nostr.PubKey, now int64) (count int) {
	return fold.Read(f.State, func(s *letters) int { return len(lately(s.Objected.Of(p.Hex()), now)) })
}

// lately returns those of the times that are within the 24 hours before now.
func lately(at []int64, now int64) []int64 {
	return slices.DeleteFunc(slices.Clone(at), func(t int64) bool { return now-t >= 24*60*60*1000 })
}

// Apply implements fold.Fold.
func (f *Letters) Apply(e fact.Entry) {
	if e.Subject.Noun() != "job" {
		return
	}
	f.Change(func(s *letters) {
		for _, one := range e.Facts {
			s.apply(one, e.At)
		}
	})
}

func (s *letters) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.JobOpened:
		s.Jobs.Set(one.Job, one.Task)
	case fact.JobClosed:
		s.Jobs.Delete(one.Job)
	case fact.AttemptPlanned:
		x := exchange{Job: one.Job, Attempt: one.Attempt, Provider: one.Provider, Task: s.Jobs.Of(one.Job)}
		s.Open.Set(one.Attempt.Hex(), x)
	case fact.JobShredded:
		s.shredded(one.Job)
	case fact.AttemptRefused:
		s.Open.Delete(one.Attempt.Hex())
	case fact.AttemptExpired:
		s.Open.Delete(one.Attempt.Hex())
	case fact.AttemptCancelled:
		s.Open.Delete(one.Attempt.Hex())
	case fact.AttemptJudged:
		s.judged(one, at)
	case fact.AttemptRecorded:
		s.recorded(one, at)
	case fact.AttemptTold:
		s.told(one)
	case fact.AttemptDisputed:
		s.disputed(one, at)
	case fact.AttemptParked:
		s.change(one.Attempt, func(x *exchange) {
			if x.Disputed {
				x.Disputed, x.Failed, x.Recorded, x.Kept = false, true, 0, at
				s.Order = append(s.Order, judgedAt{one.Attempt.Hex(), at})
			}
		})
	}
}

func (s *letters) change(attempt nostr.ID, by func(*exchange)) {
	if x, ok := s.Judged.Get(attempt.Hex()); ok {
		by(&x)
		s.Judged.Set(attempt.Hex(), x)
	}
}

// judged applies a verdict and forgets attempts that are no longer young. A second verdict on the same delivery
// replaces the first one.
func (s *letters) judged(j fact.AttemptJudged, at int64) {
	for len(s.Order) > 0 && at-s.Order[0].At >= young {
		s.forget(s.Order[0].Attempt, at)
		s.Order = s.Order[1:]
	}
	id := j.Attempt.Hex()
	x, ok := s.Open.Get(id)
	if !ok {
		if x, ok = s.Judged.Get(id); !ok {
			return
		}
	}
	v := j.Verdict
	x.At, x.Outcome, x.Score, x.Passed, x.Expected, x.Cause, x.Verdict = at, v.Outcome, v.Score, v.Passed, v.Expected, publicCause(v), j.Hash
	x.Recorded, x.Disputed, x.Failed, x.Kept = 0, false, false, at
	s.Open.Delete(id)
	s.Judged.Set(id, x)
	s.Order = append(s.Order, judgedAt{id, at})
}

// forget drops an attempt, unless it is being judged again or was kept anew less than young ago.
func (s *letters) forget(id string, now int64) {
	x, ok := s.Judged.Get(id)
	if !ok || x.Disputed || now-x.Kept < young {
		return
	}
	for _, message := range x.Messages {
		s.Messages.Delete(message)
	}
	s.Owed.Delete(id)
	s.Judged.Delete(id)
}

// shredded drops the attempts of a shredded job. Nobody can object to a verdict on what is gone.
func (s *letters) shredded(job guild.JobID) {
	judged := s.Judged.Clone()
	for id, x := range judged.All() {
		if x.Job != job {
			continue
		}
		for _, message := range x.Messages {
			s.Messages.Delete(message)
		}
		s.Owed.Delete(id)
		s.Judged.Delete(id)
	}
}

// recorded makes it due to tell the provider of a verdict, with its receipt.
func (s *letters) recorded(r fact.AttemptRecorded, at int64) {
	s.Open.Delete(r.Attempt.Hex())
	if r.Receipt == "" || r.Unjudged {
		return
	}
	s.change(r.Attempt, func(x *exchange) {
		x.Recorded, x.Receipt, x.Stored = at, r.Receipt, r.Stored
		x.Round++
		s.Owed.Set(r.Attempt.Hex(), true)
	})
}

func (s *letters) told(t fact.AttemptTold) {
	s.Owed.Delete(t.Attempt.Hex())
	s.change(t.Attempt, func(x *exchange) {
		x.Messages = append(slices.Clip(x.Messages), t.Message.Hex())
		s.Messages.Set(t.Message.Hex(), t.Attempt.Hex())
	})
}

// disputed marks an attempt as being judged again. The provider is no longer told of the present verdict, because the
// next one may replace it.
func (s *letters) disputed(d fact.AttemptDisputed, at int64) {
	s.change(d.Attempt, func(x *exchange) {
		x.Disputed = true
		s.Owed.Delete(d.Attempt.Hex())
		if d.By != byProvider {
			return
		}
		x.Objected = true
		p := x.Provider.PubKey.Hex()
		s.Objected.Set(p, append(lately(s.Objected.Of(p), at), at))
	})
}
