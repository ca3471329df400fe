// Package meet is the step that benchmarks providers: within a daily budget it decides which provider is tried next (the
// partnership protocol, chapter 2), has its runs done as jobs, and concludes what they came to (section 3.2.3). Such a series
// of runs is a meeting. It owns the facts meeting.*. It sends no request itself: each run is a job like any other. What a
// meeting means for a provider's state and for trust is decided by partner and trust.
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
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/judging/suite"
)

// Errors of Begin and Find.
var (
	ErrUnoffered = errors.New("it announces no such service")
	ErrRemoved   = errors.New("its key was removed")
	ErrSelf      = errors.New("it is this node itself")
)

// Config says what the step needs.
type Config struct {
	Journal *journal.Journal
	Self    nostr.PubKey // the node's own key, which is never met
	Now     func() time.Time
	Secret  []byte // from which instances of benchmarks are made; see suite.SeedFor

	Offers func(task string, kind int) []guild.Offer // who offers a task, the surest first
	Kind   func(task string) int                     // NIP-90 kind of requests for a task
	Run    func(ctx context.Context, r Run) error    // opens the job of one run; a second call for the same run does nothing
	Make   func(suite.Spec) (suite.Made, error)      // makes the benchmark of one run; suite.Make if nil

	// Checkups lists the benchmarks that are due for known services, the most urgent first; nil for none.
	Checkups func(now time.Time) []guild.Checkup

	// Said returns how well the reviews that count speak of a service, from 0 to guild.Micro; a half if there are none. Of
	// services that are as sure to do a task and as much recommended, the best reviewed is met first.
	Said func(guild.Service) guild.Trust

	Auto   bool       // begin meetings without a person asking
	Daily  guild.Msat // bids of the automatic meetings of a UTC day, at most; 100,000 if zero
	Count  int        // automatic meetings that begin on a UTC day, at most; 20 if zero
	AtOnce int        // meetings under way at the same time; 2 if zero
	Bid    guild.Msat // of one run; 1,000 if zero

	// Enough is how many successes in a row from the first run on make an active partner; 3 if zero.
	Enough int

	// Newcomers is the share of a day's budget, in micro-units, that is kept for providers that were never tried; a quarter if
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
	looked time.Time // when there was no candidate
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

// Meetings returns the state of all meetings.
func (m *Meet) Meetings() *Fold { return m.fold }

// Begin begins a meeting that a person asks for, outside the budget, and returns its id. If one with the service for the task
// is under way, it returns the id of that one. An unknown task, variant or module is suite.ErrUnknown; a service that does not
// offer the task is ErrUnoffered, one that was removed ErrRemoved, and one of this node ErrSelf.
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

// Find returns the service of a provider that offers a task, and the task: the service d, or any if d is nil; the given task,
// or any with a suite if that is "". Of several it returns the one that is surest to do the task. Errors are those of Begin.
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
	var found string
	var missing error
	for _, t := range tasks {
		o, err := m.offered(p, d, t)
		if err != nil {
			missing = err
		} else if found == "" || o.Confidence > best.Confidence {
			best, found = o, t
		}
	}
	if found == "" {
		return guild.Service{}, "", missing
	}
	return best.Service, found, nil
}

// offered returns a provider's offer for a task: that of the service d, or the surest if d is nil.
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

// meeting returns a new meeting with the standard benchmarks of a task.
func (m *Meet) meeting(s guild.Service, task string) fact.MeetingBegan {
	return fact.MeetingBegan{
		Meeting: guild.NewJobID().String(), Service: s, Task: task, Kind: m.c.Kind(task), Bid: m.c.Bid,
		Variant: suite.Variants[0], Modules: suite.Modules, Suite: suite.Name(task),
	}
}

// with returns the meeting with a service for a task that is under way, or nil.
func (f *Fold) with(s guild.Service, task string) *Meeting {
	for _, g := range f.underWay() {
		if g.Service == s && g.Task == task {
			return g
		}
	}
	return nil
}

// jobOf returns the id of a run's job. It follows from the run, so that opening the job again does nothing.
func jobOf(meeting string, run int) guild.JobID {
	sum := sha256.Sum256(fmt.Appendf(nil, "guild meeting %s run %d", meeting, run))
	return guild.JobID(sum[:len(guild.JobID{})])
}
