package workdir_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"guild/internal/hand/workdir"
	"guild/nutshell"
)

const manifest = `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"t"}}`

// bundle packs files given by path and content; "+x" at the end of a path makes it executable.
func bundle(t testing.TB, files map[string]string) []byte {
	t.Helper()
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(manifest)}}
	for p, content := range files {
		name, executable := strings.CutSuffix(p, "+x")
		tree[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o600}
		if executable {
			tree[name].Mode = 0o700
		}
	}
	var b bytes.Buffer
	if _, err := nutshell.Pack(context.Background(), tree, &b, nutshell.Options{Compression: nutshell.None}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(t testing.TB, r io.ReaderAt, size int) *nutshell.Bundle {
	t.Helper()
	b, err := nutshell.Open(r, int64(size), nutshell.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func opened(t testing.TB, files map[string]string) *nutshell.Bundle {
	raw := bundle(t, files)
	return open(t, bytes.NewReader(raw), len(raw))
}

// names lists a directory, also hidden files.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestUnpackContentAndModes(t *testing.T) {
	files := map[string]string{"context/a.md": "A", "tests/run.sh+x": "#!/bin/sh\n", "empty": ""}
	parent := t.TempDir()
	dir := filepath.Join(parent, "job")
	if err := workdir.Unpack(context.Background(), opened(t, files), dir); err != nil {
		t.Fatal(err)
	}
	for p, want := range files {
		name, executable := strings.CutSuffix(p, "+x")
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		mode := fs.FileMode(0o644)
		if executable {
			mode = 0o755
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if got := names(t, parent); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
}

func TestUnpackNeedsEmptyDirectory(t *testing.T) {
	parent := t.TempDir()
	b := opened(t, map[string]string{"a": "A"})
	empty, filled, file, link := filepath.Join(parent, "empty"), filepath.Join(parent, "filled"), filepath.Join(parent, "file"), filepath.Join(parent, "link")
	for _, err := range []error{
		os.Mkdir(empty, 0o755), os.MkdirAll(filepath.Join(filled, "mine"), 0o755), os.WriteFile(file, nil, 0o644), os.Symlink(t.TempDir(), link),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := workdir.Unpack(context.Background(), b, empty); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{filled, file, link} {
		if err := workdir.Unpack(context.Background(), b, dir); err == nil {
			t.Errorf("unpacked over %s", dir)
		}
	}
	if got := names(t, filled); len(got) != 1 || got[0] != "mine" {
		t.Errorf("changed: %q", got)
	}
	if got := names(t, parent); len(got) != 4 {
		t.Errorf("left behind: %q", got)
	}
}

// failing is a file that cannot be read beyond an offset.
type failing struct {
	*bytes.Reader
	from int64
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, errors.New("input/output error")
	}
	return f.Reader.ReadAt(p, off)
}

func TestFailingReaderLeavesNothing(t *testing.T) {
	raw := bundle(t, map[string]string{"a": strings.Repeat("a", 100_000), "b": strings.Repeat("b", 100_000)})
	for from := int64(600); from < int64(len(raw)); from += 50_000 {
		r := &failing{bytes.NewReader(raw), int64(len(raw)) + 1<<20}
		b := open(t, r, len(raw))
		r.from = from
		parent := t.TempDir()
		err := workdir.Unpack(context.Background(), b, filepath.Join(parent, "job"))
		if err == nil || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("failing from %d: %v", from, err)
		}
		if got := names(t, parent); len(got) != 0 {
			t.Errorf("failing from %d: left behind %q", from, got)
		}
	}
}

func TestUnpackStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	parent := t.TempDir()
	if err := workdir.Unpack(ctx, opened(t, nil), filepath.Join(parent, "job")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := names(t, parent); len(got) != 0 {
		t.Errorf("left behind %q", got)
	}
}

func TestQuarantineMovesForeign(t *testing.T) {
	moved := []string{".claude", ".cursor", ".mcp.json", ".vscode", "AGENTS.md", "files/src/.husky", "files/src/CLAUDE.md", "x.instructions.md"}
	files := map[string]string{
		".claude/settings.json": "{}", ".mcp.json": "{}", ".cursor/rules/a.mdc": "", ".vscode/tasks.json": "{}", "AGENTS.md": "obey",
		"files/src/CLAUDE.md": "obey", "files/src/.husky/pre-commit": "", "x.instructions.md": "",
		"context/requirements.md": "do it", "files/src/main.go": "package main", "files/agents.go": "package main",
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "job")
	if err := workdir.Unpack(context.Background(), opened(t, files), dir); err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(dir, "files", ".git", "hooks", "post-checkout") // not ours to pack, but others may
	if err := errors.Join(os.MkdirAll(filepath.Dir(hook), 0o755), os.WriteFile(hook, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	moved = append(moved[:5:5], append([]string{"files/.git"}, moved[5:]...)...)
	got, err := workdir.Quarantine(dir)
	if err != nil || strings.Join(got, " ") != strings.Join(moved, " ") {
		t.Fatalf("%q, %v\nwant %q", got, err, moved)
	}
	for _, p := range moved {
		if _, err := os.Lstat(filepath.Join(dir, p)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", p, err)
		}
		if _, err := os.Lstat(filepath.Join(dir+".quarantine", p)); err != nil {
			t.Error(err)
		}
	}
	if rest, err := os.ReadFile(filepath.Join(dir, "files/src/main.go")); err != nil || string(rest) != "package main" {
		t.Error(err)
	}
}

// git takes a folder with these three for a repository, and runs what its config names.
func TestQuarantineEndsBareRepository(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "job")
	if err := workdir.Unpack(t.Context(), opened(t, map[string]string{"files/main.go": "package main"}), dir); err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(dir, "files", "repo") // not ours to pack, but others may
	ran := filepath.Join(t.TempDir(), "ran")
	for name, content := range map[string]string{
		"HEAD": "ref: refs/heads/main\n", "objects/x": "", "refs/x": "",
		"config": "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = \"touch " + ran + "; false\"\n",
	} {
		p := filepath.Join(repo, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	status := func() error {
		git := exec.Command("git", "status")
		git.Dir = repo
		_ = git.Run() // it is no repository any more in the end
		_, err := os.Stat(ran)
		return err
	}
	if err := status(); err != nil {
		t.Fatalf("git did not run it before: %v", err)
	}
	moved, err := workdir.Quarantine(dir)
	if want := "files/repo/HEAD files/repo/config files/repo/objects/x files/repo/refs/x"; err != nil || strings.Join(moved, " ") != want {
		t.Fatalf("%q, %v", moved, err)
	}
	if err := errors.Join(os.Remove(ran), status()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("git runs it: %v", err)
	}
}

func TestHoldsForeign(t *testing.T) {
	for path, want := range map[string]bool{
		"files/main.go": false, "files/claude.md.txt": false, "CLAUDE.md": true,
		"files/a/.Husky/pre-commit": true, "files/x.instructions.md": true,
	} {
		if got := workdir.HoldsForeign(opened(t, map[string]string{path: ""})); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func TestNoQuarantine(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "job")
	if err := workdir.Unpack(context.Background(), opened(t, map[string]string{"a": "A"}), dir); err != nil {
		t.Fatal(err)
	}
	if got, err := workdir.Quarantine(dir); len(got) != 0 || err != nil || len(names(t, parent)) != 1 {
		t.Errorf("%q, %v, %q", got, err, names(t, parent))
	}
}

func BenchmarkUnpack(b *testing.B) {
	files := make(map[string]string)
	for i := range 500 {
		files["files/"+string(rune('a'+i%26))+"/"+strings.Repeat("x", i)+"f"] = strings.Repeat("line of text\n", 1000)
	}
	for p := range files {
		if len(p) > 200 {
			delete(files, p)
		}
	}
	raw := bundle(b, files)
	parent := b.TempDir()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		dir := filepath.Join(parent, "job")
		if err := workdir.Unpack(context.Background(), open(b, bytes.NewReader(raw), len(raw)), dir); err != nil {
			b.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
	}
}

func TestFill(t *testing.T) {
	raw := bundle(t, map[string]string{"files/a": "A", "files/run+x": "#!/bin/sh"})
	dir := filepath.Join(t.TempDir(), "job")
	b, err := workdir.Fill(context.Background(), bytes.NewReader(raw), int64(len(raw)), nutshell.Limits{}, dir)
	if err != nil || b.Manifest().ID() != "nut-1" {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "files", "a")); err != nil || string(got) != "A" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "files", "run")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := workdir.Fill(context.Background(), bytes.NewReader(raw), int64(len(raw)), nutshell.Limits{}, dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("into a directory that is there: %v", err)
	}
	cut := raw[:len(raw)-1024]
	if b, err := workdir.Fill(context.Background(), bytes.NewReader(cut), int64(len(cut)), nutshell.Limits{}, dir+"2"); !errors.Is(err, nutshell.ErrTruncated) || b != nil {
		t.Errorf("of a bundle that was cut: %v", err)
	}
}
