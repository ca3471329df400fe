package exchange

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal/fact"
)

func TestClockDominates(t *testing.T) {
	for _, c := range []struct {
		name                   string
		a, b                   VectorClock
		aDominates, bDominates bool
	}{
		{"the same", VectorClock{"a": 1}, VectorClock{"a": 1}, true, true},
		{"one more", VectorClock{"a": 2}, VectorClock{"a": 1}, true, false},
		{"one guild more", VectorClock{"a": 1, "b": 1}, VectorClock{"a": 1}, true, false},
		{"nothing", VectorClock{"a": 1}, VectorClock{}, true, false},
		{"each has seen something that the other has not", VectorClock{"a": 2, "b": 1}, VectorClock{"a": 1, "b": 2}, false, false},
		{"two strangers", VectorClock{"a": 1}, VectorClock{"b": 1}, false, false},
	} {
		if c.a.Dominates(c.b) != c.aDominates || c.b.Dominates(c.a) != c.bDominates {
			t.Errorf("%s: %v and %v", c.name, c.a.Dominates(c.b), c.b.Dominates(c.a))
		}
		if c.a.Concurrent(c.b) == (c.aDominates || c.bDominates) {
			t.Errorf("%s: there is a conflict exactly where neither dominates", c.name)
		}
		if j := c.a.Join(c.b); !j.Dominates(c.a) || !j.Dominates(c.b) {
			t.Errorf("%s: joined to %v", c.name, j)
		}
	}
}

// service returns the service of provider n.
func service(n byte) guild.Service {
	return guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: n}), D: "python"}
}

// guildKey returns the key of guild n.
func guildKey(n byte) nostr.PubKey { return nostr.GetPublicKey(nostr.SecretKey{0: 7, 31: n}) }

// signerOf returns the signer of guild n.
func signerOf(n byte) nostr.Signer { return key.NewSigner(key.NewSecret(nostr.SecretKey{0: 7, 31: n})) }

// says returns a value with the given counts of guilds 1, 2, …: says(750_000, 2, 1) includes two changes of guild 1 and
// one of guild 2.
func says(value int64, counts ...uint64) fact.VariableSibling {
	clock := map[string]uint64{}
	for i, n := range counts {
		if n > 0 {
			clock[guildKey(byte(i+1)).Hex()] = n
		}
	}
	return fact.VariableSibling{Value: value, Clock: clock}
}

func trustOf(task string, n byte, siblings ...fact.VariableSibling) TrustEntry {
	return TrustEntry{task, service(n).PubKey, service(n).D, siblings}
}

func documentOf(entries ...TrustEntry) Document {
	return Document{Version: 1, Entries: entries, Timeouts: []TimeoutEntry{}, Parallelism: []ParallelismEntry{}}
}

// TestConflicts checks section 5.5.2 of the partnership protocol: concurrent changes resolve to the minimum trust, the
// maximum timeout and the minimum parallelism.
func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		name                        string
		a, b                        fact.VariableSibling
		trust, timeout, parallelism int64
		kept                        int
	}{
		{"concurrent: the careful one", says(7, 2, 1), says(4, 1, 2), 4, 7, 4, 2},
		{"concurrent, the other way round", says(4, 2, 1), says(7, 1, 2), 4, 7, 4, 2},
		{"the later one, though it is higher", says(4, 1), says(7, 1, 1), 7, 7, 7, 1},
		{"the later one, though it is lower", says(7, 1), says(4, 1, 1), 4, 4, 4, 1},
		{"the same", says(7, 1), says(7, 1), 7, 7, 7, 1},
		{"two values of one clock: the careful one", says(7, 1), says(4, 1), 4, 7, 4, 1},
	} {
		lists := [][]fact.VariableSibling{{c.a}, {c.b}}
		a := Document{Entries: []TrustEntry{trustOf("go", 1, lists[0]...)}, Timeouts: []TimeoutEntry{{"go", lists[0]}}, Parallelism: []ParallelismEntry{{service(1).PubKey, lists[0]}}}
		b := Document{Entries: []TrustEntry{trustOf("go", 1, lists[1]...)}, Timeouts: []TimeoutEntry{{"go", lists[1]}}, Parallelism: []ParallelismEntry{{service(1).PubKey, lists[1]}}}
		m := Merge(a, b)
		if got := int64(m.Entries[0].Resolve()); got != c.trust {
			t.Errorf("%s: trust %d, want %d", c.name, got, c.trust)
		}
		if got := resolveSiblings(m.Timeouts[0].Siblings, maximum); got != c.timeout {
			t.Errorf("%s: timeout %d, want %d", c.name, got, c.timeout)
		}
		if got := resolveSiblings(m.Parallelism[0].Siblings, minimum); got != c.parallelism {
			t.Errorf("%s: parallelism %d, want %d", c.name, got, c.parallelism)
		}
		if len(m.Entries[0].Siblings) != c.kept {
			t.Errorf("%s: %d siblings are kept, want %d", c.name, len(m.Entries[0].Siblings), c.kept)
		}
	}
}

