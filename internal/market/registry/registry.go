// Package registry finds providers: it reads announcements (NIP-89), relay lists (NIP-65), recommendations and their
// deletions, and lists the services for a task. It writes no facts. Announcements come from strangers, and relays can
// send them again; so they are kept in the journal's SEEN stream, complete and within limits. Memory has only the
// fields that are needed to find a provider. Decisions about providers belong to package partner, and the registry
// reads them through the interface Partners. It never sends anything to a provider.
package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/relay"
	"guild/internal/journal"
	"guild/nip89"
)

// Kinds of events that the registry processes.
const (
	Kind               = nip89.Kind
	KindRecommendation = nip89.KindRecommendation
	KindRelays         = nostr.Kind(10002)
	KindDeletion       = nostr.Kind(5)
)

// Config holds the dependencies of a registry.
type Config struct {
	Journal *journal.Journal
	Now     func() time.Time

	Synonyms map[string][]string // task → other words for it, beside nip89.Synonyms
	Changed  func()              // called after the offers changed; may be nil
	Touched  func(guild.Service) // called with locks held for a service whose announcement is new, changed or gone; may be nil
	Observed Reach               // which relays reach services; nil if nothing was measured
	Follow   []nostr.PubKey      // keys whose recommendations count
	Own      []string            // relays of the owner, which are taken even if they are not public
}

// Partners returns decisions about services; partner.Fold implements it. The registry calls it with its lock held, so
// it must not call the registry.
type Partners interface {
	Standing(guild.Service) Standing
	Has(ID) bool             // the journal has facts about the service
	Deals(nostr.PubKey) bool // the journal has facts about a service of the key
	Announced(ID)            // the announcement of the service is new, changed or deleted
}

// Standing holds the decisions about a service. An unknown service is in state Seen.
type Standing struct {
	guild.Provider
	Name  string // its name in the last request
	Heard int64  // Unix ms: its last answer, 0 if there is none
}

// Reach reports how well relays reach services; partner.Observed implements it.
type Reach interface {
	Lossy(guild.Service) []string // relays that lose requests to the service
}

// Registry knows the announced services. Its methods may be called concurrently.
//
// Memory and SEEN are two copies of one state, and writing to SEEN must not block readers of memory. So mu protects
// memory only and is never held during a write. One of orders is held during both changes for a service, so that two
// events about it cannot reach memory and SEEN in different orders. An order is taken before mu.
type Registry struct {
	c        Config
	partners Partners
	synonyms map[string][]string // by nip89.Word of a task, each in that form
	own      []string            // normalised
	orders   [64]sync.Mutex      // see order

	mu       sync.RWMutex
	index    index
	deleted  map[ID]nostr.Timestamp // up to which time announcements were deleted by their author
	lists    lists                  // NIP-65
	praise   praise                 // NIP-89 recommendations
	sources  sources
	watchers map[*watcher]bool
	room     room
	queue    []candidate // see firstToGo
	left     []leftover  // see sweep
}

