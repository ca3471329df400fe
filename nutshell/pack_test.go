package nutshell_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"guild"
	"guild/nutshell"
	"guild/nutshell/ignore"
)

func pack(t testing.TB, tree fs.FS, o nutshell.Options) ([]byte, nutshell.Info) {
	t.Helper()
	var b bytes.Buffer
	info, err := nutshell.Pack(context.Background(), tree, &b, o)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), info
}

func someTree() fstest.MapFS {
	return fstest.MapFS{
		"nutshell.json":           {Data: []byte(someManifest)},
		"context/requirements.md": {Data: []byte("Do it.\n")},
		"context-notes.md":        {Data: []byte("Later.\n")},
		"tests/run.sh":            {Data: []byte("#!/bin/sh\n"), Mode: 0o700},
	}
}

func TestPackIsDeterministic(t *testing.T) {
	for _, form := range []string{"", nutshell.Gzip, nutshell.Zstd, nutshell.None} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("testdata/reference/src/full-request")); err != nil {
			t.Fatal(err)
		}
		o := nutshell.Options{Compression: form}
		first, info := pack(t, os.DirFS(dir), o)
		touch(t, dir)
		second, _ := pack(t, os.DirFS(dir), o)
		if !bytes.Equal(first, second) {
			t.Errorf("%q: %d and %d bytes differ", form, len(first), len(second))
		}
		if info.Hash != guild.Sum(first) || info.Size != int64(len(first)) {
			t.Errorf("%q: %+v", form, info)
		}
	}
}

