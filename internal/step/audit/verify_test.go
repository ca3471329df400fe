package audit

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"guild/internal/journal"
	"guild/internal/journal/fold"
)

func saying(faults []journal.Fault, what string) bool {
	return slices.ContainsFunc(faults, func(f journal.Fault) bool { return strings.Contains(f.What, what) })
}

func TestTwoSignedHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.decide(40)
		ours := w.point()
		other := ours
		other.Root[0] ^= 1
		if _, err := w.step.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := w.verify(w.sign(us, ours), w.sign(us, other))
		if r.OK() || !strings.Contains(r.Faults[0].What, "two histories were signed") || r.Faults[0].Want != ours.Root.String() {
			t.Errorf("%+v", r.Faults)
		}
		for _, f := range r.Faults {
			if f.Through != 0 && f.Through < f.Entry {
				t.Errorf("%+v", f)
			}
		}
		if r := w.verify(w.sign(us, other)); !saying(r.Faults, "the seal in entry 41") {
			t.Errorf("%+v", r.Faults)
		}
		if r := w.verify(w.sign(us, ours)); !r.OK() {
			t.Errorf("%+v", r.Faults)
		}
	})
}

// An attacker that can write to the journal's directory makes the node believe that everything is sealed.
func TestForgedSnapshotIsFound(t *testing.T) {
	for name, forge := range map[string]func(s *state){
		"nothing to seal": func(s *state) { s.First, s.Since = 0, 0 },
		"more is sealed":  func(s *state) { last := *s.Last; last.Size++; s.Last = &last },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &relay{})
				w.decide(5)
				if _, err := w.step.Seal(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.decide(5)
				w.CloseJournal()
				if r := w.verify(); !r.OK() {
					t.Fatalf("%+v", r.Faults)
				}
				store, err := fold.OpenStore(filepath.Join(w.Dir, snapshotDir))
				if err != nil {
					t.Fatal(err)
				}
				found := 0
				for snap := range store.Load("audit", 2) {
					f := NewFold()
					if err := f.Restore(snap.State); err != nil {
						t.Fatal(err)
					}
					f.Change(forge)
					if snap.State, err = f.Freeze()(); err != nil {
						t.Fatal(err)
					}
					if err := store.Save(snap); err != nil {
						t.Fatal(err)
					}
					found++
				}
				if r := w.verify(); found == 0 || !saying(r.Faults, "the snapshot of the seals") {
					t.Errorf("%d snapshots: %+v", found, r.Faults)
				}
				w.start()
			})
		})
	}
}

func TestAssumedSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.decide(5)
		r, err := Verify(t.Context(), VerifyOptions{Dir: w.Dir})
		if err != nil || r.Assumed {
			t.Errorf("nothing is sealed: %+v, %v", r, err)
		}
		if _, err := w.step.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := Verify(t.Context(), VerifyOptions{Dir: w.Dir}); err != nil || !r.OK() || !r.Assumed || r.Signer != pubkey(us) {
			t.Errorf("%+v, %v", r, err)
		}
		if r := w.verify(); r.Assumed {
			t.Errorf("%+v", r)
		}
		if r, err := Verify(t.Context(), VerifyOptions{Dir: w.Dir, Signer: pubkey(mallory)}); err != nil || r.OK() {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
