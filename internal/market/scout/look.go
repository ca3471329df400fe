package scout

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// Queries to a relay (the partnership protocol, section 1.2.1). No filter has a tag for a task, because providers that
// name the task differently would be missed; the registry decides which task an announcement is about.
const (
	lookBack   = 24 * time.Hour // for a relay that was never read; later queries start at the watermark
	mostStored = 1000           // announcements of any age, queried once after each start

	kindDeletion  = nostr.Kind(5)
	kindRelays    = nostr.Kind(10002)
	kindRecommend = nostr.Kind(31989)

	mostPeople   = 500  // people and providers whose relay lists are read, and providers whose announcements are
	mostAuthors  = 100  // in one filter
	mostFollowed = 100  // people whose recommendations are read
	mostAdvice   = 1000 // recommendations by them
)

// recent returns the filters for recent announcements and deletions.
func recent(now time.Time) []nostr.Filter {
	since := nostr.Timestamp(now.Add(-lookBack).Unix())
	return []nostr.Filter{
		{Kinds: []nostr.Kind{nip89.Kind}, Since: since},
		{Kinds: []nostr.Kind{kindDeletion}, Tags: nostr.TagMap{"k": {"31990"}}, Since: since},
	}
}

// stored returns the filters for announcements of any age. They are replaceable events that are published once, so most
// are old. A stranger with many new announcements can fill the answer to a query; so those of known providers are
// queried by author.
func stored(providers []nostr.PubKey) []nostr.Filter {
	filters := []nostr.Filter{{Kinds: []nostr.Kind{nip89.Kind}, Limit: mostStored}}
	for some := range slices.Chunk(providers[:min(len(providers), mostPeople)], mostAuthors) {
		filters = append(filters, nostr.Filter{Kinds: []nostr.Kind{nip89.Kind}, Authors: some, Limit: mostStored})
	}
	return filters
}

// recentAt and storedAt return names of subscriptions and of their watermarks. The name of a relay's subscription is
// the same in every tier, so its watermark remains valid when the tier changes.
func recentAt(url string) string { return "announcements at " + url }
func storedAt(url string) string { return "all announcements at " + url }

const listsName = "lists of people"

// Reads reports whether a scout has subscriptions of this name.
func Reads(sub string) bool {
	return sub == listsName || strings.HasPrefix(sub, recentAt("")) || strings.HasPrefix(sub, storedAt(""))
}

// look reads new events from a relay of the second or third tier.
func (s *Scout) look(ctx context.Context, url string) {
	events, err := s.whole(ctx, url)
	if err == nil {
		var more int
		more, err = s.read(ctx, recentAt(url), url, recent(s.c.Now()))
		events += more
	}
	if ctx.Err() != nil {
		return // it was interrupted, which says nothing about the relay
	}
	if err != nil {
		s.c.Log.Debug("a relay was not read", "url", url, "err", err)
	}
	s.put(url, func(p *place) {
		p.busy = false
		p.looked(s.c.Now(), err == nil, events)
	})
}

// whole reads everything that a relay has stored, once after each start.
//
// The watermark of this query is dropped before and after it. Before, because a query of all stored events must not
// start at a mark; after, because a mark would never be used again.
func (s *Scout) whole(ctx context.Context, url string) (events int, err error) {
	done := false
	s.put(url, func(p *place) { done = p.whole })
	if done {
		return 0, nil
	}
	s.c.Pool.Forget(storedAt(url), url)
	var providers []nostr.PubKey
	if s.c.People != nil {
		_, providers = s.c.People()
	}
	events, err = s.read(ctx, storedAt(url), url, stored(providers))
	s.c.Pool.Forget(storedAt(url), url)
	if err == nil {
		s.put(url, func(p *place) { p.whole = true })
	}
	return events, err
}

