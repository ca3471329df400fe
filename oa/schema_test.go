package oa_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"guild"
	"guild/oa"
)

// goTypes has the Go types of the documents.
var goTypes = map[string][2]reflect.Type{
	oa.CodeChunkAnalysis: {reflect.TypeFor[oa.ChunkRequest](), reflect.TypeFor[oa.ChunkResult]()},
	oa.RetrievalRerank:   {reflect.TypeFor[oa.RerankRequest](), reflect.TypeFor[oa.RerankResult]()},
	oa.SandboxRun:        {reflect.TypeFor[oa.SandboxRequest](), reflect.TypeFor[oa.SandboxResult]()},
	oa.Embedding:         {reflect.TypeFor[oa.EmbeddingRequest](), reflect.TypeFor[oa.EmbeddingResult]()},
}

func TestGoTypesMatchDescriptions(t *testing.T) {
	if n := len(oa.Known().Schemas()); n != len(goTypes) {
		t.Errorf("%d descriptions, want %d", n, len(goTypes))
	}
	for name, types := range goTypes {
		s := must[oa.Schema](t)(oa.Known().Schema(id(t, name)))
		agreeOnMembers(t, name+" inputs", oa.Field{Type: "object", Properties: s.Inputs}, types[0])
		agreeOnMembers(t, name+" outputs", oa.Field{Type: "object", Properties: s.Outputs}, types[1])
	}
}

func agreeOnMembers(t *testing.T, at string, f oa.Field, goType reflect.Type) {
	t.Helper()
	var members []string
	for _, field := range reflect.VisibleFields(goType) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if options == "embed" {
			continue
		}
		members = append(members, name)
		d, ok := f.Properties[name]
		if !ok {
			t.Errorf("%s.%s is in the Go type only", at, name)
			continue
		}
		omitted := strings.HasPrefix(options, "omit")
		if d.Required && omitted && field.Type != reflect.TypeFor[oa.Number]() {
			t.Errorf("%s.%s is required, and is omitted where it is zero", at, name)
		}
		agree(t, at+"."+name, d, field.Type)
	}
	for name := range f.Properties {
		if !slices.Contains(members, name) {
			t.Errorf("%s.%s is in the description only", at, name)
		}
	}
}

func agree(t *testing.T, at string, f oa.Field, goType reflect.Type) {
	t.Helper()
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	want := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Slice: "array", reflect.Struct: "object", reflect.Map: "object",
		reflect.Int: "integer", reflect.Int64: "integer", reflect.Uint64: "integer", reflect.Float32: "number",
	}[goType.Kind()]
	switch goType {
	case reflect.TypeFor[oa.Number]():
		want = "number"
	case reflect.TypeFor[guild.Hash]():
		want = "string"
		if f.Format != oa.FormatSHA256 {
			t.Errorf("%s has the format %q", at, f.Format)
		}
	case reflect.TypeFor[jsontext.Value]():
		want = ""
	}
	if f.Type != want {
		t.Errorf("%s is described as %q, and the Go type is %s", at, f.Type, goType)
	}
	if want == "number" && f.Format != oa.FormatFloat {
		t.Errorf("%s is not described as single precision", at)
	}
	switch {
	case f.Items != nil:
		agree(t, at+"[]", *f.Items, goType.Elem())
	case f.Values != nil:
		agree(t, at+".*", *f.Values, goType.Elem())
	case want == "object" && goType.Kind() == reflect.Struct:
		agreeOnMembers(t, at, f, goType)
	}
}

// compiled returns the JSON Schema of a side, compiled.
func compiled(t testing.TB, s oa.Schema, side oa.Side) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(must[[]byte](t)(s.JSONSchema(side))))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft4) // the schema names its own
	if err := c.AddResource("x", doc); err != nil {
		t.Fatal(err)
	}
	return must[*jsonschema.Schema](t)(c.Compile("x"))
}

// sample returns a document with every field of a description.
func sample(f oa.Field) any {
	switch f.Type {
	case "object":
		o := map[string]any{}
		for name, d := range f.Properties {
			o[name] = sample(d)
		}
		if f.Values != nil {
			o["some"] = sample(*f.Values)
		}
		return o
	case "array":
		if f.Items == nil {
			return []any{}
		}
		return []any{sample(*f.Items), sample(*f.Items)}
	case "integer", "number":
		return json.Number("1")
	case "boolean":
		return true
	}
	switch {
	case f.Enum != nil:
		return f.Enum[0]
	case f.Format == oa.FormatSHA256:
		return strings.Repeat("ab", 32)
	}
	return "x"
}

