package registry

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Keys share their beginnings, so that some of the order depends on the rest of the key and on d.
func TestSortedLists(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	x := newIndex(nil)
	for n := range 3000 {
		c := &card{d: fmt.Sprint(n % 2)}
		binary.BigEndian.PutUint32(c.pubkey[:], uint32(n/2%300))
		binary.BigEndian.PutUint32(c.pubkey[28:], uint32(n/2))
		x.cards = append(x.cards, c)
	}
	var list sorted
	for n, put := range dice.Perm(len(x.cards)) {
		list = x.with(list, number(put))
		if n%5 == 0 {
			list = x.with(list, number(put)) // again
		}
	}
	got := x.merge([]sorted{list})
	if len(got) != len(x.cards) || !slices.IsSortedFunc(got, func(a, b number) int { return compareCards(x.cards[a], x.cards[b]) }) {
		t.Fatalf("%d of %d cards, or not in order", len(got), len(x.cards))
	}
	for _, part := range list {
		if len(part) > maxPart {
			t.Errorf("a part of %d cards", len(part))
		}
	}
	for left, n := range dice.Perm(len(x.cards)) {
		list = x.without(list, number(n))
		if got := x.merge([]sorted{list}); slices.Contains(got, number(n)) || len(got) != len(x.cards)-left-1 {
			t.Fatalf("card %d was not removed: %d are left", n, len(got))
		}
	}
	if len(list) != 0 {
		t.Errorf("%d empty parts", len(list))
	}
}
