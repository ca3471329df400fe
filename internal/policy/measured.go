package policy

import "guild"

// measured returns the specification's policy with changes where bench/marketsim found better numbers. It fits a market like
// the simulated one: a job is worth some four times its price, and a benchmark costs as much as a job (docs/TRUST.md has
// the result).
func measured() Policy {
	p := Specification()
	p.Name = Measured

	// Trust falls so fast that a failure has an effect. With 0.15 per failure and half of a change where trust turns
	// round, a provider that fails every other job stays above the threshold for weeks, because its successes compensate.
	t := &p.Trust
	t.Alpha, t.Oscillating, t.Step = guild.Micro, guild.Micro, 400_000
	t.Decay["VALIDATION_FAIL"], t.Decay["TIMEOUT"], t.Decay["ERROR"] = 300_000, 300_000, 200_000
	// The first successes of a dozen providers use up 0.3 a day for a task. Then nothing is learned until midnight.
	t.Daily = 100 * guild.Micro

	// Trust above the threshold says more about how often a provider was asked than about how well it works. So who is
	// asked is decided by what its deliveries say of the next one, and price and time are subtracted from that in the
	// proportions of their costs: the weights are those of a job worth 100,000 msat, a median price of 28,000 msat and a
	// median wait of 50 s at 100 msat a second. With a span of 2, all that take twice the median are equally slow, and
	// the slowest are asked four times as often.
	r := &p.Routing
	r.Thompson, r.Span = 63, 8
	r.Weights = Weights{Trust: 275_000, Cost: 615_000, Latency: 110_000}
	r.Share, r.Providers = guild.Micro, 1
	r.Epsilon, r.EpsilonFloor = 0, 0
	r.Tiers = [3]Tier{{"primary", 500_000, 998_000}, {"secondary", 400_000, 1_000}, {"tertiary", 300_000, 1_000}}

	// Providers are rated by the work that they do. With this number of standard errors, four failures of eight to
	// sixteen jobs suspend. With three standard errors three did, and then one of sixty steady providers is suspended in a
	// fifth of the markets.
	l := &p.Lifecycle
	l.Sample, l.RateZ = 8, 4_250_000
	// With twenty latencies the 95th percentile is the second longest one, with forty the third.
	l.SlowRuns = 40
	// A benchmark costs as much as a job and says no more, so jobs make new providers known, and only the first ones of a
	// day are met before. With 200 a day benchmarks cost more than all other mistakes.
	l.Meetings, l.Enough = 2, 1
	// A key that never answers is asked less and less: in a market with three such keys for each provider, asking them
	// every day costs more than all jobs.
	l.Quietest = ms(64 * day)
	// Probes of who is silent, because nobody asks, cost as much.
	l.Silence, l.Heartbeat = ms(1000*day), ms(1000*day)
	// Who comes back has a record that is drawn from, so it may come back soon: many of the failures of a month end
	// after days.
	l.Cooldowns, l.Retry, l.Hopeless = []int64{ms(day), ms(day), ms(3 * day), ms(7 * day)}, ms(7*day), ms(3*day)

	// A provider that is early remains early with a shorter timeout, but a delivery that is late by that is paid and lost.
	// And who is silent once is silent for four times as long.
	p.Variables.EarlyChange, p.Variables.MuteChange = 0, 0
	return p
}
