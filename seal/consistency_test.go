package seal

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"guild"
)

// consistencyOf returns the consistency proof as defined in RFC 6962, section 2.1.2.
func consistencyOf(m int, entries [][]byte, whole bool) [][]byte {
	if m == len(entries) {
		if whole {
			return nil
		}
		root := rootOf(entries)
		return [][]byte{root[:]}
	}
	k := split(len(entries))
	if m <= k {
		other := rootOf(entries[k:])
		return append(consistencyOf(m, entries[:k], whole), other[:])
	}
	other := rootOf(entries[:k])
	return append(consistencyOf(m-k, entries[k:], false), other[:])
}

func consistency(from, to int) Consistency {
	return Consistency{From: uint64(from), Path: consistencyOf(from, some(to), true), To: uint64(to)}
}

func TestSmallTreesGrow(t *testing.T) {
	for to := 1; to <= 24; to++ {
		for from := 1; from <= to; from++ {
			b, err := consistency(from, to).Encode()
			if err != nil {
				t.Fatal(err)
			}
			g, err := DecodeConsistency(b)
			if err != nil {
				t.Fatalf("%d to %d: %v", from, to, err)
			}
			if err := g.Check(rootOf(some(from)), rootOf(some(to))); err != nil {
				t.Errorf("%d to %d: %v", from, to, err)
			}
		}
	}
}

func TestWrongConsistency(t *testing.T) {
	const from, to = 6, 11
	early, late := rootOf(some(from)), rootOf(some(to))
	forked := some(to)
	forked[2] = []byte("job.02\n{\"v\":2}")
	for name, c := range map[string]struct {
		change     func(*Consistency)
		from, late guild.Hash
		want       error
	}{
		"a rewritten entry":       {func(*Consistency) {}, early, rootOf(forked), ErrInconsistent},
		"the fork's own proof":    {func(g *Consistency) { g.Path = consistencyOf(from, forked, true) }, early, rootOf(forked), ErrInconsistent},
		"another earlier root":    {func(*Consistency) {}, rootOf(some(5)), late, ErrInconsistent},
		"another size":            {func(g *Consistency) { g.From = 5 }, early, late, ErrInconsistent},
		"one size, two roots":     {func(g *Consistency) { g.From, g.Path = to, nil }, early, late, ErrInconsistent},
		"a path cut short":        {func(g *Consistency) { g.Path = g.Path[1:] }, early, late, ErrInconsistent},
		"a path too long":         {func(g *Consistency) { g.Path = append(g.Path, g.Path[0]) }, early, late, ErrInconsistent},
		"a tree that shrinks":     {func(g *Consistency) { g.From, g.To = to, from }, late, early, ErrInvalid},
		"out of nothing":          {func(g *Consistency) { g.From = 0 }, early, late, ErrInvalid},
		"beyond counting":         {func(g *Consistency) { g.To = 1<<63 + 1 }, early, late, ErrInvalid},
		"half a hash":             {func(g *Consistency) { g.Path[0] = g.Path[0][:16] }, early, late, ErrInvalid},
		"an endless path":         {func(g *Consistency) { g.Path = slices.Repeat(g.Path[:1], maxPath+1) }, early, late, ErrInvalid},
		"the same tree, a path":   {func(g *Consistency) { g.To = from }, early, early, ErrInconsistent},
		"the proof of other ones": {func(g *Consistency) { g.Path = consistencyOf(from, some(12), true) }, early, late, ErrInconsistent},
	} {
		g := consistency(from, to)
		c.change(&g)
		if err := g.Check(c.from, c.late); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestConsistencySpelling(t *testing.T) {
	b, err := Consistency{From: 2, To: 2}.Encode()
	if err != nil || string(b) != `{"from":2,"path":[],"to":2}` {
		t.Errorf("%s, %v", b, err)
	}
	largest := Consistency{From: MaxSize - 1, Path: slices.Repeat([][]byte{make([]byte, 32)}, maxPath), To: MaxSize}
	if b, err := largest.Encode(); err != nil || len(b) > MaxProof {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for name, text := range map[string]string{
		"nothing":           "",
		"no object":         "[]",
		"a field twice":     `{"from":1,"from":1,"path":[],"to":1}`,
		"a field too many":  `{"from":1,"path":[],"root":"","to":1}`,
		"no size":           `{"from":1,"path":[]}`,
		"half a size":       `{"from":0.5,"path":[],"to":1}`,
		"another spelling":  `{"From":1,"path":[],"to":1}`,
		"a short hash":      `{"from":1,"path":["AAAA"],"to":2}`,
		"a trailing value":  `{"from":1,"path":[],"to":1}{}`,
		"more than allowed": `{"from":1,"path":[],"to":1}` + strings.Repeat(" ", 2*MaxProof),
	} {
		if g, err := DecodeConsistency([]byte(text)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", name, g, err)
		}
	}
}

func FuzzDecodeConsistency(f *testing.F) {
	for _, from := range []int{1, 4, 9} {
		b, err := consistency(from, 9).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"from":1,"path":null,"to":9007199254740992}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := DecodeConsistency(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		_ = g.Check(guild.Hash{1}, guild.Hash{2}) // must return
		encoded, err := g.Encode()
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		again, err := DecodeConsistency(encoded)
		if err != nil || again.From != g.From || again.To != g.To || len(again.Path) != len(g.Path) {
			t.Errorf("%q became %q: %v", b, encoded, err)
		}
	})
}
