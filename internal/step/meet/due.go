package meet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/judging/suite"
)

// The intervals of searches for a candidate, and the pause of a service after a meeting. There may be a hundred
// thousand offers, so they are not searched for each fact.
const (
	soon  = 5 * time.Second // after the offers changed
	later = time.Minute     // otherwise
	again = 24 * time.Hour  // after a meeting
)

// Due lists the due effects of meetings. It does not look at the offers. It implements due.Source.
func (m *Meet) Due(now time.Time) []due.Work {
	var work []due.Work
	going := m.fold.underWay()
	for _, g := range going {
		if w, ok := m.next(g); ok {
			work = append(work, w)
		}
	}
	if m.c.Auto && len(going) < m.c.AtOnce {
		work = append(work, m.pick())
	}
	return work
}

// OffersChanged has the offers searched again soon.
func (m *Meet) OffersChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = true
}

// next returns the next effect of a meeting, its end or its next run, unless a run is open.
func (m *Meet) next(g *Meeting) (due.Work, bool) {
	for _, r := range g.Runs {
		if r.Closed == 0 {
			return due.Work{}, false
		}
	}
	c, over := conclude(g, m.c.Enough)
	if now := suite.Name(g.Task); !over && now != g.Suite {
		// Runs of two suites cannot be compared.
		c, over = Conclusion{Cause: fmt.Sprintf("begun with the benchmarks %s, which are now %s", g.Suite, cmp.Or(now, "none for the task"))}, true
	}
	if over {
		return m.end(g, c), true
	}
	return m.open(g, len(g.Runs)+1), true
}

// end records the conclusion of a meeting.
func (m *Meet) end(g *Meeting, c Conclusion) due.Work {
	return due.Decide("end meeting "+g.Meeting, fact.MeetingSubject, time.Time{}, func(tx *journal.Tx) error {
		if now, ok := m.fold.Meeting(g.Meeting); ok && now.Ended == nil {
			tx.Append(fact.MeetingEnded{Meeting: g.Meeting, Service: g.Service, Task: g.Task, To: c.To, Score: c.Score,
				Runs: len(g.Runs), Cause: guild.Cut(c.Cause, 500)})
		}
		return nil
	})
}

// open opens the job of a run. Doing it again opens no second job, because the job's id follows from the run.
func (m *Meet) open(g *Meeting, run int) due.Work {
	return due.Work{
		Key: fmt.Sprintf("open run %d of meeting %s", run, g.Meeting), Guard: fact.MeetingSubject, Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			seed := suite.SeedFor(m.c.Secret, g.Service, g.Meeting)
			made, err := m.c.Make(suite.Spec{Task: g.Task, Variant: g.Variant, Modules: g.Modules, Seed: seed, Run: run})
			if err != nil {
				return nil, fmt.Errorf("run %d of meeting %.8s: %w", run, g.Meeting, err)
			}
			err = m.c.Run(ctx, Run{
				Job: jobOf(g.Meeting, run), Task: g.Task, Kind: g.Kind, Service: g.Service, Bid: g.Bid,
				Title: made.Title, Bundle: made.Bundle, Hidden: made.Hidden,
				Meeting: fact.Benchmark{Meeting: g.Meeting, Run: run, Service: &g.Service, Suite: made.Name, Variant: g.Variant,
					Modules: g.Modules, Limit: made.Limit, Language: made.Speaks},
			})
			return func(*journal.Tx) error { return nil }, err
		},
	}
}

// pick begins a meeting with the best candidate, if there is one. The search is part of the act, because Due runs after
// every fact and has to be cheap.
func (m *Meet) pick() due.Work {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ready time.Time
	if !m.looked.IsZero() {
		ready = m.looked.Add(later)
		if m.stale {
			ready = m.looked.Add(soon)
		}
	}
	return due.Work{
		Key: "meet somebody", Guard: fact.MeetingSubject, Ready: ready, Free: true,
		Act: func(context.Context) (due.Decision, error) {
			m.mu.Lock()
			m.stale = false
			m.mu.Unlock()
			began, ok := m.candidate(m.c.Now())
			if !ok {
				m.rest()
				return func(*journal.Tx) error { return nil }, nil
			}
			// The search takes a while and another node may work on the same journal, so the decision checks the budget and the
			// candidate again.
			return func(tx *journal.Tx) error {
				if m.affords(tx.Now(), began.Purpose, began.Bid) && !m.met(tx.Now()).excludes(began.Service, began.Purpose) {
					tx.Append(began)
				} else {
					m.rest()
				}
				return nil
			}, nil
		},
	}
}

