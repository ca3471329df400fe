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

// Budget limits the bids for a task (the partnership protocol, section 4.1.4). Zero is no limit.
type Budget struct {
	Daily   guild.Msat // in a UTC day
	Monthly guild.Msat // in a UTC month

	Base guild.Msat // bid for the task as long as its cost is not known; the policy's if zero
}

// Envelope is the budget of a task in the present day and month.
type Envelope struct {
	Task    string
	Daily   Balance
	Monthly Balance
}

// Balance is a budget in one period.
type Balance struct {
	Limit    guild.Msat // 0 without one
	Reserved guild.Msat // bid, and not decided yet
	Spent    guild.Msat
	Borrowed guild.Msat // from other tasks, which have spent less than their share of the time
	Lent     guild.Msat // to other tasks
}

// room returns the amount that may still be bid.
func (p Balance) room() guild.Msat { return p.Limit + p.Borrowed - p.Lent - p.Reserved - p.Spent }

// spare returns the amount that may be lent after a share of the period: the same share of the limit, less what was used.
// A budget without a limit lends nothing.
func (p Balance) spare(elapsed guild.Trust) guild.Msat {
	due := scale(p.Limit, elapsed)
	return max(0, due+p.Borrowed-p.Lent-p.Reserved-p.Spent)
}

// The periods that a budget is kept for.
const (
	day = iota
	month
	periods
)

// period returns the UTC day or month of a time.
func period(of int, at time.Time) (from, to time.Time) {
	at = at.UTC()
	if of == month {
		from = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		return from, from.AddDate(0, 1, 0)
	}
	from = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(0, 0, 1)
}

// elapsed returns the share of a period that is over.
func elapsed(of int, at time.Time) guild.Trust {
	from, to := period(of, at)
	high, low := bits.Mul64(uint64(at.Sub(from)), guild.Micro)
	share, _ := bits.Div64(high, low, uint64(to.Sub(from)))
	return guild.Trust(share)
}

// grant finds room for an amount in the budget of a task: its own first, then loans of other tasks, beginning with those
// that have the most to spare. A task lends only what it should have used by that time of the period, so that all tasks
// together never spend more than all limits together. loans is nil if nothing must be lent.
func grant(balances map[string]Balance, task string, amount guild.Msat, elapsed guild.Trust) (loans map[string]guild.Msat, granted bool) {
	short := amount - max(0, balances[task].room())
	if short <= 0 || balances[task].Limit == 0 {
		return nil, true
	}
	lenders := slices.DeleteFunc(slices.Collect(maps.Keys(balances)), func(other string) bool {
		return other == task || balances[other].spare(elapsed) == 0
	})
	slices.SortFunc(lenders, func(a, b string) int {
		return cmp.Or(cmp.Compare(balances[b].spare(elapsed), balances[a].spare(elapsed)), cmp.Compare(a, b))
	})
	loans = map[string]guild.Msat{}
	for _, other := range lenders {
		if loan := min(short, balances[other].spare(elapsed)); loan > 0 {
			loans[other], short = loan, short-loan
		}
	}
	return loans, short == 0
}

// turn is the key of a reservation: an attempt's place in its job, from 1.
type turn struct {
	Job guild.JobID
	N   int
}

// MarshalText writes the job, a dot and the place.
func (t turn) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%s.%d", t.Job, t.N), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *turn) UnmarshalText(b []byte) (err error) {
	id, n, _ := bytes.Cut(b, []byte{'.'})
	if t.Job, err = guild.ParseJobID(string(id)); err != nil {
		return err
	}
	t.N, err = strconv.Atoi(string(n))
	return err
}

// reservation is a bid whose attempt has not ended.
type reservation struct {
	Task   string     `json:"task"`
	Amount guild.Msat `json:"amount"`
	At     int64      `json:"at"` // Unix ms
}

// account is the use of a task's budget in its latest day and month.
type account [periods]use

type use struct {
	From     int64                 `json:"from"` // Unix ms when the period began
	Reserved guild.Msat            `json:"reserved,omitempty"`
	Spent    guild.Msat            `json:"spent,omitempty"`
	Lent     guild.Msat            `json:"lent,omitempty"`
	Loans    map[string]guild.Msat `json:"loans,omitempty"` // by the lending task; never changed in place
}

func (u use) balance(limit guild.Msat) Balance {
	p := Balance{Limit: limit, Reserved: u.Reserved, Spent: u.Spent, Lent: u.Lent}
	for _, loan := range u.Loans {
		p.Borrowed += loan
	}
	return p
}

// borrow adds to the loan of another task.
func (u *use) borrow(other string, loan guild.Msat) {
	u.Loans = maps.Clone(u.Loans)
	if u.Loans == nil {
		u.Loans = map[string]guild.Msat{}
	}
	u.Loans[other] += loan
	if u.Loans[other] == 0 {
		delete(u.Loans, other)
	}
}

// ledger holds the use of all budgets. It follows from the facts about bids.
type ledger struct {
	Bids fold.Table[turn, reservation] `json:"bids"` // reserved
	Used fold.Table[string, account]   `json:"used"` // by task

	turns map[guild.JobID][]int // the reservations of each job
	ended map[turn]bool         // the reservations whose attempts have ended, see state.settleBids
}

