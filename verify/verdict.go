package verify

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"guild"
	"guild/canon"
	"guild/oa"
)

// verdict has the fields of a verdict (docs/JUDGE.md) that are checked. The hash covers the others.
type verdict struct {
	Outcome     guild.Outcome        `json:"outcome"`
	Cause       string               `json:"cause"`
	Score       guild.Score          `json:"score_micro"`
	Strength    guild.Strength       `json:"strength"`
	Strengths   *strengths           `json:"strengths"`
	Hidden      few[commitment]      `json:"hidden"`
	Expected    int64                `json:"expected"`
	Passed      int64                `json:"passed"`
	Tests       few[test]            `json:"tests"`
	Dimensions  few[guild.Dimension] `json:"dimensions"`
	Standing    guild.Standing       `json:"standing"`
	Speed       guild.Speed          `json:"speed"`
	Annotations few[string]          `json:"annotations"`
	Quality     *quality             `json:"quality"`
	Ruling      *struct{}            `json:"ruling"`
	Opinion     *struct{}            `json:"opinion"`
	Box         *box                 `json:"box"`
	Breaches    few[struct{}]        `json:"violations"`
	Usage       usage                `json:"usage"`
	Evidence    string               `json:"evidence"`

	typed bool // the task is an OpenAgents job type
}

type test struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Layer string `json:"layer"`

	Strength guild.Strength `json:"strength"`
	Exposure guild.Exposure `json:"exposure"`
	Blame    guild.Blame    `json:"blame"`
}

// commitment is the hash that a hidden test was promised by.
type commitment struct {
	Path string `json:"path"`
	Hash string `json:"hash"`
}

type quality struct {
	Pylint   int64       `json:"pylint_milli"`
	Linted   bool        `json:"linted"`
	Lines    guild.Score `json:"lines_micro"`
	Branches guild.Score `json:"branches_micro"`
	Covered  bool        `json:"covered"`
	Findings few[notice] `json:"findings"`
}

type notice struct {
	Tool     string `json:"tool"`
	Severity string `json:"severity"`
	File     string `json:"file"`
	Line     int64  `json:"line"`
}

type box struct {
	Memory int64 `json:"memory_bytes"`
}

type usage struct {
	WallMs     int64 `json:"wall_ms"`
	WaitedMs   int64 `json:"waited_ms"`
	MemoryPeak int64 `json:"memory_peak_bytes"`
}

// readVerdict reads the verdict that the receipt names, or returns why there is none.
func (x *export) readVerdict() (verdict, error) {
	b, there := x.files[FileVerdict]
	switch {
	case there && x.receipt.VerdictHash.IsZero():
		return verdict{}, fmt.Errorf("%s is there, and the receipt names none", FileVerdict)
	case x.receipt.VerdictHash.IsZero():
		return verdict{}, absence("nothing was judged")
	case !there:
		return verdict{}, missing(FileVerdict)
	}
	canonical, err := canon.Canonical(b)
	if err != nil {
		return verdict{}, err
	}
	if hash := guild.Sum(canonical); hash != x.receipt.VerdictHash {
		return verdict{}, fmt.Errorf("it is %s, and the receipt says %s", hash, x.receipt.VerdictHash)
	}
	var v verdict
	if err := json.Unmarshal(canonical, &v); err != nil {
		return verdict{}, err
	}
	_, err = oa.ParseID(x.receipt.Task)
	v.typed = err == nil
	return v, nil
}

// whole reports whether the work can only succeed or fail, without PARTIAL. This is so for a typed job, which is
// judged by running it again.
func (v verdict) whole() bool { return v.typed && v.Opinion == nil && len(v.Dimensions) == 1 }

