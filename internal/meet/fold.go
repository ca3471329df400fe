package meet

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
)

// Fold is the state of every meeting.
type Fold struct {
	mu    sync.RWMutex
	state folded

	// Derived, so that nobody has to look through all meetings that ever were.
	open   map[string]bool            // those that go on
	latest map[guild.Service]*Meeting // of each service
	keys   map[nostr.PubKey]bool      // that were ever met
	days   map[int64][]string         // by the UTC day on which they began, those that nobody asked for
}

type folded struct {
	Meetings fold.Table[string, *Meeting]     `json:"meetings"` // by id
	Jobs     fold.Table[guild.JobID, run]     `json:"jobs"`     // runs that are not over
	Attempts fold.Table[nostrID, guild.JobID] `json:"attempts"` // of those
}

// run is a benchmark job that is not over.
type run struct {
	fact.Benchmark
	Attempts []nostrID `json:"attempts,omitempty"`
}

// nostrID is the id of an event as the key of a JSON object: hex.
type nostrID string

// Meeting is one meeting as the facts have it. A *Meeting that was handed out is never changed again.
type Meeting struct {
	fact.MeetingBegan
	At    int64              `json:"at"`              // Unix ms when it began
	Order uint64             `json:"order"`           // entry that began it
	Runs  []Result           `json:"runs,omitempty"`  // from the first on
	Ended *fact.MeetingEnded `json:"ended,omitempty"` // nil while it goes on
	Until int64              `json:"until,omitempty"` // Unix ms when it ended
	Vain  int                `json:"vain,omitempty"`  // meetings with the service in a row from which nothing was learned, with this one
}

// Result is one run: a benchmark job and what came of it.
type Result struct {
	Job     guild.JobID   `json:"job"`
	Opened  int64         `json:"opened"`            // Unix ms
	Closed  int64         `json:"closed,omitempty"`  // Unix ms; 0 while it goes on
	Ending  guild.Ending  `json:"ending,omitempty"`  // of the job
	Outcome guild.Outcome `json:"outcome,omitempty"` // of the verdict; "" without one
	Score   guild.Score   `json:"score"`
	Heard   bool          `json:"heard,omitempty"` // the provider said something
	Failed  bool          `json:"failed,omitempty"`
	Cause   string        `json:"cause,omitempty"` // why it did not succeed
}

// NewFold returns an empty fold.
func NewFold() *Fold {
	f := &Fold{}
	f.derive()
	return f
}

// derive makes anew what follows from the meetings. The lock must be held.
func (f *Fold) derive() {
	f.open, f.latest = map[string]bool{}, map[guild.Service]*Meeting{}
	f.keys, f.days = map[nostr.PubKey]bool{}, map[int64][]string{}
	for _, m := range f.state.Meetings.All() {
		f.note(m)
	}
}

// note takes a meeting into what is derived.
func (f *Fold) note(m *Meeting) {
	if old := f.latest[m.Service]; old == nil || old.Order <= m.Order {
		f.latest[m.Service] = m
	}
	f.keys[m.Service.PubKey] = true
	if day := m.At - m.At%dayMs; !m.Asked && !slices.Contains(f.days[day], m.Meeting) {
		f.days[day] = append(f.days[day], m.Meeting)
	}
	if m.Ended == nil {
		f.open[m.Meeting] = true
	} else {
		delete(f.open, m.Meeting)
	}
}

// dayMs is a day in milliseconds. Unix days are UTC days.
const dayMs = 24 * 60 * 60 * 1000

// begun lists the meetings that began on the UTC day of a moment without anybody having asked for them.
func (f *Fold) begun(now time.Time) (all []*Meeting) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, id := range f.days[midnight(now)] {
		m, _ := f.state.Meetings.Get(id)
		all = append(all, m)
	}
	return all
}

// last is the latest meeting with a service, nil if there was none.
func (f *Fold) last(s guild.Service) *Meeting {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.latest[s]
}

// ever reports whether a key was ever met.
func (f *Fold) ever(p nostr.PubKey) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.keys[p]
}

// Name implements fold.Fold.
func (*Fold) Name() string { return "meet" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 3 }

// Meeting returns a meeting by its id.
func (f *Fold) Meeting(id string) (*Meeting, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Meetings.Get(id)
}

// All lists the meetings, the newest first.
func (f *Fold) All() []*Meeting {
	f.mu.RLock()
	all := make([]*Meeting, 0, f.state.Meetings.Len())
	for _, m := range f.state.Meetings.All() {
		all = append(all, m)
	}
	f.mu.RUnlock()
	slices.SortFunc(all, func(a, b *Meeting) int { return newest(a, b) })
	return all
}

func newest(a, b *Meeting) int {
	if a.Order > b.Order {
		return -1
	}
	return 1
}

// goingOn lists the meetings that have not ended, the oldest first.
func (f *Fold) goingOn() []*Meeting {
	f.mu.RLock()
	var all []*Meeting
	for id := range f.open {
		m, _ := f.state.Meetings.Get(id)
		all = append(all, m)
	}
	f.mu.RUnlock()
	slices.SortFunc(all, func(a, b *Meeting) int { return newest(b, a) })
	return all
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e)
	}
}

