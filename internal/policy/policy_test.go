package policy

import (
	"bytes"
	"testing"
	"time"

	"guild"
)

// The numbers of the partnership protocol, by section. Times are in milliseconds; all other numbers that are not counts
// are in micro-units.
func TestNumbersOfTheSpecification(t *testing.T) {
	const (
		hour = int64(3_600_000)
		day  = 24 * hour
	)
	p := Specification()
	tr, r, l, b, v := p.Trust, p.Routing, p.Lifecycle, p.Bids, p.Variables
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"2.3.3: the quarantine of an unresponsive provider is 24 hours", l.Quiet, day},

		{"3.2.3: three failures in a row are a cooldown of 30 days", l.Hopeless, 30 * day},
		{"3.3.2: exceptional is a score of 0.95", int64(tr.InitialFrom[0]), 950_000},
		{"3.3.2: and a latency below 50 %", int64(tr.FastFrom), 500_000},
		{"3.3.2: exceptional begins with 0.75", int64(tr.Initial[0]), 750_000},
		{"3.3.2: standard is a score of 0.8", int64(tr.InitialFrom[1]), 800_000},
		{"3.3.2: standard begins with 0.60", int64(tr.Initial[1]), 600_000},
		{"3.3.2: conditional is a score of 0.6", int64(tr.InitialFrom[2]), 600_000},
		{"3.3.2: conditional begins with 0.45", int64(tr.Initial[2]), 450_000},
		{"3.3.3: primary is from 0.8", int64(r.Tiers[0].From), 800_000},
		{"3.3.3: primary gets 70 %", int64(r.Tiers[0].Share), 700_000},
		{"3.3.3: secondary is from 0.5", int64(r.Tiers[1].From), 500_000},
		{"3.3.3: secondary gets 25 %", int64(r.Tiers[1].Share), 250_000},
		{"3.3.3: tertiary is from 0.3", int64(r.Tiers[2].From), 300_000},
		{"3.3.3: tertiary gets 5 %", int64(r.Tiers[2].Share), 50_000},
		{"3.3.3: nobody gets more than 50 %", int64(r.Share), 500_000},
		{"3.3.3: of an hour", r.Window, hour},
		{"3.3.3: three providers for a task", int64(r.Providers), 3},
		{"3.4.1: 24 hours of silence are probed", l.Silence, day},
		{"3.4.1: a heartbeat every week", l.Heartbeat, 7 * day},
		{"3.4.1: success rate below 95 %", int64(l.Rate), 950_000},
		{"3.4.1: over 7 days", l.Window, 7 * day},
		{"3.4.1: p95 above 200 % of the baseline", int64(l.Slow), 2_000_000},
		{"3.4.1: three timeouts in a row", int64(l.Timeouts), 3},
		{"3.4.2: reduced is a half", int64(r.Reduced), 500_000},
		{"3.4.2: a suspended provider is tried again after 30 days", l.Retry, 30 * day},
		{"3.4.3: one failure, 1 day", l.Cooldown(1).Milliseconds(), day},
		{"3.4.3: two, 3 days", l.Cooldown(2).Milliseconds(), 3 * day},
		{"3.4.3: three, 7 days", l.Cooldown(3).Milliseconds(), 7 * day},
		{"3.4.3: four, 30 days", l.Cooldown(4).Milliseconds(), 30 * day},
		{"3.4.3: and more", l.Cooldown(40).Milliseconds(), 30 * day},

		{"4.1.1: trust weighs 40 %", int64(r.Weights.Trust), 400_000},
		{"4.1.1: cost 25 %", int64(r.Weights.Cost), 250_000},
		{"4.1.1: latency 20 %", int64(r.Weights.Latency), 200_000},
		{"4.1.1: load 10 %", int64(r.Weights.Load), 100_000},
		{"4.1.1: exploration 5 %", int64(r.Weights.Exploration), 50_000},
		{"4.1.1: ε = 0.1", int64(r.Epsilon), 100_000},
		{"4.1.4: normal", int64(b.Urgency["normal"]), 1_000_000},
		{"4.1.4: urgent", int64(b.Urgency["urgent"]), 1_500_000},
		{"4.1.4: critical", int64(b.Urgency["critical"]), 2_000_000},
		{"4.1.4: a premium above a trust of 0.5", int64(b.BaseTrust), 500_000},
		{"3.2.3: three successes make an active partner", int64(l.Enough), 3},
		{"4.3.3: 24 hours after a benchmark", p.Review.Delay, day},
		{"4.3.3: at once for 0.8 stars, which are 0.2 of trust", int64(p.Review.Delta), 200_000},

		{"5.1.3: least trust 0.1", int64(tr.Floor), 100_000},
		{"5.1.3: most trust 0.9", int64(tr.Ceiling), 900_000},
		{"5.1.3: 0.2 in one step", int64(tr.Step), 200_000},
		{"5.1.3: 0.3 a day", int64(tr.Daily), 300_000},
		{"5.1.3: three reversals", int64(tr.Reversals), 3},
		{"5.1.3: in ten events", int64(tr.Recent), 10},
		{"5.2.1: a tenth of the headroom", int64(tr.Growth), 100_000},
		{"5.2.1: a bonus of 0.05", int64(tr.Bonus), 50_000},
		{"5.2.1: above a score of 0.95", int64(tr.BonusFrom), 950_000},
		{"5.2.1: and of 0.03 for speed", int64(tr.Fast), 30_000},
		{"5.2.1: a tenth less for each success in a row", int64(tr.Damping), 100_000},
		{"5.2.1: and never below a half", int64(tr.Dampest), 500_000},
		{"5.2.2: a wrong answer", int64(tr.Decay["VALIDATION_FAIL"]), 150_000},
		{"5.2.2: silence", int64(tr.Decay["TIMEOUT"]), 200_000},
		{"5.2.2: a violation", int64(tr.Decay["SECURITY_VIOLATION"]), 300_000},
		{"5.2.2: an error", int64(tr.Decay["ERROR"]), 100_000},
		{"5.2.2: a part", int64(tr.Decay["PARTIAL"]), 80_000},
		{"5.2.3: benchmark", int64(tr.Multipliers["benchmark"]), 1_000_000},
		{"5.2.3: critical-path", int64(tr.Multipliers["critical-path"]), 1_500_000},
		{"5.2.3: experimental", int64(tr.Multipliers["experimental"]), 600_000},
		{"5.2.3: background", int64(tr.Multipliers["background"]), 800_000},
		{"5.2.3: financial", int64(tr.Multipliers["financial"]), 1_500_000},
		{"5.2.4: α = 0.3", int64(tr.Alpha), 300_000},
		{"5.2.4: for every class", int64(len(tr.Alphas)), 0},
		{"5.3.2: early is below 50 %", int64(v.Early), 500_000},
		{"5.3.2: ten times", int64(v.EarlyCount), 10},
		{"5.3.2: 20 % less", int64(v.EarlyChange), -200_000},
		{"5.3.2: near is from 80 %", int64(v.Near), 800_000},
		{"5.3.2: five times", int64(v.NearCount), 5},
		{"5.3.2: 30 % more", int64(v.NearChange), 300_000},
		{"5.3.2: three timeouts without feedback", int64(v.MuteCount), 3},
		{"5.3.2: 50 % more", int64(v.MuteChange), 500_000},
		{"5.3.3: a queue of more than 10", int64(v.Queue), 10},
		{"5.3.3: at most 10 at once", int64(v.Parallel), 10},
		{"5.3.3: utilization below 50 %", int64(v.Utilization), 500_000},
		{"5.3.4: 20 % to experiments", int64(v.FreeShift), 200_000},
		{"5.3.4: 30 % to the reserve", int64(v.ScarceShift), 300_000},
		{"5.5.3: three changes the wrong way", int64(tr.WrongWay), 3},
		{"5.5.3: a mean of 7 days", tr.Mean, 7 * day},
		{"5.5.4: more than 10 changes an hour", int64(tr.Alerts.Often), 10},
		{"5.5.4: more than half at a bound", int64(tr.Alerts.Saturated), 500_000},
		{"5.5.4: more than 7 days without a change", tr.Alerts.Suppressed, 7 * day},
		{"5.5.4: median confidence below 0.5", int64(tr.Alerts.Unsure), 500_000},
		{"5.5.4: for 24 hours", tr.Alerts.UnsureFor, day},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	if (Lifecycle{}).Cooldown(3) != 0 || l.Cooldown(0) != 24*time.Hour {
		t.Error("a cooldown of no failures, or of no policy")
	}
}

