package workdir_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"guild/internal/hand/workdir"
	"guild/nutshell"
)

// FuzzExtract unpacks any data. Either all files are there afterwards, or none.
func FuzzExtract(f *testing.F) {
	for _, pattern := range []string{"reference/*.nut", "hostile/*.nut"} {
		files, err := filepath.Glob(filepath.Join("../../../nutshell/testdata", pattern))
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add(bundle(f, map[string]string{"a/b/c": "C", "a/b/d": "D", "e+x": ""}))
	small := nutshell.Limits{Entries: 100, Total: 1 << 20, File: 1 << 19, Path: 200, Depth: 8}
	parent := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		around, err := os.MkdirTemp(parent, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(around)
		dir := filepath.Join(around, "in", "job")
		if err := os.Mkdir(filepath.Dir(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		b, err := workdir.Extract(t.Context(), bytes.NewReader(raw), int64(len(raw)), small, dir)
		if got := names(t, around); len(got) != 1 || got[0] != "in" {
			t.Fatalf("written outside: %q", got)
		}
		got := names(t, filepath.Dir(dir))
		if err != nil {
			if len(got) != 0 {
				t.Fatalf("after %v: %q", err, got)
			}
			return
		}
		if len(got) != 1 || got[0] != "job" {
			t.Fatalf("unpacked: %q", got)
		}
		for _, e := range b.Files() {
			info, err := os.Lstat(filepath.Join(dir, e.Path))
			if err != nil || !info.Mode().IsRegular() || info.Size() != e.Size || info.Mode().Perm() != e.Mode {
				t.Fatalf("%q: %v, %v", e.Path, info, err)
			}
		}
	})
}
