package trust

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"guild"
	"guild/canon"
)

// at is a standing that nothing has held back: the average is the trust itself.
func at(t guild.Trust, runs int) Standing { return Standing{Trust: t, EMA: t, Runs: runs, Met: true} }

func won(s guild.Score) Evidence { return Evidence{Pattern: "SUCCESS", Score: s} }

func lost(pattern string) Evidence { return Evidence{Pattern: pattern} }

// The numbers are those of sections 5.2.1 and 5.2.2 of the partnership protocol, done by hand: raw is their
// formula, and trust moves to the average 0.3·raw + 0.7·trust (5.2.4).
func TestTrustMovesByTheFormulas(t *testing.T) {
	for _, c := range []struct {
		name   string
		before Standing
		by     Evidence
		spent  guild.Trust
		want   guild.Trust
		runs   int
	}{
		// raw = 0.6 + (0.1·(0.9−0.6) + 0.05)·0.9 = 0.672; 0.3·0.672 + 0.7·0.6 = 0.6216
		{"a second success of the highest score", at(600_000, 1), won(1_000_000), 0, 621_600, 2},
		// raw = 0.6 + 0.03·0.9 = 0.627; 0.3·0.627 + 0.42 = 0.6081
		{"a success without the bonus for quality", at(600_000, 1), won(900_000), 0, 608_100, 2},
		{"0.95 is not above 0.95", at(600_000, 1), won(950_000), 0, 608_100, 2},
		// raw = 0.6 + 0.08·1 = 0.68; 0.3·0.68 + 0.42 = 0.624
		{"a success after a failure is not dampened", at(600_000, 0), won(1_000_000), 0, 624_000, 1},
		// 1 − 0.1·5 = 0.5: raw = 0.6 + 0.08·0.5 = 0.64; 0.3·0.64 + 0.42 = 0.612
		{"the sixth success in a row counts half", at(600_000, 5), won(1_000_000), 0, 612_000, 6},
		{"and so does the twentieth", at(600_000, 19), won(1_000_000), 0, 612_000, 20},
		// raw = 0.88 + (0.1·0.02 + 0.05)·1 = 0.932; 0.3·0.932 + 0.7·0.88 = 0.8956
		{"near the ceiling little is left to win", at(880_000, 0), won(1_000_000), 0, 895_600, 1},
		// 0.3·0.95 + 0.7·0.9 = 0.915, which is over the ceiling
		{"nobody is trusted more than 0.9", at(900_000, 0), won(1_000_000), 0, 900_000, 1},

		// raw = 0.6 − 0.15 = 0.45; 0.3·0.45 + 0.42 = 0.555
		{"a wrong answer", at(600_000, 3), lost("VALIDATION_FAIL"), 0, 555_000, 0},
		// raw = 0.4; 0.12 + 0.42
		{"silence", at(600_000, 3), lost("TIMEOUT"), 0, 540_000, 0},
		// raw = 0.3; 0.09 + 0.42
		{"a violation", at(600_000, 3), lost("SECURITY_VIOLATION"), 0, 510_000, 0},
		// raw = 0.5; 0.15 + 0.42
		{"a crash", at(600_000, 3), lost("ERROR"), 0, 570_000, 0},
		// raw = 0.52; 0.156 + 0.42
		{"part of the work", at(600_000, 3), lost("PARTIAL"), 0, 576_000, 0},
		{"what nobody has a rate for decays as a wrong answer", at(600_000, 3), lost("MOON"), 0, 555_000, 0},
		// raw = max(0.1, 0.12 − 0.2) = 0.1; 0.03 + 0.084 = 0.114
		{"no formula goes below the floor", at(120_000, 0), lost("TIMEOUT"), 0, 114_000, 0},
		{"nobody is trusted less than 0.1", at(100_000, 0), lost("SECURITY_VIOLATION"), 0, 100_000, 0},

		// The average of 0.3·0.3 + 0.7·0.1 = 0.16 is 0.44 away.
		{"no verdict moves trust by more than 0.2", Standing{Trust: 600_000, EMA: 100_000, Met: true}, lost("SECURITY_VIOLATION"), 0, 400_000, 0},
		// Of 0.3 a day 0.28 are spent, and −0.06 were due.
		{"no task moves by more than 0.3 a day", at(600_000, 0), lost("TIMEOUT"), 280_000, 580_000, 0},
		{"a day that is spent moves nothing", at(600_000, 0), lost("TIMEOUT"), 300_000, 600_000, 0},
		{"nor does one that is overspent", at(600_000, 0), won(1_000_000), 400_000, 600_000, 1},

		// The average 0.3·0.45 + 0.7·0.8 = 0.695 is above, because a limit held trust back.
		{"a failure never raises trust", Standing{Trust: 600_000, EMA: 800_000, Met: true}, lost("VALIDATION_FAIL"), 0, 600_000, 0},
		{"a success never lowers it", Standing{Trust: 600_000, EMA: 200_000, Met: true}, won(1_000_000), 0, 600_000, 1},
	} {
		got, founded := Adjust(c.before, c.by, c.spent, Default())
		if !founded || got.Trust != c.want || got.Runs != c.runs {
			t.Errorf("%s: %d after %d successes, want %d after %d", c.name, got.Trust, got.Runs, c.want, c.runs)
		}
	}
}

