package meet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Fold holds the state of every meeting.
type Fold struct{ *fold.State[state] }

type state struct {
	Meetings fold.Table[string, *Meeting]     `json:"meetings"` // by id
	Jobs     fold.Table[guild.JobID, run]     `json:"jobs"`     // open ones
	Attempts fold.Table[nostrID, guild.JobID] `json:"attempts"` // of these runs

	// Derived, so that no reader looks through all meetings.
	open   map[string]bool            // running ones
	latest map[guild.Service]*Meeting // of each service
	keys   map[nostr.PubKey]bool      // keys that were ever met
	days   map[int64][]string         // automatic meetings by the UTC day on which they began

	newcomers int // automatic meetings with newcomers
}

// run is an open benchmark job.
type run struct {
	fact.Benchmark
	Attempts []nostrID `json:"attempts,omitempty"`
}

// nostrID is the id of an event in hex, as the key of a JSON object.
type nostrID string

// Meeting is one meeting. It is never changed in place, so readers may keep it.
type Meeting struct {
	fact.MeetingBegan
	At    int64              `json:"at"`              // Unix ms: when it began
	Order uint64             `json:"order"`           // the entry that began it
	Runs  []Result           `json:"runs,omitempty"`  // in order
	Ended *fact.MeetingEnded `json:"ended,omitempty"` // nil while it is running
	Until int64              `json:"until,omitempty"` // Unix ms: when it ended
	Vain  int                `json:"vain,omitempty"`  // inconclusive meetings with the service in a row, this one included
}

// Result is the result of one run, which is a benchmark job.
type Result struct {
	Job     guild.JobID   `json:"job"`
	Opened  int64         `json:"opened"`            // Unix ms
	Closed  int64         `json:"closed,omitempty"`  // Unix ms; 0 while it is open
	Ending  guild.Ending  `json:"ending,omitempty"`  // of the job
	Outcome guild.Outcome `json:"outcome,omitempty"` // of the verdict; "" without one
	Score   guild.Score   `json:"score"`
	Heard   bool          `json:"heard,omitempty"` // the provider answered
	Failed  bool          `json:"failed,omitempty"`
	Cause   string        `json:"cause,omitempty"` // the reason if it did not succeed
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("meet", 3)} }

// Check returns an error if a meeting is null.
func (s *state) Check() error {
	for id, m := range s.Meetings.All() {
		if m == nil {
			return fmt.Errorf("the snapshot has no meeting %.40q", id)
		}
	}
	return nil
}

// Derive computes the maps that follow from the meetings.
func (s *state) Derive() {
	s.open, s.latest = map[string]bool{}, map[guild.Service]*Meeting{}
	s.keys, s.days, s.newcomers = map[nostr.PubKey]bool{}, map[int64][]string{}, 0
	for _, m := range s.Meetings.All() {
		s.note(m)
	}
}

// note adds a meeting to the derived maps.
func (s *state) note(m *Meeting) {
	old := s.latest[m.Service]
	if old == nil || old.Order <= m.Order {
		s.latest[m.Service] = m
	}
	s.keys[m.Service.PubKey] = true
	day := m.At - m.At%dayMs
	if !m.Asked && !slices.Contains(s.days[day], m.Meeting) {
		s.days[day] = append(s.days[day], m.Meeting)
		if m.Purpose == "" {
			s.newcomers++
		}
	}
	if m.Ended == nil {
		s.open[m.Meeting] = true
	} else {
		delete(s.open, m.Meeting)
	}
}

// dayMs is a day in milliseconds. Unix days are UTC days.
const dayMs = 24 * 60 * 60 * 1000

// automatic lists the automatic meetings that began on the UTC day of now.
func (f *Fold) automatic(now time.Time) (all []*Meeting) {
	f.View(func(s *state) {
		for _, id := range s.days[now.UTC().Truncate(24*time.Hour).UnixMilli()] {
			all = append(all, s.Meetings.Of(id))
		}
	})
	return all
}

// last returns the latest meeting with a service, or nil.
func (f *Fold) last(with guild.Service) *Meeting {
	return fold.Read(f.State, func(s *state) *Meeting { return s.latest[with] })
}

// ever reports whether a key was ever met.
func (f *Fold) ever(p nostr.PubKey) bool {
	return fold.Read(f.State, func(s *state) bool { return s.keys[p] })
}

// metNewcomers counts the automatic meetings with newcomers that ever began.
func (f *Fold) metNewcomers() int {
	return fold.Read(f.State, func(s *state) int { return s.newcomers })
}

// Meeting returns a meeting by its id.
func (f *Fold) Meeting(id string) (m *Meeting, ok bool) {
	f.View(func(s *state) { m, ok = s.Meetings.Get(id) })
	return m, ok
}

