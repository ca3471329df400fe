package work

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/step/steptest"
)

// busy begins a world in which one request runs for a minute and another one waits.
func busy(t *testing.T) (w *world, worker *runs, running, waiting nostr.ID) {
	worker = &runs{takes: time.Minute}
	s := python(worker.do)
	s.Slots = 1
	w = newWorld(t, s)
	ids := w.many(customer, "job", 2)
	return w, worker, ids[0], ids[1]
}

func (w *world) wantState(want State) {
	w.Helper()
	if got := w.Services()[0].State; got != want {
		w.Errorf("the service is %s, want %s", got, want)
	}
	if w.open("python") != (want == Open) {
		w.Errorf("%s, and open says %v", want, w.open("python"))
	}
}

// wantBusy wants a new request to be refused as busy.
func (w *world) wantBusy(says string) {
	w.Helper()
	r := task(w.T, bundle(w.T, nil))
	r.Job = "new"
	id, err := w.sends(mallory, r)
	steptest.WantDrop(w.T, err, guild.Flood)
	if told := w.told(mallory, id); len(told) != 1 || !told[0].Busy() || !strings.Contains(told[0].Text, says) {
		w.Errorf("told %+v", told)
	}
}

func TestPauseSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, worker, running, waiting := busy(t)
		if err := w.Pause(t.Context(), "python", false); err != nil {
			t.Fatal(err)
		}
		w.wantState(Paused)
		w.wantBusy("paused: busy, try again later")
		w.pass(10 * time.Minute)
		if got := worker.list(); len(w.sent(6000, running)) != 1 || !slices.Equal(got, []string{"job 1"}) {
			t.Errorf("begun: %v, %d results", got, len(w.sent(6000, running)))
		}
		w.restart()
		w.wantState(Paused)
		w.wantBusy("paused")
		w.pass(10 * time.Minute)
		if n := len(worker.list()); n != 1 || w.Services()[0].Queued != 1 {
			t.Errorf("%d begun, %+v", n, w.Services()[0])
		}
		if err := w.Resume(t.Context(), "python"); err != nil {
			t.Fatal(err)
		}
		w.wantState(Open)
		w.pass(2 * time.Minute)
		if len(w.sent(6000, waiting)) != 1 {
			t.Error("what waited was not done")
		}
	})
}

func TestDrainService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, running, waiting := busy(t)
		if err := w.Pause(t.Context(), "python", true); err != nil {
			t.Fatal(err)
		}
		w.wantState(Draining)
		w.wantBusy("paused")
		w.restart()
		w.wantState(Draining)
		w.pass(10 * time.Minute)
		if len(w.sent(6000, running)) != 1 || len(w.sent(6000, waiting)) != 1 {
			t.Error("what it had is not done")
		}
		w.wantBusy("paused")
	})
}

func TestDeadlineWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, worker, _, waiting := busy(t)
		if err := w.Pause(t.Context(), "python", false); err != nil {
			t.Fatal(err)
		}
		w.pass(oldest)
		w.wantError(waiting, "its deadline passed before its turn came")
		if len(worker.list()) != 1 || len(w.fold.pending()) != 0 {
			t.Errorf("begun: %v, %d pending", worker.list(), len(w.fold.pending()))
		}
	})
}

func TestStateIsRecordedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		for range 2 {
			if err := w.Pause(t.Context(), "python", false); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.Journal.Last(); n != 1 {
			t.Errorf("%d facts", n)
		}
		select {
		case <-w.turned:
		default:
			t.Error("the pause was not announced")
		}
		if err := w.Resume(t.Context(), "python"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.turned:
		default:
			t.Error("the resumption was not announced")
		}
		if err := w.Resume(t.Context(), "cobol"); !errors.Is(err, ErrNoService) {
			t.Errorf("a service that there is not: %v", err)
		}
		if n := w.Journal.Last(); n != 2 {
			t.Errorf("%d facts", n)
		}
	})
}

func TestPauseOneService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := python(echo)
		other.D, other.Tasks = "review", []string{"review", "python"}
		w := newWorld(t, python((&runs{}).do), other)
		if err := w.Pause(t.Context(), "python", false); err != nil {
			t.Fatal(err)
		}
		id := w.asks(customer, task(t, bundle(t, []byte("hello")))) // both services do it, and one is open
		w.opened(customer, id)
		if s := w.Services(); s[0].Delivered != 0 || s[1].Delivered != 1 {
			t.Errorf("%+v", s)
		}
		if err := w.Pause(t.Context(), "review", true); err != nil {
			t.Fatal(err)
		}
		w.wantBusy("paused")
	})
}

func TestServiceFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Minute}
		s := python(worker.do)
		s.Limit = 90 * time.Second
		w := newWorld(t, s)
		w.many(customer, "good", 2)
		w.pass(time.Hour)
		worker.takes = time.Hour
		w.many(customer, "slow", 2)
		w.pass(time.Hour)
		w.restart()
		got := w.Services()[0].Figures
		if success, any := got.Success(); got != (Figures{2, 2, time.Minute}) || !any || success != 0.5 {
			t.Errorf("%+v", got)
		}
		if _, any := (Figures{}).Success(); any {
			t.Error("nothing done is a success rate")
		}
	})
}

func TestServiceTasksAndKinds(t *testing.T) {
	for name, c := range map[string]struct {
		service      Service
		takes, never map[string]int
	}{
		"as it says": {Service{D: "all", Tasks: []string{"python", "go"}, Kinds: []int{5000, 5100}},
			map[string]int{"python": 5000, "go": 5100, "": 5100}, map[string]int{"rust": 5000, "python": 5050}},
		"the usual kind": {Service{Task: "oa.sandbox_run.v1"},
			map[string]int{"oa.sandbox_run.v1": 5050}, map[string]int{"oa.sandbox_run.v1": 5000}},
		"the usual kinds of all tasks": {Service{Tasks: []string{"python", "oa.sandbox_run.v1"}},
			map[string]int{"python": 5000, "oa.sandbox_run.v1": 5050}, map[string]int{"": 5001}},
	} {
		s := c.service.withDefaults()
		for task, kind := range c.takes {
			if !s.does(task, kind) {
				t.Errorf("%s: %q of kind %d is not taken by %+v", name, task, kind, s)
			}
		}
		for task, kind := range c.never {
			if s.does(task, kind) {
				t.Errorf("%s: %q of kind %d is taken", name, task, kind)
			}
		}
		if s.Task != s.Tasks[0] || s.Kind != s.Kinds[0] || s.D == "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