// If siblings were replaced by their resolved value, the result would depend on the order of merging: 0.4 of guild 2
// and 0.7 of guild 1 would become 0.4 with a joined clock, which dominates the 0.9 that guild 2 set after its 0.4.
func TestMergeInAnyOrder(t *testing.T) {
	ours, lower, later := documentOf(trustOf("go", 1, says(700_000, 1))), documentOf(trustOf("go", 1, says(400_000, 0, 1))), documentOf(trustOf("go", 1, says(900_000, 0, 2)))
	for _, m := range []Document{Merge(Merge(ours, lower), later), Merge(ours, Merge(lower, later)), Merge(later, Merge(ours, lower))} {
		if got := m.Entries[0].Resolve(); got != 700_000 {
			t.Errorf("%d, want 0.7: the lower of the two words that nobody took back", got)
		}
	}
}

// documents draws documents with few keys, guilds and counts, so that all cases are frequent: conflicts, superseded
// values, equal clocks with different values.
func documents(t *rapid.T, name string) Document {
	siblings := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fact.VariableSibling {
		counts := rapid.SliceOfN(rapid.Uint64Range(0, 2), 3, 3).Draw(t, "counts")
		if slices.Max(counts) == 0 {
			counts[0] = 1
		}
		return says(rapid.Int64Range(1, 4).Draw(t, "value"), counts...)
	}), 1, 4)
	task := rapid.SampledFrom([]string{"go", "python"})
	d := Document{Version: 1, Guild: rapid.SampledFrom([]string{"", guildKey(1).Hex(), guildKey(2).Hex()}).Draw(t, name+" guild")}
	for range rapid.IntRange(0, 3).Draw(t, name) {
		d.Entries = append(d.Entries, trustOf(task.Draw(t, "task"), rapid.ByteRange(1, 2).Draw(t, "provider"), siblings.Draw(t, "trust")...))
		d.Timeouts = append(d.Timeouts, TimeoutEntry{task.Draw(t, "task"), siblings.Draw(t, "timeout")})
		d.Parallelism = append(d.Parallelism, ParallelismEntry{service(rapid.ByteRange(1, 2).Draw(t, "provider")).PubKey, siblings.Draw(t, "parallelism")})
	}
	return Merge(d, d)
}

func TestMergeLaws(t *testing.T) {
	same := func(t *rapid.T, law string, a, b Document) {
		x, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if string(x) != string(y) {
			t.Fatalf("%s:\n%s\n%s", law, x, y)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := documents(t, "a"), documents(t, "b"), documents(t, "c")
		before, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "commutative", Merge(a, b), Merge(b, a))
		same(t, "associative", Merge(Merge(a, b), c), Merge(a, Merge(b, c)))
		same(t, "idempotent", Merge(a, a), a)
		same(t, "absorbing", Merge(Merge(a, b), b), Merge(a, b))
		if after, err := a.Encode(); err != nil || string(after) != string(before) {
			t.Fatal("a merger changed what it merged")
		}
	})
}

func TestDocumentRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := documents(t, "d")
		b, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(b)
		if err != nil || !reflect.DeepEqual(again, Signed{Document: d}) {
			t.Fatalf("%v\n%+v\n%+v", err, again, d)
		}
	})
}

