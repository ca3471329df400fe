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
				if m.affords(tx.Now()) && !m.met(tx.Now()).out(began.Service) {
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
	midnight := midnight(now)
	going, count, spent := 0, 0, guild.Msat(0)
	for _, g := range m.fold.All() {
		if g.Ended == nil {
			going++
		}
		if g.Asked || g.At < midnight || g.At >= midnight+(24*time.Hour).Milliseconds() {
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

// midnight is when the UTC day of a moment began, in Unix ms.
func midnight(now time.Time) int64 { return now.UTC().Truncate(24 * time.Hour).UnixMilli() }

// candidate is the meeting to begin next: with a service that was merely seen. Keys that were never met come first, then
// the surest to do the task, of those the recommended, and then by chance, but always the same.
func (m *Meet) candidate(now time.Time) (fact.MeetingBegan, bool) {
	if !m.affords(now) {
		return fact.MeetingBegan{}, false
	}
	met := m.met(now)
	var best guild.Offer
	found := ""
	for _, task := range suite.Tasks() {
		for _, o := range m.c.Offers(task, m.c.Kind(task)) {
			if o.State != guild.Seen || o.Until > now.UnixMilli() || o.Service.PubKey == m.c.Self || met.out(o.Service) {
				continue
			}
			if found == "" || m.before(met, o, best) {
				best, found = o, task
			}
		}
	}
	if found == "" {
		return fact.MeetingBegan{}, false
	}
	return m.meeting(best.Service, found), true
}

// met says who was met. One key may announce any number of services, so that its turn is counted by the key.
type met struct {
	services map[guild.Service]bool // being met, or a short while ago without having been moved since
	today    map[nostr.PubKey]bool  // being met, or met on this UTC day without anybody having asked for it
	ever     map[nostr.PubKey]bool
}

func (m *Meet) met(now time.Time) met {
	met := met{map[guild.Service]bool{}, map[nostr.PubKey]bool{}, map[nostr.PubKey]bool{}}
	midnight := midnight(now)
	for _, g := range m.fold.All() {
		p := g.Service.PubKey
		met.ever[p] = true
		if g.Ended == nil || !g.Asked && g.At >= midnight {
			met.today[p] = true
		}
		if g.Ended == nil || time.UnixMilli(g.Until).Add(again).After(now) {
			met.services[g.Service] = true
		}
	}
	return met
}

// out reports whether a service is not to be met now.
func (m met) out(s guild.Service) bool { return m.services[s] || m.today[s.PubKey] }

// before reports whether a is met before b; between tasks of one service, the first one stays. The secret is part of
// the chance, or somebody could search for keys that are always met first.
func (m *Meet) before(met met, a, b guild.Offer) bool {
	if x, y := met.ever[a.Service.PubKey], met.ever[b.Service.PubKey]; x != y {
		return y
	}
	if sure := cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(b.Recommended, a.Recommended)); sure != 0 {
		return sure < 0
	}
	chance := func(s guild.Service) guild.Hash {
		return guild.Sum(slices.Concat(m.c.Secret, s.PubKey[:], []byte(s.D)))
	}
	x, y := chance(a.Service), chance(b.Service)
	return slices.Compare(x[:], y[:]) < 0
}