// touch gives every file another time.
func touch(t *testing.T, dir string) {
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		then := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		return os.Chtimes(p, then, then)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPackAndOpen(t *testing.T) {
	for _, form := range []string{nutshell.Gzip, nutshell.Zstd, nutshell.None} {
		for _, name := range []string{"delivery", "full-request", "init-default", "minimal"} {
			tree := os.DirFS("testdata/reference/src/" + name)
			packed, info := pack(t, tree, nutshell.Options{Compression: form})
			b, err := open(packed)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := b.Files()[1:]; !slices.Equal(got, info.Files) {
				t.Errorf("%s: %v, packed %v", name, got, info.Files)
			}
			for _, e := range info.Files {
				want, _ := fs.ReadFile(tree, e.Path)
				if got, err := b.ReadFile(e.Path); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %s: %q, %v", name, e.Path, got, err)
				}
			}
			if c := b.Manifest().Compression(); c.Algorithm != form || c.CompressedSizeBytes != 0 {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}

// rawHeaders returns the 512-byte headers of an archive by name.
func rawHeaders(t *testing.T, bundle []byte) (names []string, blocks map[string][]byte) {
	t.Helper()
	if string(bundle[:4]) != "NUT\x01" {
		t.Fatalf("magic %q", bundle[:4])
	}
	archive := rawArchive(t, bundle)
	blocks = make(map[string][]byte)
	in := bytes.NewReader(archive)
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err != nil {
			return names, blocks
		}
		start := len(archive) - in.Len() - 512
		names = append(names, h.Name)
		blocks[h.Name] = archive[start : start+512]
	}
}

// rawArchive is the tar archive of a bundle that is packed with gzip.
func rawArchive(t *testing.T, bundle []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(bundle[4:]))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func TestStructureLikeReference(t *testing.T) {
	for name, level := range map[string]nutshell.Level{
		"delivery": nutshell.Default, "full-request": nutshell.Default, "full-request.compress-best": nutshell.Best, "minimal": nutshell.Default,
	} {
		reference := readTestdata(t, "reference/"+name+".nut")
		tree, _, _ := strings.Cut(name, ".")
		ignored, err := ignore.Parse([]byte("debug.log\n.hidden/\n")) // the one by its .nutignore, the other by its dot
		if err != nil {
			t.Fatal(err)
		}
		ours, _ := pack(t, os.DirFS("testdata/reference/src/"+tree), nutshell.Options{Level: level, Exclude: ignored.Match})
		if !bytes.Equal(ours[:14], reference[:14]) {
			t.Errorf("%s: magic and gzip header % x, the reference has % x", name, ours[:14], reference[:14])
		}
		compareHeaders(t, name, ours, reference)
		compareEnds(t, name, rawArchive(t, ours), rawArchive(t, reference))
	}
}

// compareHeaders compares the header blocks of all files, byte by byte.
func compareHeaders(t *testing.T, bundle string, ours, reference []byte) {
	t.Helper()
	theirNames, theirs := rawHeaders(t, reference)
	names, blocks := rawHeaders(t, ours)
	if names[0] != nutshell.ManifestFile || theirNames[0] != nutshell.ManifestFile || !slices.IsSorted(names[1:]) {
		t.Errorf("%s: order of files: %q", bundle, names)
	}
	for name, want := range theirs {
		switch got := blocks[name]; {
		case name == ".env" || name == ".nutignore":
			if got != nil {
				t.Errorf("%s: packed %s", bundle, name)
			}
		case name == "nutshell.json" || name == "tests/scripts/test_api.sh":
			// size and mode differ, and with them the checksum: the rest is the same
			if !bytes.Equal(got[136:148], want[136:148]) || !bytes.Equal(got[156:], want[156:]) || !bytes.Equal(got[:100], want[:100]) || !bytes.Equal(got[108:124], want[108:124]) {
				t.Errorf("%s: %s: header %q, the reference has %q", bundle, name, got, want)
			}
		case !bytes.Equal(got, want):
			t.Errorf("%s: %s: header %q, the reference has %q", bundle, name, got, want)
		}
	}
	for _, name := range names {
		if theirs[name] == nil {
			t.Errorf("%s: packed %s, which the reference leaves out", bundle, name)
		}
	}
	if script := blocks["tests/scripts/test_api.sh"]; script != nil && string(script[100:107]) != "0000755" {
		t.Errorf("%s: the executable bit was lost: %s", bundle, script[100:107])
	}
}

// compareEnds compares the ends of the archives: zeros to the end of the last file's block, and two blocks of zeros. Other
// programs fill up a record.
func compareEnds(t *testing.T, bundle string, ours, reference []byte) {
	t.Helper()
	for name, archive := range map[string][]byte{"ours": ours, "the reference's": reference} {
		in := bytes.NewReader(archive)
		r, end := tar.NewReader(in), 0
		for {
			h, err := r.Next()
			if err != nil {
				break
			}
			end = len(archive) - in.Len() + int(h.Size)
		}
		padded := (end + 511) / 512 * 512
		if len(archive) != padded+1024 || len(bytes.Trim(archive[end:], "\x00")) != 0 {
			t.Errorf("%s: %s archive has %d bytes after the last file at %d", bundle, name, len(archive)-end, end)
		}
	}
}

func TestPackedManifest(t *testing.T) {
	source := `{
  "nutshell_version": "0.2.0",
  "bundle_type": "request",
  "id": "nut-1",
  "x_future": [1.0, 1e2, 9007199254740993, "\u00e9"],
  "task": {"title": "t", "x": {"b": 1, "a": 2}},
  "files": {
    "total_count": 99,
    "note": "mine",
    "tree": [
      {"path": "gone", "role": "scaffold"},
      {"path": "a.go", "size": 1200, "role": "scaffold", "license": "MIT"}
    ]
  },
  "compression": {"algorithm": "nutcracker", "compressed_size_bytes": 8200, "context_tokens_estimate": 3500},
  "extensions": {"zzz": {"n": 85.0}}
}
`
	want := `{
  "nutshell_version": "0.2.0",
  "bundle_type": "request",
  "id": "nut-1",
  "x_future": [1.0, 1e2, 9007199254740993, "\u00e9"],
  "task": {"title": "t", "x": {"b": 1, "a": 2}},
  "files": {
    "total_count": 2,
    "note": "mine",
    "total_size_bytes": 3,
    "tree": [
      {
        "path": "a.go",
        "size": 3,
        "role": "scaffold",
        "license": "MIT",
        "hash": "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
      },
      {
        "path": "b.go",
        "size": 0,
        "hash": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
      }
    ]
  },
  "compression": {"algorithm": "gzip", "original_size_bytes": 3, "context_tokens_estimate": 3500},
  "extensions": {"zzz": {"n": 85.0}}
}
`
	packed, info := pack(t, fstest.MapFS{
		"nutshell.json": {Data: []byte(source)}, "b.go": {}, "a.go": {Data: []byte("abc")},
	}, nutshell.Options{})
	b, err := open(packed)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b.Manifest().Bytes()); got != want {
		t.Errorf("got %s", got)
	}
	if len(info.Skipped) != 1 || info.Skipped[0].Path != "gone" {
		t.Errorf("skipped %v", info.Skipped)
	}
}

func TestFilesNeverPacked(t *testing.T) {
	tree := someTree()
	left := []string{
		".env", ".env.local", "files/.envrc", ".git", "sub/.git", ".hg", "earlier.nut", "deploy/id_ed25519",
		"server.key", "pem/private.pem", "age.txt", "nsec.txt", "prod.env", "home/.netrc", ".pypirc", ".git-credentials",
	}
	tree["pem/private.pem"] = &fstest.MapFile{Data: []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n")}
	tree["age.txt"] = &fstest.MapFile{Data: []byte("# created: 2026\n# public key: age1\nAGE-SECRET-KEY-1QQQ\n")}
	tree["nsec.txt"] = &fstest.MapFile{Data: []byte("nsec1" + strings.Repeat("q", 58) + "\n")}
	tree[".git/config"] = &fstest.MapFile{}
	tree[".git/hooks/pre-commit"] = &fstest.MapFile{Mode: fs.ModeSymlink}
	for _, p := range left {
		if tree[p] == nil && p != ".git" {
			tree[p] = &fstest.MapFile{}
		}
	}
	kept := []string{"pem/cert.pem", "docs/about-keys.md", ".gitignore", "environment.md", "mine/skipped.txt"}
	for _, p := range kept {
		tree[p] = &fstest.MapFile{Data: []byte("-----BEGIN CERTIFICATE-----\n or nsec1 in a text, -----BEGIN PRIVATE KEY-----")}
	}
	_, info := pack(t, tree, nutshell.Options{Exclude: func(p string, isDir bool) bool { return p == "mine" && isDir }})
	var skipped []string
	for _, s := range info.Skipped {
		if s.Reason == "" {
			t.Errorf("%s: no reason", s.Path)
		}
		skipped = append(skipped, s.Path)
	}
	slices.Sort(skipped)
	if want := slices.Sorted(slices.Values(append(left, "mine"))); !slices.Equal(skipped, want) {
		t.Errorf("skipped %q\nwant    %q", skipped, want)
	}
	for _, p := range kept[:4] {
		if !slices.ContainsFunc(info.Files, func(e nutshell.Entry) bool { return e.Path == p }) {
			t.Errorf("%s is missing", p)
		}
	}
}

func TestPackErrors(t *testing.T) {
	link := someTree()
	link["l"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("/etc/passwd")}
	dir := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "manifest")
	if err := errors.Join(os.WriteFile(elsewhere, []byte(someManifest), 0o600), os.Symlink(elsewhere, filepath.Join(dir, "nutshell.json"))); err != nil {
		t.Fatal(err)
	}
	linked := os.DirFS(dir)
	rival := someTree()
	rival["Nutshell.json"] = &fstest.MapFile{}
	pipe := someTree()
	pipe["p"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	strange := someTree()
	strange[`a\b`] = &fstest.MapFile{}
	colliding := someTree()
	colliding["CONTEXT-NOTES.md"] = &fstest.MapFile{}
	bomb := someTree()
	bomb["zeros"] = &fstest.MapFile{Data: make([]byte, 4<<20)}
	nameless := fstest.MapFS{"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","task":{"title":"t"}}`)}}
	table := []struct {
		name string
		tree fs.FS
		o    nutshell.Options
		want func(error) bool
	}{
		{"no manifest", fstest.MapFS{"a": {}}, nutshell.Options{}, is(nutshell.ErrNoManifest)},
		{"no id", nameless, nutshell.Options{}, manifestError("id", "required")},
		{"a symbolic link", link, nutshell.Options{}, entryError("l", "symbolic link")},
		{"a pipe", pipe, nutshell.Options{}, entryError("p", "regular")},
		{"a name that readers refuse", strange, nutshell.Options{}, entryError(`a\b`, "backslash")},
		{"names that collide", colliding, nutshell.Options{}, entryError("context-notes.md", "case")},
		{"more than the ratio", bomb, nutshell.Options{}, limitError("Ratio")},
		{"too many files", someTree(), nutshell.Options{Limits: nutshell.Limits{Entries: 2}}, limitError("Entries")},
		{"too many files with the manifest", someTree(), nutshell.Options{Limits: nutshell.Limits{Entries: 3}}, limitError("Entries")},
		{"no room for the manifest", someTree(), nutshell.Options{Limits: nutshell.Limits{Total: 40}}, limitError("Total")},
		{"a link for a manifest", linked, nutshell.Options{}, entryError("nutshell.json", "symbolic link")},
		{"a file that collides with the manifest", rival, nutshell.Options{}, entryError("Nutshell.json", "case")},
		{"too large a file", someTree(), nutshell.Options{Limits: nutshell.Limits{File: 6}}, limitError("File")},
		{"too much", someTree(), nutshell.Options{Limits: nutshell.Limits{Total: 20}}, limitError("Total")},
		{"an unknown compression", someTree(), nutshell.Options{Compression: "lzma"}, func(err error) bool { return err != nil }},
	}
	for _, row := range table {
		if _, err := nutshell.Pack(context.Background(), row.tree, io.Discard, row.o); !row.want(err) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// growing is a tree whose files are longer each time they are opened.
type growing struct {
	fs.FS
	opened map[string]int
}

func (g growing) Open(name string) (fs.File, error) {
	f, err := g.FS.Open(name)
	if err != nil || name == nutshell.ManifestFile {
		return f, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, err
	}
	g.opened[name]++
	more := strings.NewReader(strings.Repeat("x", g.opened[name]))
	return longer{f, io.MultiReader(f, more)}, nil
}

type longer struct {
	fs.File
	r io.Reader
}

func (l longer) Read(p []byte) (int, error) { return l.r.Read(p) }

// unread is a tree whose files may be listed, but not read.
type unread struct {
	fstest.MapFS
	t *testing.T
}

func (u unread) Open(name string) (fs.File, error) {
	if name != nutshell.ManifestFile && u.MapFS[name] != nil {
		u.t.Errorf("%s was opened", name)
	}
	return u.MapFS.Open(name)
}

func TestLimitsBeforeReading(t *testing.T) {
	for what, limits := range map[string]nutshell.Limits{"Entries": {Entries: 3}, "Total": {Total: 6}, "File": {File: 5}, "Path": {Path: 13}} {
		_, err := nutshell.Pack(t.Context(), unread{someTree(), t}, io.Discard, nutshell.Options{Limits: limits})
		if !limitError(what)(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestFileChangesDuringPack(t *testing.T) {
	tree := growing{someTree(), map[string]int{}}
	if _, err := nutshell.Pack(context.Background(), tree, io.Discard, nutshell.Options{}); !errors.Is(err, nutshell.ErrChanged) {
		t.Error(err)
	}
}

func TestPackCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := nutshell.Pack(ctx, someTree(), io.Discard, nutshell.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// full is a writer that has room for n bytes.
type full struct{ n int }

func (f *full) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

func TestPackWriteError(t *testing.T) {
	for _, form := range []string{nutshell.Gzip, nutshell.Zstd, nutshell.None} {
		for _, room := range []int{0, 3, 4, 100} {
			_, err := nutshell.Pack(context.Background(), someTree(), &full{room}, nutshell.Options{Compression: form})
			if err == nil || !strings.Contains(fmt.Sprint(err), "no space left") {
				t.Errorf("%s, room for %d: %v", form, room, err)
			}
		}
	}
}
