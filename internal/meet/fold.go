package meet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
)

// Fold is the state of every meeting.
type Fold struct {
	mu    sync.RWMutex
	state folded

	open map[string]bool // derived: the meetings that go on
}

type folded struct {
	Meetings map[string]*Meeting            `json:"meetings"` // by id
	Jobs     map[guild.JobID]fact.Benchmark `json:"jobs"`     // runs that are not over
	Attempts map[string]guild.JobID         `json:"attempts"` // of those, by the hex of the attempt's id
}

// Meeting is one meeting as the facts have it. A *Meeting that was handed out is never changed again.
type Meeting struct {
	fact.MeetingBegan
	At    int64              `json:"at"`              // Unix ms when it began
	Order uint64             `json:"order"`           // entry that began it
	Runs  []Result           `json:"runs,omitempty"`  // from the first on
	Ended *fact.MeetingEnded `json:"ended,omitempty"` // nil while it goes on
	Until int64              `json:"until,omitempty"` // Unix ms when it ended
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
	return &Fold{open: map[string]bool{}, state: folded{Meetings: map[string]*Meeting{}, Jobs: map[guild.JobID]fact.Benchmark{},
		Attempts: map[string]guild.JobID{}}}
}

// Name implements fold.Fold.
func (*Fold) Name() string { return "meet" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 1 }

// Meeting returns a meeting by its id.
func (f *Fold) Meeting(id string) (*Meeting, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	m, ok := f.state.Meetings[id]
	return m, ok
}

// All lists the meetings, the newest first.
func (f *Fold) All() []*Meeting {
	f.mu.RLock()
	all := slices.Collect(maps.Values(f.state.Meetings))
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
		all = append(all, f.state.Meetings[id])
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
		f.state.Meetings[one.Meeting] = &Meeting{MeetingBegan: one, At: e.At, Order: e.Seq}
		f.open[one.Meeting] = true
	case fact.MeetingEnded:
		f.change(one.Meeting, func(m *Meeting) { m.Ended, m.Until = &one, e.At })
		delete(f.open, one.Meeting)
	case fact.JobOpened:
		if one.Meeting != nil {
			f.state.Jobs[one.Job] = *one.Meeting
			f.change(one.Meeting.Meeting, func(m *Meeting) { m.Runs = append(m.Runs, Result{Job: one.Job, Opened: e.At}) })
		}
	case fact.JobClosed:
		f.changeRun(one.Job, func(r *Result) {
			r.Closed, r.Ending = e.At, one.Ending
			if r.Cause == "" && r.Outcome == "" {
				r.Cause = one.Reason
			}
		})
		delete(f.state.Jobs, one.Job)
		maps.DeleteFunc(f.state.Attempts, func(_ string, job guild.JobID) bool { return job == one.Job })
	case fact.AttemptPlanned:
		if _, ours := f.state.Jobs[one.Job]; ours {
			f.state.Attempts[one.Attempt.Hex()] = one.Job
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
	old, ok := f.state.Meetings[id]
	if !ok {
		return
	}
	m := *old
	m.Runs = slices.Clone(old.Runs)
	by(&m)
	f.state.Meetings[id] = &m
}

func (f *Fold) changeRun(job guild.JobID, by func(*Result)) {
	f.change(f.state.Jobs[job].Meeting, func(m *Meeting) {
		if i := slices.IndexFunc(m.Runs, func(r Result) bool { return r.Job == job }); i >= 0 {
			by(&m.Runs[i])
		}
	})
}

func (f *Fold) changeAttempt(id nostr.ID, by func(*Result)) {
	if job, ours := f.state.Attempts[id.Hex()]; ours {
		f.changeRun(job, by)
	}
}

// Snapshot implements fold.Fold.
func (f *Fold) Snapshot() ([]byte, error) {
	f.mu.RLock()
	state := folded{maps.Clone(f.state.Meetings), maps.Clone(f.state.Jobs), maps.Clone(f.state.Attempts)}
	f.mu.RUnlock()
	return json.Marshal(state)
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh folded
	if err := json.Unmarshal(b, &fresh); err != nil {
		return fmt.Errorf("meet: %w", err)
	}
	if fresh.Meetings == nil || fresh.Jobs == nil || fresh.Attempts == nil {
		return errors.New("meet: the snapshot is incomplete")
	}
	open := map[string]bool{}
	for id, m := range fresh.Meetings {
		if m == nil {
			return fmt.Errorf("meet: the snapshot has no meeting %.40q", id)
		}
		if m.Ended == nil {
			open[id] = true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.open = fresh, open
	return nil
}
