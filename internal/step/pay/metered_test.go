package pay

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"guild"
	"guild/cashu"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// rates are those of most tests: 300 test, 2 per 1,000 tokens, 5 per minute.
var rates = nip90.Rates{Price: 300_000, Per1kTokens: 2000, PerMinute: 5000}

func TestCostByUsage(t *testing.T) {
	const huge = nip90.MaxMetered
	for name, c := range map[string]struct {
		rates nip90.Rates
		used  *nip90.Usage
		unit  string
		bound uint64
		want  uint64
	}{
		"no claim":           {rates, nil, "test", 800, 300},
		"a claim of nothing": {rates, &nip90.Usage{}, "test", 800, 300},
		"tokens":             {rates, &nip90.Usage{Tokens: 12_400}, "test", 800, 324},
		"a part of a unit":   {rates, &nip90.Usage{Tokens: 12_999}, "test", 800, 325},
		"minutes":            {rates, &nip90.Usage{WorkMs: 90_000}, "test", 800, 307},
		"both":               {rates, &nip90.Usage{Tokens: 12_400, WorkMs: 60_000}, "test", 800, 329},
		"up to the bound":    {rates, &nip90.Usage{Tokens: 250_000}, "test", 800, 800},
		"over the bound":     {rates, &nip90.Usage{Tokens: 250_500}, "test", 800, 800},
		"negative":           {rates, &nip90.Usage{Tokens: -1, WorkMs: -1}, "test", 800, 300},
		"negative rates":     {nip90.Rates{Price: -1, Per1kTokens: -1}, &nip90.Usage{Tokens: 5000}, "test", 800, 0},
		"huge":               {rates, &nip90.Usage{Tokens: huge, WorkMs: huge}, "test", 800, 800},
		"overflow":           {nip90.Rates{Price: huge, Per1kTokens: huge, PerMinute: huge}, &nip90.Usage{Tokens: huge, WorkMs: huge}, "test", 1 << 63, 1 << 63},
		"below a thousandth": {nip90.Rates{Per1kTokens: 1}, &nip90.Usage{Tokens: 999}, "msat", 800, 0},
		"in sat":             {rates, &nip90.Usage{Tokens: 1000}, "sat", 800, 302},
		"in msat":            {rates, &nip90.Usage{Tokens: 1000}, "msat", 800_000, 302_000},
		"fixed in halves":    {nip90.Rates{Price: 300_500, Per1kTokens: 500}, nil, "test", 800, 300},
		"two halves":         {nip90.Rates{Price: 300_500, Per1kTokens: 500}, &nip90.Usage{Tokens: 1000}, "test", 800, 301},
	} {
		if got := cost(c.rates, c.used, c.unit, c.bound); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestEveryCostIsASumOfCoins checks the coins of a lock whose payout depends on a claim: each multiple of a step, alone and above the
// fixed part, is a sum of some of them.
func TestEveryCostIsASumOfCoins(t *testing.T) {
	holds := func(fixed, bound uint64) bool {
		bound = bound%(1<<53) + 1
		fixed %= bound
		coins := change(fixed, bound)
		sum, err := cashu.Sum(coins...)
		if err != nil || sum != bound {
			return false
		}
		step := max(1, (bound-fixed)/64)
		for i := uint64(0); fixed+i*step <= bound && i <= 64; i++ {
			_, above := pick(coins, fixed+i*step)
			_, alone := pick(coins, i*step)
			_, whole := pick(coins, fixed)
			if above > fixed+i*step || fixed+i*step-above >= step || alone > i*step || i*step-alone >= step || whole != fixed {
				t.Log(fixed, bound, coins, above, alone, whole)
				return false
			}
		}
		return true
	}
	if err := quick.Check(holds, nil); err != nil {
		t.Error(err)
	}
	for bound := uint64(1); bound <= 1<<14; bound += 13 { // up to 16384 each unit can be paid
		coins := change(bound/3, bound)
		if len(coins) > maxCoins {
			t.Fatalf("%d coins for %d", len(coins), bound)
		}
		if bound > 600 {
			continue
		}
		for amount := range bound + 1 {
			if _, worth := pick(coins, amount); worth != amount {
				t.Fatalf("%d of %d: %d in %d", amount, bound, worth, coins)
			}
		}
	}
}

func TestPickTakesTheMostThatFits(t *testing.T) {
	holds := func(powers []uint8, amount uint16) bool {
		var coins []uint64
		for _, p := range powers[:min(len(powers), 10)] {
			coins = append(coins, 1<<(p%12))
		}
		best := uint64(0)
		for set := range 1 << len(coins) {
			sum := uint64(0)
			for i, c := range coins {
				if set>>i&1 == 1 {
					sum += c
				}
			}
			if sum <= uint64(amount) {
				best = max(best, sum)
			}
		}
		chosen, worth := pick(coins, uint64(amount))
		sum := uint64(0)
		for _, i := range chosen {
			sum += coins[i]
		}
		return worth == best && sum == best && slices.IsSorted(chosen)
	}
	if err := quick.Check(holds, nil); err != nil {
		t.Error(err)
	}
}

func TestQuotesWithRates(t *testing.T) {
	for name, c := range map[string]struct {
		rates nip90.Rates
		lock  uint64
		most  uint64
		want  string
	}{
		"good":                     {rates, 600, 600, ""},
		"nothing but rates":        {nip90.Rates{Per1kTokens: 1}, 600, 600, ""},
		"fixed in full":            {nip90.Rates{Price: 600_999, Per1kTokens: 1}, 600, 600, ""},
		"a fixed part over it":     {nip90.Rates{Price: 601_000, Per1kTokens: 1}, 600, 600, "fixed part"},
		"over the bid":             {rates, 601, 600, "bids 600"},
		"overflow":                 {nip90.Rates{Price: nip90.MaxMetered, PerMinute: nip90.MaxMetered}, 1<<63 - 1, 1 << 63, "coins"},
		"little of a large amount": {nip90.Rates{Price: 1<<45*1000 - 1, PerMinute: 1}, 1<<45 - 1, 1 << 63, "coins"},
	} {
		p := pays()
		p.Order.Most, p.Rates = c.most, &c.rates
		q := quote{amount: c.lock, locktime: Locktime(time.UnixMilli(p.Deadline)).Unix()}
		err := q.check(p, "test", []string{"https://m.example"}, false)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// meteredWorld is a world whose provider asks to lock an amount, at rates.
func meteredWorld(t *testing.T, order fact.Settlement, lock uint64, r nip90.Rates) *world {
	t.Helper()
	return changedWorld(t, order, lock, func(_ *world, q *fact.AttemptQuoted) { q.Rates = &r })
}

// claims has the customer get a delivery with a claim after some time, and judge it.
func (w *world) claims(after time.Duration, used *nip90.Usage, o guild.Outcome, s guild.Strength) {
	w.Helper()
	w.now = w.now.Add(after)
	w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptDelivered{Attempt: attempt, Usage: used})
	w.judged(o, s)
}

func TestUsageIsPaid(t *testing.T) {
	order := fact.Settlement{How: escrow, Unit: "test", Most: 800, Mixed: 40, Partial: 25, Weak: 100}
	for name, c := range map[string]struct {
		after    time.Duration
		used     *nip90.Usage
		outcome  guild.Outcome
		strength guild.Strength
		paid     int64
	}{
		"honest":              {3 * time.Minute, &nip90.Usage{Tokens: 12_400, WorkMs: 120_000}, guild.Success, guild.Strong, 334},
		"tokens alone":        {time.Second, &nip90.Usage{Tokens: 12_400}, guild.Success, guild.Strong, 324},
		"exaggerated tokens":  {time.Second, &nip90.Usage{Tokens: nip90.MaxMetered}, guild.Success, guild.Strong, 800},
		"exaggerated minutes": {3 * time.Minute, &nip90.Usage{WorkMs: nip90.MaxMetered}, guild.Success, guild.Strong, 315},
		"no claim":            {3 * time.Minute, nil, guild.Success, guild.Strong, 300},
		"negative":            {3 * time.Minute, &nip90.Usage{Tokens: -5, WorkMs: -5}, guild.Success, guild.Strong, 300},
		"mixed":               {time.Second, &nip90.Usage{Tokens: 12_400}, guild.Success, guild.Mixed, 129},
		"partial":             {time.Second, &nip90.Usage{Tokens: 12_400}, guild.Partial, guild.Strong, 81},
		"a cheat":             {time.Minute, &nip90.Usage{Tokens: 12_400, WorkMs: 60_000}, guild.Failure, guild.Strong, 0},
		"unverified":          {time.Minute, &nip90.Usage{Tokens: 12_400, WorkMs: 60_000}, guild.Success, guild.Unverified, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := meteredWorld(t, order, 800, rates)
			w.pump()
			if !w.provider.Funded(attempt) {
				t.Fatal("the provider does not begin")
			}
			w.want(9200, 800, 0)
			w.claims(c.after, c.used, c.outcome, c.strength)
			w.pump()
			w.want(10_000-c.paid, 0, c.paid)
			w.over()
			released := facts[fact.AttemptReleased](w, w.customer)
			if c.paid == 0 {
				if refunded := facts[fact.AttemptRefunded](w, w.customer); len(released) != 0 || len(refunded) != 1 {
					t.Errorf("%d released, %+v refunded", len(released), refunded)
				}
				return
			}
			var proof shownEcash
			w.ok(json.Unmarshal([]byte(released[0].Proof), &proof))
			if worth, err := cashu.Worth(proof.Proofs); err != nil || worth != uint64(c.paid) || released[0].Amount != guild.Msat(c.paid)*1000 {
				t.Errorf("the receipt has %d of %s, %v", worth, released[0].Amount, err)
			}
		})
	}
}

func TestPersonDecidesAboutUsage(t *testing.T) {
	order := fact.Settlement{How: escrow, Unit: "test", Most: 800, Weak: 100}
	w := meteredWorld(t, order, 800, rates)
	w.pump()
	w.claims(time.Second, &nip90.Usage{Tokens: 12_400}, guild.Success, guild.Weak)
	w.pump()
	waiting := w.customer.Paying()
	if len(waiting) != 1 || !waiting[0].Waits || waiting[0].State != "waits for you: 324 by the provider's claim" {
		t.Fatalf("%+v", waiting)
	}
	w.want(9200, 800, 0)
	w.ok(w.customer.Approve(t.Context(), attempt, 317))
	w.pump()
	w.want(9683, 0, 317)
	w.over()
}

func TestKillWithRates(t *testing.T) {
	killAtEveryPoint(t, 56, func(t *testing.T, at string) []string {
		w := meteredWorld(t, usual, 600, rates)
		w.at, w.points = at, nil
		w.pump()
		w.claims(time.Minute, &nip90.Usage{Tokens: 12_400, WorkMs: 30_000}, guild.Success, guild.Strong)
		w.pump()
		w.want(9673, 0, 327)
		w.over()
		if w.at != "" {
			t.Errorf("nobody died at %q", at)
		}
		if n := len(facts[fact.AttemptReleased](w, w.customer)); n != 1 {
			t.Errorf("%d releases in the attempt", n)
		}
		return w.points
	})
}
