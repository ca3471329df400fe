package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// fromBytes returns a reader of a stream in memory that reads a few bytes at a time.
func fromBytes(b []byte) *tarReader {
	r := bytes.NewReader(b)
	return &tarReader{buffer: make([]byte, 700), read: func(p []byte) (int, error) {
		n, err := r.Read(p)
		if err == io.EOF {
			return 0, nil
		}
		return n, err
	}}
}

// unpackBytes unpacks a stream into a new directory and returns that directory.
func unpackBytes(t *testing.T, b []byte) (string, error) {
	dir := t.TempDir()
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	u := unpacker{root: root, places: []string{"/box/work", "/judge"}, from: fromBytes(b), parent: -1}
	defer u.close()
	return dir, u.run()
}

func TestUnpackCopies(t *testing.T) {
	from := t.TempDir()
	long := strings.Repeat("d", 90) + "/" + strings.Repeat("e", 90) + "/" + strings.Repeat("f", 200)
	files := map[string]string{
		"a": "first", "empty": "", "sub/größe.txt": "big", long: "long", "block": strings.Repeat("x", 512),
		"large": strings.Repeat("0123456789", 100_000),
	}
	for name, content := range files {
		name = filepath.Join(from, name)
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(filepath.Join(from, "a"), 0o700)
	over := t.TempDir()
	os.WriteFile(filepath.Join(over, "empty"), []byte("later"), 0o600)
	files["empty"] = "later"
	var b bytes.Buffer
	if err := sandbox.WriteCopies(&b, []sandbox.Copy{{Host: from, Inside: "/box/work/x"}, {Host: over, Inside: "/box/work/x"}}); err != nil {
		t.Fatal(err)
	}
	dir, err := unpackBytes(t, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, "box/work/x", name))
		if err != nil || string(got) != want {
			t.Errorf("%.20s: %.20q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "box/work/x/a")); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("a cannot be executed: %v %v", info, err)
	}
}

func TestUnpackRejectsEscapes(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"another place":         {{Name: "etc/passwd"}},
		"upwards":               {{Name: "box/work/../../etc/passwd"}},
		"absolute":              {{Name: "/box/work/a"}},
		"a symbolic link":       {{Name: "box/work/a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}},
		"a hard link":           {{Name: "box/work/a", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"a device":              {{Name: "box/work/a", Typeflag: tar.TypeChar}},
		"a pipe":                {{Name: "box/work/a", Typeflag: tar.TypeFifo}},
		"a file as a directory": {{Name: "box/work/a"}, {Name: "box/work/a/b"}},
		"a directory as a file": {{Name: "box/work/a/", Typeflag: tar.TypeDir}, {Name: "box/work/a"}},
		"an empty part":         {{Name: "box/work//a"}},
		"a place as a file":     {{Name: "judge"}},
		"a part that is long":   {{Name: "box/work/" + strings.Repeat("a", 300)}},
	} {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		for _, h := range entries {
			h.Mode = 0o644
			if err := tw.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		tw.Close()
		dir, err := unpackBytes(t, b.Bytes())
		if _, statErr := os.Stat(filepath.Join(dir, "etc")); statErr == nil {
			t.Errorf("%s: it was made", name)
		}
		if err == nil && name != "a place as a file" {
			t.Errorf("%s passes", name)
		}
	}
}

func TestUnpackRejectsTruncated(t *testing.T) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	tw.WriteHeader(&tar.Header{Name: "box/work/" + strings.Repeat("ü", 80), Size: 600, Mode: 0o644})
	tw.Write(make([]byte, 600))
	tw.Close()
	whole := b.Bytes()
	for n := 0; n < len(whole)-1024; n += 100 {
		if _, err := unpackBytes(t, whole[:n]); err == nil {
			t.Errorf("the first %d bytes of %d pass", n, len(whole))
		}
	}
}

func TestCollectStream(t *testing.T) {
	for _, e := range []entry{
		{name: "a", mode: 0o644, size: 3}, {name: "dir/", mode: 0o755, dir: true},
		{name: strings.Repeat("long/", 60) + "größe", mode: 0o755, size: 5}, {name: "huge", mode: 0o644, size: 1 << 34},
		{name: strings.Repeat("n", 101), mode: 0o644, size: 0},
	} {
		h, err := tar.NewReader(bytes.NewReader(header(e))).Next()
		if err != nil || h.Name != e.name || h.Size != e.size || h.Mode != int64(e.mode) || (h.Typeflag == tar.TypeDir) != e.dir {
			t.Errorf("%.20s: %+v, %v", e.name, h, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	for _, name := range []string{"box/work/a", "box/work/" + strings.Repeat("ü", 80)} {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		tw.WriteHeader(&tar.Header{Name: "box/work/", Typeflag: tar.TypeDir, Mode: 0o755})
		tw.WriteHeader(&tar.Header{Name: name, Size: 3, Mode: 0o755})
		tw.Write([]byte("abc"))
		tw.Close()
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		dir, err := unpackBytes(t, b)
		if err != nil && err != errTar && err != errPlace {
			if _, isErrno := err.(unix.Errno); !isErrno {
				t.Errorf("%v", err)
			}
		}
		filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !d.Type().IsRegular() {
				t.Errorf("%s is a %v", path, d.Type())
			}
			if name, _ := filepath.Rel(dir, path); err == nil && d.Type().IsRegular() && !strings.HasPrefix(name, "box/work/") && !strings.HasPrefix(name, "judge/") {
				t.Errorf("%s is elsewhere", name)
			}
			return nil
		})
	})
}

func FuzzParseRecords(f *testing.F) {
	f.Add("13 path=größe\n")
	f.Add(record("size", "17"))
	f.Fuzz(func(t *testing.T, s string) { parseRecords(s) })
}