// read receives the stored events of a subscription since the watermark. It returns an error if the relay does not
// answer within patience.
func (s *Scout) read(ctx context.Context, name, url string, filters []nostr.Filter) (events int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var n atomic.Int64
	stop, err := s.c.Pool.Listen(ctx, name, filters, func(ctx context.Context, from string, v guild.Verified) {
		n.Add(1)
		s.c.Receive(ctx, from, v)
	}, url)
	if err != nil {
		return int(n.Load()), err
	}
	stop()
	return int(n.Load()), nil
}

// keepFirstTier maintains a subscription at each relay of the first tier, and at no other.
func (s *Scout) keepFirstTier(ctx context.Context) {
	first := s.firstTier()
	for url, leave := range s.stays {
		if !slices.Contains(first, url) {
			leave()
			delete(s.stays, url)
		}
	}
	for _, url := range first {
		if s.stays[url] == nil {
			ctx, leave := context.WithCancel(ctx)
			s.stays[url] = leave
			s.tasks.Go(func() { s.stay(ctx, url) })
		}
	}
}

// firstTier returns the relays to keep subscribed.
func (s *Scout) firstTier() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first []string
	for _, p := range s.places {
		if p.Tier == Persistent && !p.busy { // a running look uses the same subscription name
			first = append(first, p.URL)
		}
	}
	slices.Sort(first)
	return first
}

// stay keeps a subscription at a relay until ctx ends.
func (s *Scout) stay(ctx context.Context, url string) {
	receive := func(ctx context.Context, from string, v guild.Verified) {
		s.put(url, func(p *place) { p.came++ })
		s.c.Receive(ctx, from, v)
	}
	stop, err := s.c.Pool.Listen(ctx, recentAt(url), recent(s.c.Now()), receive, url)
	if err != nil {
		return // ctx has ended, or the pool
	}
	defer stop()
	for {
		_, err := s.whole(ctx, url)
		if err == nil || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(patience):
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
}

// lists holds the subscription to the lists of followed people and known providers.
type lists struct {
	next      time.Time
	at        []string
	followed  []nostr.PubKey
	providers []nostr.PubKey
	stop      func()
}

// readLists subscribes at the first tier to the relay lists of providers and the recommendations of followed people. If
// the set of people changes, it reads all lists again, because those of new people may be older than the watermark.
func (s *Scout) readLists(now time.Time) {
	if s.c.People == nil || now.Before(s.lists.next) {
		return
	}
	l := lists{next: now.Add(everyPolled), at: s.firstTier(), stop: s.lists.stop}
	l.followed, l.providers = s.c.People()
	l.followed = l.followed[:min(len(l.followed), mostFollowed)]
	l.providers = l.providers[:min(len(l.providers), mostPeople-len(l.followed))]
	same := slices.Equal(l.at, s.lists.at) && slices.Equal(l.followed, s.lists.followed) && slices.Equal(l.providers, s.lists.providers)
	s.lists = l
	filters := advice(l.followed, l.providers)
	if same || len(l.at) == 0 {
		return
	}
	if l.stop != nil {
		l.stop()
		s.lists.stop = nil
	}
	if len(filters) == 0 {
		return
	}
	// The new subscription must also return events that are older than the marks of the old one.
	for _, url := range l.at {
		s.c.Pool.Forget(listsName, url)
	}
	s.lists.stop = s.c.Pool.Subscribe(listsName, filters, l.at...)
}

// advice returns the filters for people's relay lists (NIP-65) and the recommendations (NIP-89) of followed people.
func advice(followed, providers []nostr.PubKey) []nostr.Filter {
	people := slices.Concat(followed, providers)
	if len(people) == 0 {
		return nil
	}
	filters := []nostr.Filter{{Kinds: []nostr.Kind{kindRelays}, Authors: people, Limit: mostPeople}}
	if len(followed) > 0 {
		filters = append(filters, nostr.Filter{Kinds: []nostr.Kind{kindRecommend}, Authors: followed, Limit: mostAdvice})
	}
	return filters
}
