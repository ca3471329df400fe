package jobs

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Budget is how much may be bid for a task (the partnership protocol, section 4.1.4). Zero is no limit.
type Budget struct {
	Daily   guild.Msat // in a UTC day
	Monthly guild.Msat // in a UTC month

	Base guild.Msat // bid for the task as long as nothing is known of what it costs; the policy's if zero
}

// Envelope is a budget and what is left of it.
type Envelope struct {
	Task    string
	Daily   Purse
	Monthly Purse
}

// Purse is one period of a budget.
type Purse struct {
	Limit    guild.Msat // 0 without one
	Reserved guild.Msat // bid, and not decided yet
	Spent    guild.Msat
	Borrowed guild.Msat // from other tasks, which have spent less than the time that has passed
	Lent     guild.Msat // to other tasks
}

// room is what may still be bid.
func (p Purse) room() guild.Msat { return p.Limit + p.Borrowed - p.Lent - p.Reserved - p.Spent }

// spare is what may be lent when so much of the period has passed, as a share: what of its limit should have been used
// by then and was not. Of a budget without a limit nothing is.
func (p Purse) spare(elapsed guild.Trust) guild.Msat {
	due := scale(p.Limit, elapsed)
	return max(0, due+p.Borrowed-p.Lent-p.Reserved-p.Spent)
}

// The periods that a budget is kept for.
const (
	day = iota
	month
	periods
)

// period is the UTC day or month that a time lies in.
func period(of int, at time.Time) (from, to time.Time) {
	at = at.UTC()
	if of == month {
		from = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		return from, from.AddDate(0, 1, 0)
	}
	from = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(0, 0, 1)
}

// elapsed is the share of a period that is over.
func elapsed(of int, at time.Time) guild.Trust {
	from, to := period(of, at)
	high, low := bits.Mul64(uint64(at.Sub(from)), guild.Micro)
	share, _ := bits.Div64(high, low, uint64(to.Sub(from)))
	return guild.Trust(share)
}

// grant finds room for an amount in the purse of a task: its own first, then what others lend, those with the most to
// spare before the rest. Nobody lends more than it has left unspent by that time of the period, so that all together
// never spend more than all limits together. loans is nil where nothing has to be lent.
func grant(purses map[string]Purse, task string, amount guild.Msat, elapsed guild.Trust) (loans map[string]guild.Msat, granted bool) {
	short := amount - max(0, purses[task].room())
	if short <= 0 || purses[task].Limit == 0 {
		return nil, true
	}
	lenders := slices.DeleteFunc(slices.Collect(maps.Keys(purses)), func(other string) bool {
		return other == task || purses[other].spare(elapsed) == 0
	})
	slices.SortFunc(lenders, func(a, b string) int {
		return cmp.Or(cmp.Compare(purses[b].spare(elapsed), purses[a].spare(elapsed)), cmp.Compare(a, b))
	})
	loans = map[string]guild.Msat{}
	for _, other := range lenders {
		if loan := min(short, purses[other].spare(elapsed)); loan > 0 {
			loans[other], short = loan, short-loan
		}
	}
	return loans, short == 0
}

// turn names a reservation: an attempt's place in its job, from 1.
type turn struct {
	Job guild.JobID
	N   int
}

// MarshalText writes the form of a key.
func (t turn) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%s.%d", t.Job, t.N), nil }

// UnmarshalText reads it.
func (t *turn) UnmarshalText(b []byte) (err error) {
	id, n, _ := bytes.Cut(b, []byte{'.'})
	if t.Job, err = guild.ParseJobID(string(id)); err != nil {
		return err
	}
	t.N, err = strconv.Atoi(string(n))
	return err
}

// reservation is a bid that no end of its attempt has freed yet.
type reservation struct {
	Task   string     `json:"task"`
	Amount guild.Msat `json:"amount"`
	At     int64      `json:"at"` // Unix ms
}

// account is what of a task's budget is used in the latest day and month of it.
type account [periods]use

type use struct {
	From     int64                 `json:"from"` // Unix ms when the period began
	Reserved guild.Msat            `json:"reserved,omitempty"`
	Spent    guild.Msat            `json:"spent,omitempty"`
	Lent     guild.Msat            `json:"lent,omitempty"`
	Loans    map[string]guild.Msat `json:"loans,omitempty"` // by who lends; never changed in place
}

