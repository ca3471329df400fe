package work

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// watched begins a world whose owner watches. seen returns what it saw since the last call, as "stage: text".
func watched(t *testing.T, s Service) (w *world, seen func() []string) {
	var mu sync.Mutex
	var all []string
	w = newWorld(t, s)
	w.Work.c.Watch = func(u Update) {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprintf("%s: %s", u.Stage, u.Text)
		if u.Service != "python" {
			text += " at " + u.Service
		}
		all = append(all, text)
	}
	return w, func() []string {
		mu.Lock()
		defer mu.Unlock()
		now := all
		all = nil
		return now
	}
}

func TestOwnerSeesWhyRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python((&runs{takes: time.Minute}).do)
		s.Slots = 1
		w, seen := watched(t, s)
		w.asks(customer, once(t, "first", "k1"))
		w.pass(time.Second)
		w.asks(customer, once(t, "second", "k2"))
		w.asks(customer, once(t, "third", "k1")) // as the first
		w.pass(10 * time.Second)
		got := seen()
		for _, want := range []string{"working: ", "waiting: 1 of 1 jobs are running"} {
			if !slices.Contains(got, want) {
				t.Errorf("%q is not in %q", want, got)
			}
		}
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "waiting: it repeats ") }) || len(got) > 4 {
			t.Errorf("each reason is shown once: %q", got)
		}
		if err := w.Pause(t.Context(), "python", false); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * time.Minute)
		if got := seen(); !slices.Contains(got, "waiting: the service is paused") {
			t.Errorf("paused: %q", got)
		}
		if err := w.Resume(t.Context(), "python"); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Second)
		if got := seen(); !slices.Contains(got, "working: ") {
			t.Errorf("resumed: %q", got)
		}
	})
}

func TestOwnerSeesWhyRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python(echo)
		s.Terms = Terms{PerMinute: 1}
		w, seen := watched(t, s)
		w.asks(customer, once(t, "first", "k1"))
		if _, err := w.sends(customer, once(t, "second", "k2")); err == nil {
			t.Error("two requests in a minute are taken")
		}
		unknown := once(t, "third", "k3")
		unknown.Set("job_type", "cobol")
		if _, err := w.sends(mallory, unknown); err == nil {
			t.Error("a task that is not offered is taken")
		}
		w.pass(time.Second)
		got := seen()
		for _, want := range []string{
			"refused: busy: 1 requests of one customer in a minute, try again later",
			`refused: this provider does not offer the task "cobol" in kind 5000 at cobol`,
		} {
			if !slices.Contains(got, want) {
				t.Errorf("%q is not in %q", want, got)
			}
		}
	})
}
