// Package meet is the step that gets to know providers: it decides which candidate is tried next, within a daily
// budget, has benchmarks put to it (the partnership protocol, chapter 2), and says what its runs came to (section
// 3.2.3). It owns the facts meeting.*. It asks nobody itself: each run is a job like any other, and what a meeting
// makes of a provider's state and of trust is for other steps.
package meet

import (
	"context"
	"time"

	"guild"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/journal"
)

// Config says what the step needs.
type Config struct {
	Journal *journal.Journal
	Node    string
	Now     func() time.Time
	Secret  []byte // what the instances of benchmarks are made from; see suite.SeedFor

	Offers func(task string, kind int) []guild.Offer // who offers a task, the surest first
	Kind   func(task string) int                     // NIP-90 kind of requests for a task
	Run    func(ctx context.Context, r Run) error    // opens the job of one run; doing it again does nothing

	Auto   bool       // candidates are met without being asked to
	Daily  guild.Msat // most that the automatic meetings of a UTC day may bid
	Count  int        // and how many may begin on one
	AtOnce int        // meetings under way at the same time
	Bid    guild.Msat // of one run: 1,000
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
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Meet { return &Meet{c, f} }

// Begin begins a meeting that a person asks for, and returns its id.
func (m *Meet) Begin(ctx context.Context, s guild.Service, task, variant string, modules []string) (string, error) {
	return "", nil
}

// Due lists what is due for the meetings. It implements due.Source.
func (m *Meet) Due(now time.Time) []due.Work { return nil }
