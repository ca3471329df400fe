package variables

import (
	"slices"

	"maps"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.Change(func(s *folded) {
		s.Seq = e.Seq
		for _, one := range e.Facts {
			s.apply(one, e)
		}
	})
}

func (s *folded) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.JobOpened:
		s.Jobs.Set(one.Job.String(), observedJob{one.Task, one.Bid, one.Meeting != nil})
		if isImportant(one) {
			s.Important.Set(one.Task, e.At)
			s.News.Set(fact.CostBudget, e.Seq)
		}
	case fact.JobClosed:
		s.Jobs.Delete(one.Job.String())
	case fact.BidReserved:
		s.reserved(one)
	case fact.BidFreed:
		s.freed(one)
	case fact.VariableChanged:
		s.changed(one, e)
	default:
		s.applyToAttempt(one, e)
	}
}

func (s *folded) applyToAttempt(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.AttemptPlanned:
		job := s.Jobs.Of(one.Job.String())
		s.Asked.Set(one.Attempt.Hex(), observedAttempt{
			Task: job.Task, Service: one.Provider, Cost: max(one.Bid, job.Bid), Meeting: job.Meeting || stranger(one)})
	case fact.AttemptRequested:
		s.requested(one, e)
	case fact.AttemptProgressed:
		s.heard(one.Attempt, e)
		s.extended(one.Attempt, one.Silence)
		s.report(one, e)
	case fact.AttemptQuoted:
		s.heard(one.Attempt, e)
	case fact.AttemptDelivered:
		s.heard(one.Attempt, e)
		s.answered(one.Attempt)
	case fact.AttemptRefused:
		if one.Event != (nostr.ID{}) {
			s.heard(one.Attempt, e)
		}
		s.over(one.Attempt)
	case fact.AttemptExpired:
		s.expired(one, e)
		s.over(one.Attempt)
	case fact.AttemptJudged:
		s.judged(one, e)
		s.over(one.Attempt)
	case fact.AttemptCancelled:
		s.over(one.Attempt)
	case fact.AttemptParked:
		s.over(one.Attempt)
	case fact.AttemptRecorded:
		s.over(one.Attempt)
	}
}

// isImportant reports whether a job is important for budgets.
func isImportant(j fact.JobOpened) bool {
	return j.Class == guild.ClassCriticalPath || j.Class == guild.ClassFinancial || j.Urgency == "critical" ||
		j.Criticality == guild.High || j.Criticality == guild.Critical
}

// stranger reports whether a provider was asked that had never been met when it was chosen.
func stranger(one fact.AttemptPlanned) bool {
	return one.Choice != nil && slices.ContainsFunc(one.Choice.Candidates, func(c fact.Candidate) bool { return c.Service == one.Provider && !c.Met })
}

// hired returns an attempt of a known provider's ordinary work. Nothing but the score is learned from benchmarks and from
// strangers: they decide when they answer, and could change everybody's timeout and parallelism.
func (s *folded) hired(attempt nostr.ID) (observedAttempt, bool) {
	a, ok := s.Asked.Get(attempt.Hex())
	return a, ok && !a.Meeting
}

// requested starts the wait of an attempt, and samples the load of all providers for utilization.
func (s *folded) requested(one fact.AttemptRequested, e fact.Entry) {
	a, ok := s.hired(one.Attempt)
	if !ok || a.Asked != 0 {
		return
	}
	a.Asked, a.Limit, a.Seq, a.Waits = e.At, one.Silence, e.Seq, true
	s.Asked.Set(one.Attempt.Hex(), a)
	s.wait(a.Service.PubKey.Hex(), 1)
	s.Samples = lastFew(s.Samples, sample{e.Seq, s.Load}, maxSamples)
	s.News.Set(fact.Parallelism, e.Seq)
}

// wait counts a provider's requests, and keeps the sum of the limits of all providers with requests.
func (s *folded) wait(provider string, more int) {
	before := s.Waiting.Of(provider)
	after := before + more
	s.Load.Waiting += more
	switch {
	case after > 0:
		s.Waiting.Set(provider, after)
	default:
		s.Waiting.Delete(provider)
	}
	if (before > 0) != (after > 0) {
		s.busy(provider, more)
	}
}

