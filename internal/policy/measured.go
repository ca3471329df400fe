package policy

import "guild"

// measured is the default where bench/marketsim found nothing better, and its findings elsewhere. It is for a market like
// that one: many who do the same task, benchmarks that cost a small part of a job, and prices and waiting that matter as
// they do there. Figures are msat for each job of 60 days among 200 providers, where a job is worth 100,000: regret and
// what is wasted are 10,555 and 3,003 with seed 1 and the partnership protocol's numbers, and 697 and 328 with these.
func measured() Policy {
	p := Default()
	p.Name = Measured
	p.Trust.measured()
	p.Routing.measured()
	p.Lifecycle.measured()
	// A provider that is early is as early with less patience, and what is late by that is paid and lost.
	p.Variables.EarlyChange = 0
	return p
}

// measured has trust fall so fast that a failure shows. With 0.15 a failure and half of a change where trust turns
// round, one that fails every other job stays above the threshold for weeks, for its successes make up for that: one
// provider alone had 180 jobs, and waste went from 902 to 379 with seed 2, together with the rule for the rate.
func (t *Trust) measured() {
	t.Alpha, t.Oscillating, t.Step = guild.Micro, guild.Micro, 400_000
	t.Decay["VALIDATION_FAIL"], t.Decay["TIMEOUT"], t.Decay["ERROR"] = 300_000, 300_000, 200_000
	// 0.3 a day for a task is spent by four failures, or by the first successes of a dozen of its providers: then
	// nothing is learned until midnight.
	t.Daily = 100 * guild.Micro
	t.DailyOf = OfService
}

// measured goes by what a job costs, all in all, and gives nothing to those who are not trusted.
func (r *Routing) measured() {
	// Among those who are trusted there is little between them but price and time. The weight of trust is enough that
	// somebody who has just failed comes after his equals, that of the load that requests go to who has room. With the
	// protocol's weights and all else as here, regret is 5,124. More weight for trust wastes less and costs regret: from 0.1
	// to 0.18 they went from 332 and 605 to 318 and 685, and with 0.26 regret was 1,043.
	r.Weights = Weights{Trust: 140_000, Cost: 590_000, Latency: 175_000, Load: 95_000}
	// Trust above the threshold says how often somebody was asked more than how well it does: with a quarter of the work
	// for the second tier, a quarter goes to those who cost more. So all who are above it are one tier, the second is empty,
	// and the last gets one job in a thousand, or what nobody else has room for. With the protocol's shares and its ε, and
	// all else as here, regret is 1,558 and waste 746.
	r.Tiers = [3]Tier{{"primary", 500_000, 998_000}, {"secondary", 400_000, 1_000}, {"tertiary", 300_000, 1_000}}
	// Benchmarks find out what trying with a job would, for a thirtieth of its price.
	r.Epsilon, r.EpsilonFloor = 0, 0
}

// measured looks at providers by the work they do.
func (l *Lifecycle) measured() {
	// By so many standard errors four failures of eight to sixteen ends suspend. Three did with three of them, and then one
	// of sixty steady providers is suspended in a fifth of the markets.
	l.Sample, l.RateZ = 8, 4_250_000
	// Of fewer than twenty latencies the 95th percentile is the longest, and one late delivery suspended a steady provider
	// in a quarter of the small markets. Of forty it is the third.
	l.SlowRuns = 40
	// Who does not answer its benchmark will not tomorrow either: a day of quarantine costs a benchmark a day for each
	// provider that is dead, which were 717 of 1,200 meetings.
	l.Quiet = ms(30 * day)
	// Benchmarks of those who are silent because nobody asks them cost more than all jobs that fail: 630 with the
	// protocol's numbers, and about 200 so.
	l.Silence, l.Heartbeat = ms(1000*day), ms(1000*day)
	// Until somebody is met, jobs go to whoever there is: all are met on the first day. With 100 a day the first five days
	// cost four times as much, and with 20 nearly all regret is theirs.
	l.Meetings = 200
	// What the second and third success of a meeting would show, the first jobs show too, and few are lost over it: three
	// runs with everybody cost 115, and this some 50. Were one failure enough as well, steady providers would be rejected.
	l.Enough = 1
}
