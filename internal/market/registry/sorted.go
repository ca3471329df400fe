package registry

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// entry is a card in a list. Its key is the beginning of the public key, by which most cards are compared without reading
// them.
type entry struct {
	key  uint32
	card number
}

// sorted is a list of cards in the order of compareCards. It consists of parts of at most maxPart cards, so that adding a
// card to a long list moves only a few others.
type sorted [][]entry

const maxPart = 512

// compareEntries orders the entries of sorted lists: by public key and then by d.
func (x *index) compareEntries(a, b entry) int {
	switch {
	case a.key < b.key:
		return -1
	case a.key > b.key:
		return 1
	case a.card == b.card:
		return 0
	}
	return compareCards(x.cards[a.card], x.cards[b.card])
}

// entry returns the entry of a card.
func (x *index) entry(n number) entry {
	return entry{binary.BigEndian.Uint32(x.cards[n].pubkey[:]), n}
}

// place returns the place of an entry: the part, the position in it, and whether it is there.
func (x *index) place(list sorted, e entry) (part, at int, there bool) {
	part, _ = slices.BinarySearchFunc(list, e, func(part []entry, e entry) int {
		return x.compareEntries(part[len(part)-1], e)
	})
	if part == len(list) {
		part-- // after all others
	}
	if part < 0 {
		return 0, 0, false
	}
	at, there = slices.BinarySearchFunc(list[part], e, x.compareEntries)
	return part, at, there
}

// with returns the list with a card added.
func (x *index) with(list sorted, n number) sorted {
	e := x.entry(n)
	if len(list) == 0 {
		return sorted{{e}}
	}
	part, at, there := x.place(list, e)
	if there {
		return list
	}
	list[part] = slices.Insert(list[part], at, e)
	if full := list[part]; len(full) > maxPart {
		list[part] = slices.Clone(full[:maxPart/2])
		list = slices.Insert(list, part+1, slices.Clone(full[maxPart/2:]))
	}
	return list
}

// without returns the list without a card.
func (x *index) without(list sorted, n number) sorted {
	part, at, there := x.place(list, x.entry(n))
	if !there {
		return list
	}
	list[part] = slices.Delete(list[part], at, at+1)
	if len(list[part]) == 0 {
		list = slices.Delete(list, part, part+1)
	}
	return list
}

// compareCards orders services by public key and then by d.
func compareCards(a, b *card) int {
	return cmp.Or(slices.Compare(a.pubkey[:], b.pubkey[:]), cmp.Compare(a.d, b.d))
}
