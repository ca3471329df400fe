package nutshell_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"guild"
	"guild/nutshell"
)

func open(b []byte) (*nutshell.Bundle, error) {
	return nutshell.Open(bytes.NewReader(b), int64(len(b)), nutshell.Limits{})
}

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// entryError matches an *EntryError for a path, whatever the words.
func entryError(path, words string) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*nutshell.EntryError](err)
		return ok && e.Path == path && strings.Contains(e.Reason, words)
	}
}

func manifestError(field, words string) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*nutshell.ManifestError](err)
		return ok && e.Field == field && strings.Contains(e.Reason, words)
	}
}

func limitError(what string) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*nutshell.LimitError](err)
		return ok && e.What == what
	}
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func opens(err error) bool { return err == nil }

func TestHostileBundles(t *testing.T) {
	table := map[string]func(error) bool{
		"absolute.nut":              entryError("/tmp/evil-abs.txt", "absolute"),
		"backslash-name.nut":        entryError(`..\evil.txt`, "backslash"),
		"bad-magic-plain-targz.nut": is(nutshell.ErrNotBundle),
		"bomb-64MiB.nut":            limitError("Ratio"),
		"dup-file-entry.nut":        entryError("files/a.txt", "twice"),
		"empty.nut":                 is(nutshell.ErrNotBundle),
		"extra-unlisted-file.nut": func(err error) bool {
			e, ok := errors.AsType[*nutshell.SizeError](err)
			return ok && e.Path == "" && e.Want == 1 && e.Got == 2
		},
		"hardlink.nut": entryError("files/passwd", "link"),
		"hash-mismatch.nut": func(err error) bool {
			e, ok := errors.AsType[*nutshell.HashError](err)
			return ok && e.Path == "context/requirements.md" && e.Want == guild.Hash{}
		},
		"magic-only.nut":                    is(nutshell.ErrTruncated),
		"magic-v3.nut":                      is(nutshell.ErrNotBundle),
		"manifest-bom.nut":                  manifestError("", "byte order mark"),
		"manifest-jsonc-comments.nut":       manifestError("", "comment"),
		"no-manifest.nut":                   is(nutshell.ErrNoManifest),
		"nonutf8-name.nut":                  entryError("files/\xff.txt", "UTF-8"),
		"ok-python-gzip.nut":                opens,
		"ok-ustar-executable-bit.nut":       opens,
		"trailing-garbage.nut":              is(nutshell.ErrTrailing),
		"traversal-dotdot.nut":              entryError("../evil.txt", `".."`),
		"truncated.nut":                     is(nutshell.ErrTruncated),
		"unknown-fields-and-extensions.nut": opens,
	}
	files, err := os.ReadDir("testdata/hostile")
	if err != nil || len(files) != len(table) {
		t.Fatalf("%d files, %d in the table, %v", len(files), len(table), err)
	}
	for _, f := range files {
		_, err := open(readTestdata(t, "hostile/"+f.Name()))
		if right := table[f.Name()]; right == nil || !right(err) {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}

func TestOpenReferenceBundles(t *testing.T) {
	for _, name := range []string{"delivery", "full-request", "full-request.compress-best", "full-request.compress-none", "init-default", "minimal"} {
		b, err := open(readTestdata(t, "reference/"+name+".nut"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tree, _, _ := strings.Cut(name, ".")
		err = b.Walk(func(e nutshell.Entry, r io.Reader) error {
			got, err := io.ReadAll(r)
			if err != nil || e.Path == nutshell.ManifestFile || e.Path == ".env" {
				return err // the reference rewrites the one, and the other was not kept
			}
			if want := readTestdata(t, "reference/src/"+tree+"/"+e.Path); !bytes.Equal(got, want) {
				t.Errorf("%s: %s: %q, want %q", name, e.Path, got, want)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEncryptedBundle(t *testing.T) {
	_, err := open(readTestdata(t, "reference/full-request.encrypted.nut"))
	if !errors.Is(err, nutshell.ErrEncrypted) || !strings.Contains(err.Error(), `NUT\x02`) {
		t.Error(err)
	}
}

func TestOpenDraft(t *testing.T) {
	b, err := open(readTestdata(t, "reference/init-default.nut"))
	if err != nil || len(b.Warnings) != 1 || !strings.Contains(b.Warnings[0], "task.title") {
		t.Fatalf("%v, %v", b, err)
	}
}

const someManifest = `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"t"}}`

// item is an entry of an archive made by hand.
type item struct {
	tar.Header
	body string
}

func plain(name, body string) item {
	return item{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, body}
}

// tarOf makes an archive that package tar is willing to write.
func tarOf(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		if i.Typeflag == tar.TypeReg {
			i.Size = int64(len(i.body))
		}
		if err := w.WriteHeader(&i.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, i.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func uncompressed(t testing.TB, items ...item) []byte {
	return append([]byte("NUT\x01"), tarOf(t, items...)...)
}

func TestUnsafePaths(t *testing.T) {
	many := strings.Repeat("d/", 32) + "f"
	table := []struct {
		name  string
		items []item
		want  func(error) bool
	}{
		{"a symbolic link", []item{{tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, ""}}, entryError("l", "link")},
		{"a device", []item{{tar.Header{Name: "d", Typeflag: tar.TypeChar}, ""}}, entryError("d", "device")},
		{"a pipe", []item{{tar.Header{Name: "p", Typeflag: tar.TypeFifo}, ""}}, entryError("p", "pipe")},
		{"a control character", []item{plain("a\x1b[2Jb", "")}, entryError("a\x1b[2Jb", "control")},
		{"a dot segment", []item{plain("a/./b", "")}, entryError("a/./b", "dot")},
		{"two dot segments", []item{plain("././b", "")}, entryError("./b", "dot")},
		{"a dot before a way out", []item{plain("./../b", "")}, entryError("../b", `".."`)},
		{"a dot before an absolute path", []item{plain(".//b", "")}, entryError("/b", "absolute")},
		{"two roots", []item{{tar.Header{Name: "./", Typeflag: tar.TypeDir}, ""}, {tar.Header{Name: "./", Typeflag: tar.TypeDir}, ""}}, entryError(".", "dot")},
		{"a file named as the root", []item{plain(".", "")}, entryError(".", "dot")},
		{"the same file with and without a dot", []item{plain("a", ""), plain("./a", "")}, entryError("a", "twice")},
		{"an empty segment", []item{plain("a//b", "")}, entryError("a//b", "empty")},
		{"names that differ in case", []item{plain("files/A", ""), plain("files/a", "")}, entryError("files/a", "case")},
		{"folders that differ in case", []item{plain("Files/A", ""), plain("files/b", "")}, entryError("files", "case")},
		{"names that fold alike in Unicode", []item{plain("K", ""), plain("\u212a", "")}, entryError("\u212a", "case")},
		{"names that differ in their Unicode form", []item{plain("files/\u00e9", ""), plain("files/e\u0301", "")}, entryError("files/e\u0301", "Unicode form")},
		{"the same accent twice is fine", []item{plain("files/\u00e9", ""), plain("\u00e9", "")}, opens},
		{"a name that is shown backwards", []item{plain("gpj\u202etxt.exe", "")}, entryError("gpj\u202etxt.exe", "bidirectional")},
		{"a mark of direction", []item{plain("a\u200fb", "")}, entryError("a\u200fb", "bidirectional")},
		{"a file below a file", []item{plain("a", ""), plain("a/b", "")}, entryError("a", "folder")},
		{"a file where a folder is", []item{plain("a/b", ""), plain("a", "")}, entryError("a", "folder")},
		{"too deep a path", []item{plain(many, "")}, limitError("Depth")},
		{"too long a path", []item{plain(strings.Repeat("n", 4097), "")}, limitError("Path")},
		{"two manifests", []item{plain("nutshell.json", someManifest)}, entryError("nutshell.json", "twice")},
		{"folders are fine", []item{{tar.Header{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o755}, ""}, plain("dir/f", "")}, opens},
		{"a PAX name is fine", []item{plain("ü/"+strings.Repeat("n", 300), "x")}, opens},
	}
	for _, row := range table {
		_, err := open(uncompressed(t, append([]item{plain("nutshell.json", someManifest)}, row.items...)...))
		if !row.want(err) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// The tar archive is what "tar c ." writes: the root, and each path with "./" before it.
func TestOpenPlainTar(t *testing.T) {
	folder := func(name string) item { return item{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, ""} }
	b, err := open(uncompressed(t, folder("./"), folder("./files/"), plain("./files/a", "A"), plain("./nutshell.json", someManifest)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.ReadFile("files/a")
	if err != nil || string(got) != "A" || b.Manifest().ID() != "nut-1" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLimitsHoldWhileReading(t *testing.T) {
	b := uncompressed(t, plain("nutshell.json", someManifest), plain("a", "12345"), plain("b", "12345"))
	manifest := int64(len(someManifest))
	table := []struct {
		limits nutshell.Limits
		want   func(error) bool
	}{
		{nutshell.Limits{Entries: 3}, opens},
		{nutshell.Limits{Entries: 2}, limitError("Entries")},
		{nutshell.Limits{File: manifest}, opens},
		{nutshell.Limits{File: manifest - 1}, limitError("File")},
		{nutshell.Limits{Total: manifest + 10}, opens},
		{nutshell.Limits{Total: manifest + 9}, limitError("Total")},
		{nutshell.Limits{Path: 13}, opens},
		{nutshell.Limits{Path: 12}, limitError("Path")},
	}
	for _, row := range table {
		if _, err := nutshell.Open(bytes.NewReader(b), int64(len(b)), row.limits); !row.want(err) {
			t.Errorf("%+v: %v", row.limits, err)
		}
	}
}

func TestDecompressionBomb(t *testing.T) {
	archive := tarOf(t, plain("nutshell.json", someManifest), plain("zeros", strings.Repeat("\x00", 64<<20)))
	for _, form := range []string{nutshell.Gzip, nutshell.Zstd} {
		if _, err := open(append([]byte("NUT\x01"), compressed(t, form, archive)...)); !limitError("Ratio")(err) {
			t.Errorf("%s: %v", form, err)
		}
	}
	if _, err := open(append([]byte("NUT\x01"), archive...)); err != nil {
		t.Errorf("uncompressed it is none: %v", err)
	}
}

func compressed(t testing.TB, form string, archive []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if form == nutshell.Zstd {
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(archive); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTrailingBytes(t *testing.T) {
	archive := tarOf(t, plain("nutshell.json", someManifest))
	gz, zs := compressed(t, nutshell.Gzip, archive), compressed(t, nutshell.Zstd, archive)
	skippable := []byte("\x50\x2a\x4d\x18\x04\x00\x00\x00evil")
	table := []struct {
		name  string
		parts [][]byte
		want  func(error) bool
	}{
		{"one gzip member", [][]byte{gz}, opens},
		{"one zstd frame", [][]byte{zs}, opens},
		{"plain tar", [][]byte{archive}, opens},
		{"plain tar with a full last record", [][]byte{archive, make([]byte, 8192)}, opens},
		{"an archive in two gzip members", [][]byte{compressed(t, nutshell.Gzip, archive[:700]), compressed(t, nutshell.Gzip, archive[700:])}, opens},
		{"an empty last gzip member", [][]byte{gz, compressed(t, nutshell.Gzip, nil)}, opens},
		{"zeros in a last gzip member", [][]byte{gz, compressed(t, nutshell.Gzip, make([]byte, 512))}, opens},
		{"a second archive in a gzip member", [][]byte{gz, gz}, is(nutshell.ErrTrailing)},
		{"text after gzip", [][]byte{gz, []byte("x")}, is(nutshell.ErrTrailing)},
		{"text like gzip after it", [][]byte{gz, []byte("\x1f\x8b")}, is(nutshell.ErrTruncated)},
		{"half a second gzip member", [][]byte{compressed(t, nutshell.Gzip, archive[:700]), gz[:len(gz)/2]}, is(nutshell.ErrTruncated)},
		{"two zstd frames", [][]byte{zs, zs}, is(nutshell.ErrTrailing)},
		{"a skippable zstd frame", [][]byte{zs, skippable}, is(nutshell.ErrTrailing)},
		{"text after zstd", [][]byte{zs, []byte("x")}, is(nutshell.ErrTrailing)},
		{"text after plain tar", [][]byte{archive, []byte("x")}, is(nutshell.ErrTrailing)},
		{"a second plain tar", [][]byte{archive, archive}, is(nutshell.ErrTrailing)},
		{"text inside the gzip after the tar", [][]byte{compressed(t, nutshell.Gzip, append(bytes.Clone(archive), 'x'))}, is(nutshell.ErrTrailing)},
		{"half a gzip member", [][]byte{gz[:len(gz)/2]}, is(nutshell.ErrTruncated)},
		{"gzip without its checksum", [][]byte{gz[:len(gz)-8]}, is(nutshell.ErrTruncated)},
		{"half a zstd frame", [][]byte{zs[:len(zs)/2]}, is(nutshell.ErrTruncated)},
		{"plain tar without its end", [][]byte{archive[:len(archive)-1024]}, is(nutshell.ErrTruncated)},
		{"plain tar with half its end", [][]byte{archive[:len(archive)-512]}, is(nutshell.ErrTruncated)},
		{"a flipped bit in gzip", [][]byte{flip(gz, len(gz)-6)}, is(nutshell.ErrDamaged)},
		{"a flipped bit in zstd", [][]byte{flip(zs, len(zs)-2)}, is(nutshell.ErrDamaged)},
		{"a flipped bit in a tar header", [][]byte{flip(archive, 150)}, is(nutshell.ErrDamaged)},
	}
	for _, row := range table {
		b := append([]byte("NUT\x01"), bytes.Join(row.parts, nil)...)
		if _, err := open(b); !row.want(err) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

func TestListWithHashes(t *testing.T) {
	hash := guild.Sum([]byte("x")).String()
	manifest := func(files string) string {
		return strings.TrimSuffix(someManifest, "}") + `,"files":` + files + "}"
	}
	table := []struct {
		name  string
		files string
		want  func(error) bool
	}{
		{"right hash and size", `{"total_count":1,"tree":[{"path":"a","size":1,"hash":"` + hash + `"}]}`, opens},
		{"the reference counts and lists the manifest", `{"total_count":2,"tree":[{"path":"a","hash":"` + hash + `"},{"path":"nutshell.json","hash":"sha256:00"}]}`, opens},
		{"bare hex", `{"tree":[{"path":"a","hash":"` + hash[7:] + `"}]}`, opens},
		{"no hashes", `{"total_count":9,"tree":[{"path":"gone"}]}`, opens},
		{"never packed", `{"total_count":0,"tree":[]}`, opens},
		{"wrong size", `{"tree":[{"path":"a","size":2,"hash":"` + hash + `"}]}`, func(err error) bool {
			e, ok := errors.AsType[*nutshell.SizeError](err)
			return ok && e.Path == "a" && e.Want == 2 && e.Got == 1
		}},
		{"not a hash", `{"tree":[{"path":"a","hash":"md5:1"}]}`, manifestError("files.tree", "hash")},
		{"listed twice", `{"tree":[{"path":"a"},{"path":"a"}]}`, manifestError("files.tree", "twice")},
		{"not listed", `{"tree":[{"path":"nutshell.json","hash":"` + hash + `"}]}`, entryError("a", "not in files.tree")},
		{"not there", `{"tree":[{"path":"a","hash":"` + hash + `"},{"path":"b","hash":"` + hash + `"}]}`, entryError("b", "not in the archive")},
	}
	for _, row := range table {
		_, err := open(uncompressed(t, plain("nutshell.json", manifest(row.files)), plain("a", "x")))
		if !row.want(err) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

func TestListWithOneHashMissing(t *testing.T) {
	manifest := strings.TrimSuffix(someManifest, "}") + `,"files":{"tree":[{"path":"a","hash":"` + guild.Sum([]byte("x")).String() + `"},{"path":"b"}]}}`
	b, err := open(uncompressed(t, plain("nutshell.json", manifest), plain("a", "x"), plain("b", "changed")))
	if err != nil || len(b.Warnings) != 1 || b.Warnings[0] != `files.tree has no hash of "b": its content cannot be verified` {
		t.Errorf("%v, %v", b, err)
	}
}

func TestOpenBundleWithoutHashes(t *testing.T) {
	b, err := open(uncompressed(t, plain("a", "x"), plain("nutshell.json", someManifest)))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.Warnings, "\n"); !strings.Contains(got, "no hashes") || !strings.Contains(got, "not the first") {
		t.Error(got)
	}
}

func TestWrongFileSize(t *testing.T) {
	b := readTestdata(t, "reference/minimal.nut")
	for size, want := range map[int64]func(error) bool{
		-1: is(nutshell.ErrNotBundle), 0: is(nutshell.ErrNotBundle), 3: is(nutshell.ErrNotBundle),
		5: is(nutshell.ErrNotBundle), 100: is(nutshell.ErrTruncated), int64(len(b)) + 100: opens,
	} {
		if _, err := nutshell.Open(bytes.NewReader(b), size, nutshell.Limits{}); !want(err) {
			t.Errorf("%d: %v", size, err)
		}
	}
}

func TestReadFile(t *testing.T) {
	b, err := open(readTestdata(t, "reference/full-request.nut"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.ReadFile("tests/criteria.json")
	if err != nil || !bytes.Equal(got, readTestdata(t, "reference/src/full-request/tests/criteria.json")) {
		t.Errorf("%q, %v", got, err)
	}
	if manifest, err := b.ReadFile(nutshell.ManifestFile); err != nil || !bytes.Equal(manifest, b.Manifest().Bytes()) {
		t.Error(err)
	}
	if _, err := b.ReadFile("tests"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestBundleChangesAfterOpen(t *testing.T) {
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(someManifest)}, "a": {Data: []byte("first")}}
	var packed bytes.Buffer
	if _, err := nutshell.Pack(context.Background(), tree, &packed, nutshell.Options{Compression: nutshell.None}); err != nil {
		t.Fatal(err)
	}
	raw := packed.Bytes()
	b, err := open(raw)
	if err != nil {
		t.Fatal(err)
	}
	copy(raw[bytes.Index(raw, []byte("first")):], "later")
	if _, err := b.ReadFile("a"); !errors.Is(err, nutshell.ErrChanged) {
		t.Error(err)
	}
	if err := b.Walk(func(nutshell.Entry, io.Reader) error { return nil }); !errors.Is(err, nutshell.ErrChanged) {
		t.Error(err)
	}
}

func TestWalkError(t *testing.T) {
	b, err := open(readTestdata(t, "reference/minimal.nut"))
	if err != nil {
		t.Fatal(err)
	}
	mine := errors.New("enough")
	if err := b.Walk(func(nutshell.Entry, io.Reader) error { return mine }); err != mine {
		t.Error(err)
	}
}
