package jobs

import (
	"cmp"
	"math/big"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/policy"
)

// Nothing can be paid yet. A bid says what a customer would pay at most, and a job whose customer names none bids
// nothing as long as nobody asks for anything: no provider announces a price, and no budget is configured for the task.

const (
	maxDeals  = 50 // bids for one task that are remembered
	minDeals  = 10 // that say how the market takes them
	unhurried = "normal"
)

// deal is how one bid was taken.
type deal struct {
	Amount  guild.Msat  `json:"amount"`            // that was bid, or that the provider wanted of what a customer offered
	Taken   bool        `json:"taken,omitempty"`   // it was not too little
	Urgency string      `json:"urgency,omitempty"` // by which the bid was raised
	Target  guild.Trust `json:"target,omitempty"`  // as above
	Quote   guild.Msat  `json:"quote,omitempty"`   // that the provider wanted for work that was accepted, within a computed bid
}

// bargained remembers how a bid was taken, before the fact about its attempt is applied. A bid is accepted by a delivery
// that is: at its amount if it was computed, and at what the provider wanted if it said so, whoever named the bid. A word
// alone accepts nothing. What is wanted beyond the bid refuses it, if it was computed: what a customer names is a limit
// and no price.
func (s *state) bargained(one fact.Fact) {
	switch one := one.(type) {
	case fact.AttemptQuoted:
		s.deal(one.Attempt, func(a Attempt, job *Job) (deal, bool) {
			return deal{Amount: a.Bid}, a.State.Waiting() && a.Quote == 0 && job.Unbid && one.Amount > a.Bid
		})
	case fact.AttemptRefused:
		s.deal(one.Attempt, func(a Attempt, job *Job) (deal, bool) {
			return deal{Amount: a.Bid}, a.State.Waiting() && a.Quote == 0 && job.Unbid && one.Price > a.Bid
		})
	case fact.AttemptJudged:
		s.deal(one.Attempt, func(a Attempt, job *Job) (deal, bool) {
			first := a.State.CanBecome(guild.Accepted) && a.Verdict == nil && one.Verdict.Outcome == guild.Success
			if !job.Unbid {
				return deal{Amount: a.Quote, Taken: true}, first && a.Quote > 0 && a.Quote <= a.Bid
			}
			return deal{Amount: a.Bid, Taken: true, Urgency: job.Urgency, Target: job.Target, Quote: a.Quote}, first && a.Quote <= a.Bid
		})
	}
}

func (s *state) deal(attempt nostr.ID, as func(Attempt, *Job) (deal, bool)) {
	job, ok := s.Jobs.Get(s.attempts.Of(attempt))
	if !ok {
		return
	}
	i := job.index(attempt)
	if i < 0 || job.Attempts[i].Bid == 0 {
		return
	}
	if d, counts := as(job.Attempts[i], job); counts {
		deals := s.Deals.Of(job.Task)
		s.Deals.Set(job.Task, append(slices.Clone(deals[max(0, len(deals)+1-maxDeals):]), d))
	}
}

// dealsFor lists how the latest bids for a task were taken, the latest last.
func (f *Fold) dealsFor(task string) []deal {
	return fold.Read(f.State, func(s *state) []deal { return s.Deals.Of(task) })
}

// market is what bids for a task are computed from.
type market struct {
	policy.Bids
	deals []deal
}

// bid is what a request bids (the partnership protocol, section 4.1.4): the base cost by how urgent the job is, what
// it should be worth, and how the latest bids for the task were taken, rounded once, half up. A base of 0 bids nothing.
func (m market) bid(base guild.Msat, urgency string, target guild.Trust) guild.Msat {
	return scale(base, m.urgency(urgency), m.premium(target), m.adjustment())
}

// base is the median of what was accepted: of two in the middle, the lower. A bid counts without what it was raised by
// for its own urgency and target. A quote counts as it is, but for no more than that: who asks for all that an urgent job
// bids does not make it what the work costs. Without any history it is what the provider asks for, else what is
// configured.
func (m market) base(price, configured guild.Msat) guild.Msat {
	var accepted []guild.Msat
	for _, d := range m.deals {
		if d.Taken {
			plain := unscale(d.Amount, m.urgency(d.Urgency), m.premium(d.Target))
			if d.Quote > 0 {
				plain = min(plain, d.Quote)
			}
			accepted = append(accepted, plain)
		}
	}
	if len(accepted) == 0 {
		return cmp.Or(price, configured)
	}
	slices.Sort(accepted)
	return accepted[(len(accepted)-1)/2]
}

// urgency is 1.0 for a normal job, 1.5 for an urgent one and 2.0 for a critical one.
func (m market) urgency(word string) guild.Trust {
	return cmp.Or(m.Urgency[cmp.Or(word, unhurried)], guild.Micro)
}

// premium is 1.0 + (target - 0.5), and never less than 1.
func (m market) premium(target guild.Trust) guild.Trust {
	return guild.Micro + max(0, target-m.BaseTrust)
}

// adjustment is 1.0 while from 50 to 90 % of the latest bids for the task are accepted, and where fewer than ten are
// known. Above 90 % it falls evenly, to 0.5 where all are; below 50 % it rises evenly, to 2.0 where none is.
func (m market) adjustment() guild.Trust {
	const few, many = guild.Micro / 2, guild.Micro * 9 / 10
	n, taken := guild.Trust(len(m.deals)), guild.Trust(0)
	if n < minDeals {
		return guild.Micro
	}
	for _, d := range m.deals {
		if d.Taken {
			taken++
		}
	}
	rate := taken * guild.Micro / n
	switch {
	case rate > many:
		return guild.Micro - (guild.Micro-m.MarketMin)*(rate-many)/(guild.Micro-many)
	case rate < few:
		return guild.Micro + (m.MarketMax-guild.Micro)*(few-rate)/few
	}
	return guild.Micro
}

// scale multiplies an amount by factors in micro-units, rounded half up. What is beyond all money is that.
func scale(m guild.Msat, factors ...guild.Trust) guild.Msat {
	return ratio(m, factors, nil)
}

// unscale divides by them.
func unscale(m guild.Msat, factors ...guild.Trust) guild.Msat {
	return ratio(m, nil, factors)
}

func ratio(m guild.Msat, times, by []guild.Trust) guild.Msat {
	above, below, micro := big.NewInt(int64(m)), big.NewInt(1), big.NewInt(guild.Micro)
	for _, f := range times {
		above.Mul(above, big.NewInt(int64(f)))
		below.Mul(below, micro)
	}
	for _, f := range by {
		above.Mul(above, micro)
		below.Mul(below, big.NewInt(int64(max(f, 1))))
	}
	above.Add(above.Lsh(above, 1), below).Div(above, below.Lsh(below, 1)) // (2a + b) / 2b
	if most := big.NewInt(int64(mostBid)); above.Cmp(most) > 0 {
		return mostBid
	}
	return guild.Msat(above.Int64())
}

// bid is what the next request of a job bids if it goes to a service: what the customer named; what the provider offered
// to do an open job for; else what is computed, where anybody asks for anything.
func (j *Jobs) bid(job *Job, o guild.Offer) guild.Msat {
	if !job.Unbid {
		return job.Bid
	}
	if job.Open {
		return o.Price
	}
	p, _ := j.c.Policy()
	m := market{p.Bids, j.fold.dealsFor(job.Task)}
	var configured guild.Msat
	if b, ok := j.c.budget(job.Task); ok {
		configured = cmp.Or(b.Base, m.Base)
	}
	return m.bid(m.base(o.Price, configured), job.Urgency, job.Target)
}
