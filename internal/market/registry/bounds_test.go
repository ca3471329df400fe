package registry

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// flooded reports whether an event was dropped because there were too many.
func flooded(err error) bool {
	drop, ok := errors.AsType[*guild.DropError](err)
	return ok && drop.Reason == guild.Flood
}

func TestMemoryIsBounded(t *testing.T) {
	w, alice, bob := newWorld(t), newProvider(1), newProvider(2)
	w.announces(alice, python("alice"))
	used := w.index.bytes
	w.index.bytes = mostBytes
	if err := w.observe(bob, python("bob").Event()); !flooded(err) {
		t.Errorf("a newcomer: %v", err)
	}
	later := func(h nip89.Handler, seconds nostr.Timestamp) nostr.Event {
		e := h.Event()
		e.CreatedAt = w.card(alice.service("alice")).CreatedAt + seconds
		return e
	}
	long := python("alice")
	long.Tasks = append(long.Tasks, "another", "a third")
	if err := w.observe(alice, later(long, 1)); !flooded(err) {
		t.Errorf("an announcement that grows: %v", err)
	}
	short := python("alice")
	short.Name = ""
	if err := w.observe(alice, later(short, 2)); err != nil {
		t.Errorf("an announcement that does not: %v", err)
	}
	w.index.bytes -= mostBytes - used
	w.index.remove(IDOf(alice.service("alice")))
	if w.index.bytes != 0 {
		t.Errorf("an empty index weighs %d bytes", w.index.bytes)
	}
}

func TestCardWeight(t *testing.T) {
	weigh := func(tasks ...string) int {
		says := summary{tasks: tasks}
		return (&card{packed: says.pack()}).weight(says)
	}
	one := strings.Repeat("x", maxTask)
	if extra := weigh(one, one+"y") - weigh(one); extra < 2*maxTask {
		t.Errorf("another task weighs %d bytes", extra)
	}
}

func TestDeletionsAreBounded(t *testing.T) {
	w, alice := newWorld(t), newProvider(1)
	fill := func(n int) {
		for i := uint32(len(w.deleted)); len(w.deleted) < n; i++ {
			var id ID
			binary.BigEndian.PutUint32(id[:], i)
			w.deleted[id] = 1
		}
	}
	takeBack := func(d string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.retract(IDOf(alice.service(d)), 1<<40)
	}
	fill(most)
	takeBack("never announced")
	if len(w.deleted) != most {
		t.Errorf("%d deletions are kept", len(w.deleted))
	}
	w.announces(alice, python("a"))
	takeBack("a")
	if len(w.deleted) != most+1 || w.Len() != 0 {
		t.Errorf("%d deletions are kept and %d services, want one deletion more and none", len(w.deleted), w.Len())
	}
	fill(2 * most)
	w.announces(alice, python("b"))
	takeBack("b")
	if len(w.deleted) != 2*most || w.Len() != 0 {
		t.Errorf("%d deletions are kept and %d services", len(w.deleted), w.Len())
	}
}
