// Package behaviour composes how an agent does a job (NIP-AE): the prompt, the tools and the files, from a definition,
// the lessons and comments of trusted authors, and nudges.
//
// A Library holds the events. Compose decides which of them count under a Policy. What a stranger writes is counted and
// never changes the result: a lesson applies if its author executes a version of the same definition and is trusted; a
// comment applies if its author and those of all comments above it are trusted; and the text of a customer's nudge is
// marked as the customer's and can only narrow the tools. The same events and request give the same bytes in whatever
// order the events came.
//
// The package has no clock, network or disk. It knows no owner: its caller says whom to trust.
package behaviour

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nipae"
)

// ErrFull means that the library has no room for an event, and holds nothing that matters less.
var ErrFull = errors.New("the library is full")

// Config is what a library needs. The zero value works.
type Config struct {
	Owners []nostr.PubKey // their events stay longest, then those of the agents that their claims name, then those of Keep
	Keep   []nostr.PubKey // for example publishers of installed definitions, and the allow-list

	Count     func(text string) int64 // tokens of a text; a quarter of its bytes if nil
	MaxEvents int                     // 50,000 if zero
	MaxBytes  int64                   // of contents and tags; 64 MiB if zero

	Removed func(nostr.ID) // called for each event that made room for another one; it must not use the library; optional
}

// Library is an index of events of NIP-AE. It can be used by many goroutines.
type Library struct {
	config Config

	mu       sync.Mutex
	events   map[nostr.ID]*held
	newest   map[replaceable]nostr.ID
	by       map[nostr.PubKey]shelf
	keep     map[nostr.PubKey]bool
	bytes    int64
	arrivals int
	index    *index               // of what is held; nil if it must be made again
	ranked   map[nostr.PubKey]int // result of ranks; nil after a change
}

// held is an event in the library.
type held struct {
	id      nostr.ID
	author  nostr.PubKey
	at      nostr.Timestamp
	size    int64
	arrived int
	value   any   // a nipae.Definition, Lesson, Comment, Nudge, Profile or Claims
	tokens  int64 // of its text in the prompt; 0 if not yet counted
}

// shelf holds the events of one author.
type shelf struct {
	events []*held // in the order of their arrival
	bytes  int64
}

// replaceable names an event of which only the newest counts.
type replaceable struct {
	author nostr.PubKey
	kind   nostr.Kind
}

// NewLibrary returns an empty library.
func NewLibrary(c Config) *Library {
	c.MaxEvents = cmp.Or(c.MaxEvents, 50_000)
	c.MaxBytes = cmp.Or(c.MaxBytes, 64<<20)
	if c.Count == nil {
		c.Count = func(text string) int64 { return int64(len(text)+3) / 4 }
	}
	return &Library{config: c, events: map[nostr.ID]*held{}, newest: map[replaceable]nostr.ID{}, by: map[nostr.PubKey]shelf{}, keep: set(c.Keep)}
}

// Keeps reports whether a key is of an owner, of an agent that an owner's claims name, or in Keep. Any other key is a
// stranger's.
func (l *Library) Keeps(key nostr.PubKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ranks()[key] > 0
}

// Keep adds to Config.Keep.
func (l *Library) Keep(keys ...nostr.PubKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.keep[key] = true
	}
	l.ranked = nil
}

