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

// flooded reports whether an event was dropped because there are too many of its like.
func flooded(err error) bool {
	drop, ok := errors.AsType[*guild.DropError](err)
	return ok && drop.Reason == guild.Flood
}

func TestNoMoreIsKeptThanThereIsRoomFor(t *testing.T) {
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
		t.Errorf("nothing is kept, and it takes %d bytes", w.index.bytes)
	}
}

func TestTasksThatNobodyElseNamesAreCounted(t *testing.T) {
	weigh := func(tasks ...string) int {
		says := said{tasks: tasks}
		return (&card{said: says.pack()}).weight(says)
	}
	one := strings.Repeat("x", maxTask)
	if extra := weigh(one, one+"y") - weigh(one); extra < 2*maxTask {
		t.Errorf("a task more counts %d bytes", extra)
	}
}

func TestWhatWasTakenBackIsRememberedWithinBounds(t *testing.T) {
	w, alice := newWorld(t), newProvider(1)
	fill := func(n int) {
		for i := uint32(len(w.gone)); len(w.gone) < n; i++ {
			var id ID
			binary.BigEndian.PutUint32(id[:], i)
			w.gone[id] = 1
		}
	}
	takeBack := func(d string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.retract(IDOf(alice.service(d)), 1<<40)
	}
	fill(most)
	takeBack("never announced")
	if len(w.gone) != most {
		t.Errorf("%d are remembered", len(w.gone))
	}
	w.announces(alice, python("a"))
	takeBack("a")
	if len(w.gone) != most+1 || w.Len() != 0 {
		t.Errorf("%d are remembered, %d announced: what was announced has a place of its own", len(w.gone), w.Len())
	}
	fill(2 * most)
	w.announces(alice, python("b"))
	takeBack("b")
	if len(w.gone) != 2*most || w.Len() != 0 {
		t.Errorf("%d are remembered, %d announced", len(w.gone), w.Len())
	}
}
