package nutshell

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"guild"
)

// Field describes one member of a document. It is a line of the table that parsing, Validate, Set, and the packages check,
// parts and schema read. The tags of the Go types that documents are decoded into, such as Sections, are the table, so
// that a member is declared in one place:
//
//	json      its name
//	about     a description
//	values    the known values; Validate warns about others
//	examples  values to choose from; others are as good
//	rule      required: a document without it is refused; closed: other values are refused;
//	          sentences: a list of texts that may have commas in them
//	range     the least and the most that its number should be
//	form      the form of its text, by its name in forms
//	file      marks the path of a file of the bundle: what to do if the file is missing; {path} is the path
//	gap       what check says if the member is missing
//	fix       how to add it; {program} is the name of the program, {id} a new id
type Field struct {
	Name  string // empty for an element of a list and a value of a map
	Kind  Kind
	About string

	Values    []string // to choose from
	Free      bool     // other values are as good
	Required  bool
	Closed    bool
	Sentences bool
	Form      *regexp.Regexp // that a text must match; nil if any text will do

	Range          []string // the least and the most, if a number should have bounds
	File, Gap, Fix string

	Members []*Field // of an object, in their order
	Each    *Field   // an element of a list, or a value of an object with names of any kind

	misformed string // format of the error about a text that does not match Form
	index     int    // of the field in the Go type
}

// Kind is the kind of value that a member holds, in words for a person.
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

// forms are the forms of texts that the tags name. Each has the same meaning in Go and in a JSON Schema.
var forms = map[string]struct {
	pattern   *regexp.Regexp
	misformed string
}{
	"version": {regexp.MustCompile(`^0\.[0-9]{1,9}(\.[0-9]{1,9})?([-+][0-9A-Za-z.+-]{1,64})?$`), "%.20q is not known, only 0.x"},
	"id":      {regexp.MustCompile(`^nut-[0-9A-Za-z_.-]{1,124}$`), `%.80q is not "nut-" and letters, digits, dots or dashes`}, // safe as a file name
	"vault":   {regexp.MustCompile(`^0\.`), ""},
	"hash":    {regexp.MustCompile("^((sha256:)?[0-9A-Fa-f]{64})?$"), ""},
}

// Describe returns the table of a document that is decoded into this type.
func Describe(document reflect.Type) *Field { return describe(document, "") }

func describe(t reflect.Type, tag reflect.StructTag) *Field {
	rules := strings.Fields(tag.Get("rule"))
	form := forms[tag.Get("form")]
	f := &Field{
		About:     tag.Get("about"),
		Values:    strings.Fields(tag.Get("values") + tag.Get("examples")),
		Free:      tag.Get("examples") != "",
		Required:  slices.Contains(rules, "required"),
		Closed:    slices.Contains(rules, "closed"),
		Sentences: slices.Contains(rules, "sentences"),
		Form:      form.pattern,
		misformed: form.misformed,
		Range:     strings.Fields(tag.Get("range")),
		File:      tag.Get("file"),
		Gap:       tag.Get("gap"),
		Fix:       tag.Get("fix"),
	}
	f.Name, _, _ = strings.Cut(tag.Get("json"), ",")
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		f.Kind = KindAny
		return f
	case reflect.TypeFor[Timestamp]():
		f.Kind = KindTime
		return f
	case reflect.TypeFor[guild.Hash]():
		f.Kind, f.Form = KindText, forms["hash"].pattern
		return f
	}
	switch t.Kind() {
	case reflect.Bool:
		f.Kind = KindFlag
	case reflect.Int64:
		f.Kind = KindWhole
	case reflect.Float64:
		f.Kind = KindNumber
	case reflect.String:
		f.Kind = KindText
	case reflect.Slice:
		f.Kind, f.Each = KindList, describe(t.Elem(), "")
		f.Each.File = f.File
		if f.Each.Kind == KindText {
			f.Kind = KindTexts
		}
	case reflect.Map:
		f.Kind, f.Each = KindObject, describe(t.Elem(), "")
	case reflect.Struct:
		f.Kind = KindObject
		for i := range t.NumField() {
			member := describe(t.Field(i).Type, t.Field(i).Tag)
			member.index = i
			if member.Name != "" && member.Name != "-" {
				f.Members = append(f.Members, member)
			}
		}
	}
	return f
}

// tables are the tables of the documents, by file.
var tables = sync.OnceValue(func() map[string]*Field {
	return map[string]*Field{
		ManifestFile:  Describe(reflect.TypeFor[Sections]()),
		ResultFile:    Describe(reflect.TypeFor[Result]()),
		CriteriaFile:  Describe(reflect.TypeFor[Criteria]()),
		EndpointsFile: Describe(reflect.TypeFor[Endpoints]()),
	}
})

// isList and isObject report what a value must be. Nothing is known about it if f is nil.
func (f *Field) isList() bool   { return f != nil && (f.Kind == KindList || f.Kind == KindTexts) }
func (f *Field) isObject() bool { return f != nil && f.Kind == KindObject }

// names returns the names of the members in their order.
func (f *Field) names() []string {
	if f == nil {
		return nil
	}
	if f == tables()[ManifestFile] || f == tables()[ResultFile] {
		return order
	}
	var names []string
	for _, m := range f.Members {
		names = append(names, m.Name)
	}
	return names
}

// At returns the field of a member or an element, nil if it is unknown.
func (f *Field) At(step string) *Field {
	if f == nil {
		return nil
	}
	if f.Each != nil {
		return f.Each
	}
	i := slices.IndexFunc(f.Members, func(m *Field) bool { return m.Name == step })
	if i < 0 {
		return nil
	}
	return f.Members[i]
}

// FieldAt returns the field of a manifest at path, of KindUnknown if the specification has none. It is an error if path
// is not a path.
func FieldAt(path string) (Field, error) {
	names, err := SplitPath(path)
	if err != nil {
		return Field{}, err
	}
	f := tables()[ManifestFile]
	for _, name := range names {
		if f.isList() {
			if _, ok := index(name, maxDocument); !ok {
				return Field{}, nil
			}
		}
		if f = f.At(name); f == nil {
			return Field{}, nil
		}
		if f.Kind == KindAny {
			break
		}
	}
	return *f, nil
}

// Fields returns the paths of the members of a manifest in the specification's order, without those within lists.
func Fields() []string {
	var all []string
	var list func(prefix string, f *Field)
	list = func(prefix string, f *Field) {
		for _, m := range f.Members {
			all = append(all, prefix+m.Name)
			list(prefix+m.Name+".", m)
		}
	}
	list("", tables()[ManifestFile])
	return all
}

// texts calls visit with the texts of the decoded object v, without those within lists and maps. An absent text is
// empty.
func (f *Field) texts(prefix string, v reflect.Value, visit func(path string, f *Field, text string)) {
	for _, m := range f.Members {
		member := reflect.Indirect(v.Field(m.index))
		switch member.Kind() {
		case reflect.String:
			visit(prefix+m.Name, m, member.String())
		case reflect.Struct:
			m.texts(prefix+m.Name+".", member, visit)
		}
	}
}
