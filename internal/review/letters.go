package review

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

// Letters is the fold of what providers are told of verdicts, and of what they say against them. Its memory is short:
// what nobody may object to any more is forgotten.
type Letters struct {
	mu    sync.RWMutex
	state letters
}

type letters struct {
	Jobs     fold.Table[guild.JobID, string] `json:"jobs"`            // open job → task
	Open     fold.Table[string, exchange]    `json:"open"`            // attempts without a verdict, by the hex of their id
	Judged   fold.Table[string, exchange]    `json:"judged"`          // those with one that is young, or disputed
	Order    []judgedAt                      `json:"order,omitempty"` // of those, the oldest first
	Owed     fold.Table[string, bool]        `json:"owed"`            // those of which the provider is to be told
	Messages fold.Table[string, string]      `json:"messages"`        // ours → the attempt that it is about
	Objected fold.Table[string, []int64]     `json:"objected"`        // provider's key → Unix ms of what it objected lately
}

// exchange is what is told of one attempt, and answered. What it points to is never changed in place.
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

	Recorded int64      `json:"recorded,omitempty"` // Unix ms; 0 while the record of the latest verdict is not written
	Receipt  string     `json:"receipt,omitempty"`
	Stored   guild.Hash `json:"stored,omitzero"`
	Round    int        `json:"round,omitempty"` // how often it was recorded

	Disputed bool     `json:"disputed,omitempty"` // it is being judged again
	Objected bool     `json:"objected,omitempty"` // the provider has objected, which it may once
	Failed   bool     `json:"failed,omitempty"`   // it could not be judged again
	Kept     int64    `json:"kept,omitempty"`     // Unix ms: since when
	Messages []string `json:"messages,omitempty"` // ours, in hex
}

// judgedAt says when an attempt got a verdict.
type judgedAt struct {
	Attempt string `json:"attempt"`
	At      int64  `json:"at"`
}

// young is how long after its verdict an attempt is kept, in ms: longer than anybody may object, and as long as it can be
// judged again.
const young = 48 * 60 * 60 * 1000

// NewLetters returns an empty fold.
func NewLetters() *Letters { return &Letters{} }

// Name implements fold.Fold.
func (*Letters) Name() string { return "letters" }

// Version implements fold.Fold.
func (*Letters) Version() int { return 1 }

// of returns what is known of an attempt that has a verdict.
func (f *Letters) of(attempt nostr.ID) (exchange, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Judged.Get(attempt.Hex())
}

// about finds the attempt that a message of ours is about.
func (f *Letters) about(message nostr.ID) (exchange, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	id, ok := f.state.Messages.Get(message.Hex())
	if !ok {
		return exchange{}, false
	}
	return f.state.Judged.Get(id)
}

// owed lists the attempts of which the provider is to be told, the first recorded first.
func (f *Letters) owed() []exchange {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := make([]exchange, 0, f.state.Owed.Len())
	for id := range f.state.Owed.All() {
		all = append(all, f.state.Judged.Of(id))
	}
	slices.SortFunc(all, func(a, b exchange) int {
		return cmp.Or(cmp.Compare(a.Recorded, b.Recorded), slices.Compare(a.Attempt[:], b.Attempt[:]))
	})
	return all
}

// owes reports whether the provider is to be told of this verdict.
func (f *Letters) owes(x exchange) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Owed.Has(x.Attempt.Hex()) && f.state.Judged.Of(x.Attempt.Hex()).Round == x.Round
}

// objections counts what a provider has objected to within a day.
func (f *Letters) objections(p nostr.PubKey, now int64) (count int) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(lately(f.state.Objected.Of(p.Hex()), now))
}

// lately are the moments of the day before now.
func lately(at []int64, now int64) []int64 {
	return slices.DeleteFunc(slices.Clone(at), func(t int64) bool { return now-t >= 24*60*60*1000 })
}

// Apply implements fold.Fold.
func (f *Letters) Apply(e fact.Entry) {
	if e.Subject.Noun() != "job" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e.At)
	}
}

func (f *Letters) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.JobOpened:
		f.state.Jobs.Set(one.Job, one.Task)
	case fact.JobClosed:
		f.state.Jobs.Delete(one.Job)
	case fact.AttemptPlanned:
		x := exchange{Job: one.Job, Attempt: one.Attempt, Provider: one.Provider, Task: f.state.Jobs.Of(one.Job)}
		f.state.Open.Set(one.Attempt.Hex(), x)
	case fact.AttemptRefused:
		f.state.Open.Delete(one.Attempt.Hex())
	case fact.AttemptExpired:
		f.state.Open.Delete(one.Attempt.Hex())
	case fact.AttemptCancelled:
		f.state.Open.Delete(one.Attempt.Hex())
	case fact.AttemptJudged:
		f.judged(one, at)
	case fact.AttemptRecorded:
		f.recorded(one, at)
	case fact.AttemptTold:
		f.told(one)
	case fact.AttemptDisputed:
		f.disputed(one, at)
	case fact.AttemptParked:
		f.change(one.Attempt, func(x *exchange) {
			if x.Disputed {
				x.Disputed, x.Failed, x.Recorded, x.Kept = false, true, 0, at
				f.state.Order = append(f.state.Order, judgedAt{one.Attempt.Hex(), at})
			}
		})
	}
}