// replacements are values of every type, near the limits. The first removes the value. A hash of 64 zeros is not among
// them, because guild.Hash reads it as no hash and writes "".
var replacements = []string{
	"", "null", "true", `""`, `"a"`, `"high"`, `"none"`, `"sha256:` + strings.Repeat("0", 63) + `1"`, `"` + strings.Repeat("0", 63) + `"`,
	"0", "-1", "1", "0.5", "1.5", "255", "256", "4294967295", "4294967296", "9223372036854775808", "18446744073709551615", "18446744073709551616",
	"-9223372036854775808", "-9223372036854775809", "3.4028235677973362e38", "3.4028235677973366e38", "1e308", "1e-320",
	"[]", "[null]", `["a"]`, "[1]", "[{}]", "{}", `{"a":null}`, `{"a":"b"}`, `{"a":1}`,
}

// change replaces a value somewhere in a document; nil removes it.
func change(t *rapid.T, v any) (any, bool) {
	stop := rapid.IntRange(0, 5).Draw(t, "stop") == 0
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || stop {
			break
		}
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "name")
		changed, there := change(t, v[name])
		if v[name] = changed; !there {
			delete(v, name)
		}
		return v, true
	case []any:
		if len(v) == 0 || stop {
			break
		}
		changed, there := change(t, v[0])
		if !there {
			return v[1:], true
		}
		v[0] = changed
		return v, true
	}
	by := rapid.SampledFrom(replacements).Draw(t, "by")
	if by == "" {
		return nil, false
	}
	return decode(t, []byte(by)), true
}