func TestShippedPoliciesAreComplete(t *testing.T) {
	hashes := map[guild.Hash]string{}
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil || p.Name != name {
			t.Fatalf("%s is %s, %v", name, p.Name, err)
		}
		w := p.Routing.Weights
		if sum := w.Trust + w.Cost + w.Latency + w.Load + w.Exploration; sum != guild.Micro {
			t.Errorf("%s: the weights come to %s", name, sum)
		}
		share, above := guild.Trust(0), guild.Trust(guild.Micro)
		for _, tier := range p.Routing.Tiers {
			if share += tier.Share; tier.From >= above || tier.Share <= 0 {
				t.Errorf("%s: tier %+v", name, tier)
			}
			above = tier.From
		}
		if share != guild.Micro || p.Routing.Lowest != above {
			t.Errorf("%s: the tiers share %s, from %s, and the lowest is %s", name, share, above, p.Routing.Lowest)
		}
		for _, class := range append(guild.Classes(), guild.ClassBenchmark) {
			if p.Trust.Multipliers[class] <= 0 {
				t.Errorf("%s has no multiplier for %s", name, class)
			}
		}
		hash, err := p.Hash()
		if err != nil || hashes[hash] != "" {
			t.Errorf("%s has the hash of %q, %v", name, hashes[hash], err)
		}
		hashes[hash] = name
	}
	if p, err := Named(""); err != nil || p.Name != Measured || Default().Name != Measured {
		t.Errorf("the default is %s, %v", p.Name, err)
	}
	if _, err := Named("nothing"); err == nil {
		t.Error("there is a policy that nobody made")
	}
}

func TestPolicyRoundTrip(t *testing.T) {
	p := Specification()
	p.Trust.Alphas = map[string]guild.Trust{guild.ClassFinancial: 500_000}
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if h, err := again.Hash(); err != nil || h != hash || hash != guild.Sum(b) {
		t.Errorf("%s, and read %s, %v", hash, h, err)
	}
	if h, err := Specification().Hash(); err != nil || h == hash {
		t.Errorf("another number has the same hash, %v", err)
	}
}

func TestInvalidPolicyRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":   nil,
		"no JSON":   []byte("{"),
		"a list":    []byte("[]"),
		"a word":    []byte(`{"trust":{"alpha_micro":"much"}}`),
		"too large": append([]byte(`{}`), bytes.Repeat([]byte(" "), maxSize)...),
	} {
		if _, err := Decode(b); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