// busy adds a provider's limit to the sum (sign is 1) or subtracts it (sign is -1).
func (s *folded) busy(provider string, sign int) {
	if set, ok := s.Values.Get(keyOf(fact.Parallelism, provider)); ok {
		s.Load.Own += int64(sign) * set.Number
	} else {
		s.Load.Others += sign
	}
}

// heard records a provider's first answer, for which the silence after the request was waited. An answer that comes
// before a relay confirms the request counts as one without delay.
func (s *folded) heard(attempt nostr.ID, e fact.Entry) {
	a, ok := s.hired(attempt)
	if !ok || a.Heard {
		return
	}
	a.Heard = true
	s.Asked.Set(attempt.Hex(), a)
	t := timing{Seq: e.Seq, Limit: a.Limit - a.Asked}
	if a.Asked != 0 {
		if t.Limit <= 0 {
			return
		}
		t.Share = guild.Trust((e.At - a.Asked) * guild.Micro / t.Limit)
	}
	s.timed(a, t)
}

// timed keeps an observation, unless the request was sent under another timeout than the present one.
//
// Such an observation is a share of another time. Requests that were sent before a change would otherwise cause the
// same change again.
func (s *folded) timed(a observedAttempt, t timing) {
	if set, ok := s.Values.Get(keyOf(fact.TimeoutConfig, a.Task)); ok && a.Seq != 0 && a.Seq <= set.Seq {
		return
	}
	s.Timing.Set(a.Task, lastFew(s.Timing.Of(a.Task), t, maxTimings))
	s.News.Set(fact.TimeoutConfig, t.Seq)
}

// extended moves the time-out of an attempt after an answer.
func (s *folded) extended(attempt nostr.ID, silence int64) {
	if a, ok := s.Asked.Get(attempt.Hex()); ok && a.Asked != 0 && silence > a.Limit {
		a.Limit = silence
		s.Asked.Set(attempt.Hex(), a)
	}
}

func (s *folded) report(one fact.AttemptProgressed, e fact.Entry) {
	a, ok := s.hired(one.Attempt)
	if !ok || one.Capacity == nil {
		return
	}
	s.Reports.Set(a.Service.PubKey.Hex(), reported{e.Seq, *one.Capacity})
	s.News.Set(fact.Parallelism, e.Seq)
}

// expired records a timeout, unless the job's deadline cut the wait short or this node could not receive answers.
func (s *folded) expired(one fact.AttemptExpired, e fact.Entry) {
	a, ok := s.hired(one.Attempt)
	if !ok || a.Asked == 0 || e.At < a.Limit {
		return
	}
	if one.Silent && !a.Heard {
		s.timed(a, timing{Seq: e.Seq, Limit: a.Limit - a.Asked, Mute: true})
	}
	if one.Silent || a.Heard {
		s.Expired = lastFew(s.Expired, expired{e.Seq, e.At, a.Service.PubKey.Hex()}, maxExpired)
		s.News.Set(fact.Parallelism, e.Seq)
	}
}

// judged keeps the score of the service, from which models are preferred, and whether accepted work was free.
func (s *folded) judged(one fact.AttemptJudged, e fact.Entry) {
	a, ok := s.Asked.Get(one.Attempt.Hex())
	if !ok {
		return
	}
	if one.Verdict.Counts() {
		key := scoreKey(a.Task, a.Service)
		s.Scores.Set(key, lastFew(s.Scores.Of(key), scored{e.Seq, one.Verdict.Score}, maxScores))
		s.News.Set(fact.ModelPreference, e.Seq)
	}
	if one.Verdict.Outcome == guild.Success && !a.Meeting {
		s.Done.Set(a.Task, lastFew(s.Done.Of(a.Task), doneWork{e.Seq, e.At, a.Cost == 0}, maxDone))
		s.News.Set(fact.CostBudget, e.Seq)
	}
}

// answered ends the wait of an attempt, which may still be judged.
func (s *folded) answered(attempt nostr.ID) {
	if a, ok := s.Asked.Get(attempt.Hex()); ok && a.Waits {
		a.Waits = false
		s.Asked.Set(attempt.Hex(), a)
		s.wait(a.Service.PubKey.Hex(), -1)
	}
}

