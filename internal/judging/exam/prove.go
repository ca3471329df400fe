package exam

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/strength"
)

// Limits of running the tests again.
const (
	againWall   = 60 * time.Second // of a criterion's tests that an examiner forks for
	againOutput = 8 << 20
	againTimes  = 40 // as long as the recorded run, if that is more
	againMost   = 10 * time.Minute

	roundsWall = 120 * time.Second // of a criterion's rounds together
	roundStart = 30 * time.Second  // of an examiner, until its first test
	patience   = 5 * time.Second   // for one run of a test
)

// errShort is the cause of stopping an examiner whose test takes too long.
var errShort = errors.New("the time was not enough")

// enough returns how long tests may run again that took so long once.
func enough(least, took time.Duration) time.Duration {
	return max(least, min(againTimes*took, againMost))
}

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
	var took time.Duration
	for _, r := range again {
		took += r.Recording.Took()
		for _, id := range passed {
			r.Passed = append(r.Passed, known(id))
		}
		runs = append(runs, r.Run)
	}
	x := strength.New(l, runs...)
	bounded, stop := context.WithTimeoutCause(ctx, enough(roundsWall, took), errShort)
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
	Rounds(run int, by strength.Examiner) error
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
	spec.Limits.Wall = 2 * againMost // ctx ends earlier
	return j.serve(ctx, spec, nil, roundStart, func(by strength.Examiner) error { return x.Rounds(run, by) })
}

// serve runs tests without the delivery, and lets something else answer them. The process is ended if it says nothing of its tests
// for as long as silence, or for what it is given later.
func (j *examination) serve(ctx context.Context, spec sandbox.Spec, stdin []byte, silence time.Duration, answers func(strength.Examiner) error) error {
	ends, err := channelPair()
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var served error
	var res sandbox.Result
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		late := time.AfterFunc(silence, func() { cancel(errShort) })
		defer late.Stop()
		by := strength.Examiner{Conn: ends[1], Patience: cmp.Or(j.engine.patience, patience), Gives: func(d time.Duration) { late.Reset(d) }}
		by.Short = func() bool {
			cancel(errLingers)
			<-ended
			return errors.Is(context.Cause(running), errShort) || res.Killed == sandbox.KilledCPU || res.Killed == sandbox.KilledWall
		}
		served = errors.Join(answers(by), ends[1].Close())
		cancel(errLingers) // what it still does is for nobody
	}()
	spec.Limits.CPU, spec.Limits.Output = sandbox.DefaultCPU, againOutput
	res, err = j.engine.Runner.Run(running, spec, sandbox.IO{Stdin: bytes.NewReader(stdin), Channel: ends[0]})
	close(ended)
	<-done
	if cause := context.Cause(running); errors.Is(cause, errLingers) || errors.Is(cause, errShort) {
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
	wall := enough(againWall, recording.Took())
	for range 2 { // once more, where that was not enough
		spec.Limits.Wall = wall
		if err := j.serve(ctx, spec, stdin, wall, x.Serve); err != nil {
			return x.Result(), err
		}
		if !x.Left(0) {
			break
		}
		wall *= 2
	}
	return x.Result(), nil
}
