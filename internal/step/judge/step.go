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
	"guild/internal/hand/blob"
	"guild/internal/hand/workdir"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/judging/exam"
	"guild/internal/judging/opinion"
	"guild/internal/judging/sandbox"
	"guild/nutshell"
	"guild/oa"
)

// Class is the class of work that judging belongs to. All judgements share its limit.
const Class = "judge"

// maxBundle limits the packed bundles that are judged, in bytes.
const maxBundle = 64 << 20

// shown limits the tests that a fact lists. The stored verdict lists all.
const shown = 50

// StepConfig configures the step.
type StepConfig struct {
	Blobs   *blob.Store
	Scratch string // directory for unpacked bundles

	// Examine judges a case, as (*Judge).Hear does.
	Examine func(ctx context.Context, c Case) (guild.Verdict, Evidence, error)

	Opinion opinion.Opinion // chooses between results if the job asks for that; if nil, a person does

	Baseline func(task string) Baseline // returns the baseline of a task; optional

	Now func() time.Time // measures how long a judgement's parts take, to show it; nothing is shown if nil
}

// Step judges deliveries. Each delivery that is here gets one verdict.
type Step struct {
	c    StepConfig
	fold *Fold

	running sync.Map // nostr.ID of an attempt that is judged now → *Activity
}

// NewStep returns the step on its fold.
func NewStep(c StepConfig, f *Fold) *Step { return &Step{c: c, fold: f} }

// Doing says what the judge is at with a delivery, and for how long: tests and tools. It is empty for one that is not
// judged now.
func (s *Step) Doing(attempt nostr.ID) string {
	a, ok := s.running.Load(attempt)
	if !ok {
		return ""
	}
	return a.(*Activity).Text()
}

// Due lists the deliveries to judge. It implements due.Source.
func (s *Step) Due(time.Time) []due.Work {
	var work []due.Work
	together := map[guild.JobID][]pending{}
	for _, c := range s.fold.ready() {
		if c.Order.Together != "" {
			together[c.Job] = append(together[c.Job], c)
			continue
		}
		work = append(work, s.judge(c))
	}
	for _, id := range slices.SortedFunc(maps.Keys(together), func(a, b guild.JobID) int { return bytes.Compare(a[:], b[:]) }) {
		work = append(work, s.judgeTogether(together[id]))
	}
	return work
}

// judge returns the effect that judges one delivery. A claim keeps other nodes from judging the same delivery at the
// same time.
func (s *Step) judge(c pending) due.Work {
	return due.Work{
		Key: c.key(), Guard: fact.JobSubject(c.Job), Class: Class, Tries: 8, Lease: 2 * time.Minute,
		Act: func(ctx context.Context) (due.Decision, error) {
			judged, err := s.verdict(ctx, c)
			if person, ok := errors.AsType[*PersonNeeded](err); ok {
				return s.hold(ctx, c, judged, person.Reason)
			}
			if hopeless(err) {
				return func(tx *journal.Tx) error { s.park(tx, c, err.Error()); return nil }, nil
			}
			if err != nil {
				return nil, err
			}
			return s.decide(ctx, c, judged, nil)
		},
		Park: func(tx *journal.Tx, reason string) { s.park(tx, c, reason) },
	}
}

// hopeless reports whether another try is useless, because the criteria cannot be decided here or there is no sandbox.
func hopeless(err error) bool {
	_, unusable := errors.AsType[*sandbox.UnusableError](err)
	return unusable || errors.Is(err, exam.ErrUndecided)
}

// key returns the key of the effect. A disputed case has another key each time.
//
// The runner counts tries by the key, and the tries for the first verdict must not count for the second.
func (c pending) key() string {
	if c.Again == 0 {
		return "judge " + c.Attempt.Hex()
	}
	return fmt.Sprintf("judge %s again, for the %d. time", c.Attempt.Hex(), c.Again)
}

