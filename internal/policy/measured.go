package policy

import "guild"

// measured returns the default policy with changes where bench/marketsim found better numbers. It fits a market like
// the simulated one: many providers of the same task, benchmarks that cost a small part of a job, and similar
// importance of prices and waiting. The figures are msat per job over 60 days among 200 providers, where a job is worth
// 100,000. With seed 1, the partnership protocol's numbers give a regret of 10,555 and a waste of 3,003; these give 697
// and 328.
func measured() Policy {
	p := Default()
	p.Name = Measured

	// Trust falls so fast that a failure has an effect. With 0.15 per failure and half of a change where trust turns
	// round, a provider that fails every other job stays above the threshold for weeks, because its successes compensate:
	// a single provider had 180 jobs. Together with the rule for the rate, this changes waste from 902 to 379 with seed 2.
	t := &p.Trust
	t.Alpha, t.Oscillating, t.Step = guild.Micro, guild.Micro, 400_000
	t.Decay["VALIDATION_FAIL"], t.Decay["TIMEOUT"], t.Decay["ERROR"] = 300_000, 300_000, 200_000
	// The first successes of a dozen providers use up 0.3 a day for a task. Then nothing is learned until midnight.
	t.Daily = 100 * guild.Micro

	// Providers are chosen by the total cost of a job, and those that are not trusted get no work. Trusted providers
	// differ mainly in price and time. The weight of trust suffices to put a provider that has just failed behind its
	// equals, and that of the load to send requests to those with free slots. With the protocol's weights and everything
	// else as here, regret is 5,124. More weight for trust reduces waste and costs regret: from 0.1 to 0.18 they went from
	// 332 and 605 to 318 and 685, and with 0.26 regret was 1,043.
	r := &p.Routing
	r.Weights = Weights{Trust: 140_000, Cost: 590_000, Latency: 175_000, Load: 95_000}
	// Trust above the threshold says more about how often a provider was asked than about how well it works: with a
	// quarter of the work for the second tier, a quarter goes to more expensive providers. So all providers above the
	// threshold are in one tier, the second is empty, and the last gets one job in a thousand, or the jobs for which no
	// other has room. With the protocol's shares and its ε, and everything else as here, regret is 1,558 and waste 746.
	r.Tiers = [3]Tier{{"primary", 500_000, 998_000}, {"secondary", 400_000, 1_000}, {"tertiary", 300_000, 1_000}}
	// Benchmarks found out the same as exploring with a job for a thirtieth of the price when this was tried. Since then they
	// bid what the provider asks for a job (docs/TRUST.md has the result).
	r.Epsilon, r.EpsilonFloor = 0, 0
	r.Sampled = 63
	r.Weights = Weights{Trust: 275_000, Cost: 615_000, Latency: 110_000}
	r.Span = 8
	r.Share, r.Providers = guild.Micro, 1

	// Providers are rated by the work that they do. With this number of standard errors, four failures of eight to
	// sixteen jobs suspend. With three standard errors three did, and then one of sixty steady providers is suspended in a
	// fifth of the markets.
	l := &p.Lifecycle
	l.Sample, l.RateZ = 8, 4_250_000
	// With twenty latencies the 95th percentile is the second longest one, with forty the third.
	l.SlowRuns = 40
	// A provider that does not answer its benchmark will not answer tomorrow either. With a day of quarantine, each dead
	// provider costs a benchmark a day: 717 of 1,200 meetings.
	l.Quiet = ms(day)
	// Benchmarks of providers that are silent because they get no requests cost more than all jobs that fail: 630 with the
	// protocol's numbers, and about 200 with these.
	l.Cooldowns, l.Retry, l.Hopeless = []int64{ms(day), ms(day), ms(3 * day), ms(7 * day)}, ms(7*day), ms(3*day)
	l.Silence, l.Heartbeat = ms(1000*day), ms(1000*day)
	// Until providers are met, jobs go to unknown ones; so all are met on the first day. With 100 a day the first five
	// days cost four times as much, and with 20 they cause nearly all regret.
	l.Meetings = 2
	// The first jobs show the same as the second and third success of a meeting, and few of them are lost: three runs with
	// every provider cost 115, and this about 50. If one failure sufficed as well, steady providers would be rejected.
	l.Enough = 1

	// A provider that is early remains early with a shorter timeout, but a delivery that is late by that is paid and lost.
	p.Variables.EarlyChange, p.Variables.MuteChange = 0, 0
	return p
}
