// Package meet is the step that benchmarks providers. Within a daily budget it decides which provider is tried next
// (the partnership protocol, chapter 2), has the runs done as jobs, and computes their result (section 3.2.3). Such a
// series of runs is a meeting. The step owns the facts meeting.*. It sends no request itself, because each run is a job
// like any other. partner and trust decide what a meeting changes in a provider's state and in trust.
package meet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/judging/suite"
)

// The errors of Begin and Find.
var (
	ErrUnoffered = errors.New("no such service")
	ErrRemoved   = errors.New("its key was removed")
	ErrSelf      = errors.New("it is this node")
)

// Config configures the step.
type Config struct {
	Journal *journal.Journal
	Self    nostr.PubKey // the node's own key, which is never met
	Now     func() time.Time
	Secret  []byte // from which the instances of benchmarks are derived; see suite.SeedFor

	Offers func(task string, kind int) iter.Seq[guild.Offer] // yields the offers for a task, by confidence
	Kind   func(task string) int                             // returns the NIP-90 kind of requests for a task

	// OffersOf returns the services of a provider as offers for a task, whether they offer it or not; optional. A person can
	// name one of these.
	OffersOf func(p nostr.PubKey, task string, kind int) []guild.Offer

	Run  func(ctx context.Context, r Run) error // opens the job of one run; a second call for the same run does nothing
	Make func(suite.Spec) (suite.Made, error)   // makes the benchmark of one run; default suite.Make

	// Checkups lists the benchmarks that are due for known services, the most urgent first; optional.
	Checkups func(now time.Time) []guild.Checkup

	// Said returns the rating of a service by the reviews that count, from 0 to guild.Micro, and a half without reviews.
	// A service that is rated higher than that counts as recommended; optional.
	Said func(guild.Service) guild.Trust

	Auto   bool       // begin meetings automatically
	Daily  guild.Msat // limit of the bids of the automatic meetings of a UTC day; default 100,000
	Count  int        // limit of the runs of automatic meetings on a UTC day, in meetings of five runs; default 20
	AtOnce int        // limit of running meetings; default 2
	Bid    guild.Msat // bid of one run; default 1,000; the price of the service if that is higher

	// Enough is the number of successes in a row from the first run on that make an active partner; default 3.
	Enough int

	// Newcomers is the share of a day's budget, in micro-units, that is reserved for providers that were never tried;
	// default a quarter.
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
	looked time.Time // when the latest search found no candidate
	stale  bool      // the offers have changed since the latest search
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

// Begin begins a meeting at a person's request, outside the budget, and returns its id. If a meeting with the service
// for the task is running, it returns that one's id. It returns suite.ErrUnknown for an unknown task, variant or
// module, ErrUnoffered for an unknown service, ErrRemoved for a removed one, and ErrSelf for one of this node. The
// service need not offer the task: whoever is named is asked, as by hire.
func (m *Meet) Begin(ctx context.Context, s guild.Service, task, variant string, modules []string) (string, error) {
	variant, modules, err := suite.Check(task, variant, modules)
	if err != nil {
		return "", fmt.Errorf("meet: %w", err)
	}
	o, err := m.offered(s.PubKey, &s.D, task, true)
	if err != nil {
		return "", fmt.Errorf("meet: %w", err)
	}
	began := m.meeting(o, task)
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

// Find returns the service of a provider that offers a task, and the task. It looks for the service d, or any if d is
// nil, and the given task, or any with a suite if that is "". Of several it returns the one with the highest
// confidence; if none offers the given task, the first one. Errors are those of Begin, and ErrUnoffered if no task is
// given and none with a suite is offered.
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
		o, err := m.offered(p, d, t, task != "")
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

// offered returns a provider's offer for a task: that of the service d, or the one with the highest confidence if d is
// nil. If a person named the task, it need not be offered.
func (m *Meet) offered(p nostr.PubKey, d *string, task string, named bool) (guild.Offer, error) {
	if p == m.c.Self {
		return guild.Offer{}, ErrSelf
	}
	offers := slices.Collect(m.c.Offers(task, m.c.Kind(task)))
	if named && m.c.OffersOf != nil {
		offers = append(offers, m.c.OffersOf(p, task, m.c.Kind(task))...)
	}
	for _, o := range offers {
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

// bid returns the bid of one run: the usual one, or the price if that is higher, because many providers ignore a bid below
// their price without a word.
func (m *Meet) bid(o guild.Offer) guild.Msat { return max(m.c.Bid, o.Price) }

// meeting returns a new meeting with the standard benchmarks of a task.
func (m *Meet) meeting(o guild.Offer, task string) fact.MeetingBegan {
	return fact.MeetingBegan{
		Meeting: guild.NewJobID().String(), Service: o.Service, Task: task, Kind: m.c.Kind(task), Bid: m.bid(o),
		Variant: suite.Variants[0], Modules: suite.Modules, Suite: suite.Name(task),
	}
}

// with returns the running meeting with a service for a task, or nil.
func (f *Fold) with(s guild.Service, task string) *Meeting {
	for _, g := range f.underWay() {
		if g.Service == s && g.Task == task {
			return g
		}
	}
	return nil
}

// jobOf returns the id of a run's job. It is derived from the run, so that opening the job again does nothing.
func jobOf(meeting string, run int) guild.JobID {
	sum := sha256.Sum256(fmt.Appendf(nil, "guild meeting %s run %d", meeting, run))
	return guild.JobID(sum[:len(guild.JobID{})])
}
