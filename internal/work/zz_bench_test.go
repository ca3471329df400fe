package work

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"
	"fmt"

	"guild/internal/blob"
	"guild/internal/workdir"
	"guild/nutshell"
)

func TestZZ(t *testing.T) {
	dir := t.TempDir()
	s, _ := blob.Open(filepath.Join(dir, "b"))
	tree := fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-test","task":{"title":"Echo"}}`)},
		"files/in.txt": {Data: []byte("hello")},
	}
	var bb bytes.Buffer
	nutshell.Pack(t.Context(), tree, &bb, nutshell.Options{})
	raw := bb.Bytes()
	const n = 300
	m := map[string]time.Duration{}
	var order []string
	lap := func(name string, f func()) {
		st := time.Now(); f()
		if _, ok := m[name]; !ok { order = append(order, name) }
		m[name] += time.Since(st)
	}
	for i := range n {
		lap("blob", func() { s.PutBytes(t.Context(), append(raw[:len(raw):len(raw)], fmt.Sprint(i)...)) })
		var b *nutshell.Bundle
		lap("open", func() { b, _ = nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits()) })
		var d string
		lap("mkdirtemp", func() { d, _ = os.MkdirTemp(dir, "request-") })
		lap("unpack", func() { if err := workdir.Unpack(t.Context(), b, d+"/bundle"); err != nil { t.Fatal(err) } })
		lap("quarantine", func() { workdir.Quarantine(d + "/bundle") })
		lap("mkdir", func() { os.Mkdir(d+"/delivery", 0o755) })
		lap("write", func() { os.WriteFile(d+"/delivery/out.txt", []byte("x"), 0o644) })
		lap("fs+pack", func() {
			left, _ := workdir.FS(d+"/delivery", nutshell.DefaultLimits())
			own, _ := nutshell.WorkerResult(left)
			tree, err := nutshell.Delivery(b.Manifest(), own, left, nutshell.DeliveryInfo{ID: "nut-" + newUUID(), Deliverer: "n", CompletedAt: time.Now()})
			if err != nil { t.Fatal(err) }
			var p bytes.Buffer
			nutshell.Pack(t.Context(), tree, &p, nutshell.Options{})
			left.Close()
		})
		lap("removeall", func() { os.RemoveAll(d) })
		f, _ := os.CreateTemp(dir, "")
		f.Write(raw)
		lap("fsync", func() { f.Sync() })
		f.Close()
		lap("rename", func() { os.Rename(f.Name(), filepath.Join(dir, fmt.Sprint(i))) })
		dd, _ := os.Open(dir)
		lap("fsyncdir", func() { dd.Sync() })
		dd.Close()
	}
	for _, o := range order { t.Logf("%-12s %v", o, m[o]/n) }
}
