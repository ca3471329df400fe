package partner

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/internal/step/steptest"
	"guild/nip89"
)

// newLight returns a world without a journal and a registry, for tests that take months. It has its own clock, and
// applies decisions when they become due.
func newLight(t *testing.T) *world {
	t.Helper()
	return lightBy(t, policy.Specification())
}

// lightBy does the same with another policy.
func lightBy(t *testing.T, p policy.Policy) *world {
	t.Helper()
	w := &world{World: &steptest.World{T: t}, fold: NewFold(p), clock: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.latest = map[registry.ID]registry.Latest{}
	w.Partners = New(Config{Now: w.now, Latest: func(i registry.ID) registry.Latest { return w.latest[i] },
		Services: func(nostr.PubKey) []guild.Service { return nil }}, w.fold)
	return w
}

// now returns the time in the world.
func (w *world) now() time.Time {
	if w.light() {
		return w.clock
	}
	return time.Now()
}

func (w *world) light() bool { return w.Journal == nil }

// sleep lets time pass, and makes every decision that becomes due meanwhile.
func (w *world) sleep(d time.Duration) {
	w.Helper()
	if !w.light() {
		time.Sleep(d)
		synctest.Wait()
		return
	}
	for until := w.clock.Add(d); ; {
		w.settle()
		next, ok := w.fold.agenda.first()
		if !ok || next.at > until.UnixMilli() {
			w.clock = until
			w.settle()
			return
		}
		w.clock = time.UnixMilli(max(next.at, w.clock.UnixMilli()))
	}
}

// write applies facts now.
func (w *world) write(facts ...fact.Fact) {
	w.seq++
	w.fold.Apply(fact.Entry{Seq: w.seq, At: w.now().UnixMilli(), Facts: facts})
}

// settle makes every decision that is due.
func (w *world) settle() {
	w.Helper()
	for n := 0; ; n++ {
		if n > 1000 {
			w.Fatal("decisions do not come to an end")
		}
		w.look(w.now())
		w.fold.agenda.mu.Lock()
		var due []registry.ID
		for i := range w.fold.agenda.now {
			due = append(due, i)
		}
		w.fold.agenda.mu.Unlock()
		if len(due) == 0 {
			return
		}
		for _, i := range due {
			next, ok, _, _ := w.upcoming(i, w.now().UnixMilli())
			if !ok || next.at > w.now().UnixMilli() {
				continue
			}
			if now := w.fold.Provider(next.Service).State; now != next.From || !next.From.CanBecome(next.To) || next.Cause == "" || next.Policy != w.fold.hash {
				w.Fatalf("%+v of one that is %s", next, now)
			}
			w.write(next.ProviderMoved)
		}
	}
}

// sees has a service of a light world announced now.
func (w *world) sees(p provider, h nip89.Handler) {
	w.Helper()
	raw, err := json.Marshal(h.Tasks)
	if err != nil {
		w.Fatal(err)
	}
	w.announce(p.service(h.D), registry.Latest{Announced: true, Version: h.Version, Sum: guild.Sum(append(raw, h.Version...))})
}

// withdraws has the announcement of a service of a light world deleted now.
func (w *world) withdraws(s guild.Service) {
	w.Helper()
	w.announce(s, registry.Latest{})
}

func (w *world) announce(s guild.Service, l registry.Latest) {
	w.Helper()
	i := registry.IDOf(s)
	l.At = w.now().Unix() * 1000
	w.latest[i] = l
	w.fold.Announced(i)
	w.settle()
}
