package nutshell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"testing/fstest"
	"time"

	"guild/nutshell"
)

// A tree of files becomes one file, and that one is read without unpacking it.
func Example() {
	tree := fstest.MapFS{
		"nutshell.json": {Data: []byte(`{
  "nutshell_version": "0.2.0",
  "bundle_type": "request",
  "id": "nut-7f3a",
  "task": {"title": "Sort a list"}
}`)},
		"context/requirements.md": {Data: []byte("Stable, please.\n")},
		".env":                    {Data: []byte("TOKEN=secret\n")},
	}
	var file bytes.Buffer
	info, err := nutshell.Pack(context.Background(), tree, &file, nutshell.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range info.Skipped {
		fmt.Printf("left out %s: %s\n", s.Path, s.Reason)
	}

	b, err := nutshell.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), nutshell.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Manifest().Task().Title)
	for _, e := range b.Files()[1:] {
		fmt.Println(e.Path, e.Size)
	}
	// Output:
	// left out .env: environment files may hold secrets
	// Sort a list
	// context/requirements.md 16
}

func ExampleBundle_Walk() {
	file := packed()
	b, err := nutshell.Open(bytes.NewReader(file), int64(len(file)), nutshell.DefaultLimits())
	if err != nil {
		log.Fatal(err)
	}
	err = b.Walk(func(e nutshell.Entry, r io.Reader) error {
		if e.Path == nutshell.ManifestFile {
			return nil
		}
		content, err := io.ReadAll(r)
		fmt.Printf("%s %v %q\n", e.Path, e.Mode, content)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// tests/run.sh -rwxr-xr-x "#!/bin/sh\n"
}

func ExampleManifest_Set() {
	m, err := nutshell.ParseManifest([]byte(`{"id": "nut-1", "task": {"title": "t", "mine": 1.0}, "tags": {}}`))
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Set("task.title", "Sort a list"); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Bytes())
	// Output:
	// {"id": "nut-1", "task": {"title": "Sort a list", "mine": 1.0}, "tags": {}}
}

// A worker has left files and a result. They become the bundle that answers the request.
func ExampleDelivery() {
	request, err := nutshell.ParseManifest([]byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Sort a list"}}`))
	if err != nil {
		log.Fatal(err)
	}
	left := fstest.MapFS{"sort.py": {Data: []byte("sort = sorted\n")}}
	said := json.RawMessage(`{"status":"completed","summary":"One line was enough."}`)
	tree, err := nutshell.Delivery(request, said, left, nutshell.DeliveryInfo{
		ID: "nut-2", Deliverer: "bob", CompletedAt: time.Date(2026, 3, 15, 18, 30, 0, 0, time.UTC),
	})
	if err != nil {
		log.Fatal(err)
	}
	info, err := nutshell.Pack(context.Background(), tree, io.Discard, nutshell.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range info.Files {
		fmt.Println(e.Path)
	}
	// Output:
	// delivery/artifacts/sort.py
	// delivery/result.json
}

// packed is a bundle with one script.
func packed() []byte {
	tree := fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"t"}}`)},
		"tests/run.sh":  {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
	}
	var file bytes.Buffer
	if _, err := nutshell.Pack(context.Background(), tree, &file, nutshell.Options{}); err != nil {
		log.Fatal(err)
	}
	return file.Bytes()
}
