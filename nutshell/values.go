package nutshell

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// enums are the members that have a set of values: the specification's and, where they differ, those of its older
// schema. Another value is worth a warning, unless the set is free: then it is only examples. (The status of a result
// is neither: ParseResult refuses another one.)
var enums = []struct {
	file, field string                 // without the numbers of elements
	value       func(*Sections) string // what is checked; nil if the set is free
	known       []string
}{
	{ManifestFile, "bundle_type", func(s *Sections) string { return s.BundleType },
		[]string{TypeRequest, TypeDelivery, TypeTemplate, TypeCheckpoint, TypePartial}},
	{ManifestFile, "task.priority", func(s *Sections) string { return s.Task.Priority },
		[]string{"critical", "high", "medium", "low"}},
	{ManifestFile, "files.tree.role", nil, []string{"scaffold", "reference", "specification"}},
	{ManifestFile, "apis.auth_method", func(s *Sections) string { return s.APIs.AuthMethod },
		[]string{"bearer_token", "bearer", "api_key", "oauth2", "basic", "none"}},
	{ManifestFile, "credentials.encryption", func(s *Sections) string { return s.Credentials.Encryption },
		[]string{"age", "sops", "vault", "none"}},
	{ManifestFile, "credentials.scopes.access_level", nil, []string{"read", "read-write", "invoke"}},
	{ManifestFile, "harness.agent_type_hint", func(s *Sections) string { return s.Harness.AgentTypeHint },
		[]string{"research", "planning", "execution", "review", "creative"}},
	{ManifestFile, "harness.execution_strategy", func(s *Sections) string { return s.Harness.ExecutionStrategy },
		[]string{"one-shot", "incremental", "parallel", "batch", "streaming"}},
	{ManifestFile, "completeness.status", func(s *Sections) string { return s.Completeness.Status },
		[]string{"draft", "incomplete", "ready"}},
	{ManifestFile, "compression.algorithm", func(s *Sections) string { return s.Compression.Algorithm },
		[]string{Gzip, Zstd, None, "nutcracker"}},

	{ResultFile, "bundle_type", nil, []string{TypeDelivery}},
	{ResultFile, "status", nil, statuses()},
	{ResultFile, "acceptance_results.checklist.status", nil, []string{"passed", "failed", "skipped"}},
	{ResultFile, "tags.complexity_actual", nil, []string{"low", "medium", "high"}},

	{EndpointsFile, "auth.type", nil, []string{"bearer_token", "api_key", "oauth2", "basic", "none"}},
	{EndpointsFile, "endpoints.method", nil, []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}},
	{EndpointsFile, "endpoints.params.type", nil, []string{"string", "integer", "number", "boolean", "array", "object"}},

	{CriteriaFile, "test_framework", nil, []string{"shell", "pytest", "go-test", "jest", "node-test", "io", "custom"}},
	{CriteriaFile, "criteria.type", nil, []string{"api_test", "sql_check", "io", "pytest", "go-test", "jest", "node-test", "shell", "custom"}},
}

// Values returns the values that a member of a document is known to have, for a person to choose from, or nothing.
// The file says which document: ManifestFile, ResultFile, EndpointsFile or CriteriaFile. The field is a dotted path
// without the numbers of elements and the names in maps, as in "files.tree.role".
func Values(file, field string) []string {
	for _, e := range enums {
		if e.file == file && e.field == field {
			return slices.Clone(e.known)
		}
	}
	return nil
}

// Kind is what a member of a manifest holds, in words for a person.
type Kind string

// Kinds of members.
const (
	KindUnknown Kind = ""
	KindText    Kind = "text"
	KindTime    Kind = "a time such as 2026-03-21T10:00:00Z"
	KindWhole   Kind = "a whole number"
	KindNumber  Kind = "a number"
	KindFlag    Kind = "true or false"
	KindTexts   Kind = "a list of texts"
	KindList    Kind = "a list"
	KindObject  Kind = "an object"
	KindAny     Kind = "any value" // below extensions and tags.custom
)

// Field is what the specification says of a member of a manifest.
type Field struct {
	Kind   Kind
	Values []string // that it is known to have; another one may be worth a warning
}

// FieldAt returns what the specification says of the member at path; its kind is KindUnknown if it says nothing.
// The error is that path is none.
func FieldAt(path string) (Field, error) {
	names, err := SplitPath(path)
	if err != nil {
		return Field{}, err
	}
	s, plain := shapeOf(ManifestFile), make([]string, 0, len(names))
	for _, name := range names {
		if kindOf(s) == KindAny {
			return Field{Kind: KindAny}, nil
		}
		if !s.isList() && s.kind() != reflect.Map {
			plain = append(plain, name)
		} else if _, ok := index(name, maxDocument); s.isList() && !ok {
			return Field{}, nil
		}
		s = s.at(name)
	}
	return Field{kindOf(s), Values(ManifestFile, strings.Join(plain, "."))}, nil
}

func kindOf(s shape) Kind {
	switch s.of {
	case nil:
		return KindUnknown
	case reflect.TypeFor[json.RawMessage]():
		return KindAny
	case reflect.TypeFor[Timestamp]():
		return KindTime
	case reflect.TypeFor[[]string]():
		return KindTexts
	}
	switch s.of.Kind() {
	case reflect.Bool:
		return KindFlag
	case reflect.Int64:
		return KindWhole
	case reflect.Float64:
		return KindNumber
	case reflect.Struct, reflect.Map:
		return KindObject
	case reflect.Slice:
		return KindList
	}
	return KindText
}

// Fields lists the paths of the members of a manifest that the specification knows, in its order, those within
// lists left out.
func Fields() []string {
	var all []string
	var list func(prefix string, s shape)
	list = func(prefix string, s shape) {
		for _, f := range fieldsOf(s.of) {
			path := prefix + f.name
			all = append(all, path)
			list(path+".", s.at(f.name))
		}
	}
	list("", shape{of: reflect.TypeFor[Sections]()})
	return all
}
