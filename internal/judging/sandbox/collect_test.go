package sandbox_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"guild/internal/judging/sandbox"
)

// names lists the names in a tar stream, which must be valid and have only files and directories.
func names(t *testing.T, stream io.Reader) []string {
	t.Helper()
	var all []string
	for tr := tar.NewReader(stream); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("what was collected is no tar: %v", err)
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir || !filepath.IsLocal(h.Name) {
			t.Errorf("%q of type %c was let through", h.Name, h.Typeflag)
		}
		all = append(all, h.Name)
	}
}

func TestCollectPlainFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"report.txt", "out/a", "out/big", "other"} {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		os.WriteFile(filepath.Join(dir, name), []byte("hello"), 0o644)
	}
	os.Truncate(filepath.Join(dir, "out/big"), 5000)
	os.Symlink("/etc", filepath.Join(dir, "etc"))
	os.Symlink("/etc/passwd", filepath.Join(dir, "out/passwd"))
	os.MkdirAll(filepath.Join(dir, "out"+strings.Repeat("/d", 200)), 0o755)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var b bytes.Buffer
	asked := []string{"report.txt", "out", "etc/passwd", "etc", "missing"}
	left, err := sandbox.WriteFiles(&b, root, asked, sandbox.Limits{Disk: 1000})
	if err != nil || left != 5 { // big, passwd, etc/passwd, etc, and the directory that is too deep
		t.Errorf("%d left out, %v", left, err)
	}
	got := slices.DeleteFunc(names(t, &b), func(name string) bool { return strings.HasSuffix(name, "d/") })
	if want := []string{"report.txt", "out/", "out/a"}; !slices.Equal(got, want) {
		t.Errorf("collected %q, want %q", got, want)
	}
}

func TestSiftHostileStream(t *testing.T) {
	var hostile, sifted bytes.Buffer
	tw := tar.NewWriter(&hostile)
	for _, h := range []tar.Header{
		{Name: "./out/", Typeflag: tar.TypeDir},
		{Name: "./out/fine", Typeflag: tar.TypeReg, Size: 2},
		{Name: "../../etc/cron.d/x", Typeflag: tar.TypeReg, Size: 2},
		{Name: "/etc/passwd", Typeflag: tar.TypeReg, Size: 2},
		{Name: "out/../secret", Typeflag: tar.TypeReg, Size: 2},
		{Name: "outside", Typeflag: tar.TypeReg, Size: 2},
		{Name: "out/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "out/hard", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		{Name: "out/device", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		{Name: "out/pipe", Typeflag: tar.TypeFifo},
		{Name: "out/set", Typeflag: tar.TypeReg, Size: 2, Mode: 0o6777},
	} {
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			tw.Write([]byte("hi"))
		}
	}
	tw.Close()
	left, err := sandbox.SiftFiles(&sifted, &hostile, []string{"out"}, sandbox.Limits{})
	if err != nil || left != 8 {
		t.Errorf("%d left out, %v", left, err)
	}
	if got, want := names(t, &sifted), []string{"out/", "out/fine", "out/set"}; !slices.Equal(got, want) {
		t.Errorf("let through %q, want %q", got, want)
	}
}

func FuzzSiftFiles(f *testing.F) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	tw.WriteHeader(&tar.Header{Name: "out/a", Size: 3})
	tw.Write([]byte("abc"))
	tw.WriteHeader(&tar.Header{Name: "out/b", Typeflag: tar.TypeSymlink, Linkname: "/etc"})
	tw.Close()
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, stream []byte) {
		var sifted bytes.Buffer
		limits := sandbox.Limits{Disk: 10_000, Inodes: 10}
		_, err := sandbox.SiftFiles(&sifted, bytes.NewReader(stream), []string{"out"}, limits)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := names(t, &sifted); len(got) > 10 {
			t.Errorf("%d files are more than may be", len(got))
		}
	})
}
