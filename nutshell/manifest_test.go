package nutshell_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"guild/nutshell"
)

func parse(t testing.TB, text string) *nutshell.Manifest {
	t.Helper()
	m, err := nutshell.ParseManifest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAllSections(t *testing.T) {
	m := parse(t, string(readTestdata(t, "reference/src/full-request/nutshell.json")))
	got := fmt.Sprint(m.Version(), m.BundleType(), m.ID(), m.CreatedAt(), m.ExpiresAt(), m.Task().Priority, m.Tags().SkillsRequired,
		string(m.Tags().Custom["framework"]), m.Publisher().Tool, m.Context().Architecture, m.Files().TotalCount,
		m.Files().Tree[0].Role, *m.Files().Tree[0].Size, m.APIs().BaseURLs["staging"], m.Credentials().Scopes[1].RateLimit,
		m.Acceptance().TestScripts, len(m.Acceptance().Checklist), m.Harness().ContextBudgetHint, m.Resources().Images[0].Path,
		m.Resources().Repos[1].Branch, m.Completeness().Status, m.Compression().ContextTokensEstimate)
	want := fmt.Sprint("0.2.0", "request", "nut-7f3a1b2c-d4e5-6789-abcd-ef0123456789", "2026-03-14T10:00:00Z", "2026-03-21T10:00:00Z", "high",
		[]string{"golang", "postgresql", "jwt", "rest-api"}, `"gin"`, "claude-code", "context/architecture.md", 5, "scaffold", 1200,
		"https://api-staging.example.com", "100/min", []string{"tests/scripts/test_api.sh"}, 6, 0.35, "files/assets/api-design.png",
		"main", "ready", 3500)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var clawnet struct {
		Reward struct{ Amount int }
	}
	if ok, err := m.Extension("clawnet", &clawnet); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := m.Extension("none", &clawnet); ok || err != nil {
		t.Error(ok, err)
	}
	if deadline, err := m.ExpiresAt().Time(); err != nil || deadline.Day() != 21 {
		t.Error(deadline, err)
	}
}

func TestManifestErrors(t *testing.T) {
	table := []struct {
		text string
		want func(error) bool
	}{
		{"", manifestError("", "EOF")},
		{"[]", manifestError("", "not a JSON object")},
		{"null", manifestError("", "not a JSON object")},
		{"{", manifestError("", "EOF")},
		{"{} {}", manifestError("", "bytes after the end")},
		{"{}x", manifestError("", "bytes after the end")},
		{"\ufeff{}", manifestError("", "byte order mark")},
		{"// c\n{}", manifestError("", "comment")},
		{`{"a":1, /* c */ "b":2}`, manifestError("", "comment")},
		{`{"a":1,}`, manifestError("", "not JSON at byte")},
		{"{\"a\":\"\xff\"}", manifestError("", "UTF-8")},
		{`{"a":"\ud800"}`, manifestError("", "")},
		{`{"task":{"title":"a","title":"b"}}`, manifestError("task.title", "duplicate")},
		{`{"task":{"title":"a","\u0074itle":"b"}}`, manifestError("task.title", "duplicate")},
		{`{"task":{"title":5}}`, manifestError("task.title", "number")},
		{`{"tags":[]}`, manifestError("tags", "")},
		{`{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, limitError("nesting of a JSON document")},
		{`{"x":"` + strings.Repeat("x", 8<<20) + `"}`, limitError("bytes of a JSON document")},
		{`{"TASK":{"title":5}}`, opens},
		{`{"task":null,"files":{"tree":null}}`, opens},
	}
	for _, row := range table {
		if _, err := nutshell.ParseManifest([]byte(row.text)); !row.want(err) {
			t.Errorf("%.60s: %v", row.text, err)
		}
	}
}

func TestRequiredFields(t *testing.T) {
	with := func(path string, value any) string {
		m := parse(t, someManifest)
		if err := m.Set(path, value); err != nil {
			t.Fatal(err)
		}
		return string(m.Bytes())
	}
	table := []struct {
		name, text string
		want       func(error) bool
		warnings   int
	}{
		{"the least", someManifest, opens, 0},
		{"no version", with("nutshell_version", ""), manifestError("nutshell_version", "required"), 0},
		{"another major version", with("nutshell_version", "1.0.0"), manifestError("nutshell_version", "1.0.0"), 0},
		{"no type", with("bundle_type", ""), manifestError("bundle_type", "required"), 0},
		{"an unknown type", with("bundle_type", "poem"), opens, 1},
		{"a type of the older schema", with("bundle_type", "checkpoint"), opens, 0},
		{"no id", with("id", ""), manifestError("id", "required"), 0},
		{"an id of another kind", with("id", "x"), manifestError("id", "nut-"), 0},
		{"an id that is a path", with("id", "nut-../x"), manifestError("id", "nut-"), 0},
		{"no title", with("task", map[string]string{}), manifestError("task.title", "required"), 0},
		{"an empty title is a draft", with("task.title", ""), opens, 1},
		{"an unknown priority", with("task.priority", "urgent"), opens, 1},
		{"a misspelt section", with("acceptence", 1), opens, 1},
		{"a misspelt section of two letters too many", with("credentialsss", 1), opens, 1},
		{"a member of somebody's own", with("x_future", 1), opens, 0},
		{"a schema for editors", with(`"$schema"`, "x"), opens, 0},
		{"a delivery needs no title", `{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-1"}`, opens, 1},
	}
	for _, row := range table {
		if warnings, err := parse(t, row.text).Validate(); !row.want(err) || len(warnings) != row.warnings {
			t.Errorf("%s: %v, %v", row.name, warnings, err)
		}
	}
}

func TestMajorVersionZero(t *testing.T) {
	for version, want := range map[string]func(error) bool{
		"0.1.0": opens, "0.2": opens, "0.2.0": opens, "0.2.7": opens, "0.3.0": opens, "0.12.0-rc.1+x": opens,
		"1.0.0": manifestError("nutshell_version", "1.0.0"), "0": manifestError("nutshell_version", "only 0.x"),
		"0.": manifestError("nutshell_version", "only 0.x"), "0.x": manifestError("nutshell_version", "only 0.x"),
		"v0.2.0": manifestError("nutshell_version", "only 0.x"), "0.2.0\n": manifestError("nutshell_version", "only 0.x"),
	} {
		m := parse(t, someManifest)
		if err := m.Set("nutshell_version", version); err != nil {
			t.Fatal(err)
		}
		warnings, err := m.Validate()
		if newer := version == "0.3.0" || version == "0.12.0-rc.1+x"; !want(err) || newer != (len(warnings) == 1) {
			t.Errorf("%s: %q, %v", version, warnings, err)
		}
	}
}

func TestNamesInFirstDraft(t *testing.T) {
	text := `{"nutshell_version":"%s","publisher":{"agent_name":"ann","peer_id":"12D3"},"deliverer":{"agent_name":"bob"},"status":"completed"}`
	for version, want := range map[string]string{"0.1.0": "ann bob", "0.2.0": " "} {
		m := parse(t, fmt.Sprintf(text, version))
		r, err := nutshell.ParseResult(m.Bytes())
		if err != nil || m.Publisher().Name+" "+r.Deliverer.Name != want {
			t.Errorf("%s: %+v, %+v, %v", version, m.Publisher(), r.Deliverer, err)
		}
	}
}

func TestWarningsAboutValues(t *testing.T) {
	for path, value := range map[string]any{
		"task.priority": "urgent", "apis.auth_method": "magic", "harness.agent_type_hint": "poet", "harness.execution_strategy": "never",
		"credentials.encryption": "rot13", "completeness.status": "almost", "compression.algorithm": "lzma", "bundle_type": "poem",
		"created_at": "yesterday", "expires_at": "2026-03-21", "harness.context_budget_hint": 35,
	} {
		m := parse(t, someManifest)
		if err := m.Set(path, value); err != nil {
			t.Fatal(err)
		}
		if warnings, err := m.Validate(); err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], path+": ") {
			t.Errorf("%s: %q, %v", path, warnings, err)
		}
	}
}

func TestExtensionsAreNotCoreFields(t *testing.T) {
	m := parse(t, someManifest)
	evil := json.RawMessage(`{"id":"nut-evil","task":{"title":"evil"},"bundle_type":"delivery","n":1.0}`)
	for _, name := range []string{"task", "id", "bundle_type", "..", "", "extensions", "task.title", "-", "0"} {
		if err := m.SetExtension(name, evil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Validate(); err != nil || m.ID() != "nut-1" || m.Task().Title != "t" || m.BundleType() != nutshell.TypeRequest {
		t.Errorf("%s: %v", m.Bytes(), err)
	}
	if got := m.Extensions(); len(got) != 9 || string(got["task.title"]) != string(evil) {
		t.Errorf("%q", got)
	}
	if top, _ := strings.CutSuffix(string(m.Bytes()), "}"); !strings.HasPrefix(top, strings.TrimSuffix(someManifest, "}")) {
		t.Errorf("something beside the extensions was changed: %s", m.Bytes())
	}
}

func TestSetChangesOneMember(t *testing.T) {
	table := []struct {
		name, before, path string
		value              any
		after              string
	}{
		{"a value", `{"a": 1.0 , "task":{"title":"x"}}`, "task.title", "y", `{"a": 1.0 , "task":{"title":"y"}}`},
		{"a new section, in its place", `{"id":"nut-1","files":{},"zzz":1}`, "task.title", "t", `{"id":"nut-1","task":{"title":"t"},"files":{},"zzz":1}`},
		{"an unknown section, at the end", `{"id":"nut-1"}`, "zzz", 1, `{"id":"nut-1","zzz":1}`},
		{"into an empty object", `{}`, "id", "nut-1", `{"id":"nut-1"}`},
		{"in an object with space around", "\n {\"x\":1} \n", "y", 2, "\n {\"x\":1,\"y\":2} \n"},
		{"into null", `{"task":null}`, "task.title", "t", `{"task":{"title":"t"}}`},
		{"a raw value", `{}`, "zzz", json.RawMessage(`{"n":85.0,"s":"\u00e9\/"}`), `{"zzz":{"n":85.0,"s":"\u00e9\/"}}`},
		{"over several lines", "{\n  \"id\": \"nut-1\",\n  \"tags\": {}\n}\n", "task.title", "t",
			"{\n  \"id\": \"nut-1\",\n  \"task\": {\n    \"title\": \"t\"\n  },\n  \"tags\": {}\n}\n"},
		{"at the end, over several lines", "{\n\t\"id\": \"nut-1\"\n}", "extensions.x", []int{1}, "{\n\t\"id\": \"nut-1\",\n\t\"extensions\": {\n\t\t\"x\": [\n\t\t\t1\n\t\t]\n\t}\n}"},
		{"a member of a section, in its place", `{"task":{"title":"t", "estimated_effort":"1h"}}`, "task.summary", "s", `{"task":{"title":"t", "summary":"s", "estimated_effort":"1h"}}`},
		{"a member of an element, in its place", `{"files":{"tree":[{"size":1,"role":"x"}]}}`, "files.tree.0.path", "a", `{"files":{"tree":[{"path":"a","size":1,"role":"x"}]}}`},
		{"the first of two", `{"id": "nut-1", "x": 1}`, "nutshell_version", "0.2.0", `{"nutshell_version": "0.2.0", "id": "nut-1", "x": 1}`},
		{"beside the only one", `{"id": "nut-1"}`, "x", 1, `{"id": "nut-1", "x": 1}`},
		{"into an empty section, over several lines", "{\n    \"tags\": {}\n}", "tags.domains.-", "go", "{\n    \"tags\": {\n        \"domains\": [\n            \"go\"\n        ]\n    }\n}"},
		{"with the line ends of another system", "{\r\n  \"id\": \"nut-1\"\r\n}", "tags.domains", []string{"a"}, "{\r\n  \"id\": \"nut-1\",\r\n  \"tags\": {\r\n    \"domains\": [\r\n      \"a\"\r\n    ]\r\n  }\r\n}"},
		{"an element", `{"context":{"additional":["a", "b"]}}`, "context.additional.1", "c", `{"context":{"additional":["a", "c"]}}`},
		{"one more element", `{"context":{"additional":["a", "b"]}}`, "context.additional.-", "c", `{"context":{"additional":["a", "b", "c"]}}`},
		{"the next element", `{"context":{"additional":["a","b"]}}`, "context.additional.2", "c", `{"context":{"additional":["a","b","c"]}}`},
		{"the first element of a list that is not there", `{}`, "context.additional.0", "a", `{"context":{"additional":["a"]}}`},
		{"a list that nobody knows", `{"x":null}`, "x.-.n", 1, `{"x":[{"n":1}]}`},
		{"a dash for a name", `{}`, "tags.custom.-", 1, `{"tags":{"custom":{"-":1}}}`},
		{"a number for a name", `{"x":{"0":1}}`, "x.0", 2, `{"x":{"0":2}}`},
		{"a name with dots", `{"x":{}}`, `x."a.b".c`, 1, `{"x":{"a.b":{"c":1}}}`},
		{"a name with quotes", `{}`, `"a\"b"`, 1, `{"a\"b":1}`},
		{"an empty name", `{}`, `x.""`, 1, `{"x":{"":1}}`},
	}
	for _, row := range table {
		m := parse(t, row.before)
		if err := m.Set(row.path, row.value); err != nil || string(m.Bytes()) != row.after {
			t.Errorf("%s: %v\ngot  %s\nwant %s", row.name, err, m.Bytes(), row.after)
		}
	}
}

func TestSetRefusesInvalidManifest(t *testing.T) {
	m := parse(t, someManifest)
	for path, value := range map[string]any{
		"task":                         5,
		"id.x":                         1,
		"files.tree":                   "x",
		"a":                            json.RawMessage(`{"a":1,"a":2}`),
		"b":                            json.RawMessage(`{`),
		"c":                            make(chan int),
		"bad\xffname":                  1,
		"":                             1,
		"task.":                        1,
		".task":                        1,
		`"task`:                        1,
		`"task"x`:                      1,
		`"\ud800"`:                     1,
		"id.0":                         1,
		"context.additional.1":         "a", // there is no 0
		strings.Repeat("x.", 64) + "x": 1,
	} {
		if err := m.Set(path, value); err == nil {
			t.Errorf("%s: %s", path, m.Bytes())
		}
	}
	if string(m.Bytes()) != someManifest || m.Task().Title != "t" {
		t.Errorf("changed: %s", m.Bytes())
	}
}

func TestExtensionWithDots(t *testing.T) {
	m := parse(t, someManifest)
	if err := m.SetExtension("org.example", map[string]int{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if got := string(m.Extensions()["org.example"]); got != `{"n":1}` {
		t.Error(got)
	}
}

// genJSON draws a JSON value as text, with numbers and strings in spellings that a program would not choose.
func genJSON(depth int) *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{
		"null", "true", "0", "-0", "1.0", "1e2", "1E+2", "0.10", "9007199254740993", "123456789012345678901234567890", "1e400",
		`""`, `"a"`, `"\u00e9"`, `"é"`, `"\/"`, `"\ud83d\ude00"`, `"<&>"`,
	})
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar, genObject(depth-1, nil), rapid.Map(rapid.SliceOfN(genJSON(depth-1), 0, 3), func(all []string) string {
		return "[" + strings.Join(all, " ,") + "]"
	}))
}

func genObject(depth int, fixed []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := slices.Clone(fixed)
		keys := rapid.SliceOfNDistinct(rapid.StringMatching(`x_[a-z.]{1,6}`), 0, 4, rapid.ID[string]).Draw(t, "keys")
		for _, key := range keys {
			parts = append(parts, fmt.Sprintf("%q : %s", key, genJSON(depth).Draw(t, key)))
		}
		if len(parts) > 0 {
			parts = rapid.Permutation(parts).Draw(t, "order")
		}
		space := rapid.SampledFrom([]string{"", " ", "\n  ", "\n\n\t"}).Draw(t, "space")
		return "{" + space + strings.Join(parts, ","+space) + space + "}"
	})
}