// Open returns a registry of the announcements in SEEN.
func Open(ctx context.Context, c Config, p Partners) (*Registry, error) {
	r := &Registry{
		c: c, partners: p, synonyms: synonymsOf(nip89.Synonyms(), c.Synonyms), index: newIndex(c.Touched),
		deleted: map[ID]nostr.Timestamp{}, lists: lists{}, praise: newPraise(c.Follow),
		sources: sources{numbers: map[string]uint16{}}, watchers: map[*watcher]bool{},
		room: room{most, mostBytes, mostStored},
	}
	for _, raw := range c.Own {
		if url, err := relay.Normalize(raw); err == nil {
			r.own = append(r.own, url)
		}
	}
	err := r.recall(ctx)
	if err == nil {
		r.pruneLists()
		err = r.sweep(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("announcements in SEEN: %w", err)
	}
	return r, nil
}

// synonymsOf joins tables of synonyms, and converts all words to the form of nip89.Word.
func synonymsOf(tables ...map[string][]string) map[string][]string {
	all := map[string][]string{}
	for _, table := range tables {
		for task, words := range table {
			task = nip89.Word(task)
			for _, word := range words {
				all[task] = append(all[task], nip89.Word(word))
			}
		}
	}
	for task := range maps.Keys(all) {
		slices.Sort(all[task])
		all[task] = slices.Compact(all[task])
	}
	return all
}

// Observe processes an announcement, a recommendation, a relay list, or a deletion of one of these, received from a
// relay. It returns a *guild.DropError for an event that it rejects. It may be called concurrently.
func (r *Registry) Observe(ctx context.Context, from string, v guild.Verified) error {
	e := v.Event()
	if e.CreatedAt > nostr.Timestamp(r.c.Now().Add(time.Hour).Unix()) {
		return guild.Drop(guild.Future, "kind %d of %s", e.Kind, e.CreatedAt.Time())
	}
	switch e.Kind {
	case Kind:
		return r.announced(ctx, from, e)
	case KindRecommendation:
		return r.recommended(ctx, e)
	case KindRelays:
		return r.listed(ctx, e)
	case KindDeletion:
		return r.delete(ctx, e)
	}
	return guild.Drop(guild.Unexpected, "kind %d", e.Kind)
}

// announced processes an announcement. If the same event is known, it only records the relay.
func (r *Registry) announced(ctx context.Context, from string, e nostr.Event) error {
	if again, err := r.again(ctx, from, e); again {
		return err
	}
	h, err := nip89.Parse(e)
	if err != nil {
		return guild.Drop(guild.Malformed, "%v", err)
	}
	i := IDOf(h.Service())
	raw, err := r.fitting(i, e)
	if err != nil {
		return err
	}
	c := &card{pubkey: e.PubKey, id: e.ID, d: h.Service().D, packed: summarize(h, r.relays(h.Relays, maxNamed)).pack(), at: e.CreatedAt,
		first: r.c.Now().UnixMilli(), stored: uint32(len(raw) + framing), work: workOf(e)}
	if err := r.replace(ctx, i, c, raw, from, h.Name); err != nil {
		return err
	}
	return r.sweep(ctx)
}

// replace applies an announcement to memory and to SEEN, and notifies the watchers. It does nothing if the event is known.
func (r *Registry) replace(ctx context.Context, i ID, c *card, raw []byte, from, name string) error {
	defer r.order(i)()
	r.mu.Lock()
	what, err := r.put(i, c, from)
	if what != "" {
		r.tell(Change{What: what, Service: c.service(), Name: guild.Cut(name, maxName), At: c.at.Time()})
	}
	r.mu.Unlock()
	if what == "" {
		return err
	}
	r.changed()
	return r.keep(ctx, i, c, raw)
}

// fitting returns an announcement as JSON. It returns an error if the author is a stranger and that is longer than the
// limit for strangers.
func (r *Registry) fitting(i ID, e nostr.Event) (raw []byte, err error) {
	raw, err = e.MarshalJSON()
	if err != nil {
		return nil, guild.Drop(guild.Malformed, "%v", err)
	}
	if len(raw) > mostOfStranger && !r.partners.Has(i) {
		return nil, guild.Drop(guild.TooLarge, "announcement of %d bytes by a stranger, at most %d", len(raw), mostOfStranger)
	}
	return raw, nil
}

// order serializes the changes of memory and SEEN for a service, so that both end with the same announcement.
func (r *Registry) order(i ID) (unlock func()) {
	m := &r.orders[int(i[0])%len(r.orders)]
	m.Lock()
	return m.Unlock
}

// again reports whether an announcement is known. If so, it records the relay that sent it again.
//
// It runs before anything is parsed. Every relay sends the same announcements, so this is the common case.
func (r *Registry) again(ctx context.Context, from string, e nostr.Event) (bool, error) {
	r.mu.Lock()
	c := r.index.event(e.ID)
	if c == nil || !r.noted(c, from) {
		r.mu.Unlock()
		return c != nil, nil
	}
	i := IDOf(c.service())
	r.mu.Unlock()
	r.changed()
	raw, err := e.MarshalJSON()
	if err != nil {
		return true, guild.Drop(guild.Malformed, "%v", err)
	}
	defer r.order(i)()
	// A newer announcement may have arrived between the two locks.
	if r.current(i) != e.ID {
		return true, nil
	}
	return true, r.keep(ctx, i, c, raw)
}

// noted adds a relay to those of a card, and reports whether it was new. The lock must be held.
func (r *Registry) noted(c *card, from string) bool {
	urls := r.relays([]string{from}, 1)
	return len(urls) == 1 && c.note(r.sources.number(urls[0]))
}

// current returns the id of the current announcement of a service.
func (r *Registry) current(i ID) (id nostr.ID) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if c := r.index.find(i); c != nil {
		id = c.id
	}
	return id
}

// changed calls Config.Changed.
func (r *Registry) changed() {
	if r.c.Changed != nil {
		r.c.Changed()
	}
}

// put applies an announcement to memory. It returns the kind of change, or "" if the event was known or is rejected. The
// lock must be held.
//
// An announcement that is not newer than a known deletion is rejected too, so that a relay cannot bring a deleted
// service back.
func (r *Registry) put(i ID, c *card, from string) (What, error) {
	old := r.index.find(i)
	what := Announced
	switch {
	case old != nil && old.id == c.id:
		return "", nil
	case old != nil && !newer(c.at, c.id, old.at, old.id) || r.deleted[i] >= c.at:
		return "", guild.Drop(guild.Outdated, "announcement %q", c.d)
	}
	if err := r.admit(i, c, old); err != nil {
		return "", err
	}
	if old != nil {
		c.first, what = old.first, Updated
	}
	r.noted(c, from)
	r.index.put(i, c)
	delete(r.deleted, i)
	r.partners.Announced(i)
	return what, nil
}

// newer reports whether one event replaces another: the later one does and, at equal times, the one with the lower id
// (NIP-01).
func newer(at nostr.Timestamp, id nostr.ID, thanAt nostr.Timestamp, thanID nostr.ID) bool {
	return at > thanAt || at == thanAt && slices.Compare(id[:], thanID[:]) < 0
}

// Name returns the name of a service: the announced one, else its name in the last request, else "".
func (r *Registry) Name(s guild.Service) string {
	i := IDOf(s)
	r.mu.RLock()
	defer r.mu.RUnlock()
	if c := r.index.find(i); c != nil {
		return unpack(c.packed).name
	}
	return r.partners.Standing(s).Name
}

// Announces reports whether a key announces any service.
func (r *Registry) Announces(key nostr.PubKey) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.index.keys[key]) > 0
}

// Len returns the number of announced services.
func (r *Registry) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.len()
}