func (u use) purse(limit guild.Msat) Purse {
	p := Purse{Limit: limit, Reserved: u.Reserved, Spent: u.Spent, Lent: u.Lent}
	for _, loan := range u.Loans {
		p.Borrowed += loan
	}
	return p
}

// borrow adds to what others lend.
func (u *use) borrow(other string, loan guild.Msat) {
	u.Loans = maps.Clone(u.Loans)
	if u.Loans == nil {
		u.Loans = map[string]guild.Msat{}
	}
	if u.Loans[other] += loan; u.Loans[other] == 0 {
		delete(u.Loans, other)
	}
}

// purse is what of all budgets is used, as the facts about bids have it.
type purse struct {
	Bids fold.Table[turn, reservation] `json:"bids"` // reserved
	Used fold.Table[string, account]   `json:"used"` // by task
}

// use changes what of a task's budget is used in the period that a reservation was made in, if that is the latest one.
func (p *purse) use(of int, task string, at int64, by func(*use)) {
	began, _ := period(of, time.UnixMilli(at))
	from, a := began.UnixMilli(), p.Used.Of(task)
	if a[of].From < from {
		a[of] = use{From: from}
	}
	if a[of].From == from {
		by(&a[of])
		p.Used.Set(task, a)
	}
}

// reserve begins a reservation.
func (p *purse) reserve(t turn, r reservation, loans [periods]map[string]guild.Msat) {
	p.Bids.Set(t, r)
	for of := range periods {
		p.use(of, r.Task, r.At, func(u *use) { u.Reserved += r.Amount })
		for other, loan := range loans[of] {
			p.use(of, r.Task, r.At, func(u *use) { u.borrow(other, loan) })
			p.use(of, other, r.At, func(u *use) { u.Lent += loan })
		}
	}
}

// free ends a reservation. What was not spent pays back what the task has borrowed, before it is its own again: so what
// is lent in the end does not depend on what was decided first.
func (p *purse) free(t turn, spent guild.Msat) {
	r, ok := p.Bids.Get(t)
	if !ok {
		return
	}
	p.Bids.Delete(t)
	for of := range periods {
		back := map[string]guild.Msat{}
		p.use(of, r.Task, r.At, func(u *use) {
			u.Reserved, u.Spent = u.Reserved-r.Amount, u.Spent+spent
			left := r.Amount - spent
			for _, other := range slices.Sorted(maps.Keys(u.Loans)) {
				back[other] = min(left, u.Loans[other])
				left -= back[other]
				u.borrow(other, -back[other])
			}
		})
		for other, loan := range back {
			p.use(of, other, r.At, func(u *use) { u.Lent -= loan })
		}
	}
}

func (p *purse) applyBids(e fact.Entry) {
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.BidReserved:
			t := turn{one.Job, one.Turn}
			p.free(t, 0) // a reservation takes the place of the one before
			p.reserve(t, reservation{one.Task, one.Amount, one.At}, [periods]map[string]guild.Msat{one.Day, one.Month})
		case fact.BidFreed:
			p.free(turn{one.Job, one.Turn}, one.Spent)
		}
	}
}

// reserved is what the next attempt of a job may bid, if that was decided.
func (f *Fold) reserved(job *Job) (amount guild.Msat, ok bool) {
	f.View(func(s *state) {
		var r reservation
		r, ok = s.Bids.Get(turn{job.Job, len(job.Attempts) + 1})
		amount = r.Amount
	})
	return amount, ok
}

// reservations lists what is reserved.
func (f *Fold) reservations() (turns []turn) {
	f.View(func(s *state) {
		for t := range s.Bids.All() {
			turns = append(turns, t)
		}
	})
	return turns
}

// accounts copies what of each budget is used in the day and the month that a time lies in.
func (f *Fold) accounts(now time.Time) map[string]account {
	all := map[string]account{}
	f.View(func(s *state) {
		for task, a := range s.Used.All() {
			used := false
			for of := range periods {
				if from, _ := period(of, now); a[of].From != from.UnixMilli() {
					a[of] = use{}
				}
				used = used || a[of].From != 0
			}
			if used {
				all[task] = a
			}
		}
	})
	return all
}