func decode(t interface{ Fatal(...any) }, text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestJSONSchemaAgreesWithCheck(t *testing.T) {
	for _, s := range oa.Known().Schemas() {
		for side, fields := range map[oa.Side]oa.Fields{oa.Inputs: s.Inputs, oa.Outputs: s.Outputs} {
			schema := compiled(t, s, side)
			whole := must[[]byte](t)(json.Marshal(sample(oa.Field{Type: "object", Properties: fields})))
			if err := s.Check(side, whole); err != nil {
				t.Fatalf("%s: %s: %v", s.ID, whole, err)
			}
			t.Run(s.ID.String()+" "+string(side), rapid.MakeCheck(func(t *rapid.T) {
				v := decode(t, whole)
				for range rapid.IntRange(0, 3).Draw(t, "changes") {
					if changed, there := change(t, v); there {
						v = changed
					}
				}
				text, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				byCheck, bySchema := s.Check(side, text), schema.Validate(v)
				if (byCheck == nil) != (bySchema == nil) {
					t.Fatalf("%s\ncheck:  %v\nschema: %v", text, byCheck, bySchema)
				}
			}))
		}
	}
}

// A document that passes Check must decode into the Go types, and encode to one that passes again.
func TestCheckedDocumentsDecode(t *testing.T) {
	for name, sides := range codecs {
		s := must[oa.Schema](t)(oa.Known().Schema(id(t, name)))
		for i, side := range []oa.Side{oa.Inputs, oa.Outputs} {
			fields := []oa.Fields{s.Inputs, s.Outputs}[i]
			whole := must[[]byte](t)(json.Marshal(sample(oa.Field{Type: "object", Properties: fields})))
			t.Run(name+" "+string(side), rapid.MakeCheck(func(t *rapid.T) {
				v := decode(t, whole)
				for range rapid.IntRange(0, 3).Draw(t, "changes") {
					if changed, there := change(t, v); there {
						v = changed
					}
				}
				text, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				if s.Check(side, text) != nil {
					return
				}
				encoded, err := sides[i](text)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				if err := s.Check(side, encoded); err != nil {
					t.Fatalf("%s became %s: %v", text, encoded, err)
				}
				if again, err := sides[i](encoded); err != nil || string(again) != string(encoded) {
					t.Fatalf("%s became %s, %v", encoded, again, err)
				}
			}))
		}
	}
}

// codecs decode and encode the two sides of a job type.
var codecs = map[string][2]func([]byte) (jsontext.Value, error){
	oa.CodeChunkAnalysis: {again[oa.ChunkRequest], again[oa.ChunkResult]},
	oa.RetrievalRerank:   {again[oa.RerankRequest], again[oa.RerankResult]},
	oa.SandboxRun:        {again[oa.SandboxRequest], again[oa.SandboxResult]},
	oa.Embedding:         {again[oa.EmbeddingRequest], again[oa.EmbeddingResult]},
}

func TestFaultsNameThePath(t *testing.T) {
	rerank := func(candidates string) string { return `{"user_task":"t","candidates":` + candidates + `}` }
	run := func(stdout string) string {
		return `{"env_info":{"image_digest":"d"},"status":"success","runs":[{"cmd":"x","exit_code":0,"duration_ms":1,"stdout_sha256":` + stdout +
			`,"stderr_sha256":"` + strings.Repeat("0", 64) + `"}]}`
	}
	for _, c := range []struct {
		name string
		side oa.Side
		text string
		want string
	}{
		{oa.RetrievalRerank, oa.Inputs, rerank(`[{"id":"a","content":"c"},{"content":"c"}]`), "inputs.candidates[1].id is missing"},
		{oa.RetrievalRerank, oa.Inputs, rerank(`[{"id":7,"content":null}]`), "inputs.candidates[0].content is null, want a string; inputs.candidates[0].id is a number, want a string"},
		{oa.RetrievalRerank, oa.Inputs, rerank(`{}`), "inputs.candidates is an object, want an array"},
		{oa.RetrievalRerank, oa.Inputs, `{"k":0,"user_task":"t","candidates":[]}`, "inputs.k is 0, want at least 1"},
		{oa.RetrievalRerank, oa.Inputs, `{"k":1.0,"user_task":"t","candidates":[]}`, "inputs.k is 1.0, want an integer of 64 bits"},
		{oa.RetrievalRerank, oa.Inputs, `{}`, "inputs.candidates is missing; inputs.user_task is missing"},
		{oa.RetrievalRerank, oa.Inputs, `[]`, "inputs is an array, want an object"},
		{oa.RetrievalRerank, oa.Inputs, `null`, "inputs is null, want an object"},
		{oa.RetrievalRerank, oa.Inputs, `{"user_task":"t","candidates":[],"verification":{}}`, "inputs.verification.mode is missing"},
		{oa.SandboxRun, oa.Inputs, `{"sandbox":{"image_digest":"d"},"repo":{"source":""},"commands":[],"env":{"A B":1}}`, `inputs.env."A B" is a number, want a string`},
		{oa.SandboxRun, oa.Outputs, run(`"xyz"`), `outputs.runs[0].stdout_sha256 is "xyz", want 64 hex digits of a SHA-256`},
		{oa.SandboxRun, oa.Outputs, `{"env_info":{"image_digest":"d"},"runs":[],"status":"done"}`, `outputs.status is "done", want one of success, failed, timeout, cancelled, error`},
		{oa.CodeChunkAnalysis, oa.Outputs, `{"summary":"s","confidence":1.5}`, "outputs.confidence is 1.5, want at most 1"},
		{oa.Embedding, oa.Outputs, `{"model_id":"m","dimensions":1,"embeddings":[[1],[1e300]]}`, "outputs.embeddings[1][0] is 1e300, beyond single precision"},
		{oa.Embedding, oa.Outputs, `{"model_id":"m","dimensions":1,"embeddings":[[1,null]]}`, "outputs.embeddings[0][1] is null, want a number"},
	} {
		s := must[oa.Schema](t)(oa.Known().Schema(id(t, c.name)))
		err := s.Check(c.side, []byte(c.text))
		if !errors.Is(err, oa.ErrInvalid) || err.Error() != c.want {
			t.Errorf("%s:\n%v, want\n%s", c.text, err, c.want)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	s := must[oa.Schema](t)(oa.Known().Schema(id(t, oa.RetrievalRerank)))
	many := `{"user_task":"t","candidates":[` + strings.Repeat(`{"`+strings.Repeat("k", 100)+`":1},`, 10_000) + `{}]}`
	err := s.Check(oa.Inputs, []byte(many))
	faults, ok := errors.AsType[oa.Faults](err)
	if !ok || len(faults) != oa.MaxFaults || len(err.Error()) > 10_000 {
		t.Errorf("%d faults, %d bytes", len(faults), len(err.Error()))
	}
	if err := s.Check(oa.Inputs, bytes.Repeat([]byte(" "), oa.MaxSize+1)); !errors.Is(err, oa.ErrTooBig) {
		t.Error(err)
	}
}

// own is a description as other programs write it: flat, without our additions.
const own = `{"schema_id":"oa.text.translate.v1","inputs":{"text":{"type":"string","required":true,"description":"..."},
	"to":{"type":"string","required":true,"description":"..."}},"outputs":{"text":{"type":"string","description":"..."}},
	"verification_mode":"subjective","hash_rules":{"algorithm":"sha256","canonicalization":"json_canonical","scope":"full_output"},
	"provenance":{"model":"required"},"more":1.0}`

func TestLoadDescriptions(t *testing.T) {
	all := must[oa.Registry](t)(oa.Load(fstest.MapFS{
		"translate.json": {Data: []byte(own)}, "readme.txt": {Data: []byte("no description")}, "dir.json/x": {Data: []byte("{}")},
	}))
	if n := len(all.Schemas()); n != 5 {
		t.Errorf("%d job types, want 5", n)
	}
	translate := id(t, "oa.text.translate.v1")
	if err := all.CheckRequest(translate, []byte(`{"text":"Hallo"}`)); err == nil || err.Error() != "inputs.to is missing" {
		t.Error(err)
	}
	if err := all.CheckRequest(translate, []byte(`{"text":"Hallo","to":"en"}`)); err != nil {
		t.Error(err)
	}
	if err := all.CheckResult(translate, []byte(`{}`), []byte(`{"text":1}`)); err == nil || err.Error() != "outputs.text is a number, want a string" {
		t.Error(err)
	}
	if _, err := oa.Known().Schema(translate); !errors.Is(err, oa.ErrUnknown) {
		t.Errorf("a loaded description is known everywhere: %v", err)
	}
	_, err := all.Schema(id(t, "oa.embedding.v2"))
	if !errors.Is(err, oa.ErrUnknown) || !strings.Contains(err.Error(), "there is oa.embedding.v1") {
		t.Error(err)
	}
	if again := must[oa.Registry](t)(oa.Load(os.DirFS(t.TempDir() + "/absent"))); len(again.Schemas()) != 4 {
		t.Error("a directory that is not there makes a difference")
	}
}

func TestLoadWithBadDescriptions(t *testing.T) {
	all, err := oa.Load(fstest.MapFS{"a.json": {}, "b.json": {Data: []byte(own)}, "c.json": {Data: []byte("{")}})
	if len(all.Schemas()) != 5 || !errors.Is(err, oa.ErrSchema) {
		t.Errorf("%d job types, %v", len(all.Schemas()), err)
	}
	for _, want := range []string{"a.json: not a description: it is empty", "c.json: not a description: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestUndescribedMembersListed(t *testing.T) {
	s := must[oa.Schema](t)(oa.Known().Schema(id(t, oa.SandboxRun)))
	payload := `{"sandbox":{"image_digest":"x","resources":{"mem":1}},"repo":{"source":""},"env":{"A":"b"},"commands":[{"cdm":"true"}],"more":null}`
	if got := strings.Join(s.Unknown(oa.Inputs, []byte(payload)), " "); got != "inputs.commands[0].cdm inputs.more inputs.sandbox.resources.mem" {
		t.Error(got)
	}
	if got := s.Unknown(oa.Inputs, []byte(`{`)); len(got) > 0 {
		t.Error(got)
	}
}

func TestDescriptionRoundTrip(t *testing.T) {
	for _, s := range append(oa.Known().Schemas(), must[oa.Schema](t)(oa.ParseSchema([]byte(own)))) {
		back, err := oa.ParseSchema(must[[]byte](t)(s.Encode()))
		if err != nil || !reflect.DeepEqual(back, s) {
			t.Errorf("%s: %v\n%+v, want\n%+v", s.ID, err, back, s)
		}
	}
}

func TestInvalidDescriptions(t *testing.T) {
	with := func(field string) string {
		return `{"schema_id":"oa.x.v1","inputs":{"f":` + field + `},"outputs":{},"verification_mode":"objective"}`
	}
	deep := with(strings.Repeat(`{"type":"array","items":`, 200) + `{}` + strings.Repeat("}", 200))
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                   {``, "not JSON"},
		"a member twice":            {`{"schema_id":"oa.x.v1","schema_id":"oa.y.v1"}`, "duplicate"},
		"no members":                {`{}`, "schema_id is missing; inputs is missing; outputs is missing; verification_mode is"},
		"a bad name":                {`{"schema_id":"x"}`, "schema_id"},
		"inputs that are a list":    {`{"schema_id":"oa.x.v1","inputs":[]}`, "/inputs"},
		"invalid mode":              {`{"schema_id":"oa.x.v1","inputs":{},"outputs":{},"verification_mode":"maybe"}`, `verification_mode is "maybe"`},
		"another hash":              {`{"schema_id":"oa.x.v1","inputs":{},"outputs":{},"verification_mode":"objective","hash_rules":{"algorithm":"md5","canonicalization":"json_canonical","scope":"full_output"}}`, `hash_rules.algorithm is "md5", want sha256`},
		"invalid rule":              {`{"schema_id":"oa.x.v1","inputs":{},"outputs":{},"verification_mode":"objective","provenance":{"model":"maybe"}}`, `provenance.model is "maybe"`},
		"invalid type":              {with(`{"type":"strng"}`), `inputs.f.type is "strng"`},
		"a type below":              {with(`{"type":"array","items":{"type":"object","properties":{"g":{"type":"int"}}}}`), `inputs.f.items.properties.g.type is "int"`},
		"items of a string":         {with(`{"type":"string","items":{}}`), `inputs.f.items is there, and the type is "string"`},
		"an enum of numbers":        {with(`{"type":"integer","enum":["1"]}`), "inputs.f.enum is there"},
		"a default that is wrong":   {with(`{"type":"array","items":{"type":"integer"},"default":[1,"2"]}`), "inputs.f.default[1] is a string, want an integer"},
		"a default of another enum": {with(`{"type":"string","enum":["a"],"default":"b"}`), `inputs.f.default is "b", want one of a`},
		"a default that is null":    {with(`{"type":"string","default":null}`), "inputs.f.default is null"},
		"a required default":        {with(`{"type":"string","required":true,"default":"b"}`), "inputs.f.default is there, and the field is required"},
		"required in words":         {with(`{"type":"string","required":"yes"}`), "/inputs/f/required"},
		"more than the limit":       {with(`{"description":"` + strings.Repeat("x", oa.MaxSchema) + `"}`), "over the size limit"},
		"nested too deep":           {deep, "nested too deep"},
	} {
		_, err := oa.ParseSchema([]byte(c.text))
		if !errors.Is(err, oa.ErrSchema) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		dir  fstest.MapFS
		want string
	}{
		"a bad file":             {fstest.MapFS{"bad.json": {Data: []byte(with(`{"type":"strng"}`))}}, `bad.json: not a description: inputs.f.type is "strng", which is not a type`},
		"one of the four":        {fstest.MapFS{"e.json": {Data: []byte(strings.Replace(with(`{}`), "oa.x.v1", "oa.embeddings.v1", 1))}}, "e.json: schema_id: oa.embedding.v1 is described already"},
		"a job type twice":       {fstest.MapFS{"a.json": {Data: []byte(own)}, "b.json": {Data: []byte(own)}}, "b.json: schema_id: oa.text.translate.v1 is described already"},
		"a file that never ends": {fstest.MapFS{"a.json": {Data: bytes.Repeat([]byte(" "), 10*oa.MaxSchema)}}, "a.json: not a description: 65537 bytes: over the size limit"},
	} {
		if _, err := oa.Load(c.dir); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// Defaults inside defaults of a small description must not make a large document.
func TestDefaultsCannotExplode(t *testing.T) {
	field := `{"type":"string","default":"` + strings.Repeat("x", 1000) + `"}`
	ones := "[" + strings.Repeat("{},", 30) + "{}]"
	for range 8 {
		field = `{"type":"array","default":` + ones + `,"items":{"type":"object","properties":{"f":` + field + `}}}`
	}
	_, err := oa.ParseSchema([]byte(`{"schema_id":"oa.x.v1","inputs":{"f":` + field + `},"outputs":{},"verification_mode":"objective"}`))
	if err == nil || !strings.Contains(err.Error(), "is too big with its defaults") {
		t.Error(err)
	}
	small := must[oa.Schema](t)(oa.ParseSchema([]byte(`{"schema_id":"oa.x.v1","outputs":{},"verification_mode":"objective",
		"inputs":{"l":{"type":"array","items":{"type":"object","properties":{"f":{"type":"string","default":"` + strings.Repeat("x", 10_000) + `"}}}}}}`)))
	_, err = small.Complete(oa.Inputs, []byte(`{"l":[`+strings.Repeat("{},", 500_000)+`{}]}`))
	if err == nil || !strings.Contains(err.Error(), "is too big with its defaults") {
		t.Errorf("%.200v", err)
	}
}