// park leaves a delivery to a person, because the judge itself has failed.
//
// A delivery can make the judge fail or crash each time. After a limited number of tries it must not occupy the node
// any more.
func (s *Step) park(tx *journal.Tx, c pending, reason string) {
	if s.fold.waits(c.Attempt) {
		tx.Append(fact.AttemptUndecided{Attempt: c.Attempt, Reason: reason},
			fact.AttemptParked{Attempt: c.Attempt, Reason: "the judge failed: " + reason})
	}
}

// judged is a verdict with the evidence that is kept beside it.
type judged struct {
	guild.Verdict
	whole guild.Hash // blob of the evidence with what hidden tests showed; zero if there are none
}

// hold leaves a delivery to a person, with the results of the programs.
func (s *Step) hold(ctx context.Context, c pending, v judged, reason string) (due.Decision, error) {
	raw, err := json.Marshal(v.Verdict)
	if err != nil {
		return nil, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), err)
	}
	held, err := s.c.Blobs.PutBytes(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), err)
	}
	return func(tx *journal.Tx) error {
		if s.fold.waits(c.Attempt) {
			tx.Append(fact.AttemptUndecided{Attempt: c.Attempt, Reason: guild.Cut(reason, maxCause), Held: held, Whole: v.whole})
		}
		return nil
	}, nil
}

// verdict judges a delivery and stores the evidence as a blob. It returns a verdict also with a *PersonNeeded.
func (s *Step) verdict(ctx context.Context, c pending) (judged, error) {
	var whole Evidence
	v, evidence, answer := s.examine(ctx, c, func(e Evidence) { whole = e })
	if _, person := errors.AsType[*PersonNeeded](answer); answer != nil && !person {
		return judged{}, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), answer)
	}
	var err error
	if v.Evidence, err = s.c.Blobs.PutBytes(ctx, evidence); err != nil {
		return judged{}, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), err)
	}
	j := judged{Verdict: v}
	if whole != nil {
		if j.whole, err = s.c.Blobs.PutBytes(ctx, whole); err != nil {
			return judged{}, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), err)
		}
	}
	return j, answer
}

// keep stores the whole verdict as a blob, and returns the fact that names it. The blob is stored before the fact is
// recorded, so that no fact names a missing blob after a crash.
func (s *Step) keep(ctx context.Context, attempt nostr.ID, v judged) (fact.AttemptJudged, error) {
	raw, err := json.Marshal(v.Verdict)
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
	return fact.AttemptJudged{Attempt: attempt, Verdict: brief(v.Verdict), Hash: hash, Stored: stored, Whole: v.whole}, nil
}

// brief returns the verdict in the form of the fact, with shortened lists.
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

// examine unpacks both bundles and judges the delivery. A delivery that is not a bundle is a failure of the provider.
// whole is Case.Whole.
func (s *Step) examine(ctx context.Context, c pending, whole func(Evidence)) (guild.Verdict, Evidence, error) {
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
		v := guild.Verdict{Outcome: guild.Failure, Strength: guild.Weak, Strengths: &guild.Strengths{}, Tier: "none",
			Cause: guild.Cut("the delivery is not a bundle: "+err.Error(), 500)}
		return v, Evidence(v.Cause), nil
	}
	hearing := Case{Bundle: bundle, Delivery: delivery, Task: c.Order.Task, Provider: c.Provider, Latency: time.Duration(c.Latency) * time.Millisecond, Whole: whole}
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
	if s.c.Now != nil {
		a := &Activity{Now: s.c.Now}
		hearing.Progress = a.Note
		s.running.Store(c.Attempt, a)
		defer s.running.Delete(c.Attempt)
	}
	return s.c.Examine(ctx, hearing)
}

// ours reports whether unpacking failed because of this machine and not because of the bundle. Such an error must not
// count against the provider.
func ours(err error) bool {
	return slices.ContainsFunc([]error{
		blob.ErrMissing, blob.ErrDamaged, context.Canceled, context.DeadlineExceeded, syscall.ENOSPC, syscall.EDQUOT,
		syscall.EIO, syscall.EROFS, syscall.EACCES, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
	}, func(reason error) bool { return errors.Is(err, reason) })
}

