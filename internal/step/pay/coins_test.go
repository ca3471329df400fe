package pay

import (
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"guild"
	"guild/cashu"
	"guild/internal/journal/fact"
)

// TestEachShareIsASumOfCoins checks a lock on which an arbiter rules, and those of earlier versions, which were in as few coins as the
// shares of the order allow.
func TestEachShareIsASumOfCoins(t *testing.T) {
	holds := func(agreed uint64, mixed, partial int8) bool {
		agreed = agreed%(1<<53) + 1
		o := fact.Settlement{Mixed: int(mixed), Partial: int(partial)}
		shares := []uint64{0, share(agreed, o.Mixed), share(agreed, o.Partial), agreed}
		slices.Sort(shares)
		var before []uint64
		for i, end := range shares[1:] {
			before = append(before, cashu.Split(end-shares[i])...)
		}
		for _, coins := range [][]uint64{row(o, agreed), before} {
			if sum, err := cashu.Sum(coins...); err != nil || sum != agreed || slices.ContainsFunc(coins, func(c uint64) bool { return c&(c-1) != 0 }) {
				t.Log(agreed, o, coins)
				return false
			}
			for _, by := range []choice{first, pick} {
				for _, amount := range shares {
					if _, worth := by(coins, amount); worth != amount {
						t.Log(agreed, o, coins, amount)
						return false
					}
				}
			}
		}
		return true
	}
	if err := quick.Check(holds, nil); err != nil {
		t.Error(err)
	}
}

// TestFirstCoinsAreInSmallSteps checks that an arbiter can give about as much as it wants to.
func TestFirstCoinsAreInSmallSteps(t *testing.T) {
	for amount := uint64(1); amount < 5000; amount++ {
		for _, o := range []fact.Settlement{{}, {Mixed: 40}, {Mixed: 40, Partial: 25}} {
			coins := row(o, amount)
			if len(coins) > maxCoins {
				t.Fatalf("%d coins for %d", len(coins), amount)
			}
			for _, one := range coins {
				if one > 1 && one > amount/4 {
					t.Fatalf("a step of %d in %d", one, coins)
				}
			}
		}
	}
}

func TestCoinsOfAPrice(t *testing.T) {
	for name, c := range map[string]struct {
		order fact.Settlement
		price uint64
		want  []uint64
	}{
		"an escrow":            {usual, 500, []uint64{1, 2, 4, 8, 16, 32, 64, 128, 1, 4, 16, 32, 64, 128}},
		"with an arbiter":      {contested(), 300, []uint64{16, 16, 16, 16, 16, 16, 16, 8, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 4}},
		"before the work":      {inEcash, 500, []uint64{4, 16, 32, 64, 128, 256}},
		"one of many digits":   {fact.Settlement{How: escrow}, 1<<45 + 1<<24 - 1, slices.Concat([]uint64{1 << 43, 1 << 43, 1 << 43, 1 << 43}, cashu.Split(1<<24-1))},
		"a price of two units": {usual, 2, []uint64{1, 1}},
	} {
		if got := (payment{Order: c.order}).amounts("test", c.price); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestNearestSums(t *testing.T) {
	for name, c := range map[string]struct {
		by     choice
		coins  []uint64
		amount uint64
		want   string // "" if it is a sum
	}{
		"a sum of any":       {pick, []uint64{4, 8, 32, 256}, 260, ""},
		"no sum of any":      {pick, []uint64{4, 8, 32, 256}, 150, "150 test are no sum of the locked coins: 44 or 256 are"},
		"nothing of any":     {pick, []uint64{4, 8}, 0, ""},
		"more than all":      {pick, []uint64{4, 8}, 13, "13 test are no sum of the locked coins: all are 12"},
		"a sum of the first": {first, []uint64{4, 8, 32, 256}, 44, ""},
		"of later ones":      {first, []uint64{4, 8, 32, 256}, 260, "260 test are no sum of the locked coins: 44 or 300 are"},
		"a larger one first": {first, []uint64{4, 1}, 1, "1 test are no sum of the locked coins: 0 or 4 are"},
		"too large a number": {first, []uint64{4, 1}, 1<<64 - 1, "all are 5"},
	} {
		if _, err := c.by.exactly(c.coins, c.amount, "test"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPersonGivesAnyAmount has a person give what no share of the order is.
func TestPersonGivesAnyAmount(t *testing.T) {
	for _, price := range []uint64{300, 512} {
		for _, amount := range []uint64{1, 150, 299} {
			w := newWorld(t, usual, price)
			w.pump()
			w.judged(guild.Success, guild.Weak)
			w.pump()
			w.ok(w.customer.Approve(t.Context(), attempt, amount))
			w.pump()
			w.want(10_000-int64(amount), 0, int64(amount))
			w.over()
			w.proves(facts[fact.AttemptReleased](w, w.customer)[0], amount)
		}
	}
}

// TestArbiterGivesPartOfAShare has an arbiter give what no share of the order is, beyond what the customer gave.
func TestArbiterGivesPartOfAShare(t *testing.T) {
	w := disputed(t, guild.Success, guild.Mixed)
	err := w.arbiter.Rule(t.Context(), attempt, 450, "9 of 10 tests pass")
	if err == nil || !strings.Contains(err.Error(), "450 test are no sum of the locked coins: 424 or 456 are") {
		t.Fatalf("%v", err)
	}
	w.ok(w.arbiter.Rule(t.Context(), attempt, 456, "9 of 10 tests pass"))
	w.pump()
	w.want(9544, 0, 456)
	w.over()
	w.proves(facts[fact.AttemptReleased](w, w.customer)[0], 456)
}
