// Package registry discovers: it reads announcements (NIP-89), relay lists (NIP-65), recommendations and their deletions,
// and answers who offers a task. It writes no facts. Announcements come from strangers and relays can send them again, so
// they are kept in the journal's SEEN stream, whole and within bounds; memory holds only what finding a provider takes.
// What was decided about a provider is package partner's, and comes in through the interface Partners. The registry never
// asks a provider for anything.
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

// Kinds of events that the registry takes.
const (
	Kind               = nip89.Kind
	KindRecommendation = nip89.KindRecommendation
	KindRelays         = nostr.Kind(10002)
	KindDeletion       = nostr.Kind(5)
)

// Config says what a registry needs.
type Config struct {
	Journal *journal.Journal
	Now     func() time.Time

	Synonyms map[string][]string // task → other words for it, beside nip89.Synonyms
	Changed  func()              // called after the offers changed; may be nil
	Touched  func(guild.Service) // called with locks held for a service whose announcement is new, changed or gone; may be nil
	Observed Reach               // how well relays reach services; nil if nothing was measured
	Follow   []nostr.PubKey      // whose recommendations count
	Own      []string            // relays of the owner, which are taken even if they are not public
}

// Partners says what was decided about services; partner.Fold implements it. The registry calls it with its lock held, so
// it must not call the registry.
type Partners interface {
	Standing(guild.Service) Standing
	Has(ID) bool             // facts are about the service
	Deals(nostr.PubKey) bool // facts are about a service of the key
	Announced(ID)            // the announcement of the service is new, changed or deleted
	Changes() uint64         // grows whenever a Standing may have changed
}

// Standing is what was decided about a service. That of an unknown service is merely Seen.
type Standing struct {
	guild.Provider
	Name  string // under which it was asked last
	Heard int64  // Unix ms: its last answer, 0 if there is none
}

// Reach says how well relays reach services; partner.Observed implements it.
type Reach interface {
	Lossy(guild.Service) []string // relays that lose requests to the service
	Changes() uint64              // grows whenever Lossy may have changed
}

// Registry keeps who announced what.
type Registry struct {
	c        Config
	partners Partners
	synonyms map[string][]string // by nip89.Word of a task, each in that form
	own      []string            // normalised
	orders   [64]sync.Mutex      // see order

	mu       sync.RWMutex
	index    index
	deleted  map[ID]nostr.Timestamp // until when announcements were deleted by their author
	lists    lists                  // NIP-65
	praise   praise                 // NIP-89 recommendations
	sources  sources
	watchers map[*watcher]bool
	answers  answers
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

// synonymsOf joins tables of synonyms, with all words in the form of nip89.Word.
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

// Observe takes an announcement, a recommendation, a relay list or a deletion of one of these, which came from a relay. An
// event that is turned down is a *guild.DropError. Observe may be called from many goroutines.
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

// announced takes an announcement. Of one that is known, only the relay is noted.
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
		first: r.c.Now().UnixMilli(), stored: uint32(raw + framing)}
	if err := r.replace(ctx, i, c, e, from, h.Name); err != nil {
		return err
	}
	return r.sweep(ctx)
}

// replace changes memory and SEEN by an announcement.
func (r *Registry) replace(ctx context.Context, i ID, c *card, e nostr.Event, from, name string) error {
	defer r.order(i)()
	what, err := r.take(i, c, from, name)
	if err != nil || what == "" {
		return err
	}
	return r.keep(ctx, i, c, e)
}

// fitting returns the length of an announcement as JSON, and an error if it is too large for a stranger's.
func (r *Registry) fitting(i ID, e nostr.Event) (size int, err error) {
	raw, err := e.MarshalJSON()
	if err != nil {
		return 0, guild.Drop(guild.Malformed, "%v", err)
	}
	if len(raw) > mostOfStranger && !r.partners.Has(i) {
		return len(raw), guild.Drop(guild.TooLarge, "announcement of %d bytes by a stranger, at most %d", len(raw), mostOfStranger)
	}
	return len(raw), nil
}

// order lets one goroutine at a time change memory and SEEN for a service, so that both end with the same announcement.
func (r *Registry) order(i ID) (unlock func()) {
	m := &r.orders[int(i[0])%len(r.orders)]
	m.Lock()
	return m.Unlock
}

// again reports whether an announcement is known, and notes that it came from another relay too.
func (r *Registry) again(ctx context.Context, from string, e nostr.Event) (bool, error) {
	r.mu.Lock()
	c := r.index.event(e.ID)
	if c == nil || !r.noted(c, from) {
		r.mu.Unlock()
		return c != nil, nil
	}
	i := IDOf(c.service())
	r.answers.forget()
	r.mu.Unlock()
	r.changed()
	defer r.order(i)()
	if r.current(i) != e.ID {
		return true, nil
	}
	return true, r.keep(ctx, i, c, e)
}

// noted adds a relay to those that a card came from, and reports whether it was new. The lock must be held.
func (r *Registry) noted(c *card, from string) bool {
	urls := r.relays([]string{from}, 1)
	return len(urls) == 1 && c.note(r.sources.number(urls[0]))
}

// current returns the id of the announcement that counts for a service.
func (r *Registry) current(i ID) (id nostr.ID) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if c := r.index.find(i); c != nil {
		id = c.id
	}
	return id
}

// take changes memory by an announcement and tells the watchers. It returns what changed, "" if it was known already.
func (r *Registry) take(i ID, c *card, from, name string) (what What, err error) {
	r.mu.Lock()
	what, err = r.put(i, c, from)
	if what != "" {
		r.tell(Change{What: what, Service: c.service(), Name: guild.Cut(name, maxName), At: c.at.Time()})
	}
	r.mu.Unlock()
	if what != "" {
		r.changed()
	}
	return what, err
}

// changed calls Config.Changed.
func (r *Registry) changed() {
	if r.c.Changed != nil {
		r.c.Changed()
	}
}

// put changes memory by an announcement. The lock must be held.
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
	r.answers.forget()
	r.partners.Announced(i)
	return what, nil
}

// newer reports whether one event replaces another: the newest counts, then the lowest id.
func newer(at nostr.Timestamp, id nostr.ID, thanAt nostr.Timestamp, thanID nostr.ID) bool {
	return at > thanAt || at == thanAt && slices.Compare(id[:], thanID[:]) < 0
}

// Name returns the name of a service: the announced one, else the one under which it was asked last, else "".
func (r *Registry) Name(s guild.Service) string {
	i := IDOf(s)
	r.mu.RLock()
	defer r.mu.RUnlock()
	if c := r.index.find(i); c != nil {
		return unpack(c.packed).name
	}
	return r.partners.Standing(s).Name
}

// Announces reports whether a key announces a service.
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