// checkVerdict checks that the verdict is the one that the receipt names and that its fields agree.
func (x *export) checkVerdict() (string, error) {
	if !x.known {
		return "", noReceipt
	}
	if x.unjudged != nil {
		return "", x.unjudged
	}
	v := x.verdict
	if v.Outcome != x.receipt.Outcome {
		return "", fmt.Errorf("its outcome is %.40s, and the receipt's %.40s", v.Outcome, x.receipt.Outcome)
	}
	if err := v.sameInReceipt(x.receipt); err != nil {
		return "", err
	}
	for _, rule := range []func(verdict) error{
		verdict.checkCounts, verdict.checkStrength, verdict.checkOutcome, verdict.checkDimensions, verdict.checkScore, verdict.checkPraise,
	} {
		if err := rule(v); err != nil {
			return "", err
		}
	}
	by := ""
	switch {
	case v.Ruling != nil:
		by = ", as a person ruled"
	case v.Opinion != nil:
		by = ", by an opinion"
	}
	return fmt.Sprintf("%s%s, %d of %d tests, score %s", v.Outcome, by, v.Passed, v.Expected, v.Score), nil
}

// tally counts tests.
type tally struct{ passed, expected int64 }

func (t tally) whole() bool { return t.expected > 0 && t.passed == t.expected }

// share returns the part that passed, in millionths, rounded down.
func (t tally) share() guild.Score {
	if t.expected == 0 {
		return 0
	}
	return guild.Score(t.passed * guild.Micro / t.expected)
}

// tallies counts the tests by their effect on the verdict.
type tallies struct{ smoke, functional, side, performance tally }

// count sorts the tests by layer. If none is functional, all count as functional; so do those of a verdict that lists
// no tests. A test that did not pass by no fault of the delivery does not count.
func (v verdict) count() (t tallies) {
	all := tally{v.Passed, v.Expected}
	excused := false // a functional test
	for _, one := range v.Tests {
		if one.excused() {
			all.expected--
			excused = excused || !one.beside()
			continue
		}
		into := []*tally{&t.functional}
		switch one.Layer {
		case guild.LayerSmoke:
			into = append(into, &t.smoke)
		case guild.LayerEdge, guild.LayerSecurity:
			into = []*tally{&t.side}
		case guild.LayerPerformance:
			into = []*tally{&t.performance}
		}
		for _, tests := range into {
			tests.expected++
			if one.State == guild.TestPassed {
				tests.passed++
			}
		}
	}
	if t.functional.expected == 0 && !excused {
		t.functional = all
	}
	return t
}

func (v verdict) checkCounts() error {
	const most = 1 << 31 // more than any real verdict has, and too few to overflow
	if v.Passed < 0 || v.Passed > v.Expected || v.Expected > most {
		return fmt.Errorf("%d of %d tests cannot have passed", v.Passed, v.Expected)
	}
	if len(v.Tests) == 0 {
		return nil
	}
	var all tally
	for _, one := range v.Tests {
		all.expected++
		if one.State == guild.TestPassed {
			all.passed++
		}
	}
	if (all != tally{v.Passed, v.Expected}) {
		return fmt.Errorf("it says %d of %d tests, and lists %d of %d", v.Passed, v.Expected, all.passed, all.expected)
	}
	return nil
}

// checkOutcome compares the outcome with the tests, if the tests decide it.
func (v verdict) checkOutcome() error {
	if (v.Outcome == guild.Success) != (v.Cause == "") {
		return fmt.Errorf("an outcome of %.40s with the cause %.80q", v.Outcome, v.Cause)
	}
	if (v.Outcome == guild.Violation) != (len(v.Breaches) > 0) {
		return fmt.Errorf("an outcome of %.40s with %d violations", v.Outcome, len(v.Breaches))
	}
	switch v.Outcome {
	case guild.Success, guild.Partial, guild.Failure:
	case guild.Error, guild.Violation:
		if v.Ruling != nil || v.Opinion != nil {
			return fmt.Errorf("a verdict %.40s cannot be a ruling", v.Outcome)
		}
		return nil
	default:
		return fmt.Errorf("an outcome of %.40q", v.Outcome)
	}
	if v.Ruling != nil || v.Opinion != nil {
		return nil
	}
	want := v.count().outcome()
	if v.whole() && want == guild.Partial {
		want = guild.Failure
	}
	if v.Outcome != want {
		return fmt.Errorf("its outcome is %s, and of its tests it would be %s", v.Outcome, want)
	}
	return nil
}

