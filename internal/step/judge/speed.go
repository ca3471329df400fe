package judge

import (
	"time"

	"guild"
)

// The annotations of a verdict (the partnership protocol, section 3.2.2).
const (
	Fast      = "fast"      // the median latency is below 75 % of the task's
	Reliable  = "reliable"  // the 95th percentile of the latency is below the task's
	Efficient = "efficient" // the memory peak is below 80 % of the limit
	Thorough  = "thorough"  // more than 90 % of the lines and branches were run by the tests
)

// thoroughFrom is the coverage that Thorough must exceed.
const thoroughFrom = 9 * guild.Micro / 10

// reference holds the times by which performance tests are classified.
type reference struct {
	runMs      int64 // time of the judged run
	waitedMs   int64 // of that, in which the machine had too few processors
	baselineMs int64 // usual for the task; 0 if unknown

	testsUs int64 // time of the performance tests in microseconds; 0 if not measured
	limitUs int64 // the time limit of the criteria, in microseconds
}

// speed returns the class of a delivery by its performance tests, or "" if there are none. SLOW: fewer than 80 % of
// them passed, or the run took more than 150 % of the baseline, without what it can have waited for the machine. FAST: all passed, in at most 75 % of the baseline or,
// without one, in at most half of the time limit.
func speed(tests tally, r reference) guild.Speed {
	switch {
	case tests.expected == 0:
		return ""
	case tests.passed*100 < tests.expected*80:
		return guild.Slow
	case r.baselineMs > 0 && (r.runMs-r.waitedMs)*2 > r.baselineMs*3:
		return guild.Slow
	case !tests.whole():
		return guild.Steady
	case r.baselineMs > 0 && r.runMs*4 <= r.baselineMs*3:
		return guild.Fast
	case r.baselineMs == 0 && r.testsUs > 0 && r.testsUs*2 <= r.limitUs:
		return guild.Fast
	default:
		return guild.Steady
	}
}

// Punctual returns which of Fast and Reliable one provider's latencies earn, compared with those of all in the task.
func Punctual(latencies []time.Duration, b Baseline) []string {
	if len(latencies) == 0 || !b.Known() {
		return nil
	}
	var ms []int64
	for _, l := range latencies {
		ms = append(ms, l.Milliseconds())
	}
	own := distribution(ms)
	var notes []string
	if own.Median*4 < b.Latency.Median*3 {
		notes = append(notes, Fast)
	}
	if own.P95 < b.Latency.P95 {
		notes = append(notes, Reliable)
	}
	return notes
}

// efficient reports whether a run used less than 80 % of its memory limit.
func efficient(peak, limit int64) bool { return peak > 0 && limit > 0 && peak < limit/10*8 }

// thorough reports whether the tests ran more than 90 % of the lines and of the branches.
func thorough(q *guild.Quality) bool {
	return q != nil && q.Covered && q.Lines > thoroughFrom && q.Branches > thoroughFrom
}
