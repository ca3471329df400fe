package meet

import (
	"testing"
	"testing/quick"

	"guild"
)

// Results of runs.
var (
	well    = Result{Outcome: guild.Success, Score: 950_000, Closed: 1}
	fairly  = Result{Outcome: guild.Success, Score: 800_000, Closed: 1}
	slowly  = Result{Outcome: guild.Success, Score: 799_999, Closed: 1}
	partly  = Result{Outcome: guild.Partial, Score: 900_000, Closed: 1}
	barely  = Result{Outcome: guild.Partial, Score: 600_000, Closed: 1}
	badly   = Result{Outcome: guild.Partial, Score: 599_999, Closed: 1}
	failed  = Result{Outcome: guild.Failure, Score: 300_000, Closed: 1}
	crashed = Result{Outcome: guild.Error, Score: 700_000, Closed: 1}
	broke   = Result{Outcome: guild.Violation, Cause: "connect", Closed: 1}
	silent  = Result{Ending: guild.JobTimedOut, Cause: "no answer", Closed: 1}
	refused = Result{Ending: guild.JobUnclaimed, Heard: true, Cause: "at capacity", Closed: 1}
	astray  = Result{Ending: guild.JobUnclaimed, Heard: true, Failed: true, Closed: 1}
)

// TestConclude covers the table of section 3.2.3 of the partnership protocol, the mixes that it does not mention, and
// the limits of section 3.2.1.
func TestConclude(t *testing.T) {
	for _, c := range []struct {
		name  string
		runs  []Result
		over  bool
		to    guild.ProviderState
		score guild.Score
	}{
		{"no runs", nil, false, "", 0},
		{"one success is provisional", []Result{well}, false, "", 0},
		{"two successes are provisional", []Result{well, well}, false, "", 0},
		{"three consecutive successes are active at once", []Result{well, fairly, well}, true, guild.Active, 950_000},
		{"two successes and one partial are extended to five", []Result{well, partly, well}, false, "", 0},
		{"four runs decide nothing", []Result{well, partly, well, well}, false, "", 0},
		{"five runs with most successes are active", []Result{well, partly, well, well, failed}, true, guild.Active, 950_000},
		{"five runs with fewer are conditional", []Result{well, partly, well, partly, failed}, true, guild.Conditional, 900_000},
		{"one success and two failures are conditional", []Result{failed, well, failed}, true, guild.Conditional, 300_000},
		{"three consecutive failures are rejected", []Result{failed, crashed, badly}, true, guild.Unqualified, 599_999},
		{"two successes and one failure are extended", []Result{well, failed, well}, false, "", 0},
		{"one of each is extended", []Result{well, partly, failed}, false, "", 0},
		{"three partial ones are extended", []Result{partly, partly, partly}, false, "", 0},
		{"five partial ones are conditional, however good", []Result{partly, partly, partly, partly, partly}, true, guild.Conditional, 900_000},
		{"one success and two partial ones are extended", []Result{well, barely, barely}, false, "", 0},
		{"two failures and one partial are extended", []Result{failed, failed, partly}, false, "", 0},
		{"rejected by the median", []Result{failed, failed, partly, failed, well}, true, guild.Unqualified, 300_000},
		{"0.6 is conditional", []Result{barely, failed, barely, failed, well}, true, guild.Conditional, 600_000},
		{"less than 0.6 is rejected", []Result{badly, badly, partly, badly, well}, true, guild.Unqualified, 599_999},
		{"a success below 0.8 does not count", []Result{slowly, slowly, slowly}, false, "", 0},
		{"successes below 0.8 end as conditional", []Result{slowly, slowly, slowly, well, well}, true, guild.Conditional, 799_999},
		{"a violation ends it at once", []Result{broke}, true, guild.Removed, 0},
		{"a violation after successes", []Result{well, well, broke}, true, guild.Removed, 0},
		{"no answer ends it without anything learned", []Result{silent}, true, "", 0},
		{"no answer after successes", []Result{well, well, silent}, true, "", 0},
		{"a refusal ends it without anything learned", []Result{well, refused}, true, "", 0},
		{"an answer that is not as agreed is a failure", []Result{astray, astray, astray}, true, guild.Unqualified, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, over := Conclude(c.runs, usual)
			if over != c.over || got.To != c.to || got.Score != c.score {
				t.Errorf("%+v %v, want %q with %s %v", got, over, c.to, c.score, c.over)
			}
			if over && got.Cause == "" {
				t.Error("no cause")
			}
		})
	}
}

func TestConcludeEnough(t *testing.T) {
	for _, c := range []struct {
		name string
		runs []Result
		over bool
		to   guild.ProviderState
	}{
		{"a success makes an active partner", []Result{well}, true, guild.Active},
		{"one failure is not enough", []Result{failed}, false, ""},
		{"three failures reject", []Result{failed, failed, failed}, true, guild.Unqualified},
		{"a success after a failure comes too late", []Result{failed, well}, false, ""},
		{"a partial one is extended", []Result{partly}, false, ""},
		{"a partial one before a success is extended", []Result{partly, well}, false, ""},
		{"to five, and the median decides", []Result{partly, well, well, well, failed}, true, guild.Active},
		{"a violation removes", []Result{broke}, true, guild.Removed},
		{"nothing is learned from silence", []Result{silent}, true, ""},
	} {
		if got, over := Conclude(c.runs, 1); over != c.over || got.To != c.to {
			t.Errorf("%s: %+v %v", c.name, got, over)
		}
	}
}

func TestMeetingLength(t *testing.T) {
	all := []Result{well, slowly, partly, barely, badly, failed, crashed, astray}
	holds := func(draw [5]uint8) bool {
		var runs []Result
		for i := range extended {
			if _, over := Conclude(runs, usual); over && i < usual {
				return false
			}
			runs = append(runs, all[int(draw[i])%len(all)])
		}
		c, over := Conclude(runs, usual)
		known := c.To == guild.Active || c.To == guild.Conditional || c.To == guild.Unqualified
		return over && known
	}
	if err := quick.Check(holds, nil); err != nil {
		t.Error(err)
	}
}
