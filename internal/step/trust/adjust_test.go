package trust

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// numbers returns the numbers of the specification.
// numbers returns the specification's numbers, in which all changes for a task share the day's limit. The tests add them up;
// those in daily_test.go have the limit of a service.
func numbers() policy.Trust {
	p := policy.Specification().Trust
	p.DailyOf = policy.OfTask
	return p
}

// at returns a standing that no limit has held back: the average equals the trust.
func at(t guild.Trust, runs int) State {
	return State{Standing: Standing{Trust: t, EMA: t, Runs: runs, Met: true, Samples: 20}}
}

// ahead returns a standing whose average differs from the trust, because a limit held trust back.
func ahead(t, ema guild.Trust) State {
	s := at(t, 0)
	s.EMA = ema
	return s
}

func spent(t guild.Trust, s State) State { s.Spent = t; return s }

func won(s guild.Score) Evidence { return Evidence{Pattern: success, Score: s} }

func lost(pattern string) Evidence { return Evidence{Pattern: pattern} }

func of(class string, e Evidence) Evidence { e.Class = class; return e }

// within changes e to a delivery after ms where 1,000 ms are usual.
func within(ms int64, e Evidence) Evidence { e.LatencyMs, e.BaselineMs = ms, 1000; return e }

// The expected numbers apply sections 5.2.1 and 5.2.2 of the partnership protocol by hand: raw is the formula's result,
// and trust moves to the average 0.3·raw + 0.7·trust (5.2.4).
func TestFormulas(t *testing.T) {
	for _, c := range []struct {
		name   string
		before State
		by     Evidence
		want   guild.Trust
		runs   int
	}{
		// raw = 0.6 + (0.1·(0.9−0.6) + 0.05)·0.9 = 0.672; 0.3·0.672 + 0.7·0.6 = 0.6216
		{"a second success of the highest score", at(600_000, 1), won(1_000_000), 621_600, 2},
		// raw = 0.6 + 0.03·0.9 = 0.627; 0.3·0.627 + 0.42 = 0.6081
		{"a success without the bonus for quality", at(600_000, 1), won(900_000), 608_100, 2},
		{"0.95 is not above 0.95", at(600_000, 1), won(950_000), 608_100, 2},
		// raw = 0.6 + 0.08·1 = 0.68; 0.3·0.68 + 0.42 = 0.624
		{"a success after a failure is not dampened", at(600_000, 0), won(1_000_000), 624_000, 1},
		// 1 − 0.1·5 = 0.5: raw = 0.6 + 0.08·0.5 = 0.64; 0.3·0.64 + 0.42 = 0.612
		{"the sixth success in a row counts half", at(600_000, 5), won(1_000_000), 612_000, 6},
		{"the twentieth success counts half", at(600_000, 19), won(1_000_000), 612_000, 20},
		// raw = 0.88 + (0.1·0.02 + 0.05)·1 = 0.932; 0.3·0.932 + 0.7·0.88 = 0.8956
		{"near the ceiling little is left to win", at(880_000, 0), won(1_000_000), 895_600, 1},
		// raw = 0.95, and 0.3·0.95 + 0.7·0.9 = 0.915, which is over the ceiling
		{"nobody is trusted more than 0.9", at(900_000, 0), won(1_000_000), 900_000, 1},

		// raw = 0.6 + (0.03 + 0.03)·1 = 0.66; 0.198 + 0.42 = 0.618
		{"twice as fast as usual", at(600_000, 0), within(499, won(900_000)), 618_000, 1},
		// raw = 0.6 + (0.03 + 0.05 + 0.03)·1 = 0.71; 0.213 + 0.42 = 0.633
		{"fast and good", at(600_000, 0), within(499, won(1_000_000)), 633_000, 1},
		// raw = 0.6 + 0.03 = 0.63; 0.189 + 0.42 = 0.609
		{"half of the baseline is not below half", at(600_000, 0), within(500, won(900_000)), 609_000, 1},

		// raw = 0.6 − 0.15 = 0.45; 0.3·0.45 + 0.42 = 0.555
		{"a wrong answer", at(600_000, 3), lost("VALIDATION_FAIL"), 555_000, 0},
		// raw = 0.4; 0.12 + 0.42
		{"silence", at(600_000, 3), lost("TIMEOUT"), 540_000, 0},
		// raw = 0.3; 0.09 + 0.42
		{"a violation", at(600_000, 3), lost("SECURITY_VIOLATION"), 510_000, 0},
		// raw = 0.5; 0.15 + 0.42
		{"a crash", at(600_000, 3), lost("ERROR"), 570_000, 0},
		// raw = 0.52; 0.156 + 0.42
		{"part of the work", at(600_000, 3), lost("PARTIAL"), 576_000, 0},
		{"an unknown pattern decays as a wrong answer", at(600_000, 3), lost("MOON"), 555_000, 0},
		// raw = max(0.1, 0.12 − 0.2) = 0.1; 0.03 + 0.084 = 0.114
		{"no formula goes below the floor", at(120_000, 0), lost("TIMEOUT"), 114_000, 0},
		{"nobody is trusted less than 0.1", at(100_000, 0), lost("SECURITY_VIOLATION"), 100_000, 0},

		// The average of 0.3·0.3 + 0.7·0.1 = 0.16 is 0.44 away.
		{"no verdict moves trust by more than 0.2", ahead(600_000, 100_000), lost("SECURITY_VIOLATION"), 400_000, 0},
		// raw = 0.38; 0.3·0.38 + 0.7·0.9 = 0.744 is 0.444 away.
		{"no success moves trust up by more than 0.2", ahead(300_000, 900_000), won(900_000), 500_000, 1},
		// Of 0.3 a day 0.28 are spent, and −0.06 were due.
		{"no task moves by more than 0.3 a day", spent(280_000, at(600_000, 0)), lost("TIMEOUT"), 580_000, 0},
		{"a day that is spent moves nothing", spent(300_000, at(600_000, 0)), lost("TIMEOUT"), 600_000, 0},
		{"an overspent day moves nothing", spent(400_000, at(600_000, 0)), won(1_000_000), 600_000, 1},

		// The average 0.3·0.45 + 0.7·0.8 = 0.695 is above, because a limit held trust back.
		{"a failure never raises trust", ahead(600_000, 800_000), lost("VALIDATION_FAIL"), 600_000, 0},
		{"a success never lowers it", ahead(600_000, 200_000), won(1_000_000), 600_000, 1},
	} {
		got := Adjust(c.before, c.by, numbers())
		if !got.Founded || got.Next.Trust != c.want || got.Next.Runs != c.runs || got.Next.Samples != 21 {
			t.Errorf("%s: %d after %d successes, want %d after %d: %s", c.name, got.Next.Trust, got.Next.Runs, c.want, c.runs, got.Rationale)
		}
	}
}

