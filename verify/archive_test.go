package verify_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"guild/verify"
)

func TestAnArchiveSaysWhatItsDirectorySays(t *testing.T) {
	f := story{sealed: true}.export(t)
	b := must[[]byte](t)(verify.Pack(f))
	if again := must[[]byte](t)(verify.Pack(maps.Clone(f))); !bytes.Equal(b, again) {
		t.Error("packed twice, there are other bytes")
	}
	packed := must[verify.Report](t)(verify.Archive(b))
	if loose := verify.Export(dir(f)); !slices.Equal(packed.Checks, loose.Checks) {
		t.Errorf("%v\n%v", packed, loose)
	}
}

// zipped writes an archive as any program might.
func zipped(t testing.TB, names []string, content func(string) []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range names {
		w, err := z.Create(name)
		ok(t, err)
		if _, err := w.Write(content(name)); err != nil && !strings.HasSuffix(name, "/") {
			t.Fatal(err)
		}
	}
	ok(t, z.Close())
	return out.Bytes()
}

func TestAnArchiveByAnotherProgramIsRead(t *testing.T) {
	f := story{}.export(t)
	names := slices.Sorted(maps.Keys(f))
	b := zipped(t, append(names, "journal/", "reviews/"), func(name string) []byte { return f[name] })
	if r, err := verify.Archive(b); err != nil || !r.OK() {
		t.Errorf("%v, %v", r, err)
	}
}

func TestAnArchiveThatMayMeanSeveralThingsIsRefused(t *testing.T) {
	small := func(string) []byte { return []byte("{}") }
	for name, b := range map[string][]byte{
		"nothing":          nil,
		"no archive":       []byte("PK\x03\x04"),
		"twice the same":   zipped(t, []string{verify.FileReceipt, verify.FileReceipt}, small),
		"a way out":        zipped(t, []string{"../receipt.json"}, small),
		"a way out inside": zipped(t, []string{"journal/../receipt.json"}, small),
		"the root":         zipped(t, []string{"/receipt.json"}, small),
		"a backslash":      zipped(t, []string{`journal\entry`}, small),
		"a bomb":           zipped(t, []string{verify.FileBundle}, func(string) []byte { return make([]byte, 30<<20) }),
	} {
		if r, err := verify.Archive(b); !errors.Is(err, verify.ErrArchive) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("reviews/%064x.json", i))
	}
	if _, err := verify.Archive(zipped(t, many, small)); !errors.Is(err, verify.ErrArchive) {
		t.Errorf("many files: %v", err)
	}
}

func TestWhatPackWritesIsNeverABomb(t *testing.T) {
	f := story{}.export(t)
	f[verify.FileBundle] = make([]byte, 8<<20)
	r, err := verify.Archive(must[[]byte](t)(verify.Pack(f)))
	if err != nil || !slices.Equal(failures(r), []string{"bundle"}) {
		t.Errorf("%v, %v", r, err)
	}
	for name, b := range map[string][]byte{"notes.txt": nil, "../receipt.json": nil, verify.FileReceipt: make([]byte, 1<<20)} {
		if _, err := verify.Pack(files{name: b}); err == nil {
			t.Errorf("%s is packed", name)
		}
	}
}

func TestAFileThatNoExportHasIsFound(t *testing.T) {
	for _, name := range []string{"notes.txt", "RECEIPT.json", "journal/receipt.json", "reviews/x.json", "reviews/" + strings.Repeat("AB", 32) + ".json", "a/b/c"} {
		f := story{}.export(t)
		f[name] = []byte("{}")
		if got := failures(verify.Export(dir(f))); !slices.Equal(got, []string{"files"}) {
			t.Errorf("%s: %q", name, got)
		}
	}
	d := dir(story{}.export(t))
	d[verify.FileBundle] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("delivery.nut")}
	if got := failures(verify.Export(d)); !slices.Equal(got, []string{"files"}) {
		t.Errorf("a link: %q", got)
	}
	f := story{}.export(t)
	f[verify.FileReceipt] = make([]byte, 1<<20)
	if got := failures(verify.Export(dir(f))); !slices.Equal(got, []string{"files", "receipt"}) {
		t.Errorf("too large: %q", got)
	}
}

func FuzzArchive(f *testing.F) {
	all := story{rail: "onchain"}.export(f)
	for _, name := range []string{verify.FileReceiptEvent, verify.FileVerdict, verify.FileEntry, verify.FileTransaction} {
		f.Add(must[[]byte](f)(verify.Pack(files{verify.FileReceipt: all[verify.FileReceipt], name: all[name]})))
	}
	f.Add(zipped(f, []string{verify.FileReceipt, "../x", "journal/"}, func(string) []byte { return []byte("{}") }))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := verify.Archive(b)
		if (err == nil) != (len(r.Checks) > 0) {
			t.Fatalf("%v, %v", r, err)
		}
	})
}