// rest records that there was no candidate.
func (m *Meet) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looked = m.c.Now()
}

// affords reports whether another automatic meeting with such a bid may begin. It counts the running ones, and the
// number and the bids of those that began on the same UTC day. A running meeting counts as the five runs that it may
// need, or as one if it is a look, and an ended one by its actual runs. So a newcomer that stays silent costs a fifth of
// a meeting. Meetings with known providers must leave a share of both to newcomers.
func (m *Meet) affords(now time.Time, purpose string, bid guild.Msat) bool {
	var all, known struct {
		runs int
		bids guild.Msat
	}
	for _, g := range m.fold.automatic(now) {
		runs := runsOf(g.Purpose)
		if g.Ended != nil {
			runs = len(g.Runs)
		}
		bids := g.Bid * guild.Msat(runs)
		all.runs += runs
		all.bids += bids
		if g.Purpose != "" {
			known.runs += runs
			known.bids += bids
		}
	}
	runs, daily := runsOf(purpose), m.c.Count*extended
	bids := guild.Msat(runs) * min(bid, m.c.Daily+1) // without an overflow
	if len(m.fold.underWay()) >= m.c.AtOnce || all.runs+runs > daily || all.bids+bids > m.c.Daily {
		return false
	}
	if purpose == "" {
		return true
	}
	return known.runs+runs <= daily-m.kept(daily, extended) &&
		known.bids+bids <= m.c.Daily-guild.Msat(m.kept(int(m.c.Daily), extended*int(m.c.Bid)))
}

// kept returns the part of a budget that is reserved for newcomers: at least enough for one of them, but 0 if that
// would be the whole budget.
func (m *Meet) kept(all, one int) int {
	part := max(int(int64(all)/guild.Micro*int64(m.c.Newcomers)+int64(all)%guild.Micro*int64(m.c.Newcomers)/guild.Micro), one)
	if part >= all {
		return 0
	}
	return part
}

// runsOf returns the largest number of runs of a meeting.
func runsOf(purpose string) int {
	if guild.IsLook(purpose) {
		return 1
	}
	return extended
}

// candidate returns the next meeting to begin: with a known provider whose benchmark is due, or else with the next
// newcomer by the turns of the classes.
func (m *Meet) candidate(now time.Time) (fact.MeetingBegan, bool) {
	if began, ok := m.known(now); ok {
		return began, true
	}
	if !m.affords(now, "", m.c.Bid) {
		return fact.MeetingBegan{}, false
	}
	first := next(m.newcomers(now), m.fold.metNewcomers(), m.chance)
	if first == nil {
		return fact.MeetingBegan{}, false
	}
	return m.meeting(first.Offer, first.task), true
}

// newcomers lists the services that could be met now, each for the first task that it offers with the highest
// confidence.
func (m *Meet) newcomers(now time.Time) (all []newcomer) {
	met, places := m.met(now), map[guild.Service]int{}
	for _, task := range suite.Tasks() {
		for o := range m.c.Offers(task, m.c.Kind(task)) {
			if o.State != guild.Seen || o.Until > now.UnixMilli() || o.Service.PubKey == m.c.Self || met.excludes(o.Service, "") {
				continue
			}
			if o.Price > m.c.Bid && !m.affords(now, "", o.Price) {
				continue
			}
			if at, again := places[o.Service]; again {
				if o.Confidence > all[at].Confidence {
					all[at].Offer, all[at].task = o, task
				}
				continue
			}
			places[o.Service] = len(all)
			all = append(all, m.newcomer(o, task))
		}
	}
	return all
}

// newcomer returns an offer with what orders it.
func (m *Meet) newcomer(o guild.Offer, task string) newcomer {
	n := newcomer{Offer: o, task: task, met: m.fold.ever(o.Service.PubKey), since: o.First, rating: guild.Micro / 2}
	if last := m.fold.last(o.Service); last != nil {
		n.since = max(n.since, last.Until)
	}
	if m.c.Said != nil {
		n.rating = m.c.Said(o.Service)
	}
	return n
}

