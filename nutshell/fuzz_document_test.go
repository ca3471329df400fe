package nutshell_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"guild/nutshell"
)

func FuzzParseEndpoints(f *testing.F) {
	addFiles(f, "reference/src/*/apis/endpoints.json")
	f.Add([]byte(ofTheSpecification))
	f.Add([]byte(`{"endpoints":[null,{"params":{"a":null},"body_schema":"../../x","response_schema":"#/x"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := nutshell.ParseEndpoints(b)
		if err != nil {
			return
		}
		if !bytes.Equal(e.Raw, b) {
			t.Fatalf("changed by reading: %q", e.Raw)
		}
		refs, err := e.References("a/b.json")
		for _, ref := range refs {
			if err != nil || ref.Path == "" || ref.Path[0] == '/' || bytes.Contains([]byte("/"+ref.Path+"/"), []byte("/../")) {
				t.Fatalf("%+v, %v", ref, err)
			}
		}
	})
}

// FuzzSet sets and removes random values at random paths of random documents.
func FuzzSet(f *testing.F) {
	f.Add([]byte(someManifest), "task.title", []byte(`"t"`))
	f.Add([]byte("{\n\t\"tags\": {}\n}\n"), `tags."custom".x.-`, []byte(`[1.0, {"a" : "\u2028"}]`))
	f.Add([]byte(`{"files":{"tree":[{"path":"a","size":1e3},null]},"x":[[],{}]}`), "files.tree.1.path", []byte("\n\"b\"\r\n"))
	f.Add([]byte(` {"x" : [ 1 , 2 ] } `), "x.-", []byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte, path string, value []byte) {
		m, err := nutshell.ParseManifest(b)
		if err != nil {
			return
		}
		if err := m.Set(path, json.RawMessage(value)); err != nil {
			if !bytes.Equal(m.Bytes(), b) {
				t.Fatalf("%v, but %q became %q", err, b, m.Bytes())
			}
			return
		}
		again, err := nutshell.ParseManifest(m.Bytes())
		if err != nil {
			t.Fatalf("set %q in %q: %q: %v", path, b, m.Bytes(), err)
		}
		names, err := nutshell.SplitPath(path)
		if err != nil {
			t.Fatalf("set at %q, which is no path: %v", path, err)
		}
		if got, there := again.Member(path); !slices.Contains(names, "-") && (!there || !sameJSON(t, got, value)) {
			t.Fatalf("set %q to %q in %q: %q", path, value, b, got)
		}
		if err := again.Remove(path); err != nil {
			t.Fatalf("remove %q from %q: %v", path, m.Bytes(), err)
		}
	})
}

// sameJSON compares two texts but for the white space between tokens.
func sameJSON(t *testing.T, a, b []byte) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		t.Fatalf("%q or %q is not JSON", a, b)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}
