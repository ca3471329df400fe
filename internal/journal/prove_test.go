package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/seal"
)

// proven checks the proof that an entry is in the tree of a size, with the given root.
func proven(t *testing.T, j *journal.Journal, seq, size uint64, root guild.Hash) {
	t.Helper()
	p, err := j.Prove(t.Context(), seq, size)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := j.Stored(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(seal.Leaf(entry), root); err != nil {
		t.Error(err)
	}
}

func tree(t *testing.T, j *journal.Journal) (uint64, guild.Hash) {
	t.Helper()
	size, root, err := j.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return size, root
}

func TestProveEveryEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, options(filled(t, 0)))
		defer closeIt(t, j)
		roots := []guild.Hash{{}}
		if size, root := tree(t, j); size != 0 || !root.IsZero() {
			t.Errorf("an empty journal has size %d and root %s", size, root)
		}
		for range 20 {
			decide(t, j, 1)
			size, root := tree(t, j)
			if int(size) != len(roots) {
				t.Fatalf("size %d", size)
			}
			roots = append(roots, root)
		}
		for size := 1; size <= 20; size++ {
			for seq := 1; seq <= size; seq++ {
				proven(t, j, uint64(seq), uint64(size), roots[size])
			}
		}
		for to := 1; to <= 20; to++ {
			for from := 1; from <= to; from++ {
				g, err := j.ProveConsistency(t.Context(), uint64(from), uint64(to))
				if err == nil {
					err = g.Check(roots[from], roots[to])
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
		for _, c := range [][2]uint64{{0, 5}, {6, 5}, {21, 21}, {1, 21}, {1, 0}} {
			if _, err := j.Prove(t.Context(), c[0], c[1]); !errors.Is(err, journal.ErrNoEntry) {
				t.Errorf("entry %d in a tree of %d: %v", c[0], c[1], err)
			}
			if _, err := j.ProveConsistency(t.Context(), c[0], c[1]); !errors.Is(err, journal.ErrNoEntry) {
				t.Errorf("from %d entries to %d: %v", c[0], c[1], err)
			}
		}
	})
}

func TestProveArchivedEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 60)
		j := open(t, options(dir, newJobs()))
		before, err := j.Stored(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			time.Sleep(time.Hour)
			decide(t, j, 40)
			if _, err := j.Archive(t.Context(), time.Now().Add(-time.Minute), nil); err != nil {
				t.Fatal(err)
			}
		}
		size, root := tree(t, j)
		for seq := uint64(1); seq <= size; seq += 13 {
			proven(t, j, seq, size, root)
		}
		after, err := j.Stored(t.Context(), 7)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("entry 7 is %q in the archive, and was %q: %v", after, before, err)
		}
		closeIt(t, j)
		remove(t, filepath.Join(dir, "hashes"))
		j = open(t, options(dir, newJobs()))
		defer closeIt(t, j)
		proven(t, j, 7, size, root)
	})
}

// The file of hashes is a cache. Whatever happens to it, proofs are right.
func TestWrongHashesAreReplaced(t *testing.T) {
	const entries = 300
	whole := int64(entries*2-4) * 32 // 300 has four bits set
	for name, damage := range map[string]func(b []byte) []byte{
		"it is gone":               func([]byte) []byte { return nil },
		"it ends within a hash":    func(b []byte) []byte { return b[:1000] },
		"it ends within an entry":  func(b []byte) []byte { return b[:32*8] },
		"a hash of it is changed":  func(b []byte) []byte { b[32*17] ^= 1; return b },
		"the last hash is changed": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"it is all zeros":          func(b []byte) []byte { return make([]byte, len(b)) },
		"the end is zeros":         func(b []byte) []byte { return append(b[:8000], make([]byte, len(b)-8000)...) },
		"it is of a longer one":    func(b []byte) []byte { return append(b, b...) },
		"it has half a hash more":  func(b []byte) []byte { return append(b, 1, 2, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filled(t, entries)
				path := filepath.Join(dir, "hashes")
				j := open(t, options(dir, newJobs()))
				defer closeIt(t, j)
				size, root := tree(t, j)
				good := read(t, path)
				if int64(len(good)) != whole {
					t.Fatalf("%d bytes, want %d", len(good), whole)
				}
				edit(t, path, damage)
				for seq := uint64(1); seq <= size; seq += 7 {
					proven(t, j, seq, size, root)
				}
				edit(t, path, damage)
				decide(t, j, 5)
				size, root = tree(t, j)
				for seq := uint64(1); seq <= size; seq += 7 {
					proven(t, j, seq, size, root)
				}
				if !bytes.HasPrefix(read(t, path), good[:32*9]) {
					t.Error("the file is another than before")
				}
			})
		})
	}
}

func TestTreeReadsTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 50)
		j := open(t, options(dir, newJobs()))
		defer closeIt(t, j)
		edit(t, stream(dir, "msgs", "1.blk"), flip(0.5))
		_, _, err := j.Tree(t.Context())
		if _, ok := errors.AsType[*journal.DamagedError](err); !ok {
			t.Errorf("%v, want a *DamagedError", err)
		}
	})
}

func TestKillWhileWritingHashes(t *testing.T) {
	t.Parallel()
	dir := filled(t, 0)
	for range 8 {
		cmd, _, out := start(t, "prove", dir)
		for n := 60; n > 0 && out.Scan(); n-- {
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() {
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		j := open(t, options(dir, newJobs()))
		size, root := tree(t, j)
		for seq := uint64(1); seq <= size; seq += 1 + size/20 {
			proven(t, j, seq, size, root)
		}
		closeIt(t, j)
	}
}

func BenchmarkProve(b *testing.B) {
	const n = 100_000
	o := options(b.TempDir())
	fill(b, o, n)
	j, err := journal.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	for _, fresh := range []bool{true, false} {
		b.Run(fmt.Sprintf("entries=%d/fresh=%v", n, fresh), func(b *testing.B) {
			i := uint64(0)
			for b.Loop() {
				if fresh {
					if err := os.RemoveAll(filepath.Join(o.Dir, "hashes")); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := j.Prove(context.Background(), i*7919%n+1, n); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
