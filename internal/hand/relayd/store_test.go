package relayd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
)

func openTestStore(t testing.TB) *store {
	t.Helper()
	s, err := openStore(filepath.Join(t.TempDir(), "events.db"), testConfig(t).withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func putEvent(t testing.TB, s *store, e nostr.Event) error {
	t.Helper()
	v, err := guild.Verify(e)
	if err != nil {
		t.Fatal(err)
	}
	return s.put(v, []byte(encode(t, e)))
}

var testKeys = []nostr.SecretKey{{31: 1}, {31: 2}, {31: 3}}

// aSmallWorld makes events of few kinds, authors, tags and times, so that filters match and times are equal.
func aSmallWorld(t *testing.T) []guild.Verified {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	world := make([]guild.Verified, 60)
	for i := range world {
		e := nostr.Event{
			Kind:      []nostr.Kind{1, 2, 5050, 7000}[random.IntN(4)],
			CreatedAt: nostr.Timestamp(1 + random.IntN(6)),
			Content:   fmt.Sprint(i),
			Tags:      nostr.Tags{},
		}
		for range random.IntN(4) {
			e.Tags = append(e.Tags, nostr.Tag{[]string{"t", "p", "long"}[random.IntN(3)], []string{"", "a", "b"}[random.IntN(3)]})
		}
		v, err := guild.Verify(sign(t, testKeys[random.IntN(3)], e))
		if err != nil {
			t.Fatal(err)
		}
		world[i] = v
	}
	return world
}

func aFilter(t *rapid.T, events []nostr.Event) nostr.Filter {
	var f nostr.Filter
	if rapid.Bool().Draw(t, "by kind") {
		f.Kinds = rapid.SliceOfN(rapid.SampledFrom([]nostr.Kind{1, 2, 5050}), 0, 3).Draw(t, "kinds")
	}
	if rapid.Bool().Draw(t, "by author") {
		for _, key := range rapid.SliceOfN(rapid.SampledFrom(testKeys), 0, 3).Draw(t, "authors") {
			f.Authors = append(f.Authors, nostr.GetPublicKey(key))
		}
	}
	for _, name := range []string{"t", "p", "long"} {
		if rapid.IntRange(0, 2).Draw(t, "by "+name) == 0 {
			if f.Tags == nil {
				f.Tags = nostr.TagMap{}
			}
			f.Tags[name] = rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b"}), 0, 2).Draw(t, "values")
		}
	}
	if len(events) > 0 && rapid.IntRange(0, 4).Draw(t, "by id") == 0 {
		for _, e := range rapid.SliceOfN(rapid.SampledFrom(events), 1, 4).Draw(t, "ids") {
			f.IDs = append(f.IDs, e.ID)
		}
	}
	f.Since = nostr.Timestamp(rapid.Int64Range(0, 6).Draw(t, "since"))
	f.Until = nostr.Timestamp(rapid.Int64Range(0, 6).Draw(t, "until"))
	f.Limit = rapid.IntRange(0, 5).Draw(t, "limit")
	return f
}

// plainQuery applies a filter without an index.
func plainQuery(events []nostr.Event, f nostr.Filter) []nostr.ID {
	sorted := slices.Clone(events)
	slices.SortFunc(sorted, func(a, b nostr.Event) int {
		pa, pb := positionOf(a.CreatedAt, a.ID), positionOf(b.CreatedAt, b.ID)
		return slices.Compare(pa[:], pb[:])
	})
	ids := []nostr.ID{}
	for _, e := range sorted {
		if f.Matches(e) && len(ids) < resultLimit(f) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func TestIndexEqualsPlainSearch(t *testing.T) {
	dir, world, rounds := t.TempDir(), aSmallWorld(t), 0
	rapid.Check(t, func(t *rapid.T) {
		rounds++
		s, err := openStore(filepath.Join(dir, fmt.Sprint(rounds)), Config{Now: time.Now, MaxStore: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var events []nostr.Event
		for _, v := range rapid.SliceOfNDistinct(rapid.SampledFrom(world), 0, 15, func(v guild.Verified) nostr.ID { return v.Event().ID }).Draw(t, "events") {
			events = append(events, v.Event())
			b, err := v.Event().MarshalJSON()
			if err := errors.Join(err, s.put(v, b)); err != nil {
				t.Fatal(err)
			}
		}
		for range 8 {
			compare(t, s, events, aFilter(t, events))
		}
	})
}

func compare(t *rapid.T, s *store, events []nostr.Event, f nostr.Filter) {
	t.Helper()
	got := []nostr.ID{}
	for found, err := range s.query(context.Background(), f) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, found.id)
	}
	if want := plainQuery(events, f); !slices.Equal(got, want) {
		t.Fatalf("%s\n got %v\nwant %v", f, got, want)
	}
	f.Limit = 0
	if n, err := s.count(context.Background(), []nostr.Filter{f}); err != nil || n != len(plainQuery(events, f)) {
		t.Fatalf("%s: counted %d, %v", f, n, err)
	}
}

func TestPagesOfAnswer(t *testing.T) {
	s := openTestStore(t)
	const n = pageEvents + 7
	for i := range n {
		e := sign(t, testKeys[0], nostr.Event{Kind: 1, Content: fmt.Sprint(i), CreatedAt: nostr.Timestamp(1 + i/10)})
		if err := putEvent(t, s, e); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[nostr.ID]bool)
	for found, err := range s.query(t.Context(), nostr.Filter{Kinds: []nostr.Kind{1}}) {
		if err != nil || seen[found.id] {
			t.Fatalf("twice, or %v", err)
		}
		seen[found.id] = true
	}
	if len(seen) != n {
		t.Errorf("%d of %d", len(seen), n)
	}
}

func TestFullStore(t *testing.T) {
	s := openTestStore(t)
	s.maxSize = 5000
	var stored []nostr.Event
	for i := 0; ; i++ {
		e := sign(t, testKeys[0], nostr.Event{Kind: 1, Content: fmt.Sprint(i, strings.Repeat("x", 500))})
		if err := putEvent(t, s, e); errors.Is(err, errFull) {
			break
		} else if err != nil || i > 20 {
			t.Fatal(i, err)
		}
		stored = append(stored, e)
	}
	s.maxSize += 1000
	deletion := nostr.Event{Kind: 5}
	for _, e := range stored {
		deletion.Tags = append(deletion.Tags, nostr.Tag{"e", e.ID.Hex()})
	}
	if err := putEvent(t, s, sign(t, testKeys[0], deletion)); err != nil {
		t.Fatal(err)
	}
	s.maxSize -= 1000
	if err := putEvent(t, s, sign(t, testKeys[0], nostr.Event{Kind: 1, Content: "again"})); err != nil {
		t.Errorf("after the deletion: %v", err)
	}
}

// filledFile returns the content of a store of fifty events.
func filledFile(t *testing.T, path string, c Config) []byte {
	t.Helper()
	s, err := openStore(path, c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := putEvent(t, s, sign(t, testKeys[0], nostr.Event{Kind: 1, Content: fmt.Sprint(i, strings.Repeat("x", 2000))})); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDamagedStore(t *testing.T) {
	c := testConfig(t).withDefaults()
	path := filepath.Join(c.Dir, "events.db")
	sound := filledFile(t, path, c)
	damage := map[string]func([]byte) []byte{
		"pages of zeros":      func(b []byte) []byte { clear(b[3*4096 : len(b)/2]); return b },
		"a part of the file":  func(b []byte) []byte { return b[:64<<10] }, // the events alone are larger
		"a few bytes":         func(b []byte) []byte { return b[:100] },
		"noise in the events": func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("xxxx"), []byte("xyyx")) },
		"nothing":             func(b []byte) []byte { return b },
	}
	for name, spoil := range damage {
		t.Run(name, func(t *testing.T) {
			err := errors.Join(
				os.WriteFile(path, spoil(bytes.Clone(sound)), 0o600),
				os.WriteFile(path+".open", []byte("another boot"), 0o600),
			)
			if err != nil {
				t.Fatal(err)
			}
			s, err := openStore(path, c)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			want := 0
			if name == "nothing" {
				want = 50
			}
			if n, err := s.count(t.Context(), []nostr.Filter{{}}); n != want || err != nil {
				t.Errorf("%d events, %v, want %d", n, err, want)
			}
		})
	}
}
