// Package scout reads announcements from more relays than can be kept connected: from the first tier continuously, from
// the second every five minutes, from the third about hourly (the partnership protocol, section 1.2.1). It decides the
// tier of each relay by its yield, stability and measured speed. It passes events to a receiver and does not interpret them.
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

// Tier determines how often a relay is read.
type Tier int

// The tiers.
const (
	Persistent Tier = 1 // a permanent subscription
	Polled     Tier = 2 // queried every five minutes
	Sampled    Tier = 3 // queried about hourly, at random times
)

// Config holds the dependencies of a scout.
type Config struct {
	Pool    *relay.Pool
	Receive relay.Receiver // gets each event once, like the pool's receiver
	Now     func() time.Time
	File    string          // stores the tiers; "" stores nothing
	Ours    []string        // relays of the configuration, always in the first tier
	Known   func() []string // returns relays that announcements name; none if nil

	// People returns the people whose recommendations and relay lists are read, and the providers whose relay lists are
	// read. Nil means none.
	People func() (followed, providers []nostr.PubKey)
	Log    *slog.Logger // slog.Default() if nil
}

const (
	beat     = 15 * time.Second // between two turns of Run
	patience = 30 * time.Second // for one relay to send its stored events
	looksMax = 8                // concurrent looks
	saving   = time.Minute      // minimum between two writes of the file
)

// Scout reads relays according to their tiers. Other goroutines may call Status during Run.
type Scout struct {
	c     Config
	looks chan struct{} // semaphore: one value for each running look
	tasks sync.WaitGroup

	mu     sync.Mutex
	places map[string]*place

	// Only Run uses these.
	stays map[string]context.CancelFunc // relays of the first tier
	lists lists
	admit time.Time // next time to ask Known for new relays
	saved time.Time
}

// Open returns a scout with the tiers from its file. A file that cannot be decoded is replaced, because its contents
// can be learned again. A file that cannot be read is an error.
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

// all returns the relays. The caller must hold s.mu, or have the only reference.
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

// turn runs all actions that are due.
func (s *Scout) turn(ctx context.Context, now time.Time) {
	// Tiers are settled before the subscriptions follow them.
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
			s.put(url, func(p *place) { p.busy = false }) // retried at the next turn
		}
	}
	if now.Sub(s.saved) >= saving {
		s.saved = now
		if err := s.save(); err != nil {
			s.c.Log.Warn("the tiers of relays were not saved", "err", err)
		}
	}
}

// welcome admits relays that strangers name, in random order, so that a stranger cannot choose which ones are admitted.
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

// attend records a look for each relay of the first tier that is due.
func (s *Scout) attend(now time.Time) {
	connected := map[string]bool{}
	for _, r := range s.c.Pool.Status() {
		connected[r.URL] = r.Connected
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		p.wait = s.c.Pool.Quality(p.URL).Expected()
		if p.Tier == Persistent && !now.Before(p.due) {
			p.looked(now, connected[p.URL], p.came)
			p.came = 0
		}
	}
	settle(s.all(), now)
}

// due returns the relays whose look is due, the longest due first, and marks them busy.
//
// A busy relay is not due, so at most one look at it runs at a time.
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

// put changes the state of a relay, if it is still known.
func (s *Scout) put(url string, change func(*place)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.places[url]; p != nil {
		change(p)
	}
}

// Status describes one relay.
type Status struct {
	URL    string
	Tier   Tier
	Ours   bool
	Yield  float64   // new events per hour; recent hours weigh most
	Stable float64   // share of successful looks, 0 to 1; recent looks weigh most
	Looked time.Time // last look; zero if never
}

// Status returns the relays, the best first.
func (s *Scout) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, worth := make([]Status, 0, len(s.places)), map[string]float64{}
	for _, p := range s.places {
		worth[p.URL] = p.worth()
		one := Status{URL: p.URL, Tier: p.Tier, Ours: p.ours, Yield: p.Yield, Stable: p.Stable}
		if p.Looked != 0 {
			one.Looked = time.UnixMilli(p.Looked)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(worth[b.URL], worth[a.URL]), cmp.Compare(a.URL, b.URL))
	})
	return all
}