func TestDocumentLimits(t *testing.T) {
	good := func() Document {
		d := documentOf(trustOf("go", 1, says(500_000, 1)), trustOf("python", 1, says(500_000, 1)))
		d.Timeouts = []TimeoutEntry{{"go", []fact.VariableSibling{says(guild.Micro, 1)}}}
		d.Parallelism = []ParallelismEntry{{service(1).PubKey, []fact.VariableSibling{says(3, 1)}}}
		return d
	}
	crowd := map[string]uint64{}
	for n := range byte(maxGuilds + 1) {
		crowd[guildKey(n+1).Hex()] = 1
	}
	long := string(make([]byte, maxTask+1))
	for name, spoil := range map[string]func(d *Document){
		"":                              func(*Document) {},
		"another version":               func(d *Document) { d.Version = 2 },
		"no key of a guild":             func(d *Document) { d.Guild = "me" },
		"a key in capitals":             func(d *Document) { d.Guild = "ABCDEF" + guildKey(1).Hex()[6:] },
		"out of order":                  func(d *Document) { slices.Reverse(d.Entries) },
		"an entry twice":                func(d *Document) { d.Entries[1] = d.Entries[0] },
		"trust above one":               func(d *Document) { d.Entries[0].Siblings[0].Value = guild.Micro + 1 },
		"trust below zero":              func(d *Document) { d.Entries[0].Siblings[0].Value = -1 },
		"no timeout at all":             func(d *Document) { d.Timeouts[0].Siblings[0].Value = 0 },
		"an endless timeout":            func(d *Document) { d.Timeouts[0].Siblings[0].Value = maxFactor + 1 },
		"no request at once":            func(d *Document) { d.Parallelism[0].Siblings[0].Value = 0 },
		"too many at once":              func(d *Document) { d.Parallelism[0].Siblings[0].Value = maxAtOnce + 1 },
		"no siblings":                   func(d *Document) { d.Entries[0].Siblings = nil },
		"too many siblings":             func(d *Document) { d.Entries[0].Siblings = slices.Repeat(d.Entries[0].Siblings, maxSiblings+1) },
		"an empty clock":                func(d *Document) { d.Entries[0].Siblings[0].Clock = map[string]uint64{} },
		"a clock of too many":           func(d *Document) { d.Entries[0].Siblings[0].Clock = maps.Clone(crowd) },
		"a clock that counts to zero":   func(d *Document) { d.Entries[0].Siblings[0].Clock = map[string]uint64{guildKey(1).Hex(): 0} },
		"a clock that counts too far":   func(d *Document) { d.Entries[0].Siblings[0].Clock = map[string]uint64{guildKey(1).Hex(): maxCount + 1} },
		"a clock with an empty key":     func(d *Document) { d.Entries[0].Siblings[0].Clock = map[string]uint64{"": 1} },
		"a task without a name":         func(d *Document) { d.Entries[0].Task = "" },
		"a task with too long a name":   func(d *Document) { d.Entries[1].Task = "z" + long },
		"a service with too long a d":   func(d *Document) { d.Entries[1].D = string(make([]byte, maxD+1)) },
		"a timeout for a task too long": func(d *Document) { d.Timeouts[0].Task = long },
	} {
		d := good()
		spoil(&d)
		b, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, b := range []string{"", "null", "[]", "{", `{"version":1,"entries":[{}]}`, "{\"version\":1,\"guild\":\"\xff\"}", string(make([]byte, MaxDocument+1))} {
		if _, err := Decode([]byte(b)); err == nil {
			t.Errorf("%.40q is taken for a document", b)
		}
	}
}

func FuzzDecodeDocument(f *testing.F) {
	d := documentOf(trustOf("go", 1, says(500_000, 1), says(400_000, 0, 1)))
	d.Timeouts = []TimeoutEntry{{"go", []fact.VariableSibling{says(guild.Micro, 1)}}}
	d.Parallelism = []ParallelismEntry{{service(1).PubKey, []fact.VariableSibling{says(3, 1)}}}
	b, err := d.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"guild":"","entries":[],"timeouts":[],"parallelism":[]}`))
	f.Add([]byte(`{"version":1,"entries":[{"task":"go","siblings":[{"clock":{"` + guildKey(1).Hex() + `":1}}]}]}`)) // without a provider
	d.Guild = guildKey(1).Hex()
	if b, err = d.Sign(f.Context(), signerOf(1), time.Unix(1795770000, 0)); err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(bytes.Replace(b, []byte(`"kind":2025`), []byte(`"kind":1063`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Decode(b)
		if err != nil {
			return
		}
		one, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(one)
		if err != nil {
			t.Fatalf("what is written is refused: %v\n%s", err, one)
		}
		two, err := Merge(again.Document, d.Document).Encode()
		if err != nil || string(two) != string(one) {
			t.Fatalf("%v: a document changes by being merged with itself:\n%s\n%s", err, one, two)
		}
	})
}