// outcome returns the outcome of tests that ran to their end.
func (t tallies) outcome() guild.Outcome {
	switch {
	case t.smoke.passed < t.smoke.expected:
		return guild.Failure
	case t.functional.whole():
		return guild.Success
	case t.functional.expected > 0 && t.functional.passed*100 >= t.functional.expected*80:
		return guild.Partial
	default:
		return guild.Failure
	}
}

// weights are the dimensions in their order, with their weights in percent.
var weights = []struct {
	name   string
	weight int64
}{{"correctness", 50}, {"performance", 25}, {"resources", 15}, {"quality", 10}}

// checkDimensions checks the dimensions of the score as far as the verdict itself determines them: four of them, or
// one for an opinion or a typed job. checkPace checks performance, because its baseline is in the evidence.
func (v verdict) checkDimensions() error {
	want := len(weights)
	if v.Opinion != nil || v.whole() {
		want = 1
	}
	if len(v.Dimensions) != want && len(v.Dimensions) != 0 {
		return fmt.Errorf("%d dimensions, and there are %d", len(v.Dimensions), want)
	}
	tests := v.count()
	for i, d := range v.Dimensions {
		if d.Name != weights[i].name || d.Weight != weights[i].weight || d.Value < 0 || d.Value > guild.Micro {
			return fmt.Errorf("dimension %d is %.40q of %d %% with %d", i+1, d.Name, d.Weight, d.Value)
		}
		var value guild.Score
		known := d.Known
		switch d.Name {
		case "correctness":
			value, known = v.correctness(tests)
			if v.Ruling != nil && v.Outcome == guild.Partial && tests.functional.expected == 0 && d.Value == guild.Micro/2 {
				value = d.Value // a part of what no test measured
			}
		case "performance":
			value = d.Value
		case "resources":
			if value = d.Value; value != 0 && (value != guild.Micro || !d.Known) {
				return fmt.Errorf("resources of %d", value)
			}
		case "quality":
			value, known = v.Quality.value(tests.side)
		}
		if d.Value != value || d.Known != known {
			return fmt.Errorf("%s is %d (known: %t), and it would be %d (%t)", d.Name, d.Value, d.Known, value, known)
		}
	}
	return nil
}

// correctness returns the value that the dimension correctness must have, and whether it is known. It is the score of
// an opinion, 0 or 1 by the outcome of a ruling, and otherwise the share of functional tests that passed. A typed job
// has no partial correctness.
func (v verdict) correctness(tests tallies) (guild.Score, bool) {
	switch {
	case v.Opinion != nil:
		return v.Score, true
	case v.whole() && v.Outcome != guild.Success && (v.Ruling == nil || v.Outcome == guild.Partial):
		if v.Passed == v.Expected && v.Ruling != nil {
			return guild.Micro, true
		}
		return 0, true
	case v.Ruling == nil || v.Outcome == guild.Partial:
		return tests.functional.share(), v.Ruling != nil || tests.functional.expected > 0
	case v.Outcome == guild.Success:
		return guild.Micro, true
	default:
		return 0, true
	}
}

// value returns the quality: pylint's grade (at most 0.5 if it is below 7), minus the cost of the findings, times the
// share of edge and security tests that passed.
func (q *quality) value(side tally) (value guild.Score, known bool) {
	linted := q != nil && q.Linted
	if !linted && side.expected == 0 {
		return 0, false
	}
	value = guild.Micro
	if linted {
		grade := min(max(q.Pylint, 0), 10_000)
		value = guild.Score(grade * 100)
		if grade < 7_000 {
			value = min(value, guild.Micro/2)
		}
	}
	if q != nil {
		value = max(0, value-q.cost())
	}
	if side.passed < side.expected {
		value = guild.Score(int64(value) * side.passed / side.expected)
	}
	return value, true
}

// cost returns the cost of the findings of bandit and of patterns. Each place counts once, with its most severe
// finding.
func (q *quality) cost() (sum guild.Score) {
	costs := map[string]guild.Score{"high": guild.Micro / 5, "medium": guild.Micro / 10, "low": guild.Micro / 50}
	type place struct {
		file string
		line int64
	}
	worst := map[place]guild.Score{}
	for _, n := range q.Findings {
		if n.Tool == "bandit" || n.Tool == "pattern" {
			at := place{n.File, n.Line}
			worst[at] = max(worst[at], costs[n.Severity])
		}
	}
	for _, c := range worst {
		sum += c
	}
	return sum
}

