package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
	"guild/internal/step/steptest"
	"guild/seal"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

func signer(n byte) *key.Signer { return key.NewSigner(key.NewSecret(nostr.SecretKey{31: n})) }

var us, mallory = signer(1), signer(2)

func pubkey(s *key.Signer) nostr.PubKey {
	p, err := s.GetPublicKey(context.Background())
	if err != nil {
		panic(err)
	}
	return p
}

// relay takes events, unless it is closed.
type relay struct {
	mu     sync.Mutex
	closed bool
	took   []nostr.ID
	tries  []nostr.ID
}

func (r *relay) publish(_ context.Context, v guild.Verified, _ []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries = append(r.tries, v.Event().ID)
	if r.closed {
		return errors.New("closed")
	}
	r.took = append(r.took, v.Event().ID)
	return nil
}

func (r *relay) open(open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = !open
}

// world is a journal with the step.
type world struct {
	*steptest.World
	fold  *Fold
	relay *relay // nil if nothing is published
	step  *Step
}

func newWorld(t *testing.T, r *relay) *world {
	t.Helper()
	w := &world{World: steptest.New(t), relay: r}
	w.start()
	return w
}

// start opens the journal and does due work.
func (w *world) start() {
	w.Helper()
	w.fold = NewFold()
	w.OpenJournal(w.fold)
	w.step = w.another()
	w.Run(w.step.Due)
}

func (w *world) another() *Step {
	c := Config{Journal: w.Journal, Signer: us, Now: time.Now}
	if w.relay != nil {
		c.Publish, c.Relays = w.relay.publish, func() []string { return []string{"wss://a.example"} }
	}
	return New(c, w.fold)
}

// decide records n decisions about jobs.
func (w *world) decide(n int) {
	w.Helper()
	for i := range n {
		w.Write(fact.Subject(fmt.Sprintf("job.%d", i%3)), fact.JobCancelled{})
	}
}

// seals lists the seals in the journal, and counts those that were published.
func (w *world) seals() (all []fact.JournalSealed, published int) {
	return steptest.Facts[fact.JournalSealed](w), len(steptest.Facts[fact.SealPublished](w))
}

func (w *world) verify(checkpoints ...nostr.Event) Report {
	w.Helper()
	r, err := Verify(w.Context(), VerifyOptions{Dir: w.Dir, Signer: pubkey(us), Checkpoints: checkpoints})
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func TestSealInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &relay{})
		w.Pass(24 * time.Hour)
		if all, _ := w.seals(); len(all) != 0 {
			t.Fatalf("%d seals of nothing", len(all))
		}
		w.decide(5)
		w.Pass(time.Hour - time.Second)
		if all, _ := w.seals(); len(all) != 0 {
			t.Fatal("sealed too early")
		}
		w.Pass(2 * time.Second)
		all, published := w.seals()
		if len(all) != 1 || all[0].Size != 5 || published != 1 || len(w.relay.took) != 1 {
			t.Fatalf("%d seals, %d published: %+v", len(all), published, all)
		}
		w.Pass(48 * time.Hour)
		if again, _ := w.seals(); len(again) != 1 {
			t.Errorf("%d seals, though only seals were added", len(again))
		}
		w.decide(1)
		w.Pass(time.Hour + time.Second)
		if again, _ := w.seals(); len(again) != 2 || again[1].Size <= again[0].Size {
			t.Errorf("%+v", again)
		}
		if r := w.verify(); !r.OK() || r.Claims != 2 || r.Signer != pubkey(us) {
			t.Errorf("%+v", r)
		}
	})
}

func TestPublishingIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.decide(5)
		w.Pass(2 * time.Hour)
		if all, published := w.seals(); len(all) != 1 || published != 0 {
			t.Errorf("%d seals, %d published", len(all), published)
		}
	})
}

func TestKilledBeforePublishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &relay{closed: true})
		w.decide(5)
		w.Pass(time.Hour + time.Second)
		all, published := w.seals()
		if len(all) != 1 || published != 0 {
			t.Fatalf("%d seals, %d published", len(all), published)
		}
		for range 3 {
			w.start()
			w.Pass(time.Second)
		}
		w.relay.open(true)
		w.Pass(time.Hour)
		again, published := w.seals()
		if len(again) != 1 || published != 1 {
			t.Errorf("%d seals, %d published", len(again), published)
		}
		w.relay.mu.Lock()
		defer w.relay.mu.Unlock()
		for _, id := range w.relay.tries {
			if id != all[0].Event.ID {
				t.Errorf("published %s, and sealed %s", id, all[0].Event.ID)
			}
		}
	})
}

