package registry

import (
	"encoding/binary"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// index stores all known announcements and finds them by task, kind and key. It is not safe for concurrent use.
type index struct {
	cards []*card           // by number; nil if the number is free
	free  []number          // free numbers
	at    map[ID]number     // by service
	byID  map[uint64]number // by the beginning of the event's id
	all   sorted
	words map[string]sorted         // by the word of a task
	kinds map[int]sorted            // by kind; only services that publish performance figures
	tasks map[int]sorted            // by kind; only kinds that nip89.KindsOf has for a task
	keys  map[nostr.PubKey][]number // by key, unordered
	bytes int                       // sum of the weights of all cards

	stored int // approximate bytes of all cards in SEEN

	touched func(guild.Service) // see Config
}

func newIndex(touched func(guild.Service)) index {
	if touched == nil {
		touched = func(guild.Service) {}
	}
	return index{touched: touched, at: map[ID]number{}, byID: map[uint64]number{}, words: map[string]sorted{}, kinds: map[int]sorted{}, tasks: map[int]sorted{},
		keys: map[nostr.PubKey][]number{}}
}

func (x *index) len() int { return len(x.at) }

// find returns the card of a service, or nil.
func (x *index) find(i ID) *card {
	if n, ok := x.at[i]; ok {
		return x.cards[n]
	}
	return nil
}

// event returns the card whose announcement has this id, or nil.
func (x *index) event(id nostr.ID) *card {
	if n, ok := x.byID[head(id)]; ok && x.cards[n].id == id {
		return x.cards[n]
	}
	return nil
}

func head(id nostr.ID) uint64 { return binary.BigEndian.Uint64(id[:8]) }

// put adds a card, or replaces the one of its service.
func (x *index) put(i ID, c *card) {
	n, known := x.at[i]
	switch {
	case known:
		x.forget(n)
	case len(x.free) > 0:
		n = x.free[len(x.free)-1]
		x.free = x.free[:len(x.free)-1]
	default:
		n = number(len(x.cards))
		x.cards = append(x.cards, nil)
	}
	x.cards[n], x.at[i], x.byID[head(c.id)] = c, n, n
	x.keys[c.pubkey] = append(x.keys[c.pubkey], n)
	says := unpack(c.packed)
	x.bytes += c.weight(says)
	x.stored += int(c.stored)
	x.all = x.with(x.all, n)
	for _, word := range says.tasks {
		insert(x, x.words, word, n, strings.Clone)
	}
	if says.performs {
		for _, kind := range says.kinds {
			insert(x, x.kinds, kind, n, func(kind int) int { return kind })
		}
	}
	for _, kind := range says.kinds {
		if nip89.HasTask(kind) {
			insert(x, x.tasks, kind, n, func(kind int) int { return kind })
		}
	}
	x.touched(c.service())
}

// remove removes the card of a service.
func (x *index) remove(i ID) {
	n, ok := x.at[i]
	if !ok {
		return
	}
	x.forget(n)
	x.touched(x.cards[n].service())
	x.cards[n] = nil
	x.free = append(x.free, n)
	delete(x.at, i)
}

// forget removes a card from all lists, but keeps its number.
func (x *index) forget(n number) {
	c := x.cards[n]
	if x.byID[head(c.id)] == n {
		delete(x.byID, head(c.id))
	}
	if mine := x.keys[c.pubkey]; len(mine) == 1 {
		delete(x.keys, c.pubkey)
	} else if at := slices.Index(mine, n); at >= 0 {
		x.keys[c.pubkey] = slices.Delete(mine, at, at+1)
	}
	says := unpack(c.packed)
	x.bytes -= c.weight(says)
	x.stored -= int(c.stored)
	x.all = x.without(x.all, n)
	for _, word := range says.tasks {
		drop(x, x.words, word, n)
	}
	if says.performs {
		for _, kind := range says.kinds {
			drop(x, x.kinds, kind, n)
		}
	}
	for _, kind := range says.kinds {
		drop(x, x.tasks, kind, n)
	}
}

// insert adds a card to the list of a key. For a new list, own copies the key: a substring of a packed card would keep the
// whole card in memory.
func insert[K comparable](x *index, lists map[K]sorted, key K, n number, own func(K) K) {
	list, ok := lists[key]
	if !ok {
		key = own(key)
	}
	lists[key] = x.with(list, n)
}

// drop removes a card from the list of a key, and the key with its last card.
func drop[K comparable](x *index, lists map[K]sorted, key K, n number) {
	list, ok := lists[key]
	if !ok {
		return
	}
	list = x.without(list, n)
	if len(list) == 0 {
		delete(lists, key)
	} else {
		lists[key] = list
	}
}

// group holds cards that may do a task with the same confidence.
type group struct {
	fit   nip89.Confidence
	cards []number // in the order of compareCards
}

// matches returns the cards that may do a task under a kind, those with the highest confidence first. It reads no card, so
// the caller asks summary.fits which of a group have its confidence; a card may be in several groups, and has that of one.
// The synonyms must have the form of nip89.Word.
func (x *index) matches(task string, kind int, synonyms []string) []group {
	exact, synonym, inferred := []sorted{x.words[task]}, []sorted{}, []sorted{x.kinds[kind]}
	for _, word := range synonyms {
		synonym = append(synonym, x.words[word])
	}
	for end := 1; end <= len(task); end++ {
		synonym = append(synonym, x.words[task[:end]+"*"])
	}
	for _, kind := range nip89.KindsOf(task) {
		inferred = append(inferred, x.tasks[kind])
	}
	inferred = slices.Concat(inferred, synonym, exact) // for those that name it in no k tag
	return []group{{nip89.Exact, x.merge(exact)}, {nip89.Synonym, x.merge(synonym)}, {nip89.Inferred, x.merge(inferred)}}
}

// merge returns the cards of lists in order, each once.
func (x *index) merge(lists []sorted) (cards []number) {
	lists = slices.DeleteFunc(lists, func(l sorted) bool { return len(l) == 0 })
	if len(lists) == 0 {
		return nil
	}
	all := slices.Concat(lists[0]...)
	for _, list := range lists[1:] {
		all = x.merged(all, slices.Concat(list...))
	}
	cards = make([]number, len(all))
	for i, e := range all {
		cards[i] = e.card
	}
	return cards
}

// merged returns the entries of a and b in order, each once.
func (x *index) merged(a, b []entry) []entry {
	all := make([]entry, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		order := x.compareEntries(a[0], b[0])
		if order <= 0 {
			all, a = append(all, a[0]), a[1:]
		} else {
			all = append(all, b[0])
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return append(append(all, a...), b...)
}