// unpack unpacks a bundle from the blob store into a directory, within the limits of package nutshell, because a
// delivery can be hostile.
func (s *Step) unpack(ctx context.Context, h guild.Hash, dir string) error {
	raw, err := s.c.Blobs.ReadAll(h, maxBundle)
	if err != nil {
		return err
	}
	_, err = workdir.Fill(ctx, bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits(), dir)
	return err
}

// Fold holds the deliveries that wait for a verdict.
type Fold struct{ *fold.State[state] }

type state struct {
	Jobs  fold.Table[guild.JobID, order] `json:"jobs"`  // open jobs
	Cases fold.Table[string, pending]    `json:"cases"` // by attempt, from planning to verdict
	Heard fold.Table[string, pending]    `json:"heard"` // cases with a verdict that can still be disputed
	Order []string                       `json:"order"` // of these, the oldest first; only appended to and cut at the front
}

// disputable is the time in ms for which a case is kept after its verdict. It is longer than the time to object.
const disputable = 48 * 60 * 60 * 1000

// order holds the parts of a job by which its deliveries are judged.
type order struct {
	Task   string     `json:"task"`
	Bundle guild.Hash `json:"bundle"`
	Hidden guild.Hash `json:"hidden,omitzero"` // hidden tests, as a bundle

	Together oa.Adjudication `json:"together,omitempty"` // the adjudication if all deliveries are judged together, else ""
}

type pending struct {
	Job      guild.JobID  `json:"job"`
	Attempt  nostr.ID     `json:"attempt"`
	Provider nostr.PubKey `json:"provider"`
	Order    order        `json:"order"`
	Delivery guild.Hash   `json:"delivery"`
	Latency  int64        `json:"latency_ms"`     // ms from the request to its result
	Here     bool         `json:"here"`           // the delivery is stored here
	Held     guild.Hash   `json:"held,omitzero"`  // blob of the verdict so far, if a person must rule
	Whole    guild.Hash   `json:"whole,omitzero"` // as in fact.AttemptJudged, of that verdict
	At       int64        `json:"at"`
	Over     int64        `json:"over,omitempty"`  // Unix ms of the verdict
	Again    int          `json:"again,omitempty"` // number of disputes
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("judge", 5)} }

// ready lists the deliveries to judge. The first delivery of each job comes before the second of any, so that a job
// with many attempts does not delay the others. Otherwise the oldest comes first.
func (f *Fold) ready() []pending {
	var ready []pending
	f.View(func(s *state) {
		waits := map[guild.JobID]bool{} // jobs that wait for another delivery
		for _, c := range s.Cases.All() {
			if c.Order.Together != "" && !c.Here {
				waits[c.Job] = true
			}
		}
		for _, c := range s.Cases.All() {
			if c.Here && c.Held.IsZero() && !waits[c.Job] {
				ready = append(ready, c)
			}
		}
	})
	slices.SortFunc(ready, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.At, b.At), bytes.Compare(a.Attempt[:], b.Attempt[:]))
	})
	turn := map[nostr.ID]int{}
	seen := map[guild.JobID]int{}
	for _, c := range ready {
		turn[c.Attempt] = seen[c.Job]
		seen[c.Job]++
	}
	slices.SortStableFunc(ready, func(a, b pending) int { return cmp.Compare(turn[a.Attempt], turn[b.Attempt]) })
	return ready
}

// waits reports whether a delivery has to be judged.
func (f *Fold) waits(attempt nostr.ID) bool {
	c := f.of(attempt)
	return c.Here && c.Held.IsZero()
}

// of returns the case of an attempt without a verdict, or the zero value.
func (f *Fold) of(attempt nostr.ID) pending {
	return fold.Read(f.State, func(s *state) pending { return s.Cases.Of(attempt.Hex()) })
}

