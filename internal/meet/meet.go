// Package meet is the step that gets to know providers: it decides which candidate is tried next, within a daily
// budget, has benchmarks put to it (the partnership protocol, chapter 2), and says what its runs came to (section
// 3.2.3). It owns the facts meeting.*. It asks nobody itself: each run is a job like any other, and what a meeting
// makes of a provider's state and of trust is for other steps.
package meet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/internal/suite"
)

// Errors of a meeting that was asked for.
var (
	ErrUnoffered = errors.New("it announces no such service")
	ErrRemoved   = errors.New("its key was removed")
	ErrSelf      = errors.New("it is this node itself")
)

// Config says what the step needs.
type Config struct {
	Journal *journal.Journal
	Self    nostr.PubKey // never met
	Now     func() time.Time
	Secret  []byte // what the instances of benchmarks are made from; see suite.SeedFor

	Offers func(task string, kind int) []guild.Offer // who offers a task, the surest first
	Kind   func(task string) int                     // NIP-90 kind of requests for a task
	Run    func(ctx context.Context, r Run) error    // opens the job of one run; doing it again does nothing
	Make   func(suite.Spec) (suite.Made, error)      // makes the benchmark of one run; suite.Make if nil

	// Checkups lists the benchmarks that are due for those we have dealt with, the most urgent first; nil for none.
	Checkups func(now time.Time) []guild.Checkup

	// Said is how well others speak of a service, from 0 to guild.Micro, by whom this node trusts; a half says nothing.
	// Of those who are as sure to do a task and as much recommended, the best spoken of is met first.
	Said func(guild.Service) guild.Trust

	Auto   bool       // candidates are met without being asked to
	Daily  guild.Msat // most that the automatic meetings of a UTC day may bid; 100,000 if zero
	Count  int        // and how many may begin on one; 20 if zero
	AtOnce int        // meetings under way at the same time; 2 if zero
	Bid    guild.Msat // of one run; 1,000 if zero

	// Enough is how many successes at once make an active partner, without a further run; 3 if zero.
	Enough int

	// Newcomers is the share of a day's budget, in micro-units, that is kept for those who were never tried; a quarter if
	// zero.
	Newcomers guild.Trust
}

// Run is one benchmark job.
type Run struct {
	Job     guild.JobID // follows from the meeting and the run
	Meeting fact.Benchmark
	Task    string
	Kind    int
	Service guild.Service
	Bid     guild.Msat
	Title   string
	Bundle  []byte
	Hidden  []byte
}

// Meet is the step.
type Meet struct {
	c    Config
	fold *Fold

	mu     sync.Mutex
	looked time.Time // when nobody was left to be met
	stale  bool      // the offers have changed since
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Meet {
	c.Daily = cmp.Or(c.Daily, 100_000)
	c.Count = cmp.Or(c.Count, 20)
	c.AtOnce = cmp.Or(c.AtOnce, 2)
	c.Bid = cmp.Or(c.Bid, 1_000)
	c.Enough = cmp.Or(c.Enough, usual)
	if c.Make == nil {
		c.Make = suite.Make
	}
	c.Newcomers = cmp.Or(c.Newcomers, guild.Micro/4)
	return &Meet{c: c, fold: f}
}

// Meetings is the state of all meetings.
func (m *Meet) Meetings() *Fold { return m.fold }

// Begin begins a meeting that a person asks for, outside of the budget, and returns its id. While one with the service
// for the task goes on, that is the one. An unknown task, variant or module is suite.ErrUnknown; a service that does
// not offer the task is ErrUnoffered, one that was removed ErrRemoved.
func (m *Meet) Begin(ctx context.Context, s guild.Service, task, variant string, modules []string) (string, error) {
	variant, modules, err := suite.Check(task, variant, modules)
	if err != nil {
		return "", fmt.Errorf("meet: %w", err)
	}
	if _, err := m.offered(s.PubKey, &s.D, task); err != nil {
		return "", fmt.Errorf("meet: %w", err)
	}
	began := m.meeting(s, task)
	began.Variant, began.Modules, began.Asked = variant, modules, true
	id := ""
	err = m.c.Journal.Do(ctx, fact.MeetingSubject, "", func(tx *journal.Tx) error {
		if going := m.fold.with(s, task); going != nil {
			id = going.Meeting
			return nil
		}
		id = began.Meeting
		tx.Append(began)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("meet: %w", err)
	}
	return id, nil
}

// Find returns the service of a provider that a person means: the one named d, or any if d is nil, for the task, or
// for any that a suite is shipped for if that is empty. Of several it is the one that surest does the task. Errors are
// those of Begin.
func (m *Meet) Find(p nostr.PubKey, d *string, task string) (guild.Service, string, error) {
	tasks := suite.Tasks()
	if task != "" {
		if suite.Name(task) == "" {
			_, _, err := suite.Check(task, "", nil)
			return guild.Service{}, "", err
		}
		tasks = []string{task}
	}
	var best guild.Offer
	found, err := "", error(nil)
	for _, t := range tasks {
		o, missing := m.offered(p, d, t)
		if missing != nil {
			err = missing
		} else if found == "" || o.Confidence > best.Confidence {
			best, found = o, t
		}
	}
	if found == "" {
		return guild.Service{}, "", err
	}
	return best.Service, found, nil
}

// offered is what a provider offers for a task: the service named d, or the surest if d is nil.
func (m *Meet) offered(p nostr.PubKey, d *string, task string) (guild.Offer, error) {
	if p == m.c.Self {
		return guild.Offer{}, ErrSelf
	}
	for _, o := range m.c.Offers(task, m.c.Kind(task)) {
		switch {
		case o.Service.PubKey != p || d != nil && o.Service.D != *d:
		case o.State == guild.Removed:
			return guild.Offer{}, ErrRemoved
		default:
			return o, nil
		}
	}
	return guild.Offer{}, fmt.Errorf("%.8s, task %s: %w", p.Hex(), task, ErrUnoffered)
}

// meeting is a meeting with the standard benchmarks of a task.
func (m *Meet) meeting(s guild.Service, task string) fact.MeetingBegan {
	return fact.MeetingBegan{
		Meeting: guild.NewJobID().String(), Service: s, Task: task, Kind: m.c.Kind(task), Bid: m.c.Bid,
		Variant: suite.Variants[0], Modules: suite.Modules, Suite: suite.Name(task),
	}
}

// with is the meeting that goes on with a service for a task, nil if there is none.
func (f *Fold) with(s guild.Service, task string) *Meeting {
	for _, g := range f.goingOn() {
		if g.Service == s && g.Task == task {
			return g
		}
	}
	return nil
}

// jobOf is the id of a run's job: opening it again opens nothing.
func jobOf(meeting string, run int) guild.JobID {
	sum := sha256.Sum256(fmt.Appendf(nil, "guild meeting %s run %d", meeting, run))
	return guild.JobID(sum[:len(guild.JobID{})])
}
