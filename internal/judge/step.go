package judge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/blob"
	"guild/internal/due"
	"guild/internal/exam"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/internal/sandbox"
	"guild/internal/workdir"
	"guild/nutshell"
)

// Class is what runs of the judge share a limit under.
const Class = "judge"

// maxBundle is the largest packed bundle that is judged, in bytes.
const maxBundle = 64 << 20

// shown is the number of tests that a fact lists; the stored verdict lists all.
const shown = 50

// StepConfig says what the step needs.
type StepConfig struct {
	Blobs   *blob.Store
	Scratch string // directory for unpacked bundles

	// Examine judges a case; (*Judge).Hear in earnest.
	Examine func(ctx context.Context, c Case) (guild.Verdict, Evidence, error)

	Baseline func(task string) Baseline // what deliveries of a task usually take; none is known if nil
}

// Step is the judge's step: every delivery that is here gets one verdict.
type Step struct {
	c    StepConfig
	fold *Fold
}

// NewStep returns the step on its fold.
func NewStep(c StepConfig, f *Fold) *Step { return &Step{c, f} }

// Due lists the deliveries to be judged. It implements due.Source.
func (s *Step) Due(time.Time) []due.Work {
	var work []due.Work
	for _, c := range s.fold.ready() {
		work = append(work, s.judge(c))
	}
	return work
}

func (s *Step) judge(c pending) due.Work {
	return due.Work{
		Key: "judge " + c.Attempt.Hex(), Guard: fact.JobSubject(c.Job), Class: Class, Tries: 8, Lease: 2 * time.Minute,
		Act: func(ctx context.Context) (due.Decision, error) {
			judged, err := s.verdict(ctx, c)
			if person, ok := errors.AsType[*PersonNeeded](err); ok {
				return s.hold(ctx, c, judged, person.Reason)
			}
			if unusable := (*sandbox.UnusableError)(nil); errors.Is(err, exam.ErrUndecided) || errors.As(err, &unusable) {
				return func(tx *journal.Tx) error { s.park(tx, c, err.Error()); return nil }, nil // no use in trying again
			}
			if err != nil {
				return nil, err
			}
			kept, err := s.keep(ctx, c.Attempt, judged)
			if err != nil {
				return nil, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				if s.fold.waits(c.Attempt) {
					tx.Append(kept)
				}
				return nil
			}, nil
		},
		Park: func(tx *journal.Tx, reason string) { s.park(tx, c, reason) },
	}
}

// park leaves a delivery to a person: the judge itself has failed.
func (s *Step) park(tx *journal.Tx, c pending, reason string) {
	if s.fold.waits(c.Attempt) {
		tx.Append(fact.AttemptUndecided{Attempt: c.Attempt, Reason: reason},
			fact.AttemptParked{Attempt: c.Attempt, Reason: "the judge failed: " + reason})
	}
}

// hold leaves a delivery to a person, with what the programs found.
func (s *Step) hold(ctx context.Context, c pending, v guild.Verdict, reason string) (due.Decision, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), err)
	}
	held, err := s.c.Blobs.PutBytes(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), err)
	}
	return func(tx *journal.Tx) error {
		if s.fold.waits(c.Attempt) {
			tx.Append(fact.AttemptUndecided{Attempt: c.Attempt, Reason: guild.Cut(reason, maxCause), Held: held})
		}
		return nil
	}, nil
}

// verdict judges, and keeps the evidence as a blob. The verdict counts also beside a *PersonNeeded.
func (s *Step) verdict(ctx context.Context, c pending) (guild.Verdict, error) {
	v, evidence, judged := s.examine(ctx, c)
	if _, person := errors.AsType[*PersonNeeded](judged); judged != nil && !person {
		return guild.Verdict{}, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), judged)
	}
	var err error
	if v.Evidence, err = s.c.Blobs.PutBytes(ctx, evidence); err != nil {
		return guild.Verdict{}, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), err)
	}
	return v, judged
}

