package nutshell_test

import (
	"bytes"
	"context"
	"fmt"
	"go/build"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"guild/nutshell"
)

// sources is a tree of real source files: the net package of the Go that runs the benchmark.
func sources(b *testing.B) (tree fstest.MapFS, size int64) {
	tree = fstest.MapFS{"nutshell.json": {Data: []byte(someManifest)}}
	from := os.DirFS(filepath.Join(build.Default.GOROOT, "src", "net"))
	err := fs.WalkDir(from, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".go" {
			return err
		}
		content, err := fs.ReadFile(from, p)
		tree["files/"+p] = &fstest.MapFile{Data: content}
		size += int64(len(content))
		return err
	})
	if err != nil {
		b.Skip("no sources of Go here: ", err)
	}
	return tree, size
}

func BenchmarkPack(b *testing.B) {
	tree, size := sources(b)
	for _, form := range []string{nutshell.Gzip, nutshell.Zstd, nutshell.None} {
		b.Run(form, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if _, err := nutshell.Pack(context.Background(), tree, io.Discard, nutshell.Options{Compression: form}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	tree, size := sources(b)
	for _, form := range []string{nutshell.Gzip, nutshell.Zstd, nutshell.None} {
		file, _ := pack(b, tree, nutshell.Options{Compression: form})
		b.Run(form, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if _, err := open(file); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The cost of a bundle with the most files allowed is that of its manifest.
func BenchmarkPackManyFiles(b *testing.B) {
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(someManifest)}}
	for i := range 9_000 {
		tree[fmt.Sprintf("files/%02d/%d.txt", i%100, i)] = &fstest.MapFile{Data: fmt.Append(nil, i)}
	}
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		if _, err := nutshell.Pack(context.Background(), tree, &out, nutshell.Options{}); err != nil {
			b.Fatal(err)
		}
		if _, err := open(out.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
