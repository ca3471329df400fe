package verify_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"guild/verify"
)

func TestArchiveMatchesDirectory(t *testing.T) {
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

// zipped writes an archive without Pack, as another program would.
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

func TestForeignArchive(t *testing.T) {
	f := story{}.export(t)
	names := slices.Sorted(maps.Keys(f))
	b := zipped(t, append(names, "journal/", "reviews/"), func(name string) []byte { return f[name] })
	if r, err := verify.Archive(b); err != nil || !r.OK() {
		t.Errorf("%v, %v", r, err)
	}
}

func TestAmbiguousArchives(t *testing.T) {
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

func TestPackRoundTrip(t *testing.T) {
	f := story{}.export(t)
	f[verify.FileBundle] = make([]byte, 8<<20)
	r, err := verify.Archive(must[[]byte](t)(verify.Pack(f)))
	if err != nil || !slices.Equal(failures(r), []string{"bundle"}) {
		t.Errorf("%v, %v", r, err)
	}
	many := files{}
	for i := range 201 {
		many[fmt.Sprintf("reviews/%064x.json", i)] = nil
	}
	if _, err := verify.Pack(many); err == nil {
		t.Error("more files are packed than an export has")
	}
	for name, b := range map[string][]byte{"notes.txt": nil, "../receipt.json": nil, verify.FileReceipt: make([]byte, 1<<20)} {
		if _, err := verify.Pack(files{name: b}); err == nil {
			t.Errorf("%s is packed", name)
		}
	}
}

func TestFileMarkedAsDirectory(t *testing.T) {
	f := story{}.export(t)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, b := range f {
		h := &zip.FileHeader{Name: name}
		if name == verify.FilePolicy {
			h.SetMode(fs.ModeDir | 0o755)
		}
		if _, err := must[io.Writer](t)(z.CreateHeader(h)).Write(b); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, z.Close())
	r := must[verify.Report](t)(verify.Archive(out.Bytes()))
	if got := failures(r); !slices.Equal(got, []string{"files"}) {
		t.Errorf("failed %q", got)
	}
}

func TestUnknownFiles(t *testing.T) {
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

// A reader that starts at the directory and one that starts at the first byte must find the same files.
func TestArchiveLayout(t *testing.T) {
	f := story{}.export(t)
	good := must[[]byte](t)(verify.Pack(f))
	local := func(name string) int { return bytes.Index(good, []byte(name)) } // in the local header
	central := func(name string) int { return bytes.LastIndex(good, []byte(name)) }
	change := func(at int, b ...byte) []byte {
		changed := bytes.Clone(good)
		copy(changed[at:], b)
		return changed
	}
	for name, b := range map[string][]byte{
		"another name where it lies":   change(local("verdict.json"), 'V'),
		"another name in its list":     change(central("policy.json"), 'b', 'u', 'n', 'd', 'l', 'e', '.', 'n', 'u', 't', 's'),
		"something before it":          append([]byte("PK\x03\x04"), good...),
		"marked as encrypted":          change(central("verdict.json")-46+8, 1),
		"encrypted where it lies":      change(local("verdict.json")-30+6, 1),
		"packed otherwise where it is": change(local("REPLAY.jsonl")-30+8, 12),
	} {
		if r, err := verify.Archive(b); !errors.Is(err, verify.ErrArchive) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	for name, b := range map[string][]byte{
		"a link, by whatever made it": change(central("verdict.json")-46+38, 0, 0, 0xff, 0xa1),
		"a directory to DOS":          change(central("verdict.json")-46+38, 0x10, 0, 0xa4, 0x81),
		"without its checksum":        change(central("verdict.json")-46+16, 0, 0, 0, 0),
	} {
		if r, err := verify.Archive(b); err != nil || !slices.Equal(failures(r), []string{"files"}) {
			t.Errorf("%s: failed %q, %v", name, failures(r), err)
		}
	}
}