// With or without a snapshot, the timer continues from the time in the journal.
func TestRestartKeepsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.decide(5)
		for range 5 {
			w.Pass(10 * time.Minute)
			w.start()
		}
		w.Pass(11 * time.Minute)
		if all, _ := w.seals(); len(all) != 1 {
			t.Errorf("%d seals", len(all))
		}
	})
}

func TestTwoNodesSealOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &relay{})
		stop := w.RunWith(&due.Runner{Node: "second", Sources: []due.Source{w.another().Due}})
		defer stop()
		for range 4 {
			w.decide(10)
			w.Pass(2 * time.Hour)
		}
		all, published := w.seals()
		if len(all) != 4 || published != 4 {
			t.Errorf("%d seals, %d published", len(all), published)
		}
		if r := w.verify(); !r.OK() {
			t.Errorf("%+v", r.Faults)
		}
	})
}

func TestConcurrentSeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		if _, err := w.step.Seal(t.Context()); !errors.Is(err, ErrEmpty) {
			t.Errorf("an empty journal: %v", err)
		}
		w.decide(10)
		var all [8]Sealed
		var sealing sync.WaitGroup
		for i := range all {
			sealing.Go(func() {
				var err error
				if all[i], err = w.another().Seal(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		sealing.Wait()
		for _, s := range all {
			if s.Size != 10 || s.Event.ID != all[0].Event.ID {
				t.Errorf("%+v", s)
			}
		}
		if all, _ := w.seals(); len(all) != 1 {
			t.Errorf("%d seals", len(all))
		}
	})
}

// An entry that is recorded while a seal is signed is covered by the next seal.
func TestEntryDuringSealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.decide(10)
		decided, err := w.step.sign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.decide(3)
		if err := w.Journal.Do(t.Context(), fact.SealSubject, "", decided); err != nil {
			t.Fatal(err)
		}
		w.Pass(time.Hour + time.Second)
		all, _ := w.seals()
		if len(all) != 2 || all[0].Size != 10 || all[1].Size != 14 {
			t.Errorf("%+v", all)
		}
		if r := w.verify(); !r.OK() {
			t.Errorf("%+v", r.Faults)
		}
	})
}

func TestProve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.decide(20)
		for _, seq := range []uint64{1, 13, 20} {
			p, err := w.step.Prove(t.Context(), seq)
			if err != nil {
				t.Fatal(err)
			}
			v, err := guild.Verify(p.Checkpoint)
			if err != nil {
				t.Fatal(err)
			}
			point, err := seal.ParseCheckpoint(v)
			if err != nil || point.Journal != w.Journal.ID() {
				t.Fatal(point, err)
			}
			if err := p.Proof.Check(seal.Leaf([]byte(p.Entry)), point.Root); err != nil || p.Seq != seq {
				t.Error(p.Seq, err)
			}
		}
		if _, err := w.step.Prove(t.Context(), 999); !errors.Is(err, journal.ErrNoEntry) {
			t.Errorf("an entry that is not there: %v", err)
		}
		if _, err := w.step.Prove(t.Context(), 21); !errors.Is(err, ErrUnsealed) {
			t.Errorf("the seal itself: %v", err)
		}
		w.decide(1)
		looking := New(Config{Journal: w.Journal, Now: time.Now}, w.fold)
		if _, err := looking.Prove(t.Context(), 22); !errors.Is(err, ErrUnsealed) {
			t.Errorf("there is no signer: %v", err)
		}
		if _, err := w.step.Prove(t.Context(), 22); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) point() seal.Checkpoint {
	w.Helper()
	size, root, err := w.Journal.Tree(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return seal.Checkpoint{Journal: w.Journal.ID(), Size: size, Root: root}
}

func (w *world) sign(by *key.Signer, c seal.Checkpoint) nostr.Event {
	w.Helper()
	v, err := guild.Sign(w.Context(), by, c.Event(time.Now().Unix()))
	if err != nil {
		w.Fatal(err)
	}
	return v.Event()
}

func TestForeignSealIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(w *world, c seal.Checkpoint) fact.JournalSealed
		want  string
	}{
		"signed by somebody else": {func(w *world, c seal.Checkpoint) fact.JournalSealed {
			return fact.JournalSealed{Size: c.Size, Root: c.Root, Event: w.sign(mallory, c)}
		}, "is signed by"},
		"with another's signature": {func(w *world, c seal.Checkpoint) fact.JournalSealed {
			e := w.sign(us, c)
			e.Sig[5] ^= 1
			return fact.JournalSealed{Size: c.Size, Root: c.Root, Event: e}
		}, "signature"},
		"of another root": {func(w *world, c seal.Checkpoint) fact.JournalSealed {
			c.Root[0] ^= 1
			return fact.JournalSealed{Size: c.Size, Root: c.Root, Event: w.sign(us, c)}
		}, "are not those of the seal"},
		"different from its event": {func(w *world, c seal.Checkpoint) fact.JournalSealed {
			return fact.JournalSealed{Size: c.Size - 1, Root: c.Root, Event: w.sign(us, c)}
		}, "differs from its signed event"},
		"of more entries than there are": {func(w *world, c seal.Checkpoint) fact.JournalSealed {
			c.Size += 5
			return fact.JournalSealed{Size: c.Size, Root: c.Root, Event: w.sign(us, c)}
		}, "are not those of the seal"},
		"repeated": {func(w *world, c seal.Checkpoint) fact.JournalSealed {
			all, _ := w.seals()
			return all[0]
		}, "an earlier one"},
		"of another journal": {func(w *world, c seal.Checkpoint) fact.JournalSealed {
			c.Journal = "ANOTHER"
			return fact.JournalSealed{Size: c.Size, Root: c.Root, Event: w.sign(us, c)}
		}, "of journal ANOTHER"},
		"in another kind of event": {func(w *world, c seal.Checkpoint) fact.JournalSealed {
			e := c.Event(1)
			e.Kind = 1
			v, err := guild.Sign(w.Context(), us, e)
			if err != nil {
				w.Fatal(err)
			}
			return fact.JournalSealed{Size: c.Size, Root: c.Root, Event: v.Event()}
		}, "kind 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.decide(5)
				if _, err := w.step.Seal(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.decide(5)
				w.Write(fact.SealSubject, c.forge(w, w.point()))
				w.decide(5)
				r := w.verify()
				if r.OK() || !slices.ContainsFunc(r.Faults, func(f journal.Fault) bool { return strings.Contains(f.What, c.want) }) {
					t.Errorf("%+v", r.Faults)
				}
			})
		})
	}
}

