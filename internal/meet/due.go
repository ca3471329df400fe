package meet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/internal/suite"
)

// How often the offers are looked through for somebody to meet, when they have changed and when not: there may be a
// hundred thousand. And how long a service is left alone after a meeting that did not move it.
const (
	soon  = 5 * time.Second
	later = time.Minute
	again = 24 * time.Hour
)

// Due lists what is due for the meetings. It implements due.Source. It never looks at the offers.
func (m *Meet) Due(now time.Time) []due.Work {
	var work []due.Work
	going := m.fold.goingOn()
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

// OffersChanged has the offers looked through again soon.
func (m *Meet) OffersChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = true
}

// next is what a meeting needs: its end, or its next run.
func (m *Meet) next(g *Meeting) (due.Work, bool) {
	for _, r := range g.Runs {
		if r.Closed == 0 {
			return due.Work{}, false
		}
	}
	c, over := conclude(g, m.c.Enough)
	if now := suite.Name(g.Task); !over && now != g.Suite {
		// Runs of two suites say nothing together.
		c, over = Conclusion{Cause: fmt.Sprintf("it was begun with the benchmarks %s, and there are now %s", g.Suite, cmp.Or(now, "none for the task"))}, true
	}
	if over {
		return m.end(g, c), true
	}
	return m.open(g, len(g.Runs)+1), true
}

// end says what a meeting came to.
func (m *Meet) end(g *Meeting, c Conclusion) due.Work {
	return due.Decide("end meeting "+g.Meeting, fact.MeetingSubject, time.Time{}, func(tx *journal.Tx) error {
		if now, ok := m.fold.Meeting(g.Meeting); ok && now.Ended == nil {
			tx.Append(fact.MeetingEnded{Meeting: g.Meeting, Service: g.Service, Task: g.Task, To: c.To, Score: c.Score,
				Runs: len(g.Runs), Cause: guild.Cut(c.Cause, 500)})
		}
		return nil
	})
}

// open opens the job of a run. Its id follows from the run, so that it is opened once however often this is done.
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

// pick begins a meeting with the best candidate, if there is one. Looking for it is part of the act: the list of what
// is due is made after every fact.
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
			return func(tx *journal.Tx) error {
				if m.affords(tx.Now(), began.Purpose) && !m.met(tx.Now()).out(began.Service, began.Purpose) {
					tx.Append(began)
				} else {
					m.rest()
				}
				return nil
			}, nil
		},
	}
}

// rest notes that there was nobody to be met.
func (m *Meet) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looked = m.c.Now()
}

// affords reports whether one more automatic meeting may begin: by what goes on, and by the number and the bids of
// those that began on the same UTC day. A meeting may come to five runs; once it has ended, those that it had count. One
// that is only a look at somebody known is one run, and counts as a fifth of a meeting. Those whom we know must leave a
// share of both to those who were never tried.
func (m *Meet) affords(now time.Time, purpose string) bool {
	count, spent := 0, guild.Msat(0) // count is in runs
	known, paid := 0, guild.Msat(0)  // of them, for those whom we know
	for _, g := range m.fold.begun(now) {
		most := runsOf(g.Purpose)
		bids := g.Bid * guild.Msat(most)
		if g.Ended != nil {
			bids = g.Bid * guild.Msat(len(g.Runs))
		}
		count, spent = count+most, spent+bids
		if g.Purpose != "" {
			known, paid = known+most, paid+bids
		}
	}
	runs := runsOf(purpose)
	bids := guild.Msat(runs) * m.c.Bid
	if len(m.fold.goingOn()) >= m.c.AtOnce || count+runs > m.c.Count*extended || spent+bids > m.c.Daily {
		return false
	}
	return purpose == "" || known+runs <= m.c.Count*extended-m.kept(m.c.Count*extended, extended) &&
		paid+bids <= m.c.Daily-guild.Msat(m.kept(int(m.c.Daily), extended*int(m.c.Bid)))
}

// kept is the part of a budget that is kept for newcomers: enough for one of them at least, unless that is all of it.
func (m *Meet) kept(all, one int) int {
	part := max(int(int64(all)/guild.Micro*int64(m.c.Newcomers)+int64(all)%guild.Micro*int64(m.c.Newcomers)/guild.Micro), one)
	if part >= all {
		return 0
	}
	return part
}

// runsOf is how many runs a meeting may come to.
func runsOf(purpose string) int {
	if guild.IsLook(purpose) {
		return 1
	}
	return extended
}

// midnight is when the UTC day of a moment began, in Unix ms.
func midnight(now time.Time) int64 { return now.UTC().Truncate(24 * time.Hour).UnixMilli() }

