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

// A bid is the most that a customer would pay. A job whose customer names none bids nothing as
// long as no provider announces a price and no budget is configured for the task; except to a provider that reads no
// bundles, since such programs may expect a bid.

const (
	maxDeals  = 50 // bids for one task that are remembered
	minDeals  = 10 // from which on their success changes a bid
	unhurried = "normal"
)

// deal records whether one bid was accepted.
type deal struct {
	Amount  guild.Msat  `json:"amount"`            // of the bid; for a bid that the customer named, the provider's quote
	Taken   bool        `json:"taken,omitempty"`   // it was enough
	Urgency string      `json:"urgency,omitempty"` // for which the bid was raised
	Target  guild.Trust `json:"target,omitempty"`  // as above
	Quote   guild.Msat  `json:"quote,omitempty"`   // of the provider, for accepted work within a computed bid
}

// applyToDeals records whether a bid was enough, before the fact is applied to its attempt. A computed bid was enough if a
// delivery for it was accepted, and too little if the provider wanted more. A bid that a customer named is a limit and no
// price: it teaches something only through the quote of a provider whose delivery was accepted.
func (s *state) applyToDeals(one fact.Fact) {
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

// dealsFor lists the latest deals for a task, the latest last.
func (f *Fold) dealsFor(task string) []deal {
	return fold.Read(f.State, func(s *state) []deal { return s.Deals.Of(task) })
}

// market holds what bids for a task are computed from.
type market struct {
	policy.Bids
	deals []deal
}

// bid computes a bid (the partnership protocol, section 4.1.4): the base cost times the factors for urgency, for the target
// trust, and for the success of the latest bids, rounded once, half up. A base of 0 bids nothing.
func (m market) bid(base guild.Msat, urgency string, target guild.Trust) guild.Msat {
	return scale(base, m.urgency(urgency), m.premium(target), m.adjustment())
}

// base returns the median cost of accepted work: of two in the middle, the lower. A bid counts without the factors for its
// urgency and target. A quote counts as it is, but for no more than that: a provider that asks for all that an urgent job
// bids does not raise the base. Without any history the base is the provider's price, else the configured one.
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

// urgency returns 1.0 for a normal job, 1.5 for an urgent one and 2.0 for a critical one.
func (m market) urgency(word string) guild.Trust {
	return cmp.Or(m.Urgency[cmp.Or(word, unhurried)], guild.Micro)
}

// premium returns 1.0 + (target - 0.5), and never less than 1.
func (m market) premium(target guild.Trust) guild.Trust {
	return guild.Micro + max(0, target-m.BaseTrust)
}

// adjustment returns 1.0 while 50 to 90 % of the latest bids for the task are accepted, and if fewer than ten are known.
// Above 90 % it falls evenly, to 0.5 at 100 %; below 50 % it rises evenly, to 2.0 at 0 %.
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

// scale multiplies an amount by factors in micro-units, rounded half up, and returns at most mostBid.
func scale(m guild.Msat, factors ...guild.Trust) guild.Msat {
	return ratio(m, factors, nil)
}

// unscale divides an amount by factors in micro-units, rounded half up.
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

// Prospect lists the services that offer the task of an order, and returns the highest bid that is computed for one of
// them. Any of them may still be barred.
func (j *Jobs) Prospect(o Order) (services []guild.Service, most guild.Msat) {
	job := &Job{JobOpened: fact.JobOpened{Task: o.Task, Kind: o.Kind, Urgency: o.Urgency, Target: o.Target, Unbid: true}}
	for offer := range j.c.Market.Offers(o.Task, o.Kind) {
		services = append(services, offer.Service)
		most = max(most, j.bid(job, offer))
	}
	return services, most
}

// bid returns the bid of a job's next request if it goes to a service: the one that the customer named, the offer of the
// provider for an open job, or a computed one.
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
	} else if o.Plain {
		configured = m.Base
	}
	bid := m.bid(m.base(o.Price, configured), job.Urgency, job.Target)
	if o.Plain {
		bid = max(bid, o.Price) // others ignore a bid below their price without a word
	}
	if job.Most > 0 {
		bid = min(bid, job.Most)
	}
	return bid
}

// limit returns the most that the customer would pay a provider, 0 if the customer did not say.
func (j *Job) limit() guild.Msat { return max(j.Bid, j.Most) }
