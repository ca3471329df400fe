package review

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"guild"
	"guild/nipreview"
)

// enough is the number of verdicts from which on a text mentions their share.
const enough = 3

// wavering limits the 95th percentile of latency, in medians. Above it, a review says that latency varies.
const wavering = 2

// figures holds the numbers that a text is written from. All were counted or measured by this node. Text of the
// provider never gets into a review.
type figures struct {
	line
	rating   guild.Trust
	alert    bool
	p50, p95 int64 // ms; 0 if not measured
}

// content writes the text of a review (section 4.3.2.4).
func (f figures) content() nipreview.Content {
	c := nipreview.Content{
		Summary: f.summary(), Strengths: f.strengths(), Weaknesses: f.weaknesses(), Recommendation: f.recommendation(),
		Metrics: nipreview.Metrics{Extra: map[string]json.RawMessage{}},
	}
	if score, ok := f.score(); ok {
		c.Metrics.TestScore = &score
	}
	if f.p50 > 0 {
		c.Metrics.LatencyP50Ms, c.Metrics.LatencyP95Ms = &f.p50, &f.p95
	}
	for name, n := range map[string]int{
		"judged": f.Tally.judged(), "passed": f.Tally.Passed, "timeouts": f.Tally.Expired, "violations": f.Tally.Violated,
	} {
		c.Metrics.Extra[name] = json.RawMessage(strconv.Itoa(n))
	}
	if p := f.Proof; p != nil {
		c.Evidence = nipreview.Evidence{Receipt: p.Receipt, ReceiptHash: p.Stored, VerdictHash: p.Verdict}
	}
	return c
}

// score returns the mean score of all verdicts, or the score of the latest meeting if there are none.
func (f figures) score() (guild.Score, bool) {
	if n := f.Tally.judged(); n > 0 {
		return f.Tally.Scores / guild.Score(n), true
	}
	if f.Concluded != nil {
		return f.Concluded.Score, true
	}
	return 0, false
}

func (f figures) summary() string {
	var s strings.Builder
	if f.alert {
		s.WriteString("ALERT: security violation. Its delivery tried to escape from the sandbox or to reach out of it. ")
	}
	n := f.Tally.judged()
	switch {
	case n > 0:
		fmt.Fprintf(&s, "%s: %d of %s passed every test", f.grade(), f.Tally.Passed, deliveries(n))
	default:
		s.WriteString(f.grade())
	}
	if c := f.Concluded; c != nil {
		fmt.Fprintf(&s, "; the latest benchmark of %s had a median score of %s", runs(c.Runs), c.Score)
	}
	if f.wavers() {
		s.WriteString("; latency varies")
	}
	if f.Tally.Expired > 0 {
		fmt.Fprintf(&s, "; %s without an answer in time", requests(f.Tally.Expired))
	}
	s.WriteString(".")
	return s.String()
}

// grade returns the rating in words.
func (f figures) grade() string {
	switch {
	case f.Tally.Violated > 0:
		return "Unsafe"
	case !f.Met && f.Concluded != nil && f.Concluded.To == guild.Unqualified:
		return "Did not qualify"
	case f.rating >= 800_000:
		return "Reliable"
	case f.rating >= 600_000:
		return "Mostly reliable"
	case f.rating >= 300_000:
		return "Unproven or uneven"
	}
	return "Unreliable"
}

func (f figures) strengths() (list []string) {
	t := f.Tally
	n := t.judged()
	if n >= enough && t.Passed*100 >= n*95 {
		list = append(list, fmt.Sprintf("Consistent correctness: %d of %s passed every test", t.Passed, deliveries(n)))
	}
	if n >= enough && t.Expired == 0 {
		list = append(list, "Answered every request in time")
	}
	if n >= enough && f.p50 > 0 && !f.wavers() {
		list = append(list, fmt.Sprintf("Steady latency: p95 %s ms, p50 %s ms", strconv.FormatInt(f.p95, 10), strconv.FormatInt(f.p50, 10)))
	}
	return list
}

func (f figures) weaknesses() (list []string) {
	t := f.Tally
	n := t.judged()
	say := func(count int, format string, args ...any) {
		if count > 0 {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	say(t.Violated, "%s with a security violation", deliveries(t.Violated))
	if f.wavers() {
		list = append(list, fmt.Sprintf("p95 latency %sx p50", tenths(f.p95, f.p50)))
	}
	say(t.Failed, "%d of %s failed the tests", t.Failed, deliveries(n))
	say(t.Crashed, "%d of %s crashed or ran over a limit", t.Crashed, deliveries(n))
	say(t.Partial, "%d of %s passed only some of the tests", t.Partial, deliveries(n))
	say(t.Expired, "%s without an answer in time", requests(t.Expired))
	say(t.Faults, "%d answers that broke the protocol", t.Faults)
	return list
}

func (f figures) recommendation() string {
	switch {
	case f.Tally.Violated > 0:
		return "Not recommended for any work"
	case f.rating >= 800_000 && f.wavers():
		return "Recommended for non-latency-critical workloads"
	case f.rating >= 800_000:
		return "Recommended"
	case f.rating >= 500_000:
		return "Usable where results are checked"
	case f.rating >= 300_000:
		return "Only for work on which nothing depends"
	}
	return "Not recommended"
}

// wavers reports whether the slowest answers take much longer than the usual ones.
func (f figures) wavers() bool { return f.p50 > 0 && f.p95 > wavering*f.p50 }

// tenths returns a/b with one digit after the point, rounded.
func tenths(a, b int64) string {
	n := (a*10 + b/2) / b
	return fmt.Sprintf("%d.%d", n/10, n%10)
}

func deliveries(n int) string { return plural(n, "delivery", "deliveries") }
func requests(n int) string   { return plural(n, "request", "requests") }
func runs(n int) string       { return plural(n, "run", "runs") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
