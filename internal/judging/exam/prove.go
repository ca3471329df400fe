package exam

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/strength"
)

// Limits of running the tests again.
const (
	againWall   = 60 * time.Second
	againOutput = 8 << 20

	roundsWall   = 120 * time.Second // of a criterion's rounds together
	roundStart   = 30 * time.Second  // of an examiner, until its first test
	roundSilence = 5 * time.Second   // of one run of a test
)

// prove finds the strength of the tests that passed. Where the delivery has classes of values, they run once more with
// twins of these (python/twins.py), which shows more.
func (j *examination) prove(ctx context.Context, f *Finding, rep *report, o order, first *strength.Recording, examiner, subject sandbox.Spec) error {
	passed := passedTests(f.Tests)
	if len(passed) == 0 {
		f.Strength, f.Because = guild.Strong, "no test passed in a sandbox of its own"
		return nil
	}
	o.First = false
	if f.OverLimit { // what used up the time would do so again
		for _, t := range f.Tests {
			if t.State != guild.TestPassed {
				o.Without = append(o.Without, t.ID)
			}
		}
	}
	stdin, err := json.Marshal(o)
	if err != nil {
		return err
	}
	res, err := j.examineAgain(ctx, first, passed, examiner, stdin)
	if err != nil {
		return err
	}

	if rep.end != nil && len(rep.end.Twins) > 0 {
		o.Twins = rep.end.Twins
		if stdin, err = json.Marshal(o); err != nil {
			return err
		}
		e, s := &half{spec: examiner}, &half{spec: subject}
		recording, err := j.runBoth(ctx, e, s, stdin)
		if err != nil && !errors.Is(s.err, errLingers) {
			return err
		}
		with, err := j.examineAgain(ctx, recording, passed, examiner, stdin)
		if err != nil {
			return err
		}
		res = res.With(with)
	}
	f.prove(res, passed, func(id string) string { return id })
	return nil
}

// prove gives the tests that passed and the finding the strength that was found. known returns a test's id as the
// examiner has it.
func (f *Finding) prove(res strength.Result, passed []string, known func(string) string) {
	for i := range f.Tests {
		t := &f.Tests[i]
		if slices.Contains(passed, t.ID) {
			p := res.Tests[known(t.ID)]
			t.Strength, t.Because = cmp.Or(p.Strength, guild.Weak), cut(cmp.Or(p.Because, otherwise[p.Strength]))
		}
	}
	f.carried = func(ids []string) (guild.Strength, string) {
		var all []string
		for _, id := range ids {
			all = append(all, known(id))
		}
		return res.Carried(all)
	}
	f.Unproven = res.Unproven
	f.Strength, f.Because = f.carried(passed)
}

// otherwise says why a test is weak of which nothing was found.
var otherwise = map[guild.Strength]string{"": "the judge does not know when it runs"}

// rerun is a recorded run of tests that a sandbox runs again.
type rerun struct {
	strength.Run
	spec sandbox.Spec
}

// proveRounds finds the strength of the tests that passed, of examiners that run their tests in rounds. known returns a
// test's id as the examiner has it.
func (j *examination) proveRounds(ctx context.Context, f *Finding, l *strength.Language, again []rerun, passed []string, known func(string) string) error {
	if len(passed) == 0 {
		f.Strength, f.Because = guild.Strong, "no test passed in a sandbox of its own"
		return nil
	}
	var runs []strength.Run
	for _, r := range again {
		for _, id := range passed {
			r.Passed = append(r.Passed, known(id))
		}
		runs = append(runs, r.Run)
	}
	x := strength.New(l, runs...)
	bounded, stop := context.WithTimeoutCause(ctx, roundsWall, errLingers)
	defer stop()
	for i, r := range again {
		if err := j.play(bounded, x, i, r.spec); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f.prove(x.Result(), passed, known)
	return nil
}

// player answers examiners that run their tests in rounds, while there is something left to try with them.
type player interface {
	Left(run int) bool
	Progress() int // grows with each process that is of use
	Rounds(run int, conn io.ReadWriter, goes func()) error
}

// play lets an examiner run the tests of a run in one process after the other.
func (j *examination) play(ctx context.Context, x player, run int, spec sandbox.Spec) error {
	for progress := -1; x.Left(run) && x.Progress() != progress && ctx.Err() == nil; {
		progress = x.Progress()
		if err := j.rounds(ctx, x, run, spec); err != nil {
			return err
		}
	}
	return nil
}

// rounds runs an examiner's process. One in which a test takes too long, because of what it was answered, is ended.
func (j *examination) rounds(ctx context.Context, x player, run int, spec sandbox.Spec) error {
	ends, err := channelPair()
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var served error
	done := make(chan struct{})
	go func() {
		defer close(done)
		late := time.AfterFunc(roundStart, func() { cancel(errLingers) })
		served = errors.Join(x.Rounds(run, ends[1], func() { late.Reset(roundSilence) }), ends[1].Close())
		late.Stop()
		cancel(errLingers) // what it still does is for nobody
	}()
	spec.Limits.Wall, spec.Limits.CPU, spec.Limits.Output = 2*roundsWall, sandbox.DefaultCPU, againOutput
	_, err = j.engine.Runner.Run(running, spec, sandbox.IO{Channel: ends[0]})
	<-done
	if errors.Is(context.Cause(running), errLingers) {
		err = nil
	}
	return errors.Join(err, served)
}

// passedTests returns the ids of the tests that passed.
func passedTests(tests []guild.Test) []string {
	var ids []string
	for _, t := range tests {
		if t.State == guild.TestPassed {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// examineAgain runs the tests without the delivery: the examiner is answered as recorded, with changes and with lies.
func (j *examination) examineAgain(ctx context.Context, recording *strength.Recording, passed []string, spec sandbox.Spec, stdin []byte) (strength.Result, error) {
	x := strength.New(strength.Python, strength.Run{Recording: recording, Passed: passed})
	if x.Broken() {
		return x.Result(), nil
	}
	err := j.serve(ctx, x.Serve, spec, stdin)
	return x.Result(), err
}
