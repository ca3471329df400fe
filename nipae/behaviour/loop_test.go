package behaviour

import (
	"testing"

	"fiatjaf.com/nostr"

	"guild/nipae"
)

// Signed events cannot name each other in a circle, so the loops are put into the library without Add.
func TestCommentsThatLoop(t *testing.T) {
	owner := nostr.PubKey{1}
	ids := []nostr.ID{{1}, {2}, {3}, {4}, {5}, {6}, {7}}
	l := NewLibrary(Config{})
	put := func(id nostr.ID, value any) { l.events[id] = &held{id: id, author: owner, value: value} }
	reply := func(id, parent nostr.ID) {
		put(id, nipae.Comment{Lesson: nipae.Reference{ID: ids[1]}, Parent: nipae.Reference{ID: parent}, Content: "x"})
	}
	put(ids[0], nipae.Definition{ID: ids[0], D: "x", Ver: 1})
	put(ids[1], nipae.Lesson{Definition: nipae.Reference{ID: ids[0]}, Content: "x"})
	put(ids[2], nipae.Profile{Definition: nipae.Reference{ID: ids[0]}})
	l.newest[replaceable{owner, nipae.KindProfile}] = ids[2]
	reply(ids[3], ids[4])
	reply(ids[4], ids[3])
	reply(ids[5], ids[5])
	reply(ids[6], ids[1])
	b, err := l.Compose(Request{Definition: ids[0], Policy: Policy{Owners: []nostr.PubKey{owner}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Sources) != 3 || b.Sources[2].Event != ids[6] {
		t.Errorf("%+v", b.Sources)
	}
}