// known returns the meeting with the known provider whose benchmark has been due for the longest time.
func (m *Meet) known(now time.Time) (fact.MeetingBegan, bool) {
	if m.c.Checkups == nil || !m.affords(now, guild.PurposeProbe, m.c.Bid) {
		return fact.MeetingBegan{}, false
	}
	met, whole := m.met(now), m.affords(now, guild.PurposeRetry, m.c.Bid)
	due := slices.DeleteFunc(m.c.Checkups(now), func(c guild.Checkup) bool {
		return !guild.IsLook(c.Purpose) && !whole || c.Service.PubKey == m.c.Self || met.excludes(c.Service, c.Purpose)
	})
	if len(due) == 0 {
		return fact.MeetingBegan{}, false
	}
	tasks := m.offering(due)
	for _, c := range due {
		offered := tasks[c.Service]
		if len(offered) == 0 {
			continue // it announces no task with a benchmark
		}
		task := c.Task
		if !slices.Contains(offered, task) {
			task = offered[0]
		}
		o, err := m.offered(c.Service.PubKey, &c.Service.D, task, false)
		if err != nil || !m.affords(now, c.Purpose, m.bid(o)) {
			continue
		}
		began := m.meeting(o, task)
		began.Purpose = c.Purpose
		if guild.IsLook(c.Purpose) {
			began.Modules = suite.Modules[:1]
		}
		return began, true
	}
	return fact.MeetingBegan{}, false
}

// offering returns the tasks with a benchmark that each service announces.
func (m *Meet) offering(due []guild.Checkup) map[guild.Service][]string {
	tasks := map[guild.Service][]string{}
	wanted := map[guild.Service]bool{}
	for _, c := range due {
		wanted[c.Service] = true
	}
	for _, task := range suite.Tasks() {
		for o := range m.c.Offers(task, m.c.Kind(task)) {
			if wanted[o.Service] {
				tasks[o.Service] = append(tasks[o.Service], task)
			}
		}
	}
	return tasks
}

// met knows the services that are in a meeting or were recently. Newcomers are counted by key, because one key may
// announce any number of services.
type met struct {
	fold  *Fold
	now   time.Time
	going map[guild.Service]bool
	today map[nostr.PubKey]bool // in a meeting, or met as a newcomer by an automatic meeting on this UTC day
}

// met returns the services and keys that are in a meeting or were met on the UTC day of now.
func (m *Meet) met(now time.Time) met {
	met := met{fold: m.fold, now: now, going: map[guild.Service]bool{}, today: map[nostr.PubKey]bool{}}
	for _, g := range m.fold.underWay() {
		met.going[g.Service], met.today[g.Service.PubKey] = true, true
	}
	for _, g := range m.fold.automatic(now) {
		if g.Purpose == "" {
			met.today[g.Service.PubKey] = true
		}
	}
	return met
}

// excludes reports whether a meeting with a service may not begin now. That is so while another one is running; for a
// known service if a recent meeting taught nothing; and for a newcomer if it was met recently, or its key today.
func (m met) excludes(s guild.Service, purpose string) bool {
	if m.going[s] {
		return true
	}
	last := m.fold.last(s)
	recent := last != nil && last.Ended != nil && time.UnixMilli(last.Until).Add(last.pause()).After(m.now)
	if purpose != "" {
		return recent && last.Ended.To == ""
	}
	return recent || m.today[s.PubKey]
}

// pause returns the time between a meeting and the next one: a day, doubled by each inconclusive meeting in a row, so
// that a provider without free capacity is not asked every day.
func (m *Meeting) pause() time.Duration {
	const longest = 5 // doublings: about a month
	return again << min(max(m.Vain-1, 0), longest)
}

// chance returns a pseudo-random number of a service, always the same one. It depends on the node's secret, because
// otherwise somebody could search for keys that are always first.
func (m *Meet) chance(s guild.Service) guild.Hash {
	return guild.Sum(slices.Concat(m.c.Secret, s.PubKey[:], []byte(s.D)))
}
