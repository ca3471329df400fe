package registry

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/nip89"
)

// newLight is a world without a journal, for what takes months: decisions are applied as they are due, at the time of
// a clock that costs nothing. What a journal adds is tested in the others.
func newLight(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, fold: newFold(), clock: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.Registry = &Registry{fold: w.fold, index: newIndex(nil), gone: map[identity]nostr.Timestamp{}, lists: lists{}, praise: newPraise(nil),
		sources: sources{numbers: map[string]uint16{}}, room: room{most, mostBytes, mostStored},
		c: Config{Now: w.now, Patience: time.Minute}}
	return w
}

// now is what time it is in the world.
func (w *world) now() time.Time {
	if w.light() {
		return w.clock
	}
	return time.Now()
}

func (w *world) light() bool { return w.journal == nil }

// sleep lets time pass, and everything come that comes meanwhile.
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

// write applies facts at the time that it is.
func (w *world) write(facts ...fact.Fact) {
	w.seq++
	w.fold.Apply(fact.Entry{Seq: w.seq, At: w.now().UnixMilli(), Facts: facts})
}

// settle takes every decision that is due.
func (w *world) settle() {
	w.Helper()
	for n := 0; ; n++ {
		if n > 1000 {
			w.Fatal("it never comes to rest")
		}
		w.look(w.now())
		w.fold.agenda.mu.Lock()
		var due []identity
		for i := range w.fold.agenda.now {
			due = append(due, i)
		}
		w.fold.agenda.mu.Unlock()
		if len(due) == 0 {
			return
		}
		for _, i := range due {
			next, ok, _, _ := w.ahead(i, w.now().UnixMilli())
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

// sees takes an announcement.
func (w *world) sees(p provider, h nip89.Handler) {
	w.Helper()
	w.seq++
	s := guild.Service{PubKey: p.key, D: h.D}
	c := &card{pubkey: p.key, id: nostr.ID{byte(w.seq), byte(w.seq >> 8), 7}, d: h.D, said: sayingOf(h, h.Relays).pack(),
		at: nostr.Timestamp(w.now().Unix()), first: w.now().UnixMilli()}
	w.mu.Lock()
	_, err := w.put(identify(s), c, "")
	w.mu.Unlock()
	if drop, ok := errors.AsType[*guild.DropError](err); err != nil && (!ok || drop.Reason != guild.Outdated) {
		w.Fatal(err)
	}
	w.settle()
}
