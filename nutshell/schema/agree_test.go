package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"guild/nutshell"
	"guild/nutshell/schema"
	"guild/nutshell/vault"
)

// readers are the parsers with which each schema must agree.
var readers = map[string]func([]byte) error{
	schema.Manifest: func(b []byte) error {
		m, err := nutshell.ParseManifest(b)
		if err == nil {
			_, err = m.Validate()
		}
		return err
	},
	schema.Result:    func(b []byte) error { _, err := nutshell.ParseResult(b); return err },
	schema.Endpoints: func(b []byte) error { _, err := nutshell.ParseEndpoints(b); return err },
	schema.Criteria:  func(b []byte) error { _, err := nutshell.ParseCriteria(b); return err },
	schema.Vault:     func(b []byte) error { _, err := vault.Parse(vault.NewSecret(b)); return err },
}

// sample makes a document that has every member of a schema.
func sample(name string, s map[string]any) any {
	if some, ok := s["anyOf"].([]any); ok {
		s = some[0].(map[string]any)
	}
	if enum, ok := s["enum"].([]any); ok {
		return enum[0]
	}
	kind := s["type"]
	if several, ok := kind.([]any); ok {
		kind = several[0]
	}
	switch kind {
	case "object":
		o := map[string]any{}
		if properties, ok := s["properties"].(map[string]any); ok {
			for name, inner := range properties {
				o[name] = sample(name, inner.(map[string]any))
			}
		} else if inner, ok := s["additionalProperties"].(map[string]any); ok {
			o["some"] = sample("some", inner)
		}
		return o
	case "array":
		return []any{sample(name, s["items"].(map[string]any))}
	case "boolean":
		return true
	case "integer", "number":
		return json.Number("1")
	case nil:
		return nil
	}
	special := map[string]string{
		"nutshell_version": "0.2.0", "vault_version": "0.2.0", "id": "nut-1", "created_at": "2026-03-14T10:00:00Z",
		"expires_at": "2026-03-14T10:00:00Z", "hash": "sha256:" + strings.Repeat("0", 64),
	}
	if text, ok := special[name]; ok {
		return text
	}
	return "x"
}

// replacements are values of every kind, near the limits. The first removes the member.
var replacements = []string{
	"", "null", "true", "false", `""`, `"a"`, `"0.3.1"`, `"nut-2"`, `"completed"`, `"delivery"`, `"` + strings.Repeat("ab", 32) + `"`,
	"0", "-1", "1.0", "1.5", "1e3", "15e-1", "0.0e0", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e308", "1e400",
	"[]", "[null]", `["a"]`, "[1]", "[{}]", "{}", `{"a":null}`, `{"a":"b"}`, `{"a":1}`, `{"a":{}}`,
}

// removed marks a value to take out.
type removed struct{}

func decode(t *rapid.T, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// change replaces a random value in a document.
func change(t *rapid.T, v any) any {
	stop := rapid.IntRange(0, 5).Draw(t, "stop") == 0
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || stop {
			break
		}
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "name")
		if v[name] = change(t, v[name]); v[name] == (removed{}) {
			delete(v, name)
		}
		return v
	case []any:
		if len(v) == 0 || stop {
			break
		}
		if v[0] = change(t, v[0]); v[0] == (removed{}) {
			return v[1:]
		}
		return v
	}
	by := rapid.SampledFrom(replacements).Draw(t, "by")
	if by == "" {
		return removed{}
	}
	return decode(t, []byte(by))
}

func TestSchemaAgreesWithReader(t *testing.T) {
	for name, read := range readers {
		s := compiled(t, name)
		text, err := schema.Of(name)
		if err != nil {
			t.Fatal(err)
		}
		var root map[string]any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		if name == schema.Vault {
			delete(root["properties"].(map[string]any), "created_at") // which the reader does not look at
		}
		whole, err := json.Marshal(sample("", root))
		if err != nil {
			t.Fatal(err)
		}
		if err := read(whole); err != nil {
			t.Fatalf("%s: %s: %v", name, whole, err)
		}
		if err := validate(t, s, whole); err != nil {
			t.Fatalf("%s: %s: %v", name, whole, err)
		}
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			v := decode(t, whole)
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				v = change(t, v)
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			byReader, bySchema := read(text), validate(t, s, text)
			if (byReader == nil) != (bySchema == nil) && !beyond(byReader) {
				t.Fatalf("%s\nreader: %v\nschema: %v", text, byReader, bySchema)
			}
		}))
	}
}

// beyond reports whether a reader complains about an invalid time, which the schemas do not check.
func beyond(err error) bool {
	return err != nil && strings.Contains(fmt.Sprint(err), "not a time in RFC 3339")
}
