package work

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/step/steptest"
)

// many sends n requests of a person, a second apart. Their jobs are named name and a number.
func (w *world) many(p person, name string, n int) (ids []nostr.ID) {
	w.Helper()
	for i := range n {
		r := task(w.T, bundle(w.T, nil))
		r.Job = fmt.Sprintf("%s %d", name, i+1)
		ids = append(ids, w.asks(p, r))
		w.pass(time.Second)
	}
	return ids
}

// wide returns a service with a long queue and one worker, which does one request a minute.
func wide(worker *runs) Service {
	s := python(worker.do)
	s.Slots, s.Queue, s.Terms.Each = 1, 64, 64
	return s
}

func TestSingleRequestSkipsLongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Minute}
		w := newWorld(t, wide(worker))
		w.many(customer, "greedy", 30)
		w.many(mallory, "modest", 1)
		w.pass(time.Hour)
		got := worker.list()
		at := slices.Index(got, "modest 1")
		if at != 1 || len(got) != 31 {
			t.Errorf("the modest one was number %d of %d: %v", at+1, len(got), got)
		}
	})
}

func TestCustomersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: 10 * time.Minute}
		s := wide(worker)
		s.Limit = 24 * time.Hour
		w := newWorld(t, s)
		w.many(newPerson(11), "a", 3)
		w.many(newPerson(12), "b", 3)
		w.many(newPerson(13), "c", 2)
		w.pass(58 * time.Minute)
		want := []string{"a 1", "b 1", "c 1", "a 2", "b 2", "c 2"}
		if got := worker.list(); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestFewestRunningIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Hour}
		s := wide(worker)
		s.Slots, s.Limit = 3, 2*time.Hour
		w := newWorld(t, s)
		w.many(customer, "greedy", 5) // three of them begin at once
		w.many(mallory, "late", 2)
		w.pass(time.Hour - 7*time.Second + time.Second/2) // the first of the greedy one ends
		if got := worker.list(); len(got) != 4 || got[3] != "late 1" {
			t.Errorf("%v", got)
		}
		st := w.Services()[0]
		want := []Customer{{mallory.key, 1, 1}, {customer.key, 2, 2}}
		slices.SortFunc(st.Customers, func(a, b Customer) int { return a.Running - b.Running })
		if st.Running != 3 || st.Queued != 3 || !slices.Equal(st.Customers, want) {
			t.Errorf("%d running, %d queued, %+v", st.Running, st.Queued, st.Customers)
		}
		w.pass(time.Second) // the second of the greedy one ends: both have one running
		if got := worker.list(); len(got) != 5 || got[4] != "late 2" {
			t.Errorf("%v", got)
		}
	})
}

func TestNewCustomerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Minute}
		w := newWorld(t, wide(worker))
		w.many(customer, "first", 1)
		w.many(mallory, "waits", 1)
		for n := range byte(20) { // a new key each time does not help
			w.many(newPerson(20+n), "new", 1)
		}
		w.pass(2 * time.Minute)
		if got := worker.list(); len(got) < 2 || got[1] != "waits 1" {
			t.Errorf("%v", got)
		}
	})
}

// TestTurnsAreFair wants of any queue that no customer is served twice while another one waits.
func TestTurnsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []request
		for i := range rapid.IntRange(1, 60).Draw(t, "requests") {
			who := rapid.ByteRange(1, 5).Draw(t, "customer")
			all = append(all, request{ID: nostr.ID{byte(i + 1)}, Customer: nostr.PubKey{who}, Service: "x", At: int64(i)})
		}
		m := activity{running: map[nostr.ID]bool{}, served: map[visitor]int64{}}
		order, clock := []nostr.PubKey{}, int64(100)
		for len(all) > 0 { // one worker, one after the other
			next := inTurn(all, m)[0]
			order = append(order, next.Customer)
			clock++
			m.served[visitor{next.Customer, "x"}] = clock
			all = slices.DeleteFunc(all, func(r request) bool { return r.ID == next.ID })
		}
		for i, p := range order { // no customer is served again before all those that still wait
			later := order[i+1:]
			again := slices.Index(later, p)
			if again < 0 {
				continue
			}
			for _, q := range later[again:] {
				if q != p && !slices.Contains(later[:again], q) {
					t.Fatalf("%v was served twice before %v once: %v", p[0], q[0], order)
				}
			}
		}
	})
}

func TestQueueLimitOfCustomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python((&runs{takes: time.Minute}).do)
		s.Slots, s.Queue = 2, 6
		w := newWorld(t, s)
		w.many(customer, "greedy", 5) // two at work, and half of the queue
		r := task(t, bundle(t, nil))
		r.Job = "one too many"
		id, err := w.sends(customer, r)
		steptest.WantDrop(t, err, guild.Flood)
		told := w.told(customer, id)
		if len(told) != 1 || !told[0].Busy() || !strings.Contains(told[0].Text, "5 of your requests") {
			t.Errorf("told %+v", told)
		}
		w.many(mallory, "another", 3)
	})
}