// keep stores the whole verdict as a blob before the fact that names it.
func (s *Step) keep(ctx context.Context, attempt nostr.ID, v guild.Verdict) (fact.AttemptJudged, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return fact.AttemptJudged{}, err
	}
	hash, err := canon.Hash(raw)
	if err != nil {
		return fact.AttemptJudged{}, err
	}
	stored, err := s.c.Blobs.PutBytes(ctx, raw)
	if err != nil {
		return fact.AttemptJudged{}, err
	}
	return fact.AttemptJudged{Attempt: attempt, Verdict: brief(v), Hash: hash, Stored: stored}, nil
}

// brief is the verdict as a fact holds it: what makes a long one long stays in the blob.
func brief(v guild.Verdict) guild.Verdict {
	v.Tests = v.Tests[:min(len(v.Tests), shown)]
	v.Breaches = v.Breaches[:min(len(v.Breaches), shown)]
	v.Warnings = v.Warnings[:min(len(v.Warnings), shown)]
	v.Hidden = v.Hidden[:min(len(v.Hidden), shown)]
	if q := v.Quality; q != nil && len(q.Findings) > shown {
		short := *q
		short.Findings = q.Findings[:shown]
		v.Quality = &short
	}
	return v
}

// examine unpacks both bundles and judges. A delivery that is no bundle is a failure of the provider.
func (s *Step) examine(ctx context.Context, c pending) (guild.Verdict, Evidence, error) {
	dir, err := os.MkdirTemp(s.c.Scratch, "judge-")
	if err != nil {
		return guild.Verdict{}, nil, err
	}
	defer os.RemoveAll(dir)
	bundle, delivery := filepath.Join(dir, "bundle"), filepath.Join(dir, "delivery")
	if err := s.unpack(ctx, c.Order.Bundle, bundle); err != nil {
		return guild.Verdict{}, nil, fmt.Errorf("our own bundle: %w", err)
	}
	if err := s.unpack(ctx, c.Delivery, delivery); ours(err) {
		return guild.Verdict{}, nil, fmt.Errorf("the delivery: %w", err)
	} else if err != nil {
		v := guild.Verdict{Outcome: guild.Failure, Strength: guild.Strong, Tier: "none",
			Cause: guild.Cut("the delivery is no bundle: "+err.Error(), 500)}
		return v, Evidence(v.Cause), nil
	}
	hearing := Case{Bundle: bundle, Delivery: delivery, Task: c.Order.Task, Latency: time.Duration(c.Latency) * time.Millisecond}
	if s.c.Baseline != nil {
		hearing.Baseline = s.c.Baseline(c.Order.Task)
	}
	if !c.Order.Hidden.IsZero() {
		hidden := filepath.Join(dir, "hidden")
		if err := s.unpack(ctx, c.Order.Hidden, hidden); err != nil {
			return guild.Verdict{}, nil, fmt.Errorf("our own hidden tests: %w", err)
		}
		hearing.Hidden = filepath.Join(hidden, "files")
	}
	return s.c.Examine(ctx, hearing)
}

// ours reports whether it is this machine that failed to unpack a bundle, and not the bundle.
func ours(err error) bool {
	return slices.ContainsFunc([]error{
		blob.ErrMissing, blob.ErrDamaged, context.Canceled, context.DeadlineExceeded, syscall.ENOSPC, syscall.EDQUOT,
		syscall.EIO, syscall.EROFS, syscall.EACCES, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
	}, func(reason error) bool { return errors.Is(err, reason) })
}

func (s *Step) unpack(ctx context.Context, h guild.Hash, dir string) error {
	raw, err := s.c.Blobs.ReadAll(h, maxBundle)
	if err != nil {
		return err
	}
	b, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	if err != nil {
		return err
	}
	return workdir.Unpack(ctx, b, dir)
}

// Fold knows the deliveries that wait for a verdict.
type Fold struct {
	mu    sync.RWMutex
	state folded
}

type folded struct {
	Jobs  map[guild.JobID]order `json:"jobs"`  // that go on
	Cases map[string]pending    `json:"cases"` // by attempt, from planning to verdict
}

// order is what a job's deliveries are judged by.
type order struct {
	Task   string     `json:"task"`
	Bundle guild.Hash `json:"bundle"`
	Hidden guild.Hash `json:"hidden,omitzero"` // tests that stay here, as a bundle
}

