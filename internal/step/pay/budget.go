package pay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// Budget limits what is locked and paid in a unit, and says how much of it is used. What comes back is free again.
type Budget struct {
	fact.BudgetSet
	Today, Month uint64 // used, in the present UTC day and month
}

// use counts the money that was locked or paid in the latest day and month.
type use struct {
	Day   int64  `json:"day"` // Unix ms when it began
	Today uint64 `json:"today"`
	Month int64  `json:"month"`
	All   uint64 `json:"all"` // in the month
}

// periods returns when the UTC day and month of a time began, in Unix ms.
func periods(at int64) (day, month int64) {
	t := time.UnixMilli(at).UTC()
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).UnixMilli(), time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC).UnixMilli()
}

// at returns the use in the periods of a time.
func (u use) at(now int64) use {
	day, month := periods(now)
	if u.Day != day {
		u.Day, u.Today = day, 0
	}
	if u.Month != month {
		u.Month, u.All = month, 0
	}
	return u
}

// reserve counts an amount that was set aside.
func (s *state) reserve(job guild.JobID, unit string, amount uint64, at int64) {
	if o, ok := s.Orders.Get(job); ok {
		o.Spent += amount
		s.Orders.Set(job, o)
	}
	u := s.Used.Of(unit).at(at)
	u.Today, u.All = u.Today+amount, u.All+amount
	s.Used.Set(unit, u)
}

// free counts an amount that was set aside at a time, and was not paid.
func (s *state) free(job guild.JobID, unit string, amount uint64, at int64) {
	if o, ok := s.Orders.Get(job); ok {
		o.Spent -= min(o.Spent, amount)
		s.Orders.Set(job, o)
	}
	u := s.Used.Of(unit)
	day, month := periods(at)
	if u.Day == day {
		u.Today -= min(u.Today, amount)
	}
	if u.Month == month {
		u.All -= min(u.All, amount)
	}
	s.Used.Set(unit, u)
}

// within returns an error if an amount for a job is over a budget. spent is what the job has used.
func (b Budget) within(amount, spent uint64) error {
	over := func(limit, used uint64) bool { return limit > 0 && (used > limit || amount > limit-used) }
	switch {
	case over(b.Job, spent):
		return fmt.Errorf("%d %s are over the budget of a job: %d, of which %d are used (guild wallet budget)", amount, b.Unit, b.BudgetSet.Job, spent)
	case over(b.Daily, b.Today):
		return fmt.Errorf("%d %s are over the day's budget: %d, of which %d are used (guild wallet budget)", amount, b.Unit, b.Daily, b.Today)
	case over(b.Monthly, b.Month):
		return fmt.Errorf("%d %s are over the month's budget: %d, of which %d are used (guild wallet budget)", amount, b.Unit, b.Monthly, b.Month)
	}
	return nil
}

// budget returns the budget of a unit at a time, and what a job has used of it.
func (s *state) budget(unit string, job guild.JobID, now int64) (b Budget, spent uint64) {
	b.BudgetSet = s.Budgets.Of(unit)
	b.Unit = unit
	u := s.Used.Of(unit).at(now)
	b.Today, b.Month = u.Today, u.All
	return b, s.Orders.Of(job).Spent
}

// Budgets lists the budgets, ordered by unit.
func (p *Pay) Budgets() (all []Budget) {
	now := p.c.Now().UnixMilli()
	p.fold.View(func(s *state) {
		for unit := range s.Budgets.All() {
			b, _ := s.budget(unit, guild.JobID{}, now)
			all = append(all, b)
		}
	})
	slices.SortFunc(all, func(a, b Budget) int { return cmp.Compare(a.Unit, b.Unit) })
	return all
}

// SetBudget replaces the budget of a unit.
func (p *Pay) SetBudget(ctx context.Context, b fact.BudgetSet) error {
	return p.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		tx.Append(b)
		return nil
	})
}
