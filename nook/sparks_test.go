package nook_test

import (
	"math"
	"math/big"
	"testing"

	"guild/nook"
)

func TestFormula(t *testing.T) {
	for _, c := range []struct {
		tokens int64
		units  int
		want   nook.Sparks
	}{
		{1000, 1, 693_147},         // ln 2
		{5000, 1, 1_549_924},       // the example of section 6
		{4000, 2, 2_197_225},       // 2 ln 3
		{1_000_000, 9, 72_814_134}, // 31.62 ln 10
		{0, 5, 0},                  // no tokens
		{1000, 0, 0},               // no work unit
		{1, 1, 21_919},             // nothing is floored to whole sparks
		{nook.MaxTokens, 1, 21_919_238_443},
	} {
		if got := nook.Raw(c.tokens, c.units); got != c.want {
			t.Errorf("%d tokens, %d units: %s, want %s", c.tokens, c.units, got, c.want)
		}
	}
}

// TestBrackets is the table of section 2 of the specification: the same raw sparks at each place of the day.
func TestBrackets(t *testing.T) {
	const raw = 693_147 // 1000 tokens, one work unit
	for _, c := range []struct {
		day  nook.Sparks
		want nook.Sparks
	}{
		{0, raw}, {100*nook.Spark - raw, raw},
		{100*nook.Spark - 1, 1 + (raw-1)/2}, // the marginal split
		{100 * nook.Spark, 346_574},         // half of 693,147, rounded up
		{200*nook.Spark - 346_573, 346_573},
		{200*nook.Spark - 1, 1 + (raw-2)/4},
		{200 * nook.Spark, 173_287},
		{300*nook.Spark - 1, 1}, {300 * nook.Spark, 0},
	} {
		got := nook.Compute(1000, 1, 0, c.day)
		if got.Raw != raw || got.Rated != c.want || got.Rated != nook.Sparks(decimalRated(int64(c.day), raw)) {
			t.Errorf("after %s: %+v, want %s", c.day, got, c.want)
		}
		if s := got.Split; s[0]+s[1]+s[2]+s[3] != raw {
			t.Errorf("after %s: the parts %v are not %d", c.day, s, raw)
		}
	}
}

func TestCaps(t *testing.T) {
	const much = 100_000_000_000
	for _, c := range []struct {
		hour, day, want nook.Sparks
	}{
		{0, 0, 50 * nook.Spark}, {49_999_999, 60 * nook.Spark, 1}, {50 * nook.Spark, 50 * nook.Spark, 0},
		{0, 299_999_999, 1}, {0, 300 * nook.Spark, 0}, {20 * nook.Spark, 290 * nook.Spark, 10 * nook.Spark},
	} {
		if got := nook.Compute(much, 1, c.hour, c.day); got.Earned != c.want {
			t.Errorf("hour %s, day %s: %+v, want %s", c.hour, c.day, got, c.want)
		}
	}
}

func TestHugeNumbersAreExact(t *testing.T) {
	for tokens := int64(1)<<53 + 1; tokens > 0; tokens *= 2 {
		for _, units := range []int{1, 7, 1000} {
			if got, want := nook.Raw(tokens, units), decimalRaw(tokens, units); int64(got) != want {
				t.Errorf("%d tokens, %d units: %d, want %d", tokens, units, got, want)
			}
		}
	}
}

// TestLogIsWithinOneUlp checks the assumption on which the bound of Raw's error rests.
func TestLogIsWithinOneUlp(t *testing.T) {
	for n := 2; n < 5000; n++ {
		got := math.Log(float64(n))
		ulp := math.Nextafter(got, math.Inf(1)) - got
		exact, _ := new(big.Float).SetPrec(256).Quo(new(big.Float).SetPrec(256).SetInt(decimalLn(n)), new(big.Float).SetPrec(256).SetInt(scale)).Float64()
		if math.Abs(got-exact) > ulp {
			t.Errorf("math.Log(%d) is %v, want %v", n, got, exact)
		}
	}
}

func TestSparksInJSON(t *testing.T) {
	for src, want := range map[string]nook.Sparks{"0": 0, "1": nook.Spark, "1.151293": 1_151_293, "0.5": 500_000, "300": nook.DailyCap, "0.000001": 1} {
		var s nook.Sparks
		if err := s.UnmarshalJSON([]byte(src)); err != nil || s != want || s.String() != src {
			t.Errorf("%s: %s, %v", src, s, err)
		}
	}
	if got := nook.Sparks(-1_500_000).String(); got != "-1.5" {
		t.Error(got)
	}
	for _, src := range []string{"-1", "1e3", "0.0000001", `"1"`, "null", "", "9223372036854775807", "1.-5", "1."} {
		var s nook.Sparks
		if err := s.UnmarshalJSON([]byte(src)); err == nil {
			t.Errorf("%s was read as %s", src, s)
		}
	}
}
