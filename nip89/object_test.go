package nip89

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzObject checks that valid JSON is split as by the standard library.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{`{}`, ` { "a" : 1 , "b":[1,{"c":"}\""}] ,"a":-1e5} `, `{"":null,"\u00e9":"é","x":[],"y":{}}`, `[1, "a,]\\" ,[],{} ]`,
		`"s"`, `7`, `null`, `{"a":{"a":[[[{"b":true}]]]}}`, "{\"a\\\"b\":\t1\r\n}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		var object map[string]json.RawMessage
		json.Unmarshal(raw, &object)
		got := members(raw)
		if (got == nil) != (object == nil) || len(got) != len(object) {
			t.Fatalf("%q: %d fields, want %d", raw, len(got), len(object))
		}
		for name, want := range object {
			if !bytes.Equal(got[name], want) {
				t.Fatalf("%q: %q is %q, want %q", raw, name, got[name], want)
			}
		}
		var list []json.RawMessage
		json.Unmarshal(raw, &list)
		items := elements(raw)
		if (items == nil) != (list == nil) || len(items) != len(list) {
			t.Fatalf("%q: %d items, want %d", raw, len(items), len(list))
		}
		for i, want := range list {
			if !bytes.Equal(items[i], want) {
				t.Fatalf("%q: item %d is %q, want %q", raw, i, items[i], want)
			}
			var text string
			isText := want[0] == '"' && json.Unmarshal(want, &text) == nil
			if got, ok := stringOf(items[i]); ok != isText || got != text {
				t.Fatalf("%q: read as %q, want %q", want, got, text)
			}
		}
	})
}