// checkScore checks that the score is the weighted mean of the known dimensions, and that the standing follows from
// it.
func (v verdict) checkScore() error {
	if v.Score < 0 || v.Score > guild.Micro {
		return fmt.Errorf("a score of %d", v.Score)
	}
	if v.Outcome == guild.Violation && v.Score != 0 {
		return fmt.Errorf("a score of %d for a violation", v.Score)
	}
	if len(v.Dimensions) == 0 && v.Ruling == nil && v.Opinion == nil && v.Score != v.count().functional.share() {
		return fmt.Errorf("its score is %d, and of its tests it would be %d", v.Score, v.count().functional.share())
	}
	if len(v.Dimensions) > 0 {
		var sum, known int64
		for _, d := range v.Dimensions {
			if d.Known {
				sum, known = sum+d.Weight*int64(d.Value), known+d.Weight
			}
		}
		if known > 0 {
			sum /= known
		}
		if v.Outcome == guild.Violation {
			sum = 0
		}
		if v.Score != guild.Score(sum) {
			return fmt.Errorf("its score is %d, and of its dimensions it would be %d", v.Score, sum)
		}
	}
	if want := v.standing(); v.Standing != want && (v.Standing != "" || len(v.Dimensions) > 0) {
		return fmt.Errorf("its standing is %.40q, and it would be %q", v.Standing, want)
	}
	return nil
}

// standing returns the standing that follows from the score, the outcome and the smoke tests.
func (v verdict) standing() guild.Standing {
	tests := v.count()
	switch {
	case v.Ruling == nil && v.Opinion == nil && tests.smoke.passed < tests.smoke.expected:
		return guild.StandingRejected
	case v.Score >= guild.ActiveFrom && v.Outcome == guild.Success:
		return guild.StandingActive
	case v.Score >= guild.ConditionalFrom:
		return guild.StandingConditional
	default:
		return guild.StandingRejected
	}
}

// checkPraise checks the speed class and the annotations as far as the verdict determines them. A ruling does not
// change them, so with a ruling they are not checked.
//
// Of the annotations of a success it checks two: efficient means that the memory peak is below 80 % of the limit,
// thorough that the coverage of lines and of branches is over 90 %. The others depend on latencies, which the verdict
// does not have.
func (v verdict) checkPraise() error {
	tests := v.count().performance
	ended := v.Outcome == guild.Success || v.Outcome == guild.Partial
	switch v.Speed {
	case guild.Fast, guild.Steady, guild.Slow, "":
	default:
		return fmt.Errorf("a speed of %.40q", v.Speed)
	}
	switch {
	case v.Ruling != nil:
		return nil
	case (v.Speed != "") != (ended && tests.expected > 0):
		return fmt.Errorf("a speed of %q with %d performance tests", v.Speed, tests.expected)
	case v.Speed != "" && v.Speed != guild.Slow && tests.passed*100 < tests.expected*80, v.Speed == guild.Fast && !tests.whole():
		return fmt.Errorf("a speed of %s with %d of %d performance tests", v.Speed, tests.passed, tests.expected)
	}
	const thoroughFrom = 9 * guild.Micro / 10
	said := map[string]bool{}
	for _, a := range v.Annotations {
		said[a] = true
	}
	success := v.Outcome == guild.Success
	if len(v.Annotations) > 0 && !success {
		return errors.New("annotations without a success")
	}
	efficient := success && v.Box != nil && v.Usage.MemoryPeak > 0 && v.Usage.MemoryPeak < v.Box.Memory/10*8
	thorough := success && v.Quality != nil && v.Quality.Covered && v.Quality.Lines > thoroughFrom && v.Quality.Branches > thoroughFrom
	if said["efficient"] != efficient || said["thorough"] != thorough {
		return errors.New("efficient or thorough does not follow from what was measured")
	}
	return nil
}
