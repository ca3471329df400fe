package exam

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/strength"
)

// Limits of running the tests again.
const (
	againWall   = 60 * time.Second
	againOutput = 8 << 20
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
	for i := range f.Tests {
		t := &f.Tests[i]
		if t.State == guild.TestPassed {
			t.Strength, t.Because = res.Tests[t.ID].Strength, cut(res.Tests[t.ID].Because)
		}
	}
	f.Unproven, f.carried = res.Unproven, res.Carried
	f.Strength, f.Because = res.Carried(passed)
	return nil
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
	x := strength.New(recording, passed)
	if x.Broken() {
		return x.Result(), nil
	}
	err := j.serve(ctx, x, spec, stdin)
	return x.Result(), err
}
