// Package scout reads announcements from more relays than can be kept connected: from the first tier all the time, from the
// second every five minutes, from the third about hourly (the partnership protocol, section 1.2.1). It owns which relay is
// in which tier, by its yield and its stability. It hands events to a receiver and does not look into them.
package scout

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/hand/relay"
)

// Tier says how often a relay is read.
type Tier int

// The tiers.
const (
	Persistent Tier = 1 // a subscription that stays
	Polled     Tier = 2 // asked every five minutes
	Sampled    Tier = 3 // one of them asked now and then, each about hourly
)

// Config says what a scout needs.
type Config struct {
	Pool    *relay.Pool
	Receive relay.Receiver // gets each event once, like the pool's own
	Now     func() time.Time
	File    string          // remembers the tiers; none if empty
	Ours    []string        // relays of the configuration: always in the first tier
	Known   func() []string // relays that announcements name; none if nil

	// People lists those whose recommendations and relay lists are read, and providers whose relay lists are read; nobody if
	// nil.
	People func() (followed, providers []nostr.PubKey)
	Log    *slog.Logger // slog.Default() if nil
}

const (
	beat     = 15 * time.Second // between two turns
	patience = 30 * time.Second // for one relay to send what it has
	looksMax = 8                // at a time
	saving   = time.Minute      // between two writes of the file, at least
)

// Scout reads relays by their tiers.
type Scout struct {
	c     Config
	looks chan struct{} // holds one value for each look under way
	tasks sync.WaitGroup

	mu     sync.Mutex
	places map[string]*place

	// For Run alone.
	stays map[string]context.CancelFunc // relays of the first tier
	lists lists
	admit time.Time // when to ask for newcomers
	saved time.Time
}

// Open returns a scout with the tiers in its file. A file that cannot be decoded is begun anew, because all of it can be
// learned again; a file that cannot be read is an error.
func Open(c Config) (*Scout, error) {
	c.Log = cmp.Or(c.Log, slog.Default())
	s := &Scout{c: c, looks: make(chan struct{}, looksMax), places: map[string]*place{}, stays: map[string]context.CancelFunc{}}
	known, err := load(c.File)
	if err != nil {
		return nil, err
	}
	now := c.Now()
	for _, p := range known {
		p.due = p.again(now)
		s.places[p.URL] = &p
	}
	for _, raw := range c.Ours {
		url, err := relay.Normalize(raw)
		if err != nil {
			continue // the pool reports it
		}
		p := s.places[url]
		if p == nil {
			p = &place{URL: url, Stable: 1}
			s.places[url] = p
		}
		p.ours, p.Tier, p.due = true, Persistent, now.Add(everyPolled)
	}
	settle(s.all(), now)
	return s, nil
}

// all lists the relays. The caller holds s.mu, or is alone.
func (s *Scout) all() []*place {
	all := make([]*place, 0, len(s.places))
	for _, p := range s.places {
		all = append(all, p)
	}
	return all
}

// Run reads relays until ctx ends, and writes the file before it returns.
func (s *Scout) Run(ctx context.Context) error {
	now := s.c.Now()
	s.admit, s.saved = now.Add(time.Minute), now
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		s.turn(ctx, s.c.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			if s.lists.stop != nil {
				s.lists.stop()
			}
			s.tasks.Wait()
			return s.save()
		}
	}
}

// turn does what is due.
func (s *Scout) turn(ctx context.Context, now time.Time) {
	if s.c.Known != nil && !now.Before(s.admit) {
		s.admit = now.Add(everyPolled)
		s.welcome(s.c.Known(), now)
	}
	s.attend(now)
	s.keepFirstTier(ctx)
	s.readLists(now)
	for _, url := range s.due(now) {
		select {
		case s.looks <- struct{}{}:
			s.tasks.Go(func() {
				defer func() { <-s.looks }()
				s.look(ctx, url)
			})
		default:
			s.put(url, func(p *place) { p.busy = false }) // tried again at the next turn
		}
	}
	if now.Sub(s.saved) >= saving {
		s.saved = now
		if err := s.save(); err != nil {
			s.c.Log.Warn("the tiers of relays were not saved", "err", err)
		}
	}
}

// welcome admits relays that strangers name, in random order, so that nobody can choose it.
func (s *Scout) welcome(known []string, now time.Time) {
	known = slices.Clone(known)
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, raw := range known {
		if url, err := relay.Normalize(raw); err == nil && !admit(s.places, url, now) {
			return
		}
	}
}

// attend notes how the relays of the first tier did since the last look.
func (s *Scout) attend(now time.Time) {
	connected := map[string]bool{}
	for _, r := range s.c.Pool.Status() {
		connected[r.URL] = r.Connected
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		if p.Tier == Persistent && !now.Before(p.due) {
			p.looked(now, connected[p.URL], p.came)
			p.came = 0
		}
	}
	settle(s.all(), now)
}

// due returns the relays to look at, and marks them busy; the longest due come first.
func (s *Scout) due(now time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ready []*place
	for _, p := range s.places {
		if p.Tier != Persistent && !p.busy && !now.Before(p.due) {
			p.busy = true
			ready = append(ready, p)
		}
	}
	slices.SortFunc(ready, func(a, b *place) int { return a.due.Compare(b.due) })
	urls := make([]string, len(ready))
	for i, p := range ready {
		urls[i] = p.URL
	}
	return urls
}

// put changes what is kept of a relay, if it is still known.
func (s *Scout) put(url string, change func(*place)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.places[url]; p != nil {
		change(p)
	}
}

// Status is what a scout knows of one relay.
type Status struct {
	URL    string
	Tier   Tier
	Ours   bool
	Yield  float64   // new events an hour; recent hours count most
	Stable float64   // share of answered looks, 0 to 1; the latest count most
	Looked time.Time // last; zero if never
}

// Status lists the relays, the best first.
func (s *Scout) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Status, 0, len(s.places))
	for _, p := range s.places {
		one := Status{URL: p.URL, Tier: p.Tier, Ours: p.ours, Yield: p.Yield, Stable: p.Stable}
		if p.Looked != 0 {
			one.Looked = time.UnixMilli(p.Looked)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(b.Yield*b.Stable, a.Yield*a.Stable), cmp.Compare(a.URL, b.URL))
	})
	return all
}