// candidate is the meeting to begin next: with somebody whom we know and who is due to be looked at, else with a
// newcomer. Of these, keys that were never met come first, then the surest to do the task, of those the recommended, and
// then by chance, but always the same.
func (m *Meet) candidate(now time.Time) (fact.MeetingBegan, bool) {
	if began, ok := m.known(now); ok {
		return began, true
	}
	if !m.affords(now, "") {
		return fact.MeetingBegan{}, false
	}
	met := m.met(now)
	var best guild.Offer
	found := ""
	for _, task := range suite.Tasks() {
		for _, o := range m.c.Offers(task, m.c.Kind(task)) {
			if o.State != guild.Seen || o.Until > now.UnixMilli() || o.Service.PubKey == m.c.Self || met.out(o.Service, "") {
				continue
			}
			if found == "" || m.before(o, best) {
				best, found = o, task
			}
		}
	}
	if found == "" {
		return fact.MeetingBegan{}, false
	}
	return m.meeting(best.Service, found), true
}

// known is the meeting that is most due with somebody whom we know.
func (m *Meet) known(now time.Time) (fact.MeetingBegan, bool) {
	if m.c.Checkups == nil || !m.affords(now, guild.PurposeProbe) {
		return fact.MeetingBegan{}, false
	}
	met, dear := m.met(now), m.affords(now, guild.PurposeRetry)
	due := slices.DeleteFunc(m.c.Checkups(now), func(c guild.Checkup) bool {
		return !guild.IsLook(c.Purpose) && !dear || c.Service.PubKey == m.c.Self || met.out(c.Service, c.Purpose)
	})
	if len(due) == 0 {
		return fact.MeetingBegan{}, false
	}
	tasks := m.offering(due)
	for _, c := range due {
		task := c.Task
		if offered := tasks[c.Service]; len(offered) == 0 {
			continue // it announces nothing that there is a benchmark for
		} else if !slices.Contains(offered, task) {
			task = offered[0]
		}
		began := m.meeting(c.Service, task)
		if began.Purpose = c.Purpose; guild.IsLook(c.Purpose) {
			began.Modules = suite.Modules[:1]
		}
		return began, true
	}
	return fact.MeetingBegan{}, false
}

// offering finds for which tasks with a benchmark services are announced.
func (m *Meet) offering(due []guild.Checkup) map[guild.Service][]string {
	tasks := map[guild.Service][]string{}
	wanted := map[guild.Service]bool{}
	for _, c := range due {
		wanted[c.Service] = true
	}
	for _, task := range suite.Tasks() {
		for _, o := range m.c.Offers(task, m.c.Kind(task)) {
			if wanted[o.Service] {
				tasks[o.Service] = append(tasks[o.Service], task)
			}
		}
	}
	return tasks
}

// met says who is being met, and who was a short while ago. One key may announce any number of services, so that the
// turn of a newcomer is counted by the key.
type met struct {
	fold  *Fold
	now   time.Time
	going map[guild.Service]bool
	today map[nostr.PubKey]bool // being met, or met as a newcomer on this UTC day without anybody having asked for it
}

func (m *Meet) met(now time.Time) met {
	met := met{m.fold, now, map[guild.Service]bool{}, map[nostr.PubKey]bool{}}
	for _, g := range m.fold.goingOn() {
		met.going[g.Service], met.today[g.Service.PubKey] = true, true
	}
	for _, g := range m.fold.begun(now) {
		if g.Purpose == "" {
			met.today[g.Service.PubKey] = true
		}
	}
	return met
}

// out reports whether a service is not to be met now: it is being met, or it was a short while ago and nothing was
// learned, or it is a newcomer and its key has had its turn.
func (m met) out(s guild.Service, purpose string) bool {
	last := m.fold.last(s)
	recent := last != nil && last.Ended != nil && time.UnixMilli(last.Until).Add(last.pause()).After(m.now)
	switch {
	case m.going[s]:
		return true
	case purpose != "":
		return recent && last.Ended.To == ""
	}
	return recent || m.today[s.PubKey]
}

// pause is how long a service is left alone after a meeting: a day, and twice as long each time that nothing was learned
// again. Who never has capacity would else be asked every day.
func (m *Meeting) pause() time.Duration {
	const longest = 5 // doublings: about a month
	return again << min(max(m.Vain-1, 0), longest)
}

// before reports whether a is met before b; between tasks of one service, the first one stays. The secret is part of
// the chance, or somebody could search for keys that are always met first.
func (m *Meet) before(a, b guild.Offer) bool {
	if x, y := m.fold.ever(a.Service.PubKey), m.fold.ever(b.Service.PubKey); x != y {
		return y
	}
	if sure := cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(b.Recommended, a.Recommended),
		cmp.Compare(m.said(b.Service), m.said(a.Service))); sure != 0 {
		return sure < 0
	}
	chance := func(s guild.Service) guild.Hash {
		return guild.Sum(slices.Concat(m.c.Secret, s.PubKey[:], []byte(s.D)))
	}
	x, y := chance(a.Service), chance(b.Service)
	return slices.Compare(x[:], y[:]) < 0
}

// said is how well others speak of a service, from 0 to guild.Micro.
func (m *Meet) said(s guild.Service) guild.Trust {
	if m.c.Said == nil {
		return guild.Micro / 2
	}
	return m.c.Said(s)
}
