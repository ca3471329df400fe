package work

import (
	"context"
	"slices"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/nip90"
)

// lives lists the courses that requests to us can take. Each runs from an empty journal to its end.
func lives() map[string]func(w *world) {
	return map[string]func(w *world){
		"done": func(w *world) {
			w.many(customer, "job", 1)
			w.pass(time.Hour)
		},
		"done, one after the other": func(w *world) {
			w.many(customer, "job", 3)
			w.pass(time.Hour)
		},
		"too slow": func(w *world) {
			w.worker.takes = 24 * time.Hour
			w.many(customer, "job", 1)
			w.pass(time.Hour)
		},
		"withdrawn while it runs": func(w *world) {
			id := w.many(customer, "job", 1)[0]
			w.says(customer, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", id.Hex()}}})
			w.pass(time.Hour)
		},
		"withdrawn while it waits": func(w *world) {
			id := w.many(customer, "job", 2)[1]
			w.says(customer, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", id.Hex()}}})
			w.pass(time.Hour)
		},
		"paused and resumed while one waits": func(w *world) {
			w.many(customer, "job", 2)
			w.Pause(w.Context(), "python", false)
			w.pass(10 * time.Minute)
			w.Resume(w.Context(), "python")
			w.pass(time.Hour)
		},
		"paused for good": func(w *world) {
			w.many(customer, "job", 2)
			w.Pause(w.Context(), "python", false)
			w.pass(2 * time.Hour)
		},
		"drained": func(w *world) {
			w.many(customer, "job", 2)
			w.Pause(w.Context(), "python", true)
			w.pass(time.Hour)
		},
		"deadly": func(w *world) {
			w.many(customer, "job", 1)
			for range 4 {
				w.restart()
				w.pass(time.Second)
			}
			w.pass(time.Hour)
		},
		"no relay takes the answer": func(w *world) {
			w.setDeaf(true)
			w.many(customer, "job", 1)
			w.pass(time.Hour)
			w.setDeaf(false)
		},
		"handed back": func(w *world) {
			w.many(customer, "job", 2)
			grace, cancel := context.WithTimeout(w.Context(), time.Second)
			defer cancel()
			w.Drain(grace)
		},
		"asked twice with a key": func(w *world) {
			w.asks(customer, once(w.T, "first", "k1"))
			w.pass(time.Second)
			w.asks(customer, once(w.T, "second", "k1"))
			w.pass(time.Hour)
			w.asks(customer, once(w.T, "third", "k1"))
			w.pass(time.Hour)
		},
		"a price": func(w *world) {
			w.services[0].Price = 1000
			w.restart()
			w.many(customer, "job", 1)
			w.pass(time.Hour)
		},
	}
}

// mortal begins a world with one worker, which does one request a minute.
func mortal(t *testing.T) *world {
	worker := &runs{takes: time.Minute}
	s := python(worker.do)
	s.Slots = 1
	s.Terms.Each = 8
	w := newWorld(t, s)
	w.worker = worker
	return w
}

// TestRestartAfterAnyEntry starts a node on the first n entries of each life, for every n. Every request that was received
// must be answered once, with a result or an error; work that had ended must not be done again; and a withdrawn request
// must not be answered.
func TestRestartAfterAnyEntry(t *testing.T) {
	for name, live := range lives() {
		t.Run(name, func(t *testing.T) {
			steptest.KillAtEachEntry(t, 3, func(t *testing.T) []fact.Entry {
				w := mortal(t)
				live(w)
				return w.Entries()
			}, func(t *testing.T, left, _ []fact.Entry) { mortal(t).goesOnAfter(left) })
		})
	}
}

// goesOnAfter starts the node on a journal of these entries, and wants every request to end.
func (w *world) goesOnAfter(before []fact.Entry) {
	w.Helper()
	w.Stop()
	w.Relive(before)
	began, ended, silent := map[nostr.ID]fact.RequestReceived{}, map[nostr.ID]bool{}, map[nostr.ID]bool{}
	told := map[string]bool{}
	for _, e := range before {
		for _, f := range e.Facts {
			switch f := f.(type) {
			case fact.RequestReceived:
				began[f.Request] = f
			case fact.RequestFinished:
				ended[f.Request] = true
			case fact.RequestCancelled:
				silent[f.Request] = true
			case fact.EffectSettled:
				told[f.Effect] = true
			case fact.EffectParked:
				told[f.Effect] = true // no relay took it within the tries
			}
		}
	}
	w.restart()
	w.pass(oldest + time.Minute)
	for id, r := range began {
		if silent[id] {
			if n := len(w.sent(6000, id)); n > 0 && !ended[id] {
				w.Errorf("%d results to a withdrawn request", n)
			}
			continue
		}
		w.wantEnd(id, told)
		if slices.Contains(w.worker.list(), r.Job) && (ended[id] || r.Repeats != nostr.ID{}) {
			w.Errorf("%q was done again", r.Job)
		}
	}
	if n := len(w.worker.list()); n > len(began) {
		w.Errorf("%d runs for %d requests: %v", n, len(began), w.worker.list())
	}
	if left := w.fold.pending(); len(left) != 0 {
		w.Errorf("%d requests are pending for ever", len(left))
	}
}

// wantEnd wants a request to have ended once, and its answers to be published.
func (w *world) wantEnd(id nostr.ID, told map[string]bool) {
	w.Helper()
	var ends []fact.RequestFinished
	for _, f := range steptest.Facts[fact.RequestFinished](w) {
		if f.Request == id {
			ends = append(ends, f)
		}
	}
	if len(ends) != 1 || len(ends[0].Answers) == 0 {
		w.Fatalf("%d ends: %+v, facts %v", len(ends), ends, w.facts(id))
	}
	for _, answer := range ends[0].Answers {
		said := slices.ContainsFunc(slices.Concat(w.sent(6000, id), w.sent(nip90.KindFeedback, id)), func(p publication) bool { return p.ID == answer.ID })
		if !said && !told[due.Publishing(answer.ID)] {
			w.Errorf("the answer %s was not published", ends[0].Ending)
		}
	}
}
