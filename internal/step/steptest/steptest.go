// Package steptest is the world in which the steps are tested, inside synctest bubbles or outside: a journal in a directory, and
// a runner that does what is due.
package steptest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/journaltest"
)

// World is a journal in a directory. A step's own world embeds it.
type World struct {
	*testing.T
	Dir     string           // of the journal
	Journal *journal.Journal // nil before OpenJournal
	Claims  *due.Claims

	stop func()
}

// New returns a world with an empty journal, which is not open yet.
func New(t *testing.T) *World {
	t.Helper()
	w := &World{T: t, Dir: journaltest.Dir(t)}
	if err := journal.Init(w.Dir); err != nil {
		t.Fatal(err)
	}
	return w
}

// OpenJournal opens the journal with new folds, as a process does that starts. If it is open, it is closed first.
func (w *World) OpenJournal(folds ...fold.Fold) {
	w.Helper()
	w.CloseJournal()
	w.Claims, w.stop = due.NewClaims(), func() {}
	w.Journal = journaltest.Reopen(w.T, w.Dir, append(folds, w.Claims)...)
}

// CloseJournal ends all that runs and closes the journal.
func (w *World) CloseJournal() {
	w.Helper()
	if w.Journal == nil {
		return
	}
	w.Stop()
	if err := w.Journal.Close(); err != nil {
		w.Fatal(err)
	}
}

// Run does what is due until the test ends, the journal is closed, or Stop is called. The node is "test", and nothing is logged.
func (w *World) Run(sources ...due.Source) { w.RunWith(&due.Runner{Sources: sources}) }

// RunWith is like Run, with a runner that has sources, and a node or limits if the test needs them. stop ends this runner alone.
func (w *World) RunWith(r *due.Runner) (stop func()) {
	r.Journal, r.Claims, r.Node = w.Journal, w.Claims, cmp.Or(r.Node, "test")
	r.Now, r.Log = time.Now, slog.New(slog.DiscardHandler)
	return w.Go(r.Run)
}

// Go runs a function until the test ends, the journal is closed, or Stop is called. stop ends this function alone.
func (w *World) Go(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("ended with: %v", err)
		}
	})
	w.Cleanup(stop)
	before := w.stop
	w.stop = func() { before(); stop() }
	return stop
}

// Stop ends all that runs.
func (w *World) Stop() { w.stop() }

// Pass lets time pass in a bubble, then waits until all that is due is done.
func (w *World) Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// PassUntil is like Pass, until a time in Unix ms.
func (w *World) PassUntil(at int64) { w.Pass(time.Until(time.UnixMilli(at))) }

// Write appends facts as one entry, as another step would.
func (w *World) Write(about fact.Subject, facts ...fact.Fact) {
	w.Helper()
	w.write(about, "", facts)
}

func (w *World) write(about fact.Subject, cause string, facts []fact.Fact) {
	w.Helper()
	if err := w.Journal.Do(w.Context(), about, cause, func(tx *journal.Tx) error { tx.Append(facts...); return nil }); err != nil {
		w.Fatal(err)
	}
}

// Relive writes the entries of another journal, each at its time, in a bubble.
func (w *World) Relive(history []fact.Entry) {
	w.Helper()
	for _, e := range history {
		w.PassUntil(e.At)
		w.write(e.Subject, e.Cause, e.Facts)
	}
}

// Act does due work once, without a runner, and records its decision.
func (w *World) Act(work due.Work) {
	w.Helper()
	decide, err := work.Act(w.Context())
	if err == nil {
		err = w.Journal.Do(w.Context(), work.Guard, work.Key, decide)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// ActOnce does ready work, one after the other, until a decision records something. It returns that work, and false if there is
// none.
func (w *World) ActOnce(source due.Source) (due.Work, bool) {
	w.Helper()
	for _, work := range source(time.Now()) {
		if work.Ready.After(time.Now()) {
			continue
		}
		before := w.Journal.Last()
		w.Act(work)
		if w.Journal.Last() != before {
			return work, true
		}
	}
	return due.Work{}, false
}

// Entries returns all entries of the journal.
func (w *World) Entries() (all []fact.Entry) {
	w.Helper()
	for e, err := range w.Journal.Entries(w.Context(), 1) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// FactTypes returns the types of the facts about a subject, or of all facts if it is "".
func (w *World) FactTypes(about fact.Subject) (types []string) {
	w.Helper()
	for _, e := range w.Entries() {
		for _, f := range e.Facts {
			if about == "" || e.Subject == about {
				types = append(types, f.Type())
			}
		}
	}
	return types
}

// Facts returns the facts of one type.
func Facts[F fact.Fact](w interface{ Entries() []fact.Entry }) (found []F) {
	for _, e := range w.Entries() {
		for _, f := range e.Facts {
			if f, ok := f.(F); ok {
				found = append(found, f)
			}
		}
	}
	return found
}

// KillAtEachEntry kills a process after each entry of its life in turn. live lives the life, of at least so many entries, and
// returns them. goesOn has a world go on from what the process left, and checks its end; rest is what the process did after that
// when it was not killed. Each call has a bubble of its own.
func KillAtEachEntry(t *testing.T, least int, live func(*testing.T) []fact.Entry, goesOn func(t *testing.T, left, rest []fact.Entry)) {
	t.Helper()
	var whole []fact.Entry
	synctest.Test(t, func(t *testing.T) { whole = live(t) })
	if len(whole) < least {
		t.Fatalf("%d entries only", len(whole))
	}
	for n, e := range whole {
		t.Run(fmt.Sprint("entry ", n+1, " ", e.Facts[len(e.Facts)-1].Type()), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { goesOn(t, whole[:n+1], whole[n+1:]) })
		})
	}
}

// WantDrop checks that an event was dropped for a reason.
func WantDrop(t *testing.T, err error, want guild.Reason) {
	t.Helper()
	if dropped, ok := errors.AsType[*guild.DropError](err); !ok || dropped.Reason != want {
		t.Errorf("got %v, want %q dropped", err, want)
	}
}
