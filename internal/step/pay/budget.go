package pay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

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

// scope names what a budget is for, in tables.
func scope(b fact.BudgetSet) string {
	switch {
	case b.Task != "":
		return b.Unit + " task " + b.Task
	case b.Provider != nostr.ZeroPK:
		return b.Unit + " provider " + b.Provider.Hex()
	}
	return b.Unit
}

// scopes returns the scopes of the budgets that a payment is within.
func scopes(r fact.PaymentReserved) []string {
	return []string{
		scope(fact.BudgetSet{Unit: r.Unit}), scope(fact.BudgetSet{Unit: r.Unit, Task: r.Task}), scope(fact.BudgetSet{Unit: r.Unit, Provider: r.Provider}),
	}
}

// taken returns what a payment takes from the owner, with the fee. The amount of one on the chain includes that.
func taken(r fact.PaymentReserved) uint64 {
	if r.Bitcoin != "" {
		return r.Amount
	}
	return r.Amount + r.Fee
}

// reserve counts what was set aside, in each scope: it may get a budget later.
func (s *state) reserve(r fact.PaymentReserved, at int64) {
	if o, ok := s.Orders.Get(r.Job); ok {
		o.Spent += taken(r)
		s.Orders.Set(r.Job, o)
	}
	s.forgetUse(at)
	for _, scope := range scopes(r) {
		u := s.Used.Of(scope).at(at)
		u.Today, u.All = u.Today+taken(r), u.All+taken(r)
		s.Used.Set(scope, u)
	}
}

// forgetUse forgets the use in other months than that of a time, once for each month.
func (s *state) forgetUse(at int64) {
	_, month := periods(at)
	if s.Month == month {
		return
	}
	s.Month = month
	var old []string
	for scope, u := range s.Used.All() {
		if u.Month != month {
			old = append(old, scope)
		}
	}
	for _, scope := range old {
		s.Used.Delete(scope)
	}
}

// free counts an amount that was set aside at a time, and was not paid.
func (s *state) free(r fact.PaymentReserved, amount uint64, at int64) {
	if o, ok := s.Orders.Get(r.Job); ok {
		o.Spent -= min(o.Spent, amount)
		s.Orders.Set(r.Job, o)
	}
	day, month := periods(at)
	for _, scope := range scopes(r) {
		u := s.Used.Of(scope)
		if u.Day == day {
			u.Today -= min(u.Today, amount)
		}
		if u.Month == month {
			u.All -= min(u.All, amount)
		}
		if u.Month != 0 { // else it is forgotten
			s.Used.Set(scope, u)
		}
	}
}

// within returns an error if a payment would be over a budget.
func (s *state) within(r fact.PaymentReserved, now int64) error {
	for _, scope := range scopes(r) {
		b, ok := s.Budgets.Get(scope)
		if !ok {
			continue
		}
		u := s.Used.Of(scope).at(now)
		for _, limit := range []struct {
			name       string
			most, used uint64
		}{
			{"the budget of a job", b.Job, s.Orders.Of(r.Job).Spent}, {"the day's budget", b.Daily, u.Today}, {"the month's budget", b.Monthly, u.All},
		} {
			if limit.most > 0 && (limit.used > limit.most || taken(r) > limit.most-limit.used) {
				return fmt.Errorf("%d %s are over %s%s: %d %s, of which %d %s are used (guild wallet budget)",
					taken(r), r.Unit, limit.name, whose(b), limit.most, r.Unit, limit.used, r.Unit)
			}
		}
	}
	return nil
}

// whose names the scope of a budget for a person.
func whose(b fact.BudgetSet) string {
	switch {
	case b.Task != "":
		return " for the task " + b.Task
	case b.Provider != nostr.ZeroPK:
		return " for the provider " + nip19.EncodeNpub(b.Provider)
	}
	return ""
}

// Budgets lists the budgets, ordered by unit.
func (p *Pay) Budgets() (all []Budget) {
	now := p.c.Now().UnixMilli()
	p.fold.View(func(s *state) {
		for scope, b := range s.Budgets.All() {
			u := s.Used.Of(scope).at(now)
			all = append(all, Budget{BudgetSet: b, Today: u.Today, Month: u.All})
		}
	})
	slices.SortFunc(all, func(a, b Budget) int { return cmp.Compare(scope(a.BudgetSet), scope(b.BudgetSet)) })
	return all
}

// SetBudget replaces a budget. One without limits is removed.
func (p *Pay) SetBudget(ctx context.Context, b fact.BudgetSet) error {
	return p.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		tx.Append(b)
		return nil
	})
}
