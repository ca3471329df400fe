package work

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"guild/internal/journal/fact"
	"guild/nip90"
)

func TestCapacityIsTold(t *testing.T) {
	for _, c := range []struct {
		slots, requests int
		want            []fact.Capacity // as each begins
		text            string          // of the last
	}{
		{2, 1, []fact.Capacity{{Queue: 0, Idle: 1}}, "queue 0, idle 1"},
		{1, 1, []fact.Capacity{{Queue: 0, Idle: 0}}, "queue 0, idle 0"},
		{3, 2, []fact.Capacity{{Queue: 0, Idle: 2}, {Queue: 0, Idle: 1}}, "queue 0, idle 1"},
		{1, 4, []fact.Capacity{{Queue: 0}, {Queue: 2}, {Queue: 1}, {Queue: 0}}, "queue 0, idle 0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := wide(&runs{takes: time.Minute})
			s.Slots = c.slots
			w := newWorld(t, s)
			asked := w.many(customer, "job", c.requests)
			w.pass(time.Hour)
			var got []fact.Capacity
			text := ""
			for _, id := range asked {
				told := w.told(customer, id)
				i := slices.IndexFunc(told, func(f nip90.Feedback) bool { return !strings.HasPrefix(f.Text, "waiting for its turn") })
				if i < 0 || told[i].Status != nip90.Processing {
					t.Fatalf("told %+v", told)
				}
				f := told[i]
				var one fact.Capacity
				if err := json.Unmarshal([]byte(f.Content), &one); err != nil {
					t.Fatalf("%q: %v", f.Content, err)
				}
				got, text = append(got, one), f.Text
			}
			if len(got) != len(c.want) || text != c.text {
				t.Fatalf("%d slots, %d requests: %+v, %q", c.slots, c.requests, got, text)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("%d slots: request %d began at %+v, want %+v", c.slots, i+1, got[i], c.want[i])
				}
			}
		})
	}
}

func TestPausedServiceHasNoCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wide(&runs{takes: time.Minute})
		s.Slots = 4
		w := newWorld(t, s)
		if got := w.capacity(w.Work.services[w.Work.order[0]]); got != (fact.Capacity{Idle: 4}) {
			t.Errorf("open: %+v", got)
		}
		if err := w.Pause(t.Context(), w.Work.order[0], false); err != nil {
			t.Fatal(err)
		}
		if got := w.capacity(w.Work.services[w.Work.order[0]]); got != (fact.Capacity{}) {
			t.Errorf("paused: %+v", got)
		}
	})
}