// Section 5.2.3. Both formulas start from 0.6, after a failure.
func TestClassMultiplier(t *testing.T) {
	for _, c := range []struct {
		class          string
		success, wrong guild.Trust
	}{
		// 0.6 + 0.03·m, and 0.6 − 0.15·m, each averaged with 0.6
		{"", 609_000, 555_000},              // 0.63 and 0.45
		{"benchmark", 609_000, 555_000},     // 1.0
		{"critical-path", 613_500, 532_500}, // 1.5: 0.645 and 0.375
		{"experimental", 605_400, 573_000},  // 0.6: 0.618 and 0.51
		{"background", 607_200, 564_000},    // 0.8: 0.624 and 0.48
		{"financial", 613_500, 532_500},     // 1.5
		{"nobody knows", 609_000, 555_000},
	} {
		up := Adjust(at(600_000, 0), of(c.class, won(900_000)), numbers()).Next.Trust
		down := Adjust(at(600_000, 0), of(c.class, lost(failed)), numbers()).Next.Trust
		if up != c.success || down != c.wrong {
			t.Errorf("%q: %d and %d, want %d and %d", c.class, up, down, c.success, c.wrong)
		}
	}
}

// Section 5.2.4: the average's share of new evidence is one number, and may be another for a class of tasks.
func TestAlphaOfClass(t *testing.T) {
	p := numbers()
	p.Alphas = map[string]guild.Trust{guild.ClassExperimental: 100_000, guild.ClassFinancial: 500_000}
	for _, c := range []struct {
		class          string
		success, wrong guild.Trust
	}{
		{"", 609_000, 555_000},                      // 0.3·0.63 + 0.7·0.6, and 0.3·0.45 + 0.7·0.6
		{guild.ClassCriticalPath, 613_500, 532_500}, // 0.3·0.645 + 0.42, and 0.3·0.375 + 0.42
		{guild.ClassExperimental, 601_800, 591_000}, // 0.1·0.618 + 0.9·0.6, and 0.1·0.51 + 0.54
		{guild.ClassFinancial, 622_500, 487_500},    // 0.5·0.645 + 0.5·0.6, and 0.5·0.375 + 0.3
	} {
		up := Adjust(at(600_000, 0), of(c.class, won(900_000)), p)
		down := Adjust(at(600_000, 0), of(c.class, lost(failed)), p)
		if up.Next.Trust != c.success || down.Next.Trust != c.wrong {
			t.Errorf("%q: %d and %d, want %d and %d: %s", c.class, up.Next.Trust, down.Next.Trust, c.success, c.wrong, up.Rationale)
		}
	}
}

