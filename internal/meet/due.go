package meet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

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
	c, over := Conclude(g.Runs)
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
			made, err := suite.Make(suite.Spec{Task: g.Task, Variant: g.Variant, Modules: g.Modules, Seed: seed, Run: run})
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
				if m.affords(tx.Now()) && m.fold.with(began.Service, began.Task) == nil {
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
// those that began on the same UTC day. A meeting may come to five runs; once it has ended, those that it had count.
func (m *Meet) affords(now time.Time) bool {
	const day = 24 * time.Hour
	midnight := now.UTC().Truncate(day).UnixMilli()
	going, count, spent := 0, 0, guild.Msat(0)
	for _, g := range m.fold.All() {
		if g.Ended == nil {
			going++
		}
		if g.Asked || g.At < midnight || g.At >= midnight+day.Milliseconds() {
			continue
		}
		count++
		runs := extended
		if g.Ended != nil {
			runs = len(g.Runs)
		}
		spent += g.Bid * guild.Msat(runs)
	}
	return going < m.c.AtOnce && count < m.c.Count && spent+extended*m.c.Bid <= m.c.Daily
}

// candidate is the meeting to begin next: with a service that was merely seen, the surest to do the task first, of
// those the recommended, and then by chance, but always the same.
func (m *Meet) candidate(now time.Time) (fact.MeetingBegan, bool) {
	if !m.affords(now) {
		return fact.MeetingBegan{}, false
	}
	met := m.met(now)
	var best guild.Offer
	found := ""
	for _, task := range suite.Tasks() {
		for _, o := range m.c.Offers(task, m.c.Kind(task)) {
			if o.State != guild.Seen || o.Until > now.UnixMilli() || o.Service.PubKey == m.c.Self || met[o.Service] {
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

// met are the services that are being met, or were a short while ago without having been moved since.
func (m *Meet) met(now time.Time) map[guild.Service]bool {
	met := map[guild.Service]bool{}
	for _, g := range m.fold.All() {
		if g.Ended == nil || time.UnixMilli(g.Until).Add(again).After(now) {
			met[g.Service] = true
		}
	}
	return met
}

// before reports whether a is met before b; between tasks of one service, the first one stays. The secret is part of
// the chance, or somebody could search for keys that are always met first.
func (m *Meet) before(a, b guild.Offer) bool {
	if sure := cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(b.Recommended, a.Recommended)); sure != 0 {
		return sure < 0
	}
	chance := func(s guild.Service) guild.Hash {
		return guild.Sum(slices.Concat(m.c.Secret, s.PubKey[:], []byte(s.D)))
	}
	x, y := chance(a.Service), chance(b.Service)
	return slices.Compare(x[:], y[:]) < 0
}
