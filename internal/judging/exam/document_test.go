package exam

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"guild"
	"guild/nutshell"
)

// TestDocumentExamples runs every example of testdata/criteria and compares the result with the lines at its top. Its
// criteria are in docs/CRITERIA.md.
func TestDocumentExamples(t *testing.T) {
	page, err := os.ReadFile("../../../docs/CRITERIA.md")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("testdata/criteria/*.txtar")
	if err != nil || len(names) < 9 {
		t.Fatalf("%d examples, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range a.Files {
				if f.Name == "tests/criteria.json" && !strings.Contains(string(page), "```json\n"+string(f.Data)+"```\n") {
					t.Errorf("docs/CRITERIA.md does not show its criteria")
				}
			}
			example(t, a)
		})
	}
}

// TestFrameworksDocumented compares docs/CRITERIA.md, and the values that nutshell suggests, with the code.
func TestFrameworksDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/CRITERIA.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range frameworks {
		names = append(names, f.name)
	}
	var want []string
	for _, member := range nutshell.Describe(reflect.TypeFor[nutshell.Criteria]()).Members {
		if member.Name != "criteria" {
			continue
		}
		i := slices.IndexFunc(member.Each.Members, func(f *nutshell.Field) bool { return f.Name == "type" })
		want = member.Each.Members[i].Values
	}
	if !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(want))) {
		t.Errorf("frameworks are %q, the examples of Criterion.Type in nutshell/criteria.go are %q", names, want)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Criteria](), reflect.TypeFor[Entry](), reflect.TypeFor[Expected](), reflect.TypeFor[Match]()} {
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && name != "-" && name != "criteria_version" {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		if !regexp.MustCompile(`[^a-z_]` + name + `[^a-z_]`).Match(page) {
			t.Errorf("docs/CRITERIA.md does not explain %q", name)
		}
	}
}

// TestExpectationsGiven sets each expectation alone. A framework refuses the expectations that it does not check by their
// names in given, so one without a name there would be ignored, and the criterion would pass without it.
func TestExpectationsGiven(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Expected]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		var e Expected
		switch v := reflect.ValueOf(&e).Elem().FieldByIndex(field.Index); v.Kind() {
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
		case reflect.Int:
			v.SetInt(1)
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		default:
			t.Errorf("expected.%s: this test cannot set a %s", name, v.Kind())
		}
		if got := e.given(); !slices.Equal(got, []string{name}) {
			t.Errorf("with expected.%s alone, given returns %q: name it in the given of its struct, and call that in Expected.given", name, got)
		}
	}
}

func example(t *testing.T, a *txtar.Archive) {
	bundle, delivery := t.TempDir(), t.TempDir()
	for _, f := range a.Files {
		dir := bundle
		if strings.HasPrefix(f.Name, "delivery/") {
			dir = delivery
		}
		lay(t, dir, map[string]string{f.Name: string(f.Data)})
	}
	e := newEngine(t)
	if cache, err := os.UserCacheDir(); err == nil {
		e.Cache = filepath.Join(cache, "guild-judge-test") // preparing it takes longer than everything else
	}
	r, err := e.Examine(t.Context(), bundle, delivery)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(a.Comment))
	for _, strength := range []guild.Strength{guild.Strong, guild.Weak} {
		if rest, said := strings.CutPrefix(want, string(strength)+"\n"); said {
			r.wants(t, strength, strings.Split(rest, "\n")...)
			return
		}
	}
	if got := states(r); got != want {
		t.Errorf("tests:\n%s\nwant:\n%s\n%+v", got, want, r.Findings)
	}
}