// All lists the meetings, the newest first.
func (f *Fold) All() (all []*Meeting) {
	f.View(func(s *state) {
		all = make([]*Meeting, 0, s.Meetings.Len())
		for _, m := range s.Meetings.All() {
			all = append(all, m)
		}
	})
	slices.SortFunc(all, newest)
	return all
}

func newest(a, b *Meeting) int { return cmp.Compare(b.Order, a.Order) }

// underWay lists the running meetings, the oldest first.
func (f *Fold) underWay() (all []*Meeting) {
	f.View(func(s *state) {
		for id := range s.open {
			all = append(all, s.Meetings.Of(id))
		}
	})
	slices.SortFunc(all, func(a, b *Meeting) int { return newest(b, a) })
	return all
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.Change(func(s *state) {
		for _, one := range e.Facts {
			s.apply(one, e)
		}
	})
}

func (s *state) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.MeetingBegan:
		m := &Meeting{MeetingBegan: one, At: e.At, Order: e.Seq}
		if before := s.latest[one.Service]; before != nil {
			m.Vain = before.Vain
		}
		s.Meetings.Set(one.Meeting, m)
		s.note(m)
	case fact.MeetingEnded:
		s.change(one.Meeting, func(m *Meeting) {
			m.Ended, m.Until = &one, e.At
			if one.To == "" {
				m.Vain++
			} else {
				m.Vain = 0
			}
		})
	case fact.JobOpened:
		if one.Meeting != nil {
			s.Jobs.Set(one.Job, run{Benchmark: *one.Meeting})
			s.change(one.Meeting.Meeting, func(m *Meeting) { m.Runs = append(m.Runs, Result{Job: one.Job, Opened: e.At}) })
		}
	case fact.JobClosed:
		s.changeRun(one.Job, func(r *Result) {
			r.Closed, r.Ending = e.At, one.Ending
			if r.Cause == "" && r.Outcome == "" {
				r.Cause = one.Reason
			}
		})
		for _, attempt := range s.Jobs.Of(one.Job).Attempts {
			s.Attempts.Delete(attempt)
		}
		s.Jobs.Delete(one.Job)
	case fact.JournalClosed:
		if id, err := guild.ParseJobID(strings.TrimPrefix(string(e.Subject), "job.")); err == nil && s.Jobs.Has(id) {
			s.apply(fact.JobClosed{Job: id, Ending: guild.JobCancelled, Reason: "closed in quarantine"}, e)
		}
	case fact.AttemptPlanned:
		if job, ours := s.Jobs.Get(one.Job); ours {
			id := nostrID(one.Attempt.Hex())
			job.Attempts = append(slices.Clip(job.Attempts), id)
			s.Jobs.Set(one.Job, job)
			s.Attempts.Set(id, one.Job)
		}
	default:
		s.applyToAttempt(one)
	}
}

// applyToAttempt applies the facts of an attempt in a run.
func (s *state) applyToAttempt(one fact.Fact) {
	switch one := one.(type) {
	case fact.AttemptProgressed:
		s.changeAttempt(one.Attempt, func(r *Result) { r.Heard = true })
	case fact.AttemptJudged:
		s.changeAttempt(one.Attempt, func(r *Result) {
			r.Outcome, r.Score, r.Heard, r.Cause = one.Verdict.Outcome, one.Verdict.Score, true, one.Verdict.Cause
			if !one.Verdict.Counts() {
				r.Outcome, r.Score, r.Cause = "", 0, "nothing in it was verified"
			}
		})
	case fact.AttemptRefused:
		s.changeAttempt(one.Attempt, func(r *Result) { r.Heard, r.Failed, r.Cause = true, one.Fault, one.Reason })
	case fact.AttemptExpired:
		// A provider that answered and never delivered has failed. From one that never answered nothing was learned.
		s.changeAttempt(one.Attempt, func(r *Result) { r.Failed, r.Cause = r.Heard && !one.Silent, one.Reason })
	case fact.AttemptParked:
		s.changeAttempt(one.Attempt, func(r *Result) { r.Cause = one.Reason })
	}
}

// change replaces a meeting by a changed copy.
func (s *state) change(id string, by func(*Meeting)) {
	old, ok := s.Meetings.Get(id)
	if !ok {
		return
	}
	m := *old
	m.Runs = slices.Clone(old.Runs)
	by(&m)
	s.Meetings.Set(id, &m)
	s.note(&m)
}

func (s *state) changeRun(job guild.JobID, by func(*Result)) {
	s.change(s.Jobs.Of(job).Meeting, func(m *Meeting) {
		if i := slices.IndexFunc(m.Runs, func(r Result) bool { return r.Job == job }); i >= 0 {
			by(&m.Runs[i])
		}
	})
}

func (s *state) changeAttempt(id nostr.ID, by func(*Result)) {
	if job, ours := s.Attempts.Get(nostrID(id.Hex())); ours {
		s.changeRun(job, by)
	}
}
