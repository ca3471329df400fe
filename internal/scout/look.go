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

// What is asked of a relay (the partnership protocol, section 1.2.1). No tag is asked for: whoever names a task in
// words of its own would be missed; what an announcement is about is told here, not there.
const (
	lookBack   = 24 * time.Hour // at a relay that was never read; later on, since the watermark
	mostStored = 1000           // announcements of any age that are asked for once after a start

	kindDeletion  = nostr.Kind(5)
	kindRelays    = nostr.Kind(10002)
	kindRecommend = nostr.Kind(31989)

	mostPeople   = 500  // whose lists and announcements are read
	mostAuthors  = 100  // of a filter
	mostFollowed = 100  // whose recommendations are
	mostAdvice   = 1000 // recommendations of theirs
)

// recent asks for what was announced or taken back lately.
func recent(now time.Time) []nostr.Filter {
	since := nostr.Timestamp(now.Add(-lookBack).Unix())
	return []nostr.Filter{
		{Kinds: []nostr.Kind{nip89.Kind}, Since: since},
		{Kinds: []nostr.Kind{kindDeletion}, Tags: nostr.TagMap{"k": {"31990"}}, Since: since},
	}
}

// stored asks for announcements of any age: they are replaced, not repeated, and are usually old. Whoever announces
// much and late fills that answer, so those of the providers that we deal with are asked for by their authors.
func stored(providers []nostr.PubKey) []nostr.Filter {
	filters := []nostr.Filter{{Kinds: []nostr.Kind{nip89.Kind}, Limit: mostStored}}
	for some := range slices.Chunk(providers[:min(len(providers), mostPeople)], mostAuthors) {
		filters = append(filters, nostr.Filter{Kinds: []nostr.Kind{nip89.Kind}, Authors: some, Limit: mostStored})
	}
	return filters
}

// The names of subscriptions, and so of watermarks. One relay has the same watermark in every tier.
func recentAt(url string) string { return "announcements at " + url }
func storedAt(url string) string { return "all announcements at " + url }

const listsName = "lists of people"

// Reads reports whether a subscription is one of a scout's, by its name.
func Reads(sub string) bool {
	return sub == listsName || strings.HasPrefix(sub, recentAt("")) || strings.HasPrefix(sub, storedAt(""))
}

// look reads what a relay of the second or third tier has that is new.
func (s *Scout) look(ctx context.Context, url string) {
	events, err := s.whole(ctx, url)
	if err == nil {
		var more int
		more, err = s.read(ctx, recentAt(url), url, recent(s.c.Now()))
		events += more
	}
	if ctx.Err() != nil {
		return // it did not get its time
	}
	if err != nil {
		s.c.Log.Debug("a relay was not read", "url", url, "err", err)
	}
	s.put(url, func(p *place) {
		p.busy = false
		p.looked(s.c.Now(), err == nil, events)
	})
}

// whole reads all that a relay has stored, once after each start.
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

// read takes what a relay has stored for a subscription since it was last read. The error is about one that did
// not answer in time.
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

// keepFirstTier has a subscription stay at each relay of the first tier, and at no other.
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

func (s *Scout) firstTier() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first []string
	for _, p := range s.places {
		if p.Tier == Persistent && !p.busy { // a look that is under way has the subscription's name
			first = append(first, p.URL)
		}
	}
	slices.Sort(first)
	return first
}

// stay reads a relay until ctx ends.
func (s *Scout) stay(ctx context.Context, url string) {
	stop, err := s.c.Pool.Listen(ctx, recentAt(url), recent(s.c.Now()), s.counted(url), url)
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

// counted hands on the events of one relay of the first tier, and counts them.
func (s *Scout) counted(url string) func(context.Context, string, guild.Verified) {
	return func(ctx context.Context, from string, v guild.Verified) {
		s.put(url, func(p *place) { p.came++ })
		s.c.Receive(ctx, from, v)
	}
}

// lists is the subscription to the lists of people that matter to us.
type lists struct {
	next      time.Time
	at        []string
	followed  []nostr.PubKey
	providers []nostr.PubKey
	stop      func()
}

// readLists follows the relay lists of providers and the recommendations of those whom we follow, at the first
// tier. Who comes new has lists that are older than any watermark, so all of these few are read again.
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
	for _, url := range l.at {
		s.c.Pool.Forget(listsName, url)
	}
	s.lists.stop = s.c.Pool.Subscribe(listsName, filters, l.at...)
}

// advice asks for people's relay lists (NIP-65) and for the recommendations (NIP-89) of those whom we follow.
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