func (f *Letters) change(attempt nostr.ID, by func(*exchange)) {
	if x, ok := f.state.Judged.Get(attempt.Hex()); ok {
		by(&x)
		f.state.Judged.Set(attempt.Hex(), x)
	}
}

// judged takes a verdict, or another one on the same delivery, and forgets what is no longer young.
func (f *Letters) judged(j fact.AttemptJudged, at int64) {
	for len(f.state.Order) > 0 && at-f.state.Order[0].At >= young {
		f.forget(f.state.Order[0].Attempt, at)
		f.state.Order = f.state.Order[1:]
	}
	id := j.Attempt.Hex()
	x, ok := f.state.Open.Get(id)
	if !ok {
		if x, ok = f.state.Judged.Get(id); !ok {
			return
		}
	}
	v := j.Verdict
	x.At, x.Outcome, x.Score, x.Passed, x.Expected, x.Cause, x.Verdict = at, v.Outcome, v.Score, v.Passed, v.Expected, publicCause(v), j.Hash
	x.Recorded, x.Disputed, x.Failed, x.Kept = 0, false, false, at
	f.state.Open.Delete(id)
	f.state.Judged.Set(id, x)
	f.state.Order = append(f.state.Order, judgedAt{id, at})
}

// forget lets an attempt go, unless it is being judged again or was so lately.
func (f *Letters) forget(id string, now int64) {
	x, ok := f.state.Judged.Get(id)
	if !ok || x.Disputed || now-x.Kept < young {
		return
	}
	for _, message := range x.Messages {
		f.state.Messages.Delete(message)
	}
	f.state.Owed.Delete(id)
	f.state.Judged.Delete(id)
}

func (f *Letters) recorded(r fact.AttemptRecorded, at int64) {
	f.state.Open.Delete(r.Attempt.Hex())
	if r.Receipt == "" {
		return
	}
	f.change(r.Attempt, func(x *exchange) {
		x.Recorded, x.Receipt, x.Stored = at, r.Receipt, r.Stored
		x.Round++
		f.state.Owed.Set(r.Attempt.Hex(), true)
	})
}

func (f *Letters) told(t fact.AttemptTold) {
	f.state.Owed.Delete(t.Attempt.Hex())
	f.change(t.Attempt, func(x *exchange) {
		x.Messages = append(slices.Clip(x.Messages), t.Message.Hex())
		f.state.Messages.Set(t.Message.Hex(), t.Attempt.Hex())
	})
}

// disputed notes that an attempt is judged again. Of a verdict that may not stand nobody is told.
func (f *Letters) disputed(d fact.AttemptDisputed, at int64) {
	f.change(d.Attempt, func(x *exchange) {
		x.Disputed = true
		f.state.Owed.Delete(d.Attempt.Hex())
		if d.By != byProvider {
			return
		}
		x.Objected = true
		p := x.Provider.PubKey.Hex()
		f.state.Objected.Set(p, append(lately(f.state.Objected.Of(p), at), at))
	})
}

// Freeze implements fold.Fold.
func (f *Letters) Freeze() func() ([]byte, error) {
	f.mu.Lock() // a table notes that it was copied
	s := &f.state
	state := letters{s.Jobs.Clone(), s.Open.Clone(), s.Judged.Clone(), slices.Clone(s.Order), s.Owed.Clone(), s.Messages.Clone(),
		s.Objected.Clone()}
	f.mu.Unlock()
	return func() ([]byte, error) { return fold.Encode(state) }
}

// Restore implements fold.Fold.
func (f *Letters) Restore(b []byte) error {
	var fresh struct {
		Jobs     *fold.Table[guild.JobID, string] `json:"jobs"`
		Open     *fold.Table[string, exchange]    `json:"open"`
		Judged   *fold.Table[string, exchange]    `json:"judged"`
		Order    []judgedAt                       `json:"order"`
		Owed     *fold.Table[string, bool]        `json:"owed"`
		Messages *fold.Table[string, string]      `json:"messages"`
		Objected *fold.Table[string, []int64]     `json:"objected"`
	}
	if err := fold.Decode(b, &fresh); err != nil {
		return fmt.Errorf("letters: %w", err)
	}
	if fresh.Jobs == nil || fresh.Open == nil || fresh.Judged == nil || fresh.Owed == nil || fresh.Messages == nil || fresh.Objected == nil {
		return errors.New("letters: the snapshot is incomplete")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = letters{*fresh.Jobs, *fresh.Open, *fresh.Judged, fresh.Order, *fresh.Owed, *fresh.Messages, *fresh.Objected}
	return nil
}