// use changes the use of a task's budget in the period of a reservation, if that is the latest one.
func (l *ledger) use(of int, task string, at int64, by func(*use)) {
	began, _ := period(of, time.UnixMilli(at))
	from, a := began.UnixMilli(), l.Used.Of(task)
	if a[of].From < from {
		a[of] = use{From: from}
	}
	if a[of].From == from {
		by(&a[of])
		l.Used.Set(task, a)
	}
}

// reserve adds a reservation and its loans.
func (l *ledger) reserve(t turn, r reservation, loans [periods]map[string]guild.Msat) {
	l.Bids.Set(t, r)
	l.turns[t.Job] = append(l.turns[t.Job], t.N)
	for of := range periods {
		l.use(of, r.Task, r.At, func(u *use) { u.Reserved += r.Amount })
		for other, loan := range loans[of] {
			l.use(of, r.Task, r.At, func(u *use) { u.borrow(other, loan) })
			l.use(of, other, r.At, func(u *use) { u.Lent += loan })
		}
	}
}

// free ends a reservation. The unspent rest first pays back what the task has borrowed. So the loans in the end do not
// depend on the order in which attempts ended.
func (l *ledger) free(t turn, spent guild.Msat) {
	r, ok := l.Bids.Get(t)
	if !ok {
		return
	}
	l.Bids.Delete(t)
	delete(l.ended, t)
	l.turns[t.Job] = slices.DeleteFunc(l.turns[t.Job], func(n int) bool { return n == t.N })
	if len(l.turns[t.Job]) == 0 {
		delete(l.turns, t.Job)
	}
	for of := range periods {
		back := map[string]guild.Msat{}
		l.use(of, r.Task, r.At, func(u *use) {
			u.Reserved, u.Spent = u.Reserved-r.Amount, u.Spent+spent
			left := r.Amount - spent
			for _, other := range slices.Sorted(maps.Keys(u.Loans)) {
				back[other] = min(left, u.Loans[other])
				left -= back[other]
				u.borrow(other, -back[other])
			}
		})
		for other, loan := range back {
			l.use(of, other, r.At, func(u *use) { u.Lent -= loan })
		}
	}
}

func (s *state) applyBids(e fact.Entry) {
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.BidReserved:
			t := turn{one.Job, one.Turn}
			s.free(t, 0) // a reservation takes the place of the one before
			s.reserve(t, reservation{one.Task, one.Amount, one.At}, [periods]map[string]guild.Msat{one.Day, one.Month})
			s.settleBids(one.Job)
		case fact.BidFreed:
			s.free(turn{one.Job, one.Turn}, one.Spent)
		}
	}
}

// deriveBids computes what is not in a snapshot.
func (s *state) deriveBids() {
	s.turns, s.ended = map[guild.JobID][]int{}, map[turn]bool{}
	for t := range s.Bids.All() {
		s.turns[t.Job] = append(s.turns[t.Job], t.N)
	}
	for job := range s.turns {
		s.settleBids(job)
	}
}

// settleBids finds out which reservations of a job have ended. It is called for each change of the job, so that nobody has
// to go through the reservations of all jobs.
func (s *state) settleBids(job guild.JobID) {
	for _, n := range s.turns[job] {
		t := turn{job, n}
		if _, over := s.owed(t); over {
			s.ended[t] = true
		} else {
			delete(s.ended, t)
		}
	}
}

// owed returns how much of a reserved bid is spent, once that is decided: for an accepted delivery all of it, or the
// provider's quote if that was less; else nothing.
func (s *state) owed(t turn) (spent guild.Msat, over bool) {
	job, ok := s.Jobs.Get(t.Job)
	switch {
	case !ok:
		return 0, true
	case len(job.Attempts) < t.N:
		return 0, job.Ending != guild.Open
	}
	a := job.Attempts[t.N-1]
	if a.live() {
		return 0, false
	}
	if a.Held != nil && a.Held.Rail == "lightning" { // it may be paid whatever the verdict is
		return a.Got, a.State.Moved() || a.State == guild.Recorded
	}
	if s := a.stands(); s != guild.Accepted && s != guild.Paid && s != guild.Released {
		return 0, true
	}
	if a.Quote > 0 {
		return min(a.Bid, a.Quote), true
	}
	return a.Bid, true
}

// reserved returns the reservation for the next attempt of a job, if there is one.
func (f *Fold) reserved(job *Job) (amount guild.Msat, ok bool) {
	f.View(func(s *state) {
		var r reservation
		r, ok = s.Bids.Get(turn{job.Job, len(job.Attempts) + 1})
		amount = r.Amount
	})
	return amount, ok
}

// endedBids lists the reservations whose attempts have ended.
func (f *Fold) endedBids() []turn {
	return fold.Read(f.State, func(s *state) []turn { return slices.Collect(maps.Keys(s.ended)) })
}

// owed returns how much of a reserved bid is spent, and whether that is decided. An unknown reservation is not.
func (f *Fold) owed(t turn) (spent guild.Msat, over bool) {
	f.View(func(s *state) {
		if s.Bids.Has(t) {
			spent, over = s.owed(t)
		}
	})
	return spent, over
}

// accounts copies the use of each budget in the day and the month of a time.
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
