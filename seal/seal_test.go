package seal

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/hand/key"
)

// rootOf returns the Merkle tree hash as defined in RFC 6962, section 2.1.
func rootOf(entries [][]byte) guild.Hash {
	if len(entries) == 1 {
		return sha256.Sum256(append([]byte{0}, entries[0]...))
	}
	k := split(len(entries))
	left, right := rootOf(entries[:k]), rootOf(entries[k:])
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
}

// pathOf returns the audit path as defined in RFC 6962, section 2.1.1.
func pathOf(m int, entries [][]byte) [][]byte {
	if len(entries) == 1 {
		return nil
	}
	k := split(len(entries))
	if m < k {
		other := rootOf(entries[k:])
		return append(pathOf(m, entries[:k]), other[:])
	}
	other := rootOf(entries[:k])
	return append(pathOf(m-k, entries[k:]), other[:])
}

// split returns the largest power of two below n.
func split(n int) int {
	k := 1
	for k*2 < n {
		k *= 2
	}
	return k
}

func some(n int) (entries [][]byte) {
	for i := range n {
		entries = append(entries, fmt.Appendf(nil, "job.%02d\n{\"v\":1}", i))
	}
	return entries
}

func TestSmallTreeProofs(t *testing.T) {
	for size := 1; size <= 40; size++ {
		entries := some(size)
		root := rootOf(entries)
		for i, entry := range entries {
			p := Proof{Index: uint64(i), Size: uint64(size), Path: pathOf(i, entries)}
			b, err := p.Encode()
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := DecodeProof(b)
			if err != nil {
				t.Fatalf("entry %d of %d: %v", i, size, err)
			}
			if err := decoded.Check(Leaf(entry), root); err != nil {
				t.Errorf("entry %d of %d: %v", i, size, err)
			}
		}
	}
}

// Leaves and roots of the test vectors that the Certificate Transparency implementations share.
func TestRFC6962Vectors(t *testing.T) {
	if got := Leaf(nil).Hex(); got != "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d" {
		t.Errorf("the leaf of nothing is %s", got)
	}
	var entries [][]byte
	for _, digits := range []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"} {
		b, _ := hex.DecodeString(digits)
		entries = append(entries, b)
	}
	const want = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
	if got := rootOf(entries).Hex(); got != want {
		t.Fatalf("the root is %s, want %s", got, want)
	}
	root, _ := guild.ParseHash(want)
	if err := (Proof{Index: 5, Size: 8, Path: pathOf(5, entries)}).Check(Leaf(entries[5]), root); err != nil {
		t.Error(err)
	}
}

