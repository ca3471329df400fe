package nutshell_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"guild/nutshell"
)

// small limits keep the fuzzer fast; they are checked by the same code as large ones.
var small = nutshell.Limits{Entries: 100, Total: 1 << 20, File: 1 << 19, Path: 200, Depth: 8}

func addFiles(f *testing.F, pattern string) {
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		f.Fatal(pattern, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

func FuzzParseManifest(f *testing.F) {
	addFiles(f, "reference/src/*/nutshell.json")
	f.Add([]byte(someManifest))
	f.Add([]byte("\ufeff{}"))
	f.Add([]byte("\n {} \n"))
	f.Add([]byte(`{"task":{"title":"t"},"files":{"tree":[{"path":"a","role":"b"},null]},"x":1e400}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := nutshell.ParseManifest(b)
		if err != nil {
			return
		}
		if !bytes.Equal(m.Bytes(), b) {
			t.Fatalf("changed by reading: %q", m.Bytes())
		}
		m.Validate()
		if err := m.Set("task.title", "new"); err != nil {
			if _, tooLarge := errors.AsType[*nutshell.LimitError](err); !tooLarge {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		again, err := nutshell.ParseManifest(m.Bytes())
		if err != nil || again.Task().Title != "new" {
			t.Fatalf("%q became %q: %v", b, m.Bytes(), err)
		}
	})
}

func FuzzOpen(f *testing.F) {
	addFiles(f, "reference/*.nut")
	addFiles(f, "hostile/*.nut")
	f.Add(uncompressed(f, plain("nutshell.json", someManifest), plain("a/b", "x")))
	f.Add(append([]byte("NUT\x01"), compressed(f, nutshell.Zstd, tarOf(f, plain("nutshell.json", someManifest)))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		bundle, err := nutshell.Open(bytes.NewReader(b), int64(len(b)), small)
		if err != nil {
			return
		}
		tree := fstest.MapFS{}
		err = bundle.Walk(func(e nutshell.Entry, r io.Reader) error {
			content, err := io.ReadAll(r)
			tree[e.Path] = &fstest.MapFile{Data: content, Mode: e.Mode}
			return err
		})
		if err != nil || len(tree) != len(bundle.Files()) {
			t.Fatalf("opened, but cannot be walked: %v", err)
		}
		var packed bytes.Buffer
		if _, err := nutshell.Pack(context.Background(), tree, &packed, nutshell.Options{}); err != nil {
			t.Fatalf("opened, but cannot be packed: %v", err)
		}
	})
}

// FuzzArchive fuzzes the tar inside, past the checksums of the compression. In every form it is the same archive.
func FuzzArchive(f *testing.F) {
	f.Add(tarOf(f, plain("nutshell.json", someManifest), plain("a/b", "x")))
	f.Add(tarOf(f, plain("nutshell.json", someManifest), plain("ü", "x")))
	f.Fuzz(func(t *testing.T, archive []byte) {
		b := append([]byte("NUT\x01"), archive...)
		bundle, err := nutshell.Open(bytes.NewReader(b), int64(len(b)), small)
		for _, form := range []string{nutshell.Gzip, nutshell.Zstd} {
			packed := append([]byte("NUT\x01"), compressed(t, form, archive)...)
			other, failed := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), small)
			if err == nil && (failed != nil || !slices.Equal(other.Files(), bundle.Files())) {
				t.Fatalf("%s: %v", form, failed)
			}
		}
		if err != nil {
			return
		}
		for _, e := range bundle.Files() {
			if content, err := bundle.ReadFile(e.Path); err != nil || int64(len(content)) != e.Size {
				t.Fatalf("%q: %d bytes of %d, %v", e.Path, len(content), e.Size, err)
			}
		}
	})
}

func FuzzParseCriteria(f *testing.F) {
	addFiles(f, "reference/src/*/tests/criteria.json")
	f.Add([]byte(`{"criteria":[{"id":"a","script":"../x"},null]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := nutshell.ParseCriteria(b)
		if err != nil {
			return
		}
		for _, one := range c.Criteria {
			if one.ID == "" || len(one.Raw) == 0 {
				t.Fatalf("%+v", one)
			}
		}
	})
}

func FuzzParseResult(f *testing.F) {
	addFiles(f, "reference/src/*/delivery/result.json")
	f.Add([]byte(`{"status":"completed","deliverer":null,"x":{"y":1.0}}`))
	request, err := nutshell.ParseManifest([]byte(someManifest))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := nutshell.ParseResult(b); err != nil {
			return
		}
		tree, err := nutshell.Delivery(request, b, fstest.MapFS{}, info)
		if err != nil {
			return // larger or deeper than a result may be, once merged
		}
		var packed bytes.Buffer
		if _, err := nutshell.Pack(context.Background(), tree, &packed, nutshell.Options{}); err != nil {
			t.Fatal(err)
		}
	})
}
