package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"guild/nutshell"
	"guild/nutshell/schema"
)

// Any validator of JSON Schema can check a manifest.
func ExampleOf() {
	text, err := schema.Of(schema.Manifest)
	if err != nil {
		log.Fatal(err)
	}
	var s struct {
		Draft    string `json:"$schema"`
		ID       string `json:"$id"`
		Required []string
	}
	if err := json.Unmarshal(text, &s); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Draft)
	fmt.Println(s.ID, s.Required)
	// Output:
	// https://json-schema.org/draft/2020-12/schema
	// urn:nutshell:0.2.0:manifest [nutshell_version bundle_type id]
}

// compiled compiles a schema with an independent validator, which checks it against the draft's own schema.
func compiled(t testing.TB, name string) *jsonschema.Schema {
	t.Helper()
	return compiledBy(t, schema.Of, name)
}

func compiledBy(t testing.TB, of func(string) ([]byte, error), name string) *jsonschema.Schema {
	t.Helper()
	text, err := of(name)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t interface{ Fatal(...any) }, s *jsonschema.Schema, text []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestSchemasAreValidAndStable(t *testing.T) {
	for _, name := range schema.Names() {
		compiled(t, name)
		first, _ := schema.Of(name)
		for range 5 {
			if again, err := schema.Of(name); err != nil || !bytes.Equal(first, again) || !bytes.HasSuffix(first, []byte("}\n")) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if bytes.Contains(first, []byte(`"additionalProperties": false`)) {
			t.Errorf("%s forbids members that it does not know", name)
		}
	}
	if _, err := schema.Of("poem"); !errors.Is(err, schema.ErrUnknown) {
		t.Error(err)
	}
}

func TestStrictSchema(t *testing.T) {
	for _, name := range schema.Names() {
		if compiledBy(t, schema.Strict, name) == nil {
			t.Error(name)
		}
	}
	const start = `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"t"`
	tolerant, strict := compiled(t, schema.Manifest), compiledBy(t, schema.Strict, schema.Manifest)
	for text, valid := range map[string]bool{
		start + `,"priority":"high"},"harness":{"context_budget_hint":0.5},"x_own":1}`: true,
		start + `,"priority":null},"files":{"tree":[{"path":"a","role":"anything"}]}}`: true,
		start + `,"priority":"urgent"}}`:                                               false,
		start + `},"harness":{"context_budget_hint":35}}`:                              false,
		start + `},"files":{"total_count":-1}}`:                                        false,
		strings.Replace(start, `"request"`, `"poem"`, 1) + `}}`:                        false,
	} {
		if err := validate(t, tolerant, []byte(text)); err != nil {
			t.Errorf("the reader takes %s: %v", text, err)
		}
		if err := validate(t, strict, []byte(text)); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := validate(t, compiledBy(t, schema.Strict, schema.Result), []byte(`{"status":"completed","completion_percentage":101}`)); err == nil {
		t.Error("101 % is completed")
	}
}

func TestEveryMemberIsDescribed(t *testing.T) {
	for _, name := range schema.Names() {
		text, err := schema.Of(name)
		if err != nil {
			t.Fatal(err)
		}
		var root map[string]any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		for _, path := range undescribed("", root["properties"].(map[string]any)) {
			t.Errorf("%s: %s has no description", name, path)
		}
	}
}

// undescribed lists the members without a description.
func undescribed(prefix string, properties map[string]any) (paths []string) {
	for name, s := range properties {
		s := s.(map[string]any)
		if s["description"] == nil {
			paths = append(paths, prefix+name)
		}
		for _, inner := range []any{s, s["items"], s["additionalProperties"]} {
			if inner, ok := inner.(map[string]any); ok && inner["properties"] != nil {
				paths = append(paths, undescribed(prefix+name+".", inner["properties"].(map[string]any))...)
			}
		}
	}
	return paths
}

func TestReferenceDocuments(t *testing.T) {
	for pattern, name := range map[string]string{
		"nutshell.json":        schema.Manifest,
		"delivery/result.json": schema.Result,
		"apis/endpoints.json":  schema.Endpoints,
		"tests/criteria.json":  schema.Criteria,
	} {
		files, err := filepath.Glob("../testdata/reference/src/*/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		s := compiled(t, name)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, s, text); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func TestManifestsOfBundles(t *testing.T) {
	files, err := filepath.Glob("../testdata/*/*.nut")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	s := compiled(t, schema.Manifest)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.Limits{})
		if err != nil {
			continue
		}
		if err := validate(t, s, b.Manifest().Bytes()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestVaultOfSpecification(t *testing.T) {
	s := compiled(t, schema.Vault)
	good := `{"vault_version":"0.2.0","created_at":"2026-03-14T10:00:00Z","expires_at":"2026-03-21T10:00:00Z","credentials":[
		{"name":"staging-db","type":"postgresql","value":{"host":"staging-db.internal","port":5432,"password":"x"},
		 "scopes":["read","write"],"restrictions":{"tables":["users"],"max_rows_per_query":1000}},
		{"name":"token","value":"x"}]}`
	if err := validate(t, s, []byte(good)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		`{}`, `{"vault_version":"1.0"}`, `{"vault_version":"0.2.0","credentials":[{"name":"a"}]}`, `{"vault_version":"0.2.0","credentials":[null]}`,
		`{"vault_version":"0.2.0","credentials":[{"value":"x"}]}`, `{"vault_version":"0.2.0","credentials":[{"name":"a","value":5}]}`,
	} {
		if validate(t, s, []byte(bad)) == nil {
			t.Errorf("%s is valid", bad)
		}
	}
}

func TestHostileManifests(t *testing.T) {
	s := compiled(t, schema.Manifest)
	good := `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"t"}%s}`
	for _, more := range []string{
		`,"created_at":5`, `,"expires_at":{}`, `,"tags":[]`, `,"tags":{"skills_required":"go"}`, `,"tags":{"domains":[1]}`, `,"tags":{"custom":[]}`,
		`,"publisher":"ann"`, `,"context":{"additional":"a.md"}`, `,"context":{"requirements":["a.md"]}`, `,"files":{"tree":{}}`,
		`,"files":{"tree":["a"]}`, `,"files":{"tree":[{"size":"1"}]}`, `,"files":{"total_count":1.5}`, `,"files":{"total_count":1e19}`,
		`,"apis":{"base_urls":["x"]}`, `,"apis":{"base_urls":{"a":1}}`, `,"credentials":{"scopes":{}}`, `,"credentials":{"beside":"yes"}`,
		`,"credentials":{"rotation":"x"}`, `,"acceptance":{"auto_verifiable":"true"}`, `,"acceptance":{"hidden_tests":[{"hash":"abc"}]}`,
		`,"acceptance":{"checklist":{}}`, `,"harness":{"context_budget_hint":"0.35"}`, `,"harness":{"checkpoints":1}`, `,"resources":{"repos":["x"]}`,
		`,"resources":{"links":[{"url":1}]}`, `,"completeness":"ready"`, `,"compression":{"algorithm":1}`, `,"extensions":[]`, `,"parent_id":1`,
	} {
		text := fmt.Appendf(nil, good, more)
		if _, err := nutshell.ParseManifest(text); err == nil {
			t.Errorf("%s was read", more)
		}
		if validate(t, s, text) == nil {
			t.Errorf("%s is valid", more)
		}
	}
	for _, text := range []string{
		`[]`, `null`, `5`, `{}`, strings.Replace(good, "0.2.0", "1.0.0", 1), strings.Replace(good, `"0.2.0"`, "0.2", 1),
		strings.Replace(good, "nut-1", "nut-../x", 1), strings.Replace(good, "request", "", 1), strings.Replace(good, `"title":"t"`, "", 1),
	} {
		if validate(t, s, []byte(strings.Replace(text, "%s", "", 1))) == nil {
			t.Errorf("%s is valid", text)
		}
	}
}

func TestValidateWarnings(t *testing.T) {
	s := compiled(t, schema.Manifest)
	for _, text := range []string{
		`{"nutshell_version":"0.3.0","bundle_type":"poem","id":"nut-1","task":{"title":"","priority":"urgent"},"x_future":{"a":[1]}}`,
		`{"nutshell_version":"0.1.0","bundle_type":"delivery","id":"nut-1","status":"completed","files":{"total_count":1e2}}`,
		`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":null,"x":1},"tags":null,"apis":{"base_urls":null},
		  "extensions":{"task":{"title":5},"zzz":7},"tags":{"custom":{"n":[1.0]}},"harness":{"context_budget_hint":35}}`,
	} {
		text = strings.Replace(text, `"tags":null,`, "", 1)
		m, err := nutshell.ParseManifest([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if warnings, err := m.Validate(); err != nil || len(warnings) == 0 {
			t.Errorf("%s: %q, %v", text, warnings, err)
		}
		if err := validate(t, s, []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