type pending struct {
	Job      guild.JobID `json:"job"`
	Attempt  nostr.ID    `json:"attempt"`
	Order    order       `json:"order"`
	Delivery guild.Hash  `json:"delivery"`
	Latency  int64       `json:"latency_ms"`    // from the request to its result
	Here     bool        `json:"here"`          // the delivery came, or was fetched
	Held     guild.Hash  `json:"held,omitzero"` // blob: the verdict so far, when a person must rule
	At       int64       `json:"at"`
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{state: empty()} }

func empty() folded { return folded{map[guild.JobID]order{}, map[string]pending{}} }

// Name implements fold.Fold.
func (*Fold) Name() string { return "judge" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 2 }

// ready lists the deliveries to be judged: each job's first before any job's second, so that a job with many
// attempts holds up nobody, and among those the oldest first.
func (f *Fold) ready() []pending {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var ready []pending
	for _, c := range f.state.Cases {
		if c.Here && c.Held.IsZero() {
			ready = append(ready, c)
		}
	}
	slices.SortFunc(ready, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.At, b.At), bytes.Compare(a.Attempt[:], b.Attempt[:]))
	})
	turn, seen := map[nostr.ID]int{}, map[guild.JobID]int{}
	for _, c := range ready {
		turn[c.Attempt] = seen[c.Job]
		seen[c.Job]++
	}
	slices.SortStableFunc(ready, func(a, b pending) int { return cmp.Compare(turn[a.Attempt], turn[b.Attempt]) })
	return ready
}

func (f *Fold) waits(attempt nostr.ID) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	c := f.state.Cases[attempt.Hex()]
	return c.Here && c.Held.IsZero()
}

// Held returns the verdict so far, as a blob, of a delivery that waits for a person.
func (f *Fold) Held(attempt nostr.ID) (guild.Hash, bool) {
	c, ok := f.held(attempt)
	return c.Held, ok
}

// held returns a delivery that waits for a person.
func (f *Fold) held(attempt nostr.ID) (pending, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	c := f.state.Cases[attempt.Hex()]
	return c, !c.Held.IsZero()
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	if e.Subject.Noun() != "job" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e.At)
	}
}

func (f *Fold) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.JobOpened:
		f.state.Jobs[one.Job] = order{one.Task, one.Bundle, one.Hidden}
	case fact.JobClosed:
		delete(f.state.Jobs, one.Job)
	case fact.AttemptPlanned:
		f.state.Cases[one.Attempt.Hex()] = pending{Job: one.Job, Attempt: one.Attempt, Order: f.state.Jobs[one.Job]}
	case fact.AttemptDelivered:
		f.change(one.Attempt, func(c *pending) {
			c.Delivery, c.Here, c.At, c.Latency = one.Delivery, one.Away == nil, at, one.LatencyMs
		})
	case fact.AttemptFetched:
		f.change(one.Attempt, func(c *pending) { c.Here = true })
	case fact.AttemptUndecided:
		f.change(one.Attempt, func(c *pending) { c.Held = one.Held })
	case fact.AttemptJudged:
		delete(f.state.Cases, one.Attempt.Hex())
	case fact.AttemptRefused:
		delete(f.state.Cases, one.Attempt.Hex())
	case fact.AttemptExpired:
		delete(f.state.Cases, one.Attempt.Hex())
	case fact.AttemptCancelled:
		delete(f.state.Cases, one.Attempt.Hex())
	case fact.AttemptParked:
		delete(f.state.Cases, one.Attempt.Hex())
	}
}

func (f *Fold) change(attempt nostr.ID, by func(*pending)) {
	if c, ok := f.state.Cases[attempt.Hex()]; ok {
		by(&c)
		f.state.Cases[attempt.Hex()] = c
	}
}

// Snapshot implements fold.Fold.
func (f *Fold) Snapshot() ([]byte, error) {
	f.mu.RLock()
	state := folded{maps.Clone(f.state.Jobs), maps.Clone(f.state.Cases)}
	f.mu.RUnlock()
	return json.Marshal(state)
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh folded
	if err := json.Unmarshal(b, &fresh); err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	if fresh.Jobs == nil || fresh.Cases == nil {
		return errors.New("judge: the snapshot is incomplete")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = fresh
	return nil
}
