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
	cards []*card                   // by number; nil if the number is free
	free  []number                  // free numbers
	at    map[ID]number             // by service
	byID  map[uint64]number         // by the beginning of the event's id
	words map[string][]number       // by the first 8 bytes of the event's id
	kinds map[int][]number          // by kind; only services that publish performance figures
	tasks map[int][]number          // by kind; only kinds that nip89.KindsOf has for a task
	keys  map[nostr.PubKey][]number // by key, unordered
	bytes int                       // sum of the weights of all cards

	stored int // approximate bytes of all cards in SEEN

	touched func(guild.Service) // see Config
}

func newIndex(touched func(guild.Service)) index {
	if touched == nil {
		touched = func(guild.Service) {}
	}
	return index{touched: touched, at: map[ID]number{}, byID: map[uint64]number{}, words: map[string][]number{}, kinds: map[int][]number{}, tasks: map[int][]number{},
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
	for _, word := range says.tasks {
		insert(x.words, word, n, strings.Clone)
	}
	if says.performs {
		for _, kind := range says.kinds {
			insert(x.kinds, kind, n, func(kind int) int { return kind })
		}
	}
	for _, kind := range says.kinds {
		if nip89.HasTask(kind) {
			insert(x.tasks, kind, n, func(kind int) int { return kind })
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
	for _, word := range says.tasks {
		drop(x.words, word, n)
	}
	if says.performs {
		for _, kind := range says.kinds {
			drop(x.kinds, kind, n)
		}
	}
	for _, kind := range says.kinds {
		drop(x.tasks, kind, n)
	}
}

// insert inserts n into the sorted list of a key. For a new list, own copies the key: a substring of a packed card
// would keep the whole card in memory.
func insert[K comparable](lists map[K][]number, key K, n number, own func(K) K) {
	list, ok := lists[key]
	if !ok {
		key = own(key)
	}
	if at, there := slices.BinarySearch(list, n); !there {
		lists[key] = slices.Insert(list, at, n)
	}
}

// drop removes n from the sorted list of a key, and the key with its last number.
func drop[K comparable](lists map[K][]number, key K, n number) {
	list := lists[key]
	if at, there := slices.BinarySearch(list, n); there {
		list = slices.Delete(list, at, at+1)
		lists[key] = list
	}
	if len(list) == 0 {
		delete(lists, key)
	}
}

// matches returns the services that do a task under a kind, with the confidence. It agrees with
// nip89.Handler.Confidence, but does not read every card. The synonyms must have the form of nip89.Word.
func (x *index) matches(task string, kind int, synonyms []string) map[number]nip89.Confidence {
	found := map[number]nip89.Confidence{}
	find := func(list []number, fit nip89.Confidence) {
		for _, n := range list {
			if x.cards[n].packed[0]&flagNoK != 0 {
				found[n] = max(found[n], min(fit, nip89.Inferred))
			} else {
				found[n] = max(found[n], fit)
			}
		}
	}
	find(x.kinds[kind], nip89.Inferred)
	for _, kind := range nip89.KindsOf(task) {
		find(x.tasks[kind], nip89.Inferred)
	}
	for _, word := range synonyms {
		find(x.words[word], nip89.Synonym)
	}
	for end := 1; end <= len(task); end++ {
		find(x.words[task[:end]+"*"], nip89.Synonym)
	}
	find(x.words[task], nip89.Exact)
	return found
}