// Section 5.2.2: the formula returns FLOOR_REACHED_SUSPEND if its result is 0.1.
func TestFloorSuspends(t *testing.T) {
	for _, c := range []struct {
		trust guild.Trust
		by    Evidence
		want  bool
	}{
		{300_001, lost("TIMEOUT"), false}, // 0.100001
		{300_000, lost("TIMEOUT"), true},
		{250_000, lost("VALIDATION_FAIL"), true},
		{250_001, lost("VALIDATION_FAIL"), false},
		{400_000, of("financial", lost("TIMEOUT")), true}, // 0.4 − 0.2·1.5
		{100_000, won(900_000), false},
	} {
		got := Adjust(at(c.trust, 0), c.by, numbers())
		if got.Suspends != c.want || got.Suspends != (got.Action == ActionAlert) {
			t.Errorf("%s from %d: suspends %v, %s", c.by.Pattern, c.trust, got.Suspends, got.Action)
		}
	}
}

// Seeds/001 section 3.3.2.
func TestFirstTrust(t *testing.T) {
	for _, c := range []struct {
		name    string
		by      Evidence
		want    guild.Trust
		founded bool
	}{
		{"a perfect delivery in less than half the time is exceptional", within(499, won(1_000_000)), 750_000, true},
		{"0.95 in less than half the time is exceptional", within(499, won(950_000)), 750_000, true},
		{"below 0.95 it is standard, however fast", within(1, won(949_999)), 600_000, true},
		{"in half the time it is standard", within(500, won(1_000_000)), 600_000, true},
		{"without a baseline a perfect delivery is standard", won(1_000_000), 600_000, true},
		{"0.8 is standard", won(800_000), 600_000, true},
		{"below 0.8 is conditional", won(799_999), 450_000, true},
		{"0.6 is conditional", won(600_000), 450_000, true},
		{"below 0.6 founds nothing", won(599_999), 0, false},
		{"a good part is conditional at most", within(1, Evidence{Pattern: partial, Score: 990_000}), 450_000, true},
		{"a poor part founds nothing", Evidence{Pattern: partial, Score: 500_000}, 0, false},
		{"a wrong answer founds nothing", Evidence{Pattern: failed, Score: 790_000}, 0, false},
		{"a violation founds nothing, whatever its score", Evidence{Pattern: violation, Score: 1_000_000}, 0, false},
		{"silence founds nothing", lost("TIMEOUT"), 0, false},
	} {
		got := Adjust(State{Spent: 300_000}, c.by, numbers()) // the daily limit is for changes
		if got.Next.Trust != c.want || got.Next.EMA != c.want || got.Founded != c.founded || got.Next.Met != c.founded {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func resting(s guild.Strength, e Evidence) Evidence { e.Strength = s; return e }

// The formula of a success of 0.97 from 0.6 is 0.1·0.3 + 0.05 = 0.08, and trust moves by 0.3 of what counts of it.
func TestStrengthMovesTrust(t *testing.T) {
	for _, c := range []struct {
		strength guild.Strength
		by       Evidence
		want     guild.Trust
		first    guild.Trust
	}{
		{"", won(970_000), 624_000, 600_000},
		{guild.Strong, won(970_000), 624_000, 600_000},
		{guild.Mixed, won(970_000), 612_000, 450_000},
		{guild.Weak, won(970_000), 606_000, 450_000},
		{guild.Unverified, won(970_000), 600_000, 0},
		{guild.Strong, lost(failed), 555_000, 0},
		{guild.Mixed, lost(failed), 555_000, 0},
		{guild.Weak, lost(failed), 555_000, 0},
		{guild.Unverified, lost(failed), 600_000, 0},
	} {
		e := resting(c.strength, c.by)
		got := Adjust(at(600_000, 0), e, numbers())
		first := Adjust(State{}, e, numbers())
		if got.Next.Trust != c.want || first.Next.Trust != c.first || first.Founded != (c.first > 0) {
			t.Errorf("%s %s: from 0.6 to %d, at first %d: %s", c.by.Pattern, c.strength, got.Next.Trust, first.Next.Trust, got.Rationale)
		}
	}
	got := Adjust(at(600_000, 0), resting(guild.Weak, won(900_000)), numbers()).Rationale
	want := "SUCCESS, score 0.9, weak, success 1 in a row: 0.6 + (0.1 × headroom 0.3) × damping 1 × 0.25 for weak = 0.6075; average 0.3 × 0.6075 + 0.7 × 0.6 = 0.60225; change 0.00225: 0.6 → 0.60225"
	if got != want {
		t.Errorf("%s", got)
	}
}

// moves returns past changes by verdicts, each of 0.01 up or down, from 0.6.
func moves(signs string) (past []Past) {
	now := guild.Trust(600_000)
	for i, sign := range signs {
		p := Past{Seq: uint64(i + 1), At: int64(i + 1), From: now, Pattern: success}
		switch sign {
		case '+':
			now += 10_000
		case '-':
			now, p.Pattern = now-10_000, failed
		}
		p.To = now
		past = append(past, p)
	}
	return past
}

// Section 5.1.3: three reversals in the last ten changes, this one among them, halve it and alert.
func TestOscillationHalvesChange(t *testing.T) {
	for _, c := range []struct {
		past string
		by   Evidence
		want bool
	}{
		{"", won(900_000), false},
		{"+-", won(900_000), false}, // + − +: two
		{"+-+", lost(failed), true}, // + − + −: three
		{"-+-", won(900_000), true},
		{"+-+", won(900_000), false},           // + − + +: two
		{"+0-00+", lost(failed), true},         // a change of 0 does not reverse the direction
		{"+-+-+++++++", won(900_000), false},   // of the last ten + − + + + + + + + +: two
		{"-+-+++++++", lost(failed), true},     // − + + …: and one more
		{"+-+++++++++", lost(failed), false},   // the first turns are more than ten changes ago
		{"+-+-+-+-+-+-", lost(failed), true},   // it has oscillated before
		{"------------", won(900_000), false},  // one
		{"++++++++++++", lost(failed), false},  // one
		{"-++-+++++++++", lost(failed), false}, // long ago
	} {
		s := at(600_000, 0)
		s.Past = moves(c.past)
		got, calm := Adjust(s, c.by, numbers()), Adjust(at(600_000, 0), c.by, numbers())
		want := calm.Next.Trust
		if c.want {
			want = 600_000 + (calm.Next.Trust-600_000)/2 // 0.009 and −0.045 can be halved exactly
		}
		if got.Oscillates != c.want || got.Next.Trust != want || (got.Action == ActionAlert) != c.want {
			t.Errorf("after %q %s: %d, oscillates %v, %s", c.past, c.by.Pattern, got.Next.Trust, got.Oscillates, got.Action)
		}
	}
}

// Section 5.5.3, first row, narrowed to silence and crashes.
func TestContradictionRestoresTrust(t *testing.T) {
	before := func(pattern, rule string, by guild.Trust) State {
		s := at(600_000+by, 0)
		s.Past = []Past{{Seq: 1, From: 600_000, To: 600_000 + by, Pattern: pattern, Rule: rule}}
		s.Last[0] = 7
		return s
	}
	for _, c := range []struct {
		name string
		s    State
		by   Evidence
		back bool
	}{
		{"silence", before("TIMEOUT", "", -60_000), won(900_000), true},
		{"a crash", before("ERROR", "", -30_000), won(600_000), true},
		{"a wrong answer stays", before("VALIDATION_FAIL", "", -45_000), won(1_000_000), false},
		{"a violation stays", before("SECURITY_VIOLATION", "", -90_000), won(1_000_000), false},
		{"part of the work stays", before("PARTIAL", "", -24_000), won(1_000_000), false},
		{"silence that moved nothing has nothing to take back", before("TIMEOUT", "", 0), won(900_000), false},
		{"what the owner set stays", before("", fact.RuleOwner, -60_000), won(900_000), false},
		{"another failure takes nothing back", before("TIMEOUT", "", -60_000), lost("TIMEOUT"), false},
		{"a part takes nothing back", before("TIMEOUT", "", -60_000), Evidence{Pattern: partial, Score: 990_000}, false},
		{"no limit holds it", spent(300_000, before("TIMEOUT", "", -60_000)), won(900_000), true},
	} {
		got := Adjust(c.s, c.by, numbers())
		if (got.Rule == fact.RuleContradiction) != c.back {
			t.Errorf("%s: %+v", c.name, got)
		}
		if want := (Standing{Trust: 600_000, EMA: 600_000, Runs: 1, Met: true, Samples: 21}); c.back && (got.Next != want || got.Reverts != c.s.Last) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// Seven of the latest ten outcomes were good, so 0.7 was observed.
func TestWrongDirection(t *testing.T) {
	seven := []Past{{Pattern: failed}} // the eleventh is not counted
	for _, good := range []bool{true, true, true, true, true, true, true, false, false} {
		p := Past{Pattern: failed}
		if good {
			p.Pattern = success
		}
		seven = append(seven, p)
	}
	for i := range seven {
		seven[i].At = int64(i + 1)
	}
	for _, c := range []struct {
		name   string
		trust  guild.Trust
		by     Evidence
		before int
		want   int
	}{
		{"down from below the average", 690_000, lost(failed), 0, 1},
		{"down from below the average again", 690_000, lost(failed), 2, 3},
		{"down from the average is right", 700_000, lost(failed), 2, 0},
		{"down from above is right", 800_000, lost(failed), 2, 0},
		// a success makes it eight of ten
		{"up from below is right", 790_000, won(900_000), 1, 0},
		{"up from above", 810_000, won(900_000), 1, 2},
	} {
		s := at(c.trust, 0)
		s.Past, s.Wrong = seven, c.before
		if got := Adjust(s, c.by, numbers()).Next.Wrong; got != c.want {
			t.Errorf("%s: %d in a row, want %d", c.name, got, c.want)
		}
	}
	s := spent(300_000, at(690_000, 0))
	s.Past, s.Wrong = seven, 2
	if got := Adjust(s, lost(failed), numbers()).Next.Wrong; got != 2 {
		t.Errorf("what moved nothing made it %d", got)
	}
	late := lost(failed)
	late.At = numbers().Mean + 9 // only the last of the nine before is young enough: of these two outcomes none is good
	s = at(300_000, 0)
	s.Past = seven
	if got := Adjust(s, late, numbers()).Next.Wrong; got != 0 {
		t.Errorf("what is older than seven days was observed: %d", got)
	}
}

// Section 5.5.3, second row.
func TestWrongChangesRestoreMean(t *testing.T) {
	for _, c := range []struct {
		name     string
		wrong    int
		from, to guild.Trust
		mean     guild.Trust
		want     guild.Trust // 0: no change
	}{
		{"the third one down", 3, 600_000, 555_000, 650_000, 650_000},
		{"two are not enough", 2, 600_000, 555_000, 650_000, 0},
		{"the third one up", 3, 600_000, 609_000, 500_000, 500_000},
		{"a mean further down restores nothing", 3, 600_000, 555_000, 500_000, 0},
		{"a mean further up restores nothing", 3, 600_000, 609_000, 700_000, 0},
		{"the fifth one down restores the mean", 5, 600_000, 555_000, 556_000, 556_000},
	} {
		s := at(c.from, 0)
		s.Mean = c.mean
		back, ok := restored(s, Proposal{Next: Standing{Trust: c.to, EMA: c.to, Runs: 4, Met: true, Wrong: c.wrong, Samples: 21}}, numbers())
		if ok != (c.want != 0) || ok && back.Next != (Standing{Trust: c.want, EMA: c.want, Met: true, Samples: 21}) {
			t.Errorf("%s: %+v, %v", c.name, back, ok)
		}
	}
}

func TestTimeWeightedMean(t *testing.T) {
	const hour = dayMs / 24
	start := int64(1000 * dayMs)
	var areas []area
	areas = addArea(areas, 600_000, start, start+18*hour)          // 18 hours
	areas = addArea(areas, 300_000, start+18*hour, start+30*hour)  // 12 hours, over midnight
	areas = addArea(areas, 900_000, start+30*hour, start+144*hour) // 114 hours
	// (18·0.6 + 12·0.3 + 114·0.9) / 144 = (10.8 + 3.6 + 102.6) / 144 = 0.8125
	if got := meanOf(areas, 0, start+144*hour, 7*dayMs); got != 812_500 {
		t.Errorf("%d", got)
	}
	// On the eighth day the first is out: (6·0.3 + 114·0.9 + 24·0.9) / 144 = (1.8 + 102.6 + 21.6) / 144 = 0.875
	areas = addArea(areas, 900_000, start+144*hour, start+168*hour)
	if got := meanOf(areas, 0, start+168*hour, 7*dayMs); got != 875_000 {
		t.Errorf("%d", got)
	}
	if got := meanOf(addArea(areas, 900_000, start+168*hour, start+4000*dayMs), 0, start+4000*dayMs, 7*dayMs); got != 900_000 {
		t.Errorf("after years: %d", got)
	}
	if got := meanOf(nil, 450_000, start, 7*dayMs); got != 450_000 {
		t.Errorf("without any time: %d", got)
	}
}

// n/(n+3), halved by each reason to doubt a change.
func TestConfidence(t *testing.T) {
	for _, c := range []struct {
		n                int
		oscillates, held bool
		want             guild.Trust
	}{
		{1, false, false, 250_000}, {3, false, false, 500_000}, {12, false, false, 800_000}, {30, false, false, 909_090},
		{3, true, false, 250_000}, {3, false, true, 250_000}, {3, true, true, 125_000},
	} {
		if got := confidence(c.n, c.oscillates, c.held, numbers()); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestProposalAction(t *testing.T) {
	young := at(600_000, 0)
	young.Samples = 11 // the twelfth gives 0.8, which is not above 0.8
	for _, c := range []struct {
		name string
		s    State
		by   Evidence
		want string
	}{
		{"a small change on much evidence", at(600_000, 1), won(900_000), ActionMerge},
		{"on little", young, won(900_000), ActionReview},
		{"a first trust", State{}, won(900_000), ActionReview},
		{"nothing founded", State{}, lost(failed), ActionReview},
		{"a large change", ahead(600_000, 400_000), lost(failed), ActionReview}, // −0.185
		{"a violation", at(600_000, 0), lost(violation), ActionAlert},
		{"a violation of somebody new", State{}, lost(violation), ActionAlert},
		{"what the day held back", spent(290_000, at(600_000, 0)), lost(failed), ActionReview},
	} {
		if got := Adjust(c.s, c.by, numbers()); got.Action != c.want {
			t.Errorf("%s: %s with confidence %s", c.name, got.Action, got.Confidence)
		}
	}
}

func TestRationale(t *testing.T) {
	s := spent(285_000, at(600_000, 1))
	got := Adjust(s, of("financial", within(499, won(1_000_000))), numbers()).Rationale
	// (0.03 + 0.05 + 0.03)·1.5·0.9 = 0.1485; 0.3·0.7485 + 0.42 = 0.64455
	want := "SUCCESS, score 1, 499 ms, usually 1000 ms, success 2 in a row: 0.6 + (0.1 × headroom 0.3 + 0.05 for the score + 0.03 for the latency) × 1.5 for financial × damping 0.9 = 0.7485; average 0.3 × 0.7485 + 0.7 × 0.6 = 0.64455; change 0.04455, of 0.3 a day 0.015 left: 0.6 → 0.615"
	if got != want {
		t.Errorf("%s", got)
	}
	got = Adjust(at(300_000, 0), lost("TIMEOUT"), numbers()).Rationale
	want = "TIMEOUT: 0.3 − 0.2 = 0.1, the floor, which suspends; average 0.3 × 0.1 + 0.7 × 0.3 = 0.24; change −0.06: 0.3 → 0.24"
	if got != want {
		t.Errorf("%s", got)
	}
}

func evidence() *rapid.Generator[Evidence] {
	return rapid.Custom(func(t *rapid.T) Evidence {
		return Evidence{
			Pattern:    rapid.SampledFrom([]string{success, success, success, partial, failed, timeout, "ERROR", violation, ""}).Draw(t, "pattern"),
			Score:      guild.Score(rapid.Int64Range(-guild.Micro, 2*guild.Micro).Draw(t, "score")),
			Class:      rapid.SampledFrom([]string{"", "benchmark", "critical-path", "experimental", "background", "financial"}).Draw(t, "class"),
			LatencyMs:  rapid.Int64Range(0, 2000).Draw(t, "latency"),
			BaselineMs: rapid.Int64Range(0, 2000).Draw(t, "baseline"),
			Strength:   rapid.SampledFrom([]guild.Strength{"", guild.Strong, guild.Mixed, guild.Weak, guild.Unverified, "other"}).Draw(t, "strength"),
		}
	})
}

// follow applies a proposal to a state as the fold does, but without days.
func follow(s State, e Evidence, made Proposal) State {
	seq := uint64(len(s.Past) + 1)
	s.Past = append(slices.Clone(s.Past), Past{Seq: seq, At: e.At, From: s.Trust, To: made.Next.Trust, Rule: made.Rule, Pattern: e.Pattern, First: !s.Met})
	s.Standing = made.Next
	return s
}

func TestTrustBounds(t *testing.T) {
	p := numbers()
	rapid.Check(t, func(t *rapid.T) {
		var s State
		for _, e := range rapid.SliceOfN(evidence(), 0, 60).Draw(t, "history") {
			if rapid.IntRange(0, 9).Draw(t, "midnight") == 0 {
				s.Spent = 0
			}
			made := Adjust(s, e, p)
			if !made.Founded {
				if s.Met || made.Next != (Standing{}) {
					t.Fatalf("%+v was unfounded", s)
				}
				continue
			}
			moved := made.Next.Trust - s.Trust
			if s.Met && made.Rule == "" {
				s.Spent += abs(moved)
			}
			switch {
			case made.Next.Trust < p.Floor || made.Next.Trust > p.Ceiling:
				t.Fatalf("trust %v", made.Next.Trust)
			case made.Next.EMA < 0 || made.Next.EMA > guild.Micro+200_000:
				t.Fatalf("average %v", made.Next.EMA)
			case s.Met && abs(moved) > p.Step:
				t.Fatalf("one verdict moved %v", moved)
			case s.Spent > p.Daily:
				t.Fatalf("one day moved %v", s.Spent)
			case s.Met && (e.Pattern == success) != (moved >= 0) && moved != 0:
				t.Fatalf("%s moved trust by %v", e.Pattern, moved)
			case made.Rule == fact.RuleContradiction && made.Next.Trust != s.Past[len(s.Past)-1].From:
				t.Fatalf("%d was not restored", made.Next.Trust)
			case made.Confidence < 0 || made.Confidence > guild.Micro || made.Rationale == "" || made.Action == "":
				t.Fatalf("%+v", made)
			}
			s = follow(s, e, made)
		}
	})
}

func TestAdjustIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := at(guild.Trust(rapid.Int64Range(100_000, 900_000).Draw(t, "trust")), rapid.IntRange(0, 30).Draw(t, "runs"))
		s.EMA = guild.Trust(rapid.Int64Range(0, guild.Micro).Draw(t, "ema"))
		s.Spent = guild.Trust(rapid.Int64Range(0, 300_000).Draw(t, "spent"))
		s.Past = moves(rapid.StringMatching("[+0-]{0,12}").Draw(t, "past"))
		e, before := evidence().Draw(t, "evidence"), again(t, s)
		here := Adjust(s, e, numbers())
		there := Adjust(before, again(t, e), again(t, numbers()))
		if here != there {
			t.Fatalf("%+v, and from disk %+v", here, there)
		}
		if !slices.Equal(s.Past, before.Past) || s.Standing != before.Standing {
			t.Fatal("the state was changed")
		}
	})
}

// again returns v after a round trip through JSON.
func again[T any](t interface{ Fatal(...any) }, v T) T {
	b, err := json.Marshal(v)
	var back T
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func TestDecimals(t *testing.T) {
	for v, want := range map[guild.Trust]string{0: "0", 1: "0.000001", 600_000: "0.6", 1_000_000: "1", -45_000: "−0.045", 1_500_000: "1.5"} {
		if got := dec(v); got != want || strings.HasSuffix(got, ".") {
			t.Errorf("%d: %s", v, got)
		}
	}
}