// Held returns the blob of the verdict so far, for a delivery that waits for a person.
func (f *Fold) Held(attempt nostr.ID) (guild.Hash, bool) {
	c, ok := f.held(attempt)
	return c.Held, ok
}

// Whole returns the blob of the evidence with what hidden tests showed, for a delivery that waits for a person; zero if
// there are none.
func (f *Fold) Whole(attempt nostr.ID) guild.Hash { return f.of(attempt).Whole }

// held returns a delivery that waits for a person.
func (f *Fold) held(attempt nostr.ID) (pending, bool) {
	c := f.of(attempt)
	return c, !c.Held.IsZero()
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	if e.Subject.Noun() != "job" {
		return
	}
	f.Change(func(s *state) {
		for _, one := range e.Facts {
			s.apply(one, e.At)
		}
	})
}

func (s *state) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.JobOpened:
		s.Jobs.Set(one.Job, order{Task: one.Task, Bundle: one.Bundle, Hidden: one.Hidden, Together: together(one.Compare)})
	case fact.JobClosed:
		s.Jobs.Delete(one.Job)
	case fact.JobShredded:
		heard := s.Heard.Clone()
		for id, c := range heard.All() {
			if c.Job == one.Job { // it can be disputed no more: the delivery is gone
				s.Heard.Delete(id)
			}
		}
	case fact.AttemptPlanned:
		s.Cases.Set(one.Attempt.Hex(), pending{Job: one.Job, Attempt: one.Attempt, Provider: one.Provider.PubKey, Order: s.Jobs.Of(one.Job)})
	case fact.AttemptDelivered:
		s.change(one.Attempt, func(c *pending) {
			c.Delivery, c.Here, c.At, c.Latency = one.Delivery, one.Away == nil, at, one.LatencyMs
		})
	case fact.AttemptFetched:
		s.change(one.Attempt, func(c *pending) { c.Here = true })
	case fact.AttemptUndecided:
		s.change(one.Attempt, func(c *pending) { c.Held, c.Whole = one.Held, one.Whole })
	case fact.AttemptJudged:
		s.heard(one.Attempt, at)
	case fact.AttemptDisputed:
		s.disputed(one.Attempt, at)
	case fact.AttemptRefused:
		s.Cases.Delete(one.Attempt.Hex())
	case fact.AttemptExpired:
		s.Cases.Delete(one.Attempt.Hex())
	case fact.AttemptCancelled:
		s.Cases.Delete(one.Attempt.Hex())
	case fact.AttemptParked:
		s.Cases.Delete(one.Attempt.Hex())
	}
}

// heard moves a judged case to Heard, and drops those that can no longer be disputed.
func (s *state) heard(attempt nostr.ID, at int64) {
	for len(s.Order) > 0 && at-s.Heard.Of(s.Order[0]).Over >= disputable {
		s.Heard.Delete(s.Order[0])
		s.Order = s.Order[1:]
	}
	if c, ok := s.Cases.Get(attempt.Hex()); ok {
		c.Over, c.Held, c.Whole = at, guild.Hash{}, guild.Hash{}
		s.Heard.Set(attempt.Hex(), c)
		s.Order = append(s.Order, attempt.Hex())
	}
	s.Cases.Delete(attempt.Hex())
}

// disputed opens a case again.
func (s *state) disputed(attempt nostr.ID, at int64) {
	c, ok := s.Heard.Get(attempt.Hex())
	if !ok {
		return
	}
	c.At, c.Again = at, c.Again+1
	s.Heard.Delete(attempt.Hex())
	s.Cases.Set(attempt.Hex(), c)
}

func (s *state) change(attempt nostr.ID, by func(*pending)) {
	c, ok := s.Cases.Get(attempt.Hex())
	if !ok {
		return
	}
	by(&c)
	s.Cases.Set(attempt.Hex(), c)
}
