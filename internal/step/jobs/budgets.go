package jobs

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Others is the task by which Config.Budgets names the budget of every task that has none of its own.
const Others = "*"

// budget returns the budget of a task. The variable COST_BUDGET adds to its month, or takes away.
func (c Config) budget(task string) (Budget, bool) {
	b, ok := c.Budgets[task]
	for _, others := range [...]string{Others, ""} {
		if !ok {
			b, ok = c.Budgets[others]
		}
	}
	if ok && b.Monthly > 0 && c.Variables != nil {
		b.Monthly = max(1, b.Monthly+c.Variables.Budget(task)) // 0 would be no limit
	}
	return b, ok
}

// Budget lists the configured budgets, and those of other tasks for which something was bid, by task.
func (j *Jobs) Budget(now time.Time) []Envelope { return j.envelopes(now) }

// envelopes lists the budgets, including those of the given tasks.
func (j *Jobs) envelopes(now time.Time, also ...string) (all []Envelope) {
	used := j.fold.accounts(now)
	tasks := slices.AppendSeq(also, maps.Keys(used))
	for task := range j.c.Budgets {
		if task != Others && task != "" {
			tasks = append(tasks, task)
		}
	}
	slices.Sort(tasks)
	for _, task := range slices.Compact(tasks) {
		if b, ok := j.c.budget(task); ok {
			all = append(all, Envelope{task, used[task][day].balance(b.Daily), used[task][month].balance(b.Monthly)})
		}
	}
	return all
}

// allowance is the answer of the budgets to a bid: whether it is allowed now, and if not, when it may be.
//
// There are two times because bids for other jobs may still be undecided. If all of them are spent, the bid is allowed at
// until; if all of them are freed, at least. A job waits for the first; it ends early only if even the second is after its
// deadline.
type allowance struct {
	loans [periods]map[string]guild.Msat
	until time.Time // when the bid is allowed if all reserved bids are spent; zero if it is allowed now
	least time.Time // when it is allowed if all reserved bids are freed
	never bool      // it is more than all budgets of a period together
	why   string
}

// allows asks the budgets of a day and a month for an amount.
func (j *Jobs) allows(task string, amount guild.Msat, now time.Time) allowance {
	b, _ := j.c.budget(task)
	all := j.envelopes(now, task)
	var a allowance
	for of := range periods {
		balances, final := map[string]Balance{}, map[string]Balance{}
		for _, e := range all {
			p := [periods]Balance{e.Daily, e.Monthly}[of]
			balances[e.Task] = p
			p.Reserved = 0
			final[e.Task] = p
		}
		loans, granted := grant(balances, task, amount, elapsed(of, now))
		a.loans[of] = loans
		if granted {
			continue
		}
		until, least := granting(balances, of, task, amount, now), granting(final, of, task, amount, now)
		a.until, a.least = later(a.until, until), later(a.least, least)
		if most := whole(balances); !a.never && amount > most {
			a.never, a.why = true, impossible(task, of, amount, most)
		}
		if a.never {
			continue
		}
		_, to := period(of, now)
		a.why = refusal(task, of, until, least, to, [periods]guild.Msat{b.Daily, b.Monthly}[of])
	}
	return a
}

// whole returns the most that a period can ever grant to one task: all budgets together.
func whole(balances map[string]Balance) (most guild.Msat) {
	for _, p := range balances {
		most = min(most+p.Limit, mostBid)
	}
	return most
}

// impossible says for a person that no budget will ever allow a bid.
func impossible(task string, of int, amount, most guild.Msat) string {
	return fmt.Sprintf("%s must be bid, and the budget for %s never allows more than %s a %s, with all that other tasks could lend; "+
		"bid less, or raise it under [budget] in the configuration", amount, task, most, [periods]string{"day", "month"}[of])
}

