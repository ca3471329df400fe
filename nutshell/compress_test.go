package nutshell_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	stdgzip "compress/gzip"

	"pgregory.net/rapid"

	"guild/nutshell"
)

// someFiles is a tree of some megabytes, whose pieces and sections are cut in the middle of files.
func someFiles(seed uint64, files, size int) fstest.MapFS {
	random := rand.New(rand.NewPCG(seed, 1))
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(someManifest)}}
	for i := range files {
		var b bytes.Buffer
		for b.Len() < size {
			fmt.Fprintf(&b, "func f%d(x%d int) { return %x }\n", random.IntN(900), random.IntN(50), random.Uint32()>>random.IntN(32))
		}
		if i%3 == 0 { // and something that does not shrink
			for range size / 32 {
				b.WriteByte(byte(random.Uint32()))
			}
		}
		tree[fmt.Sprintf("files/%d/%d.go", i%5, i)] = &fstest.MapFile{Data: b.Bytes()}
	}
	return tree
}

var (
	forms  = []string{nutshell.Gzip, nutshell.Zstd, nutshell.None}
	levels = []nutshell.Level{nutshell.Fast, nutshell.Default, nutshell.Best}
)

// on runs fn with n processors.
func on(processors int, fn func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	fn()
}

func TestSameBytesOnAnyProcessors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := nutshell.Options{Compression: rapid.SampledFrom(forms).Draw(t, "form"), Level: rapid.SampledFrom(levels).Draw(t, "level")}
		tree := someFiles(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 20).Draw(t, "files"), rapid.SampledFrom([]int{1, 3_000, 40_000, 160_000}).Draw(t, "size"))
		var first []byte
		for _, processors := range []int{1, 8, 2} {
			on(processors, func() {
				var b bytes.Buffer
				if _, err := nutshell.Pack(context.Background(), tree, &b, o); err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = b.Bytes()
				}
				if !bytes.Equal(b.Bytes(), first) {
					t.Fatalf("%s, level %q: %d processors write other bytes", o.Compression, o.Level, processors)
				}
			})
		}
	})
}

// The lengths are those around the borders of pieces (gzip) and sections (zstd).
func TestEveryLengthComesBack(t *testing.T) {
	const piece = 512 << 10
	content := make([]byte, 10*piece)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range content {
		content[i] = "abcdefgh"[random.IntN(8)] + byte(i>>18)
	}
	sizes := []int{0, 1, piece - 4096, piece - 3072, piece - 2560, piece - 2048, piece - 1536, piece - 512, piece, 2 * piece, 2*piece - 2560, 4*piece - 2560, 4 * piece, 9*piece + 1}
	if testing.Short() {
		sizes = []int{0, piece - 2560, piece, 9*piece + 1}
	}
	for _, size := range sizes {
		tree := fstest.MapFS{"nutshell.json": {Data: []byte(someManifest)}, "a": {Data: content[:size]}}
		for _, form := range forms {
			for _, level := range levels[:2] {
				packed, _ := pack(t, tree, nutshell.Options{Compression: form, Level: level})
				b, err := open(packed)
				if err != nil {
					t.Fatalf("%s, level %q, %d bytes: %v", form, level, size, err)
				}
				if got, err := b.ReadFile("a"); err != nil || !bytes.Equal(got, content[:size]) {
					t.Errorf("%s, level %q, %d bytes: %v", form, level, size, err)
				}
			}
		}
	}
}

func TestStandardLibraryReadsGzip(t *testing.T) {
	packed, _ := pack(t, someFiles(1, 30, 200_000), nutshell.Options{})
	in := bytes.NewReader(packed[4:])
	z, err := stdgzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	files := 0
	for r := tar.NewReader(z); ; files++ {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(io.Discard, z); err != nil || in.Len() != 0 || files != 31 {
		t.Errorf("%d files, %d bytes left, %v", files, in.Len(), err)
	}
}

func TestLevelsTradeTimeForSize(t *testing.T) {
	tree := someFiles(7, 8, 100_000)
	for _, form := range forms[:2] {
		var sizes []int
		for _, level := range levels {
			packed, _ := pack(t, tree, nutshell.Options{Compression: form, Level: level})
			sizes = append(sizes, len(packed))
		}
		if sizes[0] <= sizes[1] || sizes[1] < sizes[2] {
			t.Errorf("%s: fast, default, best give %d bytes", form, sizes)
		}
	}
	if _, err := nutshell.Pack(t.Context(), someTree(), io.Discard, nutshell.Options{Level: "ludicrous"}); err == nil || !strings.Contains(err.Error(), "fast") {
		t.Errorf("an unknown level: %v", err)
	}
}

// The bubble fails the test if a goroutine outlives the function.
func TestPackLeavesNoGoroutine(t *testing.T) {
	for _, form := range forms {
		for _, room := range []int{0, 100, 40_000, 1 << 30} {
			synctest.Test(t, func(t *testing.T) {
				_, err := nutshell.Pack(t.Context(), someFiles(9, 30, 100_000), &full{room}, nutshell.Options{Compression: form})
				if (err == nil) != (room == 1<<30) {
					t.Errorf("%s, room for %d: %v", form, room, err)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				changing := growing{someFiles(9, 7, 300_000), map[string]int{}}
				if _, err := nutshell.Pack(t.Context(), changing, io.Discard, nutshell.Options{Compression: form}); !errors.Is(err, nutshell.ErrChanged) {
					t.Errorf("%s: %v", form, err)
				}
			})
		}
	}
}

func TestFileChangesWithSameSize(t *testing.T) {
	for _, form := range forms {
		dir := t.TempDir()
		name := filepath.Join(dir, "a")
		err := errors.Join(os.WriteFile(filepath.Join(dir, "nutshell.json"), []byte(someManifest), 0o600), os.WriteFile(name, bytes.Repeat([]byte("a"), 100_000), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		w := &once{do: func() error {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("b"), 70_000)
			return errors.Join(err, f.Close())
		}}
		// The magic is written after everything was hashed.
		if _, err := nutshell.Pack(t.Context(), os.DirFS(dir), w, nutshell.Options{Compression: form}); !errors.Is(err, nutshell.ErrChanged) {
			t.Errorf("%s: %v", form, err)
		}
	}
}

// once does something when it is first written to.
type once struct{ do func() error }

func (o *once) Write(p []byte) (int, error) {
	if do := o.do; do != nil {
		o.do = nil
		if err := do(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func TestManyFilesExceedLimits(t *testing.T) {
	tree := someFiles(5, 600, 100)
	for i := range 600 {
		tree[fmt.Sprintf("files/%d/%d.go", i%5, i)].Data = bytes.Repeat([]byte("x"), 100)
	}
	for _, processors := range []int{1, 8} {
		on(processors, func() {
			for name, row := range map[string]struct {
				limits nutshell.Limits
				want   func(error) bool
			}{
				"total":   {nutshell.Limits{Total: 30_050}, limitError("Total")},
				"entries": {nutshell.Limits{Entries: 301}, limitError("Entries")},
				"file":    {nutshell.Limits{File: 99}, limitError("File")},
				"none":    {nutshell.Limits{}, opens},
			} {
				_, err := nutshell.Pack(t.Context(), tree, io.Discard, nutshell.Options{Limits: row.limits, Compression: nutshell.None})
				if !row.want(err) {
					t.Errorf("%s on %d processors: %v", name, processors, err)
				}
			}
		})
	}
}