func (s *folded) over(attempt nostr.ID) {
	s.answered(attempt)
	s.Asked.Delete(attempt.Hex())
}

// reserved books a bid in its month. Reservations are kept by job and turn until the actual cost is known.
func (s *folded) reserved(one fact.BidReserved) {
	month, job := monthOf(one.At), one.Job.String()
	bids := maps.Clone(s.Reserved.Of(job))
	if bids == nil {
		bids = reservedBids{}
	}
	bids[strconv.Itoa(one.Turn)] = reservedBid{one.Task, month, one.Amount}
	s.Reserved.Set(job, bids)
	if s.Began == 0 {
		s.Began = month
	}
	s.spend(one.Task, month, one.Amount)
}

// freed corrects the month of a reservation by the difference to what was spent.
func (s *folded) freed(one fact.BidFreed) {
	job, turn := one.Job.String(), strconv.Itoa(one.Turn)
	freed, ok := s.Reserved.Of(job)[turn]
	if !ok {
		return
	}
	left := maps.Clone(s.Reserved.Of(job))
	delete(left, turn)
	s.Reserved.Set(job, left)
	if len(left) == 0 {
		s.Reserved.Delete(job)
	}
	s.spend(freed.Task, freed.Month, one.Spent-freed.Amount)
}

// spend adds an amount to a task's month. Only the latest month and the one before are kept, because rollover needs no
// others.
func (s *folded) spend(task string, month int, amount guild.Msat) {
	sp := s.Spent.Of(task)
	if month > sp.Month {
		if month == sp.Month+1 {
			sp.Before = sp.Now
		} else {
			sp.Before = 0
		}
		sp.Month, sp.Now = month, 0
	}
	switch month {
	case sp.Month:
		sp.Now += amount
	case sp.Month - 1:
		sp.Before += amount
	}
	s.Spent.Set(task, sp)
}

// changed applies a new value, and drops the observations that led to it, so that they count once.
func (s *folded) changed(c fact.VariableChanged, e fact.Entry) {
	set := setting{To: c.To, Seq: e.Seq, Through: c.Through, Why: guild.Cut(c.Rationale, maxWhy)}
	number, isNumber := fact.ParseNumber(c.To)
	set.Number = number
	if !isNumber {
		set.Names, _ = readNames(c.To)
	}
	busy := c.Name == fact.Parallelism && s.Waiting.Of(c.Key) > 0
	if busy {
		s.busy(c.Key, -1)
	}
	s.Values.Set(keyOf(c.Name, c.Key), set)
	if busy {
		s.busy(c.Key, 1)
	}
	s.Moved.Set(c.Name, e.Seq)
	if c.Alert {
		s.Alerts = lastFew(s.Alerts, Alert{At: e.At, Name: c.Name, Key: c.Key, Rule: c.Rule, Rationale: c.Rationale}, maxAlerts)
	}
	s.consume(c, e)
}

// consume drops the observations up to the entry through which the decision has looked.
func (s *folded) consume(c fact.VariableChanged, e fact.Entry) {
	switch c.Name {
	case fact.TimeoutConfig:
		s.Timing.Set(c.Key, newer(s.Timing.Of(c.Key), func(t timing) uint64 { return t.Seq }, c.Through))
		if len(s.Timing.Of(c.Key)) == 0 {
			s.Timing.Delete(c.Key)
		}
	case fact.Parallelism:
		if c.Key == "" {
			s.Samples = newer(s.Samples, func(p sample) uint64 { return p.Seq }, c.Through)
			s.Expired = newer(s.Expired, func(x expired) uint64 { return x.Seq }, c.Through)
		} else if s.Reports.Of(c.Key).Seq <= c.Through {
			s.Reports.Delete(c.Key)
		}
	case fact.CostBudget:
		s.Month = monthOf(e.At)
		s.Fired.Set(c.Rule+"\x00"+c.Key, s.Month)
		if c.Rule == ruleFree {
			s.Done.Set(c.Key, newer(s.Done.Of(c.Key), func(d doneWork) uint64 { return d.Seq }, c.Through))
		}
	}
}