// Seeds/001 section 3.3.2. Exceptional (0.75) needs a latency below half the baseline, which nobody has yet.
func TestTheFirstTrustIsOfTheFirstVerdict(t *testing.T) {
	for _, c := range []struct {
		name    string
		by      Evidence
		want    guild.Trust
		founded bool
	}{
		{"a perfect delivery is standard", won(1_000_000), 600_000, true},
		{"0.8 is standard", won(800_000), 600_000, true},
		{"below 0.8 is conditional", won(799_999), 450_000, true},
		{"0.6 is conditional", won(600_000), 450_000, true},
		{"below 0.6 founds nothing", won(599_999), 0, false},
		{"a good part is conditional at most", Evidence{"PARTIAL", 990_000}, 450_000, true},
		{"a poor part founds nothing", Evidence{"PARTIAL", 500_000}, 0, false},
		{"a wrong answer founds nothing", Evidence{"VALIDATION_FAIL", 790_000}, 0, false},
		{"a violation founds nothing, whatever its score", Evidence{"SECURITY_VIOLATION", 1_000_000}, 0, false},
		{"silence founds nothing", lost("TIMEOUT"), 0, false},
	} {
		got, founded := Adjust(Standing{}, c.by, 300_000, Default()) // the day's limit is for changes
		if got.Trust != c.want || got.EMA != c.want || founded != c.founded || got.Met != c.founded {
			t.Errorf("%s: %+v, %v", c.name, got, founded)
		}
	}
}

func evidence() *rapid.Generator[Evidence] {
	return rapid.Custom(func(t *rapid.T) Evidence {
		return Evidence{
			Pattern: rapid.SampledFrom([]string{"SUCCESS", "PARTIAL", "VALIDATION_FAIL", "TIMEOUT", "ERROR", "SECURITY_VIOLATION", ""}).Draw(t, "pattern"),
			Score:   guild.Score(rapid.Int64Range(-guild.Micro, 2*guild.Micro).Draw(t, "score")),
		}
	})
}

func TestNoHistoryBreaksTheBounds(t *testing.T) {
	p := Default()
	rapid.Check(t, func(t *rapid.T) {
		var s Standing
		spent := guild.Trust(0)
		for _, e := range rapid.SliceOfN(evidence(), 0, 60).Draw(t, "history") {
			if rapid.IntRange(0, 9).Draw(t, "midnight") == 0 {
				spent = 0
			}
			next, founded := Adjust(s, e, spent, p)
			if !founded {
				if s.Met || next != (Standing{}) {
					t.Fatalf("%+v was unfounded", s)
				}
				continue
			}
			moved := next.Trust - s.Trust
			if s.Met {
				spent += max(moved, -moved)
			}
			switch {
			case next.Trust < p.Floor || next.Trust > p.Ceiling:
				t.Fatalf("trust %v", next.Trust)
			case next.EMA < 0 || next.EMA > guild.Micro:
				t.Fatalf("average %v", next.EMA)
			case s.Met && max(moved, -moved) > p.Step:
				t.Fatalf("one verdict moved %v", moved)
			case spent > p.Daily:
				t.Fatalf("one day moved %v", spent)
			case s.Met && (e.Pattern == success) != (moved >= 0) && moved != 0:
				t.Fatalf("%s moved trust by %v", e.Pattern, moved)
			case (e.Pattern == success) != (next.Runs == s.Runs+1) || e.Pattern != success && next.Runs != 0:
				t.Fatalf("%d successes in a row after %s", next.Runs, e.Pattern)
			}
			s = next
		}
	})
}

func TestTheArithmeticIsTheSameFromDisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := at(guild.Trust(rapid.Int64Range(100_000, 900_000).Draw(t, "trust")), rapid.IntRange(0, 30).Draw(t, "runs"))
		s.EMA = guild.Trust(rapid.Int64Range(0, guild.Micro).Draw(t, "ema"))
		e, spent := evidence().Draw(t, "evidence"), guild.Trust(rapid.Int64Range(0, 300_000).Draw(t, "spent"))
		here, _ := Adjust(s, e, spent, Default())
		there, _ := Adjust(again(t, s), again(t, e), again(t, spent), again(t, Default()))
		if here != there {
			t.Fatalf("%+v, and from disk %+v", here, there)
		}
	})
}

// again is v as it comes back from JSON.
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

func TestThePolicyHasOneHash(t *testing.T) {
	a, err := canon.HashValue(Default())
	if err != nil {
		t.Fatal(err)
	}
	b, err := canon.HashValue(again(t, Default()))
	if err != nil || a != b {
		t.Errorf("%s, %s, %v", a, b, err)
	}
	milder := Default()
	milder.Decay["TIMEOUT"]--
	if c, _ := canon.HashValue(milder); c == a {
		t.Error("another policy has the same hash")
	}
}
