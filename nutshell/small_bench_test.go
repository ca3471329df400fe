package nutshell_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/fstest"
	"time"

	"guild/nutshell"
)

// twoFiles is a bundle as most of them are: a manifest and a file.
func twoFiles() fstest.MapFS {
	return fstest.MapFS{"nutshell.json": {Data: []byte(someManifest)}, "files/in.txt": {Data: []byte("hello")}}
}

func BenchmarkSmallBundle(b *testing.B) {
	file, _ := pack(b, twoFiles(), nutshell.Options{})
	request, err := open(file)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := nutshell.Pack(context.Background(), twoFiles(), io.Discard, nutshell.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := open(file); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("walk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := request.Walk(func(nutshell.Entry, io.Reader) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("deliver", func(b *testing.B) {
		b.ReportAllocs()
		left := fstest.MapFS{"out.txt": {Data: []byte("done")}}
		var out bytes.Buffer
		for b.Loop() {
			out.Reset()
			tree, err := nutshell.Delivery(request.Manifest(), nil, left, nutshell.DeliveryInfo{ID: "nut-1", Deliverer: "bob", CompletedAt: time.Unix(1, 0)})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := nutshell.Pack(context.Background(), tree, &out, nutshell.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