// granting returns when the budgets of a period allow an amount if nothing else is bid: other tasks can lend more as time
// passes, and in the next period all begins anew.
func granting(balances map[string]Balance, of int, task string, amount guild.Msat, now time.Time) time.Time {
	from, to := period(of, now)
	begins := elapsed(of, now)
	share := begins + guild.Trust(sort.Search(int(guild.Micro-begins), func(n int) bool {
		_, granted := grant(balances, task, amount, begins+guild.Trust(n))
		return granted
	}))
	switch {
	case share == begins:
		return now
	case share == guild.Micro:
		return to
	}
	ms := (to.Sub(from).Milliseconds()*int64(share) + guild.Micro - 1) / guild.Micro
	return from.Add(time.Duration(ms) * time.Millisecond)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// refusal says for a person which budget does not allow a bid, in a period that ends at to.
func refusal(task string, of int, until, least, to time.Time, limit guild.Msat) string {
	what, name := "spent", [periods]string{"day", "month"}[of]
	switch {
	case until.Before(to):
		what = "too little, with what other tasks lend,"
	case least.Before(to):
		what = "spent, or bid for other jobs,"
	}
	return fmt.Sprintf("the budget for %s is %s until %s: %s a %s; raise it under [budget] in the configuration",
		task, what, until.UTC().Format("2006-01-02 15:04 MST"), limit, name)
}

// limited reports whether a bid for a task must be reserved before it is made.
func (j *Jobs) limited(task string, amount guild.Msat) bool {
	b, ok := j.c.budget(task)
	return ok && amount > 0 && b.Daily+b.Monthly > 0
}

// reserve reserves the bid of a job's next attempt. All reservations are decided under one guard: decisions for other jobs
// at the same time, here or on another node, come before it or after it, so that no budget is granted twice.
func (j *Jobs) reserve(job *Job, amount guild.Msat) due.Work {
	next := len(job.Attempts) + 1
	w := due.Decide(fmt.Sprintf("reserve the bid %d of %s", next, job.Job), fact.BidSubject, time.Time{}, func(tx *journal.Tx) error {
		now, ok := j.fold.Job(job.Job)
		if !ok || len(now.Attempts)+1 != next {
			return nil
		}
		_, had := j.fold.reserved(now)
		if v := j.view(now, tx.Now()); had || v.stops() || v.missing() <= 0 {
			return nil
		}
		a := j.allows(job.Task, amount, tx.Now())
		if a.until.IsZero() {
			tx.Append(fact.BidReserved{Job: job.Job, Turn: next, Task: job.Task, Amount: amount, At: tx.Now().UnixMilli(),
				Day: a.loans[day], Month: a.loans[month]})
		}
		return nil
	})
	w.Of = fact.JobSubject(job.Job)
	return w
}

// giveBack frees a reservation that was made for a provider that is gone, and is too little for the present one.
func (j *Jobs) giveBack(job *Job) due.Work {
	t := turn{job.Job, len(job.Attempts) + 1}
	w := due.Decide(fmt.Sprintf("give the bid %d of %s back", t.N, t.Job), fact.BidSubject, time.Time{}, func(tx *journal.Tx) error {
		if now, ok := j.fold.Job(job.Job); ok && len(now.Attempts) < t.N && j.fold.holds(t) {
			tx.Append(fact.BidFreed{Job: t.Job, Turn: t.N})
		}
		return nil
	})
	w.Of = fact.JobSubject(job.Job)
	return w
}

// ask reserves the bid of a job's next attempt, if a budget limits it, and then plans the attempt. A reserved amount is
// bid even if another would be computed by now.
func (j *Jobs) ask(job *Job, o guild.Offer) due.Work {
	bid := j.bid(job, o)
	had, ok := j.fold.reserved(job)
	switch {
	case !j.limited(job.Task, bid):
		return j.plan(job, o, bid)
	case !ok:
		return j.reserve(job, bid)
	case had < min(bid, o.Price):
		return j.giveBack(job)
	}
	return j.plan(job, o, had)
}

// asks returns the answer of the budgets to all that a job still has to bid.
func (v *view) asks() allowance {
	if _, kept := v.jobs.c.budget(v.Task); !kept {
		return allowance{}
	}
	bid := v.Bid
	if v.Unbid {
		best := v.field().best
		if best == nil {
			return allowance{}
		}
		bid = v.jobs.bid(v.Job, *best)
	}
	more := guild.Msat(max(1, v.quorum()-v.agreeing-v.uncompared-v.live))
	if _, ok := v.jobs.fold.reserved(v.Job); ok {
		more--
	}
	if more == 0 || !v.jobs.limited(v.Task, bid) {
		return allowance{}
	}
	return v.jobs.allows(v.Task, more*bid, v.now)
}

// hopeless says why no budget will ever allow what the job still has to bid, if that is so. Only a bid that the customer
// named can be hopeless: a computed one depends on the providers that may still appear.
func (v *view) hopeless() (why string, hopeless bool) {
	if v.Unbid || v.missing() <= 0 {
		return "", false
	}
	a := v.asks()
	return a.why, a.never
}

// broke says why the budgets allow no further bid before the job's deadline, if that is so.
func (v *view) broke() (why string, broke bool) {
	if v.missing() <= 0 {
		return "", false
	}
	a := v.asks()
	if a.until.IsZero() || !a.never && a.least.Before(v.deadline()) {
		return "", false
	}
	if last := v.last(""); last != "" {
		a.why = last + "; " + a.why
	}
	return v.disagreement() + a.why, true
}

// dueForBids frees the reservations whose attempts have ended.
func (j *Jobs) dueForBids() (work []due.Work) {
	for _, t := range j.fold.endedBids() {
		work = append(work, due.Decide(fmt.Sprintf("free the bid %d of %s", t.N, t.Job), fact.BidSubject, time.Time{}, func(tx *journal.Tx) error {
			if spent, over := j.fold.owed(t); over {
				tx.Append(fact.BidFreed{Job: t.Job, Turn: t.N, Spent: spent})
			}
			return nil
		}))
	}
	return work
}

func (f *Fold) holds(t turn) bool {
	return fold.Read(f.State, func(s *state) bool { return s.Bids.Has(t) })
}
