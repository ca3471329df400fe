package work

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
)

// again has the step observe an event that it may have seen before, as after a reconnect.
func (w *world) again(p person, e nostr.Event) error {
	w.Helper()
	_, err := w.says(p, e)
	return err
}

func TestRestartNeverStartsRefusedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mortal(t)
		w.services[0].Queue = 1
		w.restart()
		w.many(customer, "job", 2)
		r := task(t, bundle(t, []byte("hello")))
		r.Job = "refused"
		e, err := r.Event()
		if err != nil {
			t.Fatal(err)
		}
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
		steptest.WantDrop(t, w.again(customer, e), guild.Flood)
		w.pass(10 * time.Minute) // the slots are free
		for range 2 {
			w.restart()
			if err := w.again(customer, e); err != nil {
				t.Fatal(err)
			}
			w.pass(10 * time.Minute)
		}
		if got := fmt.Sprint(w.worker.list()); got != "[job 1 job 2]" {
			t.Errorf("worked on %s", got)
		}
		for _, f := range steptest.Facts[fact.RequestReceived](w) {
			if f.Job == "refused" {
				t.Error("a fact was written")
			}
		}
	})
}

func TestRefusalsStayBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mortal(t)
		const many = maxRefused + 100
		id := func(n int) nostr.ID { return nostr.ID{0: 1, 1: byte(n >> 16), 2: byte(n >> 8), 3: byte(n)} }
		for n := range many {
			if err := w.remember(t.Context(), id(n)); err != nil {
				t.Fatal(err)
			}
		}
		w.restart()
		if err := w.remember(t.Context(), id(many)); err != nil {
			t.Fatal(err)
		}
		stored := 0
		for _, err := range w.Journal.Seen(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			stored++
		}
		if stored != maxRefused || len(w.refused.ids) != maxRefused {
			t.Errorf("%d are stored and %d are known, want %d", stored, len(w.refused.ids), maxRefused)
		}
		for n, want := range map[int]bool{0: false, 100: false, 101: true, many: true} {
			if got := w.refused.has(id(n)); got != want {
				t.Errorf("refusal %d is known: %v, want %v", n, got, want)
			}
		}
	})
}

func TestRefusedFloodIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := on(Terms{MinBid: 1000})
		w := newWorld(t, s)
		for n := range 200 {
			r := task(t, bundle(t, []byte(fmt.Sprint(n))))
			_, err := w.sends(mallory, r)
			steptest.WantDrop(t, err, lowBid)
		}
		if n := len(w.refused.ids); n != answersOneBurst {
			t.Errorf("%d refusals are remembered, want %d", n, answersOneBurst)
		}
	})
}