func TestWrongProofs(t *testing.T) {
	entries := some(11)
	root, leaf := rootOf(entries), Leaf(entries[6])
	good := func() Proof { return Proof{Index: 6, Size: 11, Path: pathOf(6, entries)} }
	flipped := func(b []byte) []byte { b = slices.Clone(b); b[7] ^= 1; return b }
	for name, c := range map[string]struct {
		change func(*Proof)
		leaf   guild.Hash
		root   guild.Hash
		want   error
	}{
		"a changed entry":        {func(*Proof) {}, Leaf([]byte("job.06\n{}")), root, ErrProof},
		"another root":           {func(*Proof) {}, leaf, rootOf(entries[:10]), ErrProof},
		"another place":          {func(p *Proof) { p.Index = 5 }, leaf, root, ErrProof},
		"a tree of another size": {func(p *Proof) { p.Size = 20 }, leaf, root, ErrProof},
		"a changed hash":         {func(p *Proof) { p.Path[1] = flipped(p.Path[1]) }, leaf, root, ErrProof},
		"a path cut short":       {func(p *Proof) { p.Path = p.Path[:3] }, leaf, root, ErrProof},
		"a path too long":        {func(p *Proof) { p.Path = append(p.Path, root[:]) }, leaf, root, ErrProof},
		"a reordered path":       {func(p *Proof) { slices.Reverse(p.Path) }, leaf, root, ErrProof},
		"an entry beyond":        {func(p *Proof) { p.Index = 11 }, leaf, root, ErrInvalid},
		"an empty tree":          {func(p *Proof) { p.Index, p.Size = 0, 0 }, leaf, root, ErrInvalid},
		"a tree beyond counting": {func(p *Proof) { p.Size = 1<<63 + 1 }, leaf, root, ErrInvalid},
		"half a hash":            {func(p *Proof) { p.Path[0] = p.Path[0][:16] }, leaf, root, ErrInvalid},
		"an endless path":        {func(p *Proof) { p.Path = slices.Repeat(p.Path[:1], 65) }, leaf, root, ErrInvalid},
	} {
		p := good()
		c.change(&p)
		if err := p.Check(c.leaf, c.root); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := good().Check(leaf, root); err != nil {
		t.Error(err)
	}
}

func TestProofSizeMillionEntries(t *testing.T) {
	p := Proof{Index: 999_999, Size: 1_000_000, Path: slices.Repeat([][]byte{make([]byte, 32)}, 20)}
	b, err := p.Encode()
	if err != nil || len(b) > 1024 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	p = Proof{Index: 1<<20 - 1, Size: 1 << 20, Path: p.Path}
	if _, err := p.Encode(); err != nil {
		t.Error(err)
	}
}

func TestLargestProofRoundTrip(t *testing.T) {
	p := Proof{Index: MaxSize - 1, Size: MaxSize, Path: slices.Repeat([][]byte{make([]byte, 32)}, maxPath)}
	b, err := p.Encode()
	if err != nil || len(b) > MaxProof {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if again, err := DecodeProof(b); err != nil || len(again.Path) != maxPath {
		t.Errorf("%d hashes, %v", len(again.Path), err)
	}
	p.Path = append(p.Path, p.Path[0])
	if _, err := p.Encode(); !errors.Is(err, ErrInvalid) {
		t.Errorf("a path that no tree has: %v", err)
	}
}

func TestProofSpelling(t *testing.T) {
	entries := some(2)
	p := Proof{Index: 1, Size: 2, Path: pathOf(1, entries)}
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	leaf := Leaf(entries[0])
	want := fmt.Sprintf(`{"index":1,"path":[%q],"size":2}`, base64.StdEncoding.EncodeToString(leaf[:]))
	if string(b) != want {
		t.Errorf("%s, want %s", b, want)
	}
	b, err = Proof{Size: 1}.Encode()
	if err != nil || string(b) != `{"index":0,"path":[],"size":1}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestInvalidProofs(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":               "",
		"no object":             "[]",
		"a field twice":         `{"index":0,"index":0,"path":[],"size":1}`,
		"a field too many":      `{"index":0,"path":[],"size":1,"root":""}`,
		"a negative index":      `{"index":-1,"path":[],"size":1}`,
		"half an index":         `{"index":0.5,"path":[],"size":1}`,
		"no size":               `{"index":0,"path":[]}`,
		"a short hash":          `{"index":0,"path":["AAAA"],"size":2}`,
		"hex":                   `{"index":0,"path":["` + strings.Repeat("ab", 32) + `"],"size":2}`,
		"a spelling of its own": `{"Index":0,"path":[],"size":1}`,
		"too much":              `{"index":0,"path":[],"size":1}` + strings.Repeat(" ", 2*MaxProof),
		"a trailing value":      `{"index":0,"path":[],"size":1}{}`,
	} {
		if p, err := DecodeProof([]byte(text)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

var point = Checkpoint{Journal: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Size: 42, Root: Leaf([]byte("x"))}

func signed(t testing.TB, e nostr.Event) guild.Verified {
	t.Helper()
	v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(nostr.Generate())), e)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCheckpointRoundTrip(t *testing.T) {
	e := point.Event(1_700_000_000)
	want, err := canon.Marshal(point)
	if err != nil {
		t.Fatal(err)
	}
	if e.Content != string(want) {
		t.Errorf("the content is %s, want %s", e.Content, want)
	}
	if e.Kind != Kind || e.CreatedAt != 1_700_000_000 {
		t.Errorf("kind %d at %d", e.Kind, e.CreatedAt)
	}
	if d, x := e.Tags.GetD(), e.Tags.Find("x"); d != point.Journal || x[1] != point.Root.Hex() {
		t.Errorf("the tags are %v", e.Tags)
	}
	got, err := ParseCheckpoint(signed(t, e))
	if err != nil || got != point {
		t.Errorf("%v, %v", got, err)
	}
}

func TestInvalidCheckpoints(t *testing.T) {
	root := point.Root.String()
	for name, content := range map[string]string{
		"nothing":            "",
		"no journal":         `{"root":"` + root + `","size":1}`,
		"a strange journal":  `{"journal":"../x","root":"` + root + `","size":1}`,
		"a long journal":     `{"journal":"` + strings.Repeat("a", 65) + `","root":"` + root + `","size":1}`,
		"no entries":         `{"journal":"a","root":"` + root + `","size":0}`,
		"too many entries":   `{"journal":"a","root":"` + root + `","size":9007199254740993}`,
		"no root":            `{"journal":"a","size":1}`,
		"half a root":        `{"journal":"a","root":"sha256:abcd","size":1}`,
		"a field too many":   `{"journal":"a","root":"` + root + `","size":1,"until":2}`,
		"a field twice":      `{"journal":"a","root":"` + root + `","size":1,"size":2}`,
		"more than a KiB":    `{"journal":"a","root":"` + root + `","size":1}` + strings.Repeat(" ", 1024),
		"a text for a count": `{"journal":"a","root":"` + root + `","size":"1"}`,
	} {
		e := point.Event(0)
		e.Content = content
		if c, err := ParseCheckpoint(signed(t, e)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	e := point.Event(0)
	e.Kind = 2021
	if _, err := ParseCheckpoint(signed(t, e)); !errors.Is(err, ErrInvalid) {
		t.Errorf("another kind: %v", err)
	}
}

func FuzzDecodeProof(f *testing.F) {
	entries := some(9)
	for _, i := range []int{0, 5, 8} {
		b, err := Proof{Index: uint64(i), Size: 9, Path: pathOf(i, entries)}.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"index":0,"path":null,"size":9007199254740992}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeProof(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		_ = p.Check(guild.Hash{1}, guild.Hash{2}) // must return
		encoded, err := p.Encode()
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		again, err := DecodeProof(encoded)
		if err != nil || again.Index != p.Index || again.Size != p.Size || len(again.Path) != len(p.Path) {
			t.Errorf("%q became %q: %v", b, encoded, err)
		}
	})
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add(point.Event(0).Content)
	f.Add(`{"journal":"a","root":"` + point.Root.Hex() + `","size":1}`)
	signer := key.NewSigner(key.NewSecret(nostr.Generate()))
	f.Fuzz(func(t *testing.T, content string) {
		e := nostr.Event{Kind: Kind, Content: content}
		v, err := guild.Sign(t.Context(), signer, e)
		if err != nil {
			return
		}
		c, err := ParseCheckpoint(v)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: %v", content, err)
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%q: %v", content, err)
		}
		v, err = guild.Sign(t.Context(), signer, c.Event(1))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseCheckpoint(v); err != nil || again != c {
			t.Errorf("%q became %v: %v", content, again, err)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	entries := some(1 << 10)
	root := rootOf(entries)
	encoded, err := Proof{Index: 700, Size: 1 << 10, Path: pathOf(700, entries)}.Encode()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p, err := DecodeProof(encoded)
		if err == nil {
			err = p.Check(Leaf(entries[700]), root)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