// The whole journal is replaced by an older copy, together with everything that is kept on this machine.
func TestRolledBackJournalIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.decide(10)
		if _, err := w.step.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.CloseJournal()
		old := t.TempDir()
		if err := os.CopyFS(old, os.DirFS(w.Dir)); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.decide(10)
		latest, err := w.step.Seal(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r := w.verify(latest.Event); !r.OK() || r.Claims != 3 {
			t.Errorf("%+v", r)
		}
		w.CloseJournal()
		kept := w.Dir
		w.Dir = old
		if r := w.verify(); !r.OK() {
			t.Errorf("an older journal is one too: %+v", r.Faults)
		}
		r := w.verify(latest.Event)
		if r.OK() || r.Faults[0].Entry != 12 || r.Faults[0].Through != 21 || !strings.Contains(r.Faults[0].What, "10 missing") {
			t.Errorf("%+v", r.Faults)
		}
		w.Dir = kept
		w.start()
	})
}

func TestFoldSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &relay{})
		w.decide(3)
		w.Pass(2 * time.Hour)
		w.decide(2)
		b, err := w.fold.Freeze()()
		if err != nil {
			t.Fatal(err)
		}
		f := NewFold()
		if err := f.Restore(b); err != nil {
			t.Fatal(err)
		}
		got, ok := f.Last()
		want, _ := w.fold.Last()
		if !ok || got.Size != want.Size || got.Event.ID != want.Event.ID || len(got.Relays) != 1 || f.view().First != w.fold.view().First {
			t.Errorf("%+v, want %+v", f.view(), w.fold.view())
		}
		before := foldtest.Snapshot(t, f)
		for _, garbage := range append(foldtest.Partial(t, f), `{`, `null`) {
			if err := f.Restore([]byte(garbage)); err == nil || foldtest.Snapshot(t, f) != before {
				t.Errorf("restore %s: %v, and the state is %s, want an error and %s", garbage, err, foldtest.Snapshot(t, f), before)
			}
		}
	})
}

func TestPartialSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &relay{closed: true})
		w.decide(3)
		w.Pass(2 * time.Hour)
		w.decide(2)
		w.CloseJournal()
		store, err := fold.OpenStore(filepath.Join(w.Dir, snapshotDir))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []fold.Fold{w.fold, w.Claims} {
			whole := foldtest.Snapshot(t, f)
			for _, partial := range append(foldtest.Partial(t, f), `null`) {
				found := 0
				for snap := range store.Load(f.Name(), f.Version()) {
					snap.State = []byte(partial)
					if err := store.Save(snap); err != nil {
						t.Fatal(err)
					}
					found++
				}
				again := map[string]fold.Fold{"audit": NewFold(), "due": due.NewClaims()}
				j := journaltest.Reopen(t, w.Dir, again["audit"], again["due"])
				if got := foldtest.Snapshot(t, again[f.Name()]); found == 0 || got != whole {
					t.Errorf("%s after %d snapshots %s: %s, want %s", f.Name(), found, partial, got, whole)
				}
				if err := j.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		w.start()
	})
}
