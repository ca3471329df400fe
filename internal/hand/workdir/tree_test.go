package workdir_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"guild/internal/hand/workdir"
	"guild/nutshell"
)

// write makes files below dir.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for p, content := range files {
		p = filepath.Join(dir, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func look(t testing.TB, dir string, l nutshell.Limits) *workdir.Tree {
	t.Helper()
	tree, err := workdir.FS(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

func TestFS(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "A", "b/c": "C", "b/d/e": "E"})
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree := look(t, dir, nutshell.Limits{})
	if err := fstest.TestFS(tree, "a", "b/c", "b/d/e", "empty"); err != nil {
		t.Error(err)
	}
}

func TestFSSkipsOtherFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "A", "b/c": "C"})
	outside := filepath.Join(t.TempDir(), "secret")
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = errors.Join(os.WriteFile(outside, []byte("secret"), 0o600), os.Symlink(outside, filepath.Join(dir, "l")),
		os.Symlink("/etc", filepath.Join(dir, "b", "etc")), os.Symlink(".", filepath.Join(dir, "loop")), syscall.Mkfifo(filepath.Join(dir, "p"), 0o600),
		os.WriteFile(filepath.Join(dir, "bad\xff"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	tree := look(t, dir, nutshell.Limits{})
	if err := fstest.TestFS(tree, "a", "b/c"); err != nil {
		t.Error(err)
	}
	want := "b/etc:link bad\xff:UTF-8 l:link loop:link p:pipe s:socket"
	var got []string
	for _, s := range tree.Skipped {
		got = append(got, s.Path+":"+s.Reason[strings.LastIndexByte(s.Reason, ' ')+1:])
	}
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := tree.Open("l"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFSRefusesReplacedDirectory(t *testing.T) {
	parent := t.TempDir()
	link := filepath.Join(parent, "delivery")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	if _, err := workdir.FS(link, nutshell.Limits{}); !errors.Is(err, nutshell.ErrChanged) {
		t.Error(err)
	}
}

func TestFSLimits(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "12345", "b/c": "12345"})
	table := map[string]nutshell.Limits{
		"Entries": {Entries: 2}, "File": {File: 4}, "Total": {Total: 9}, "Depth": {Depth: 1},
	}
	for what, l := range table {
		_, err := workdir.FS(dir, l)
		if e, ok := errors.AsType[*nutshell.LimitError](err); !ok || e.What != what {
			t.Errorf("%s: %v", what, err)
		}
	}
	look(t, dir, nutshell.Limits{Entries: 3, File: 5, Total: 10, Depth: 2})
}

func TestReplacedFileIsNotRead(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	table := map[string]func(name string) error{
		"a link out":    func(name string) error { return os.Symlink(outside, name) },
		"a link within": func(name string) error { return os.Symlink("other", name) },
		"a pipe":        func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a folder":      func(name string) error { return os.Mkdir(name, 0o700) },
		"nothing":       func(string) error { return nil },
		"a link to a pipe": func(name string) error {
			return errors.Join(syscall.Mkfifo(name+"p", 0o600), os.Symlink(name+"p", name))
		},
		"a link to nothing": func(name string) error { return os.Symlink("nowhere", name) },
	}
	for what, replace := range table {
		dir := t.TempDir()
		write(t, dir, map[string]string{"a": "A", "other": "O"})
		tree := look(t, dir, nutshell.Limits{})
		name := filepath.Join(dir, "a")
		if err := errors.Join(os.Remove(name), replace(name)); err != nil {
			t.Fatal(err)
		}
		if got, err := fs.ReadFile(tree, "a"); err == nil {
			t.Errorf("%s was read: %q", what, got)
		}
	}
}

func TestGrowingFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "A"})
	tree := look(t, dir, nutshell.Limits{})
	write(t, dir, map[string]string{"a": strings.Repeat("A", 1<<20)})
	f, err := tree.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := io.Copy(io.Discard, f); n > 1 || !errors.Is(err, nutshell.ErrChanged) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A process swaps a file with a link to a secret, and a folder with a link to the secret's folder, as fast as it can. The
// secret must never be read.
func TestSwappingRace(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, map[string]string{"f": "secret"})
	dir := t.TempDir()
	write(t, dir, map[string]string{"f": "mine", "d/f": "mine"})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				swap(dir, outside)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for i := range 300 {
		tree, err := workdir.FS(dir, nutshell.Limits{})
		if err != nil {
			continue
		}
		for _, name := range []string{"f", "d/f"} {
			if got, err := fs.ReadFile(tree, name); err == nil && string(got) != "mine" {
				t.Errorf("round %d: %s: %q", i, name, got)
			}
		}
		tree.Close()
	}
}

// swap puts links in place of a file and a folder, and then these back. It ignores errors.
func swap(dir, outside string) {
	for _, name := range []string{"f", "d"} {
		path, aside := filepath.Join(dir, name), filepath.Join(dir, name+".aside")
		os.Rename(path, aside)
		os.Symlink(filepath.Join(outside, strings.TrimPrefix(name, "d")), path)
		os.Remove(path)
		os.Rename(aside, path)
	}
}

// Any files that a command leaves must become a delivery.
func Example() {
	dir, err := os.MkdirTemp("", "delivery")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.WriteFile(filepath.Join(dir, "sort.py"), []byte("sort = sorted\n"), 0o644)
	os.Symlink("/etc/passwd", filepath.Join(dir, "passwd"))

	left, err := workdir.FS(dir, nutshell.Limits{})
	if err != nil {
		panic(err)
	}
	defer left.Close()
	for _, s := range left.Skipped {
		fmt.Println("left out:", s.Path, s.Reason)
	}
	request, err := nutshell.ParseManifest([]byte(manifest))
	if err != nil {
		panic(err)
	}
	tree, err := nutshell.Delivery(request, nil, left, nutshell.DeliveryInfo{ID: "nut-2", Deliverer: "bob"})
	if err != nil {
		panic(err)
	}
	info, err := nutshell.Pack(context.Background(), tree, io.Discard, nutshell.Options{})
	if err != nil {
		panic(err)
	}
	for _, e := range info.Files {
		fmt.Println(e.Path)
	}
	// Output:
	// left out: passwd is a symbolic link
	// delivery/artifacts/sort.py
	// delivery/result.json
}