// Add takes an event of a kind of NIP-AE. A profile or claims that a newer one replaces are not kept. Strangers share a
// quarter of the library, of which each may use a quarter: their events make room by removing the oldest arrival of the
// same stranger, or of the one with the most bytes. A library that is full makes room by removing events of authors that
// matter less, the oldest arrival first, or returns ErrFull. Other errors are those of package nipae.
func (l *Library) Add(v guild.Verified) error {
	e := v.Event()
	value, err := parse(e)
	if err != nil {
		return err
	}
	h := &held{id: e.ID, author: e.PubKey, at: e.CreatedAt, size: int64(len(e.Content)), value: value}
	for _, tag := range e.Tags {
		for _, s := range tag {
			h.size += int64(len(s))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events[h.id] != nil {
		return nil
	}
	key := replaceable{e.PubKey, e.Kind}
	single := e.Kind == nipae.KindProfile || e.Kind == nipae.KindClaims
	var old *held
	if single {
		old = l.events[l.newest[key]]
	}
	if old != nil && older(h, old) {
		return nil
	}
	if err := l.makeRoom(h, old); err != nil {
		return fmt.Errorf("event %.8s: %w", h.id.Hex(), err)
	}
	if old != nil {
		l.remove(old)
	}
	l.arrivals++
	h.arrived = l.arrivals
	l.events[h.id] = h
	l.bytes += h.size
	own := l.by[h.author]
	l.by[h.author] = shelf{append(own.events, h), own.bytes + h.size}
	if single {
		l.newest[key] = h.id
	}
	switch value.(type) {
	case nipae.Comment, nipae.Lesson:
		if l.index != nil {
			l.index.add(l, h)
		}
	case nipae.Definition, nipae.Profile: // lessons that are held may be about it, or by its author
		l.index = nil
	case nipae.Claims:
		l.ranked = nil
	}
	return nil
}

func parse(e nostr.Event) (any, error) {
	switch e.Kind {
	case nipae.KindDefinition:
		return nipae.ParseDefinition(e)
	case nipae.KindLesson:
		return nipae.ParseLesson(e)
	case nipae.KindComment:
		return nipae.ParseComment(e)
	case nipae.KindNudge:
		return nipae.ParseNudge(e)
	case nipae.KindProfile:
		return nipae.ParseProfile(e)
	case nipae.KindClaims:
		return nipae.ParseClaims(e)
	}
	return nil, fmt.Errorf("event %.8s of kind %d: %w", e.ID.Hex(), e.Kind, nipae.ErrKind)
}

// Remove removes an event that its author deleted, which the caller has checked. It reports whether it was there.
func (l *Library) Remove(id nostr.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.events[id]
	if h == nil {
		return false
	}
	l.remove(h)
	return true
}

func (l *Library) remove(h *held) {
	delete(l.events, h.id)
	l.bytes -= h.size
	own := l.by[h.author]
	i := slices.Index(own.events, h)
	l.by[h.author] = shelf{slices.Delete(own.events, i, i+1), own.bytes - h.size}
	if len(own.events) == 1 {
		delete(l.by, h.author)
	}
	switch h.value.(type) {
	case nipae.Profile:
		delete(l.newest, replaceable{h.author, nipae.KindProfile})
	case nipae.Claims:
		delete(l.newest, replaceable{h.author, nipae.KindClaims})
		l.ranked = nil
	}
	l.index = nil
}

// drop removes an event to make room.
func (l *Library) drop(h *held) {
	l.remove(h)
	if l.config.Removed != nil {
		l.config.Removed(h.id)
	}
}

// Len returns how many events are held, and the bytes of their contents and tags.
func (l *Library) Len() (events int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events), l.bytes
}

// makeRoom removes events of authors that matter less until h fits and a sixteenth of the library is free, so that a
// full library need not do it for each event. The room of old, which h replaces, counts as free.
func (l *Library) makeRoom(h, old *held) error {
	more, bytes := int64(1), h.size
	if old != nil {
		more, bytes = 0, h.size-old.size
	}
	fits := func(part int64) bool {
		return int64(len(l.events))+more <= int64(l.config.MaxEvents)-part*int64(l.config.MaxEvents)/16 &&
			l.bytes+bytes <= l.config.MaxBytes-part*l.config.MaxBytes/16
	}
	ranks := l.ranks()
	if ranks[h.author] == 0 {
		if err := l.limitStrangers(h, old, ranks); err != nil || fits(0) {
			return err
		}
		return ErrFull
	}
	if fits(0) {
		return nil
	}
	var less []*held
	for _, other := range l.events {
		if ranks[other.author] < ranks[h.author] {
			less = append(less, other)
		}
	}
	slices.SortFunc(less, func(a, b *held) int {
		return cmp.Or(cmp.Compare(ranks[a.author], ranks[b.author]), cmp.Compare(a.arrived, b.arrived))
	})
	for _, other := range less {
		if fits(1) {
			break
		}
		l.drop(other)
	}
	if !fits(0) {
		return ErrFull
	}
	return nil
}

// limitStrangers removes events of strangers until h, which is a stranger's and replaces old, is within their share.
func (l *Library) limitStrangers(h, old *held, ranks map[nostr.PubKey]int) error {
	more, bytes := 1, h.size
	if old != nil {
		more, bytes = 0, h.size-old.size
	}
	over := func(events int, size int64, share int) bool {
		return events+more > l.config.MaxEvents/share || size+bytes > l.config.MaxBytes/int64(share)
	}
	if !over(len(l.events), l.bytes, 16) {
		return nil
	}
	for {
		var events int
		var size int64
		from := h.author
		for author, own := range l.by {
			if ranks[author] > 0 {
				continue
			}
			events, size = events+len(own.events), size+own.bytes
			most := l.by[from]
			if len(most.events) == 0 || own.bytes > most.bytes || own.bytes == most.bytes && own.events[0].arrived < most.events[0].arrived {
				from = author
			}
		}
		own := l.by[h.author]
		switch {
		case over(len(own.events), own.bytes, 16):
			from = h.author
		case !over(events, size, 4):
			return nil
		}
		oldest := slices.IndexFunc(l.by[from].events, func(other *held) bool { return other != old })
		if oldest < 0 {
			return ErrFull
		}
		l.drop(l.by[from].events[oldest])
	}
}

// ranks returns how much each author matters: 3 for an owner, 2 for the owners' agents, 1 for those to keep. A stranger's
// rank is 0.
func (l *Library) ranks() map[nostr.PubKey]int {
	if l.ranked != nil {
		return l.ranked
	}
	ranks := map[nostr.PubKey]int{}
	for key := range l.keep {
		ranks[key] = 1
	}
	for _, owner := range l.config.Owners {
		claims, _ := newest[nipae.Claims](l, owner, nipae.KindClaims)
		for _, agent := range claims.Agents() {
			ranks[agent] = 2
		}
	}
	for _, owner := range l.config.Owners {
		ranks[owner] = 3
	}
	l.ranked = ranks
	return ranks
}

// get returns the event with the id if it is held and a T.
func get[T any](l *Library, id nostr.ID) (value T, ok bool) {
	if h := l.events[id]; h != nil {
		value, ok = h.value.(T)
	}
	return value, ok
}

// newest returns the newest profile or claims of a key.
func newest[T any](l *Library, author nostr.PubKey, kind nostr.Kind) (T, bool) {
	return get[T](l, l.newest[replaceable{author, kind}])
}

// older orders events by date. Of two with the same date the one with the lower id is newer.
func older(a, b *held) bool {
	return newestFirst(b, a) < 0
}

// index is what Compose needs of a library for every request.
type index struct {
	lessons map[nipae.Address][]candidate // the newest first, of the same date the lowest id
	replies map[nostr.ID][]*held          // comments by their parent

	// What candidates share.
	named      map[nostr.ID]*nipae.Definition // nil if not held
	authors    map[nostr.PubKey]*author
	categories map[string]*category
}

// candidate is a lesson about a definition that is held. It is small, as Compose looks at all of them; lessons with the
// same definition, author or category share what is known about that.
type candidate struct {
	*held
	named *nipae.Definition
	by    *author
	about *category
}

// author is the author of a lesson.
type author struct {
	key      nostr.PubKey
	executes nipae.Address // the definition in its profile; zero if that is not held
}

// category is a lesson's category in lower case.
type category struct {
	text  string
	words []string
}

// indexed returns the index of what is held.
func (l *Library) indexed() *index {
	if l.index != nil {
		return l.index
	}
	l.index = &index{
		lessons: map[nipae.Address][]candidate{}, replies: map[nostr.ID][]*held{},
		named: map[nostr.ID]*nipae.Definition{}, authors: map[nostr.PubKey]*author{}, categories: map[string]*category{},
	}
	all := slices.Collect(maps.Values(l.events))
	slices.SortFunc(all, newestFirst) // so that each is added at the end
	for _, h := range all {
		l.index.add(l, h)
	}
	return l.index
}

// add adds a comment, or a lesson about a definition that is held.
func (x *index) add(l *Library, h *held) {
	switch v := h.value.(type) {
	case nipae.Comment:
		x.replies[v.Parent.ID] = append(x.replies[v.Parent.ID], h)
	case nipae.Lesson:
		d := memo(x.named, v.Definition.ID, func() *nipae.Definition {
			if d, ok := get[nipae.Definition](l, v.Definition.ID); ok {
				return &d
			}
			return nil
		})
		if d == nil {
			return
		}
		by := memo(x.authors, h.author, func() *author {
			profile, _ := newest[nipae.Profile](l, h.author, nipae.KindProfile)
			executes, _ := get[nipae.Definition](l, profile.Definition.ID)
			return &author{h.author, executes.Address()}
		})
		about := memo(x.categories, v.Category, func() *category { return &category{strings.ToLower(v.Category), words(v.Category)} })
		all := x.lessons[d.Address()]
		at, _ := slices.BinarySearchFunc(all, h, func(c candidate, h *held) int { return newestFirst(c.held, h) })
		x.lessons[d.Address()] = slices.Insert(all, at, candidate{held: h, named: d, by: by, about: about})
	}
}

// newestFirst orders events by date, and those of the same date by id.
func newestFirst(a, b *held) int {
	return cmp.Or(cmp.Compare(b.at, a.at), bytes.Compare(a.id[:], b.id[:]))
}

// memo returns the value of a key, which it makes once.
func memo[K comparable, V any](known map[K]V, key K, make func() V) V {
	v, ok := known[key]
	if !ok {
		v = make()
		known[key] = v
	}
	return v
}

// words returns the words of a text in lower case: runs of letters and digits.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