// leaves lists every member of an object that this package does not know, as it is written, in order.
func leaves(t *rapid.T, text []byte) (all []string) {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		if key := name.(string); strings.HasPrefix(key, "x_") {
			all = append(all, key+"="+string(value))
		} else if value[0] == '{' {
			for _, leaf := range leaves(t, value) {
				all = append(all, key+"."+leaf)
			}
		}
	}
	return all
}

func TestUnknownFieldsSurvive(t *testing.T) {
	paths := []string{"task.title", "task.summary", "publisher.name", "context.requirements", "compression.algorithm", "extensions.x_new.deep", "created_at", "id"}
	rapid.Check(t, func(t *rapid.T) {
		task := genObject(2, []string{`"title": "t"`}).Draw(t, "task")
		extensions := genObject(3, nil).Draw(t, "extensions")
		text := genObject(3, []string{`"id":"nut-1"`, `"task": ` + task, `"extensions":` + extensions}).Draw(t, "manifest")
		m, err := nutshell.ParseManifest([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		before := leaves(t, m.Bytes())
		path := rapid.SampledFrom(paths).Draw(t, "path")
		if err := m.Set(path, "\"new\"\n"); err != nil {
			t.Fatalf("set %s in %s: %v", path, text, err)
		}
		after := slices.DeleteFunc(leaves(t, m.Bytes()), func(s string) bool { return strings.HasPrefix(s, "extensions.x_new=") })
		before = slices.DeleteFunc(before, func(s string) bool { return strings.HasPrefix(s, "extensions.x_new=") })
		if !slices.Equal(before, after) {
			t.Fatalf("set %s:\nbefore %q\nafter  %q", path, before, after)
		}
	})
}
