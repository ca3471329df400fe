// Package foldtest tests the snapshots of folds.
package foldtest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// GoesOn checks that a fold that is restored at a random entry of a history ends with the same snapshot as one that is not. same,
// which may be nil, compares more.
func GoesOn[F fold.Fold](t *testing.T, fresh func() F, history func(*rapid.T) []fact.Entry, same func(t *rapid.T, whole, restored F)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		all := history(t)
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		whole, before, after := fresh(), fresh(), fresh()
		for i, e := range all {
			whole.Apply(e)
			if i < cut {
				before.Apply(e)
			}
		}
		if err := after.Restore([]byte(Snapshot(t, before))); err != nil {
			t.Fatal(err)
		}
		for _, e := range all[cut:] {
			after.Apply(e)
		}
		if a, b := Snapshot(t, whole), Snapshot(t, after); a != b {
			t.Fatalf("%s\n%s", a, b)
		}
		if same != nil {
			same(t, whole, after)
		}
	})
}

// Refuses checks that f, which must not be empty, refuses garbled snapshots, snapshots with null in the place of an object, and
// the ones in more, and that it keeps its state.
func Refuses(t *testing.T, f fold.Fold, more ...string) {
	t.Helper()
	before, members := taken(t, f)
	garbage := append([]string{``, `null`, `[]`, before[:len(before)-1]}, more...)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !bytes.HasPrefix(members[name], []byte("{")) {
			continue
		}
		without := maps.Clone(members)
		without[name] = json.RawMessage("null")
		garbage = append(garbage, marshal(t, without))
	}
	for _, b := range garbage {
		if err := f.Restore([]byte(b)); err == nil || Snapshot(t, f) != before {
			t.Errorf("%q: %v", b, err)
		}
	}
}

// Partial returns the snapshots of f without one of its members, and the one without any.
func Partial(t *testing.T, f fold.Fold) []string {
	t.Helper()
	_, members := taken(t, f)
	partial := []string{`{}`}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		without := maps.Clone(members)
		delete(without, name)
		partial = append(partial, marshal(t, without))
	}
	return partial
}

func taken(t *testing.T, f fold.Fold) (snapshot string, members map[string]json.RawMessage) {
	t.Helper()
	snapshot = Snapshot(t, f)
	if err := json.Unmarshal([]byte(snapshot), &members); err != nil {
		t.Fatal(err)
	}
	return snapshot, members
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Snapshot returns the snapshot of a fold.
func Snapshot(t interface{ Fatal(...any) }, f fold.Fold) string {
	b, err := f.Freeze()()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