func (f *Fold) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.MeetingBegan:
		m := &Meeting{MeetingBegan: one, At: e.At, Order: e.Seq}
		if before := f.latest[one.Service]; before != nil {
			m.Vain = before.Vain
		}
		f.state.Meetings.Set(one.Meeting, m)
		f.note(m)
	case fact.MeetingEnded:
		f.change(one.Meeting, func(m *Meeting) {
			if m.Ended, m.Until = &one, e.At; one.To == "" {
				m.Vain++
			} else {
				m.Vain = 0
			}
		})
	case fact.JobOpened:
		if one.Meeting != nil {
			f.state.Jobs.Set(one.Job, run{Benchmark: *one.Meeting})
			f.change(one.Meeting.Meeting, func(m *Meeting) { m.Runs = append(m.Runs, Result{Job: one.Job, Opened: e.At}) })
		}
	case fact.JobClosed:
		f.changeRun(one.Job, func(r *Result) {
			r.Closed, r.Ending = e.At, one.Ending
			if r.Cause == "" && r.Outcome == "" {
				r.Cause = one.Reason
			}
		})
		for _, attempt := range f.state.Jobs.Of(one.Job).Attempts {
			f.state.Attempts.Delete(attempt)
		}
		f.state.Jobs.Delete(one.Job)
	case fact.AttemptPlanned:
		if job, ours := f.state.Jobs.Get(one.Job); ours {
			id := nostrID(one.Attempt.Hex())
			job.Attempts = append(slices.Clip(job.Attempts), id)
			f.state.Jobs.Set(one.Job, job)
			f.state.Attempts.Set(id, one.Job)
		}
	default:
		f.applyToAttempt(one)
	}
}

// applyToAttempt takes over what became of a request.
func (f *Fold) applyToAttempt(one fact.Fact) {
	switch one := one.(type) {
	case fact.AttemptProgressed:
		f.changeAttempt(one.Attempt, func(r *Result) { r.Heard = true })
	case fact.AttemptJudged:
		f.changeAttempt(one.Attempt, func(r *Result) {
			r.Outcome, r.Score, r.Heard, r.Cause = one.Verdict.Outcome, one.Verdict.Score, true, one.Verdict.Cause
		})
	case fact.AttemptRefused:
		f.changeAttempt(one.Attempt, func(r *Result) { r.Heard, r.Failed, r.Cause = true, one.Fault, one.Reason })
	case fact.AttemptExpired:
		// Who took the work and never delivered it has failed; from who said nothing at all, nothing was learned.
		f.changeAttempt(one.Attempt, func(r *Result) { r.Failed, r.Cause = r.Heard && !one.Silent, one.Reason })
	case fact.AttemptParked:
		f.changeAttempt(one.Attempt, func(r *Result) { r.Cause = one.Reason })
	}
}

// change replaces a meeting by a changed copy, so that readers keep what they hold.
func (f *Fold) change(id string, by func(*Meeting)) {
	old, ok := f.state.Meetings.Get(id)
	if !ok {
		return
	}
	m := *old
	m.Runs = slices.Clone(old.Runs)
	by(&m)
	f.state.Meetings.Set(id, &m)
	f.note(&m)
}

func (f *Fold) changeRun(job guild.JobID, by func(*Result)) {
	f.change(f.state.Jobs.Of(job).Meeting, func(m *Meeting) {
		if i := slices.IndexFunc(m.Runs, func(r Result) bool { return r.Job == job }); i >= 0 {
			by(&m.Runs[i])
		}
	})
}

func (f *Fold) changeAttempt(id nostr.ID, by func(*Result)) {
	if job, ours := f.state.Attempts.Get(nostrID(id.Hex())); ours {
		f.changeRun(job, by)
	}
}

// Freeze implements fold.Fold.
func (f *Fold) Freeze() func() ([]byte, error) {
	f.mu.Lock()
	state := folded{f.state.Meetings.Clone(), f.state.Jobs.Clone(), f.state.Attempts.Clone()}
	f.mu.Unlock()
	return func() ([]byte, error) { return fold.Encode(state) }
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh struct {
		Meetings *fold.Table[string, *Meeting]     `json:"meetings"`
		Jobs     *fold.Table[guild.JobID, run]     `json:"jobs"`
		Attempts *fold.Table[nostrID, guild.JobID] `json:"attempts"`
	}
	if err := fold.Decode(b, &fresh); err != nil {
		return fmt.Errorf("meet: %w", err)
	}
	if fresh.Meetings == nil || fresh.Jobs == nil || fresh.Attempts == nil {
		return errors.New("meet: the snapshot is incomplete")
	}
	for id, m := range fresh.Meetings.All() {
		if m == nil {
			return fmt.Errorf("meet: the snapshot has no meeting %.40q", id)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = folded{*fresh.Meetings, *fresh.Jobs, *fresh.Attempts}
	f.derive()
	return nil
}
