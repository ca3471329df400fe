package fold_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"guild"
	"guild/internal/journal/fold"
)

func store(t *testing.T) (*fold.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "snapshot")
	s, err := fold.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func save(t *testing.T, s *fold.Store, snaps ...fold.Snapshot) {
	t.Helper()
	for _, snap := range snaps {
		if err := s.Save(snap); err != nil {
			t.Fatal(err)
		}
	}
}

func sequences(s *fold.Store, name string, version int) (seqs []uint64) {
	for snap := range s.Load(name, version) {
		seqs = append(seqs, snap.Seq)
	}
	return seqs
}

func TestSnapshotRoundTrip(t *testing.T) {
	s, _ := store(t)
	want := fold.Snapshot{Fold: "jobs", Version: 3, Seq: 7, Prefix: guild.Sum([]byte("x")), State: []byte("a\nb\x00")}
	save(t, s, want)
	for got := range s.Load("jobs", 3) {
		if got.Fold != want.Fold || got.Version != want.Version || got.Seq != want.Seq || got.Prefix != want.Prefix ||
			!bytes.Equal(got.State, want.State) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if got := sequences(s, "jobs", 3); !slices.Equal(got, []uint64{7}) {
		t.Errorf("snapshots %v", got)
	}
}

func TestNewestSnapshotsAreKept(t *testing.T) {
	s, _ := store(t)
	for seq := range uint64(12) {
		save(t, s, fold.Snapshot{Fold: "jobs", Seq: seq}, fold.Snapshot{Fold: "jobs-more", Seq: 2 * seq})
	}
	if got := sequences(s, "jobs", 0); !slices.Equal(got, []uint64{11, 10}) {
		t.Errorf("jobs: %v", got)
	}
	if got := sequences(s, "jobs-more", 0); !slices.Equal(got, []uint64{22, 20}) {
		t.Errorf("jobs-more: %v", got)
	}
}

func TestOtherVersionIsIgnored(t *testing.T) {
	s, _ := store(t)
	save(t, s, fold.Snapshot{Fold: "jobs", Version: 1, Seq: 1}, fold.Snapshot{Fold: "jobs", Version: 2, Seq: 2})
	if got := sequences(s, "jobs", 1); !slices.Equal(got, []uint64{1}) {
		t.Errorf("version 1: %v", got)
	}
}

func TestDamagedSnapshotIsIgnored(t *testing.T) {
	damages := map[string]func([]byte) []byte{
		"a flipped byte in the head":  func(b []byte) []byte { b[3] ^= 1; return b },
		"a flipped byte in the state": func(b []byte) []byte { b[len(b)-40] ^= 1; return b },
		"a flipped byte in the sum":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"the end cut off":             func(b []byte) []byte { return b[:len(b)-1] },
		"nothing left":                func([]byte) []byte { return nil },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			s, dir := store(t)
			save(t, s, fold.Snapshot{Fold: "jobs", Seq: 1, State: []byte("first state")},
				fold.Snapshot{Fold: "jobs", Seq: 2, State: []byte("second state")})
			names, err := filepath.Glob(filepath.Join(dir, "*2.v0.snapshot"))
			if err != nil || len(names) != 1 {
				t.Fatalf("%v, %v", names, err)
			}
			b, err := os.ReadFile(names[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(names[0], damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := sequences(s, "jobs", 0); !slices.Equal(got, []uint64{1}) {
				t.Errorf("snapshots %v, want the one before", got)
			}
		})
	}
}
