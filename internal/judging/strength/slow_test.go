package strength

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"guild"
)

// slowTests are one test of four answers, which took a second for each when it was recorded.
func slowTests(t *testing.T) (tests map[string][]string, x *Examination) {
	tests = map[string][]string{"computes": {"add 1 2 3", "add 2 3 5", "add 7 1 8", "add 4 5 9"}}
	r, passed := recorded(t, tests, "computes")
	at := time.Duration(0)
	for i := range r.frames {
		if f, err := parse(r.frames[i].raw); err == nil && f.kind == answer && r.frames[i].subject {
			at += time.Second
		}
		r.frames[i].at = at
	}
	r.took = at
	return tests, New(Python, Run{Recording: r, Passed: passed})
}

// inRounds runs the tests in one process, which is ended at its first question if it is short of time. It returns the longest time
// that it was given.
func inRounds(t *testing.T, x *Examination, tests map[string][]string, short bool) (longest time.Duration) {
	examiner, judge := pair(t)
	by := byItself(judge)
	by.Gives = func(d time.Duration) { longest = max(longest, d) }
	by.Short = func() bool { return short }
	served := make(chan error)
	go func() { served <- errors.Join(x.Rounds(0, by), judge.Close()) }()
	c := &customer{t: t, conn: examiner}
	if short {
		c.ask("import", "m", false)
		c.ask(opTest, "computes")
		examiner.Close()
	} else {
		c.rounds(tests, new(int), "computes")
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	return longest
}

func TestSlowReplayHasMoreTimeOnce(t *testing.T) {
	tests, x := slowTests(t)
	first, second := inRounds(t, x, tests, true), time.Duration(0)
	if first < 8*time.Second || !x.Left(0) || x.Progress() != 1 {
		t.Fatalf("given %v, left %t, progress %d; want more than it took, and a second time", first, x.Left(0), x.Progress())
	}
	for processes := 0; x.Left(0) && processes < 10; processes++ {
		second = max(second, inRounds(t, x, tests, false))
	}
	if p := x.Result().Tests["computes"]; p.Strength != guild.Strong || second <= first {
		t.Errorf("%s (%s), given %v, then %v; want strong, with more time", p.Strength, p.Because, first, second)
	}
}

func TestSlowReplayIsGivenUp(t *testing.T) {
	tests, x := slowTests(t)
	for range 2 {
		inRounds(t, x, tests, true)
	}
	if p := x.Result().Tests["computes"]; x.Left(0) || p.Strength != guild.Weak || !strings.Contains(p.Because, "the time was not enough") {
		t.Errorf("%s (%s), left %t; want weak for want of time, and nothing left", p.Strength, p.Because, x.Left(0))
	}
}

func TestSlowForksHaveMoreTimeOnce(t *testing.T) {
	for late, want := range []guild.Strength{guild.Strong, guild.Strong, guild.Weak} {
		tests := map[string][]string{"computes": {"add 1 2 3", "add 2 3 5"}}
		r, passed := recorded(t, tests, "computes")
		x := New(Python, Run{Recording: r, Passed: passed})
		examiner, judge := pair(t)
		served := make(chan error)
		go func() { served <- x.Serve(byItself(judge)) }()
		c := &customer{t: t, conn: examiner}
		c.ask("import", "m", false)
		c.ask(opTest, "computes")
		var patience []int64
		for range late {
			given, _ := c.ask(opAgain, "computes")
			ms, _ := integer(given)
			patience = append(patience, ms)
			c.ask(opDied, "computes", true)
		}
		c.apart(tests, "computes")
		examiner.Close()
		if err := <-served; err != nil || !slices.IsSorted(patience) || len(slices.Compact(patience)) != late {
			t.Fatal(err, patience)
		}
		if p := x.Result().Tests["computes"]; p.Strength != want || want == guild.Weak && !strings.Contains(p.Because, "the time was not enough") {
			t.Errorf("%d times late: %s (%s), want %s", late, p.Strength, p.Because, want)
		}
	}
}
