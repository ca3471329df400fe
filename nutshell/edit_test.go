package nutshell_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"guild/nutshell"
)

// piece is a member of an object or an element of a list, as it is written. It is read by another decoder than the one
// under test.
type piece struct{ name, text string }

func pieces(t *rapid.T, text []byte) (all []piece, list bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	begin, err := d.Token()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	switch begin {
	case json.Delim('['):
		list = true
	case json.Delim('{'):
	default:
		return nil, false
	}
	for d.More() {
		p := piece{name: strconv.Itoa(len(all))}
		if !list {
			name, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			p.name = name.(string)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		p.text = string(raw)
		all = append(all, p)
	}
	return all, list
}

// touched fails unless two texts only differ at a path, where something was set or removed.
func touched(t *rapid.T, before, after []byte, path []string) {
	was, list := pieces(t, before)
	is, _ := pieces(t, after)
	if len(was) == 0 && len(is) <= 1 {
		return // null and what is empty can become an object or a list
	}
	step := path[0]
	if list && step == "-" {
		step = strconv.Itoa(len(was))
	}
	find := func(all []piece) int { return slices.IndexFunc(all, func(p piece) bool { return p.name == step }) }
	i, j := find(was), find(is)
	if i >= 0 && j >= 0 && len(path) > 1 && len(was) == len(is) {
		touched(t, []byte(was[i].text), []byte(is[j].text), path[1:])
	}
	if list && len(is) < len(was) {
		j = -1 // removed: the next one has taken its number
	}
	rest := func(all []piece, without int) (texts []string) {
		for k, p := range all {
			if k != without && list {
				texts = append(texts, p.text)
			} else if k != without {
				texts = append(texts, p.name+"="+p.text)
			}
		}
		return texts
	}
	if a, b := rest(was, i), rest(is, j); !slices.Equal(a, b) {
		t.Fatalf("at %q\nbefore %q\nafter  %q", path, a, b)
	}
}

// genName draws names of members, some of which must be quoted in a path or look like something else there.
func genName() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching(`x_[a-z]{1,4}`), rapid.SampledFrom([]string{"a.b", "", "-", "0", "1", `q"`, `b\`, "é", "\u2028", "TITLE"}))
}

// genValue draws a JSON value as text.
func genValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		space := rapid.SampledFrom([]string{"", " ", "\n  ", "\r\n\t"}).Draw(t, "space")
		switch {
		case depth == 0 || kind < 2:
			return rapid.SampledFrom([]string{
				"null", "true", "false", "0", "-0", "1.0", "1e3", "1E+2", "10000000000000000000001", "-1.50", "1e400",
				`""`, `"a"`, `"\u00e9\/"`, `"é"`, `"\u2028"`, "\"\u2028\"", `"\ud83d\ude00"`, `"<&>"`, `"{\"a\":[1]}"`, "{}", "[ ]",
			}).Draw(t, "scalar")
		case kind == 2:
			return "[" + space + strings.Join(rapid.SliceOfN(genValue(depth-1), 0, 3).Draw(t, "list"), ","+space) + space + "]"
		}
		return genMembers(t, depth, space, nil)
	})
}

// genMembers draws an object that has at least the members given.
func genMembers(t *rapid.T, depth int, space string, given []string) string {
	all := slices.Clone(given)
	for _, name := range rapid.SliceOfNDistinct(genName(), 0, 4, rapid.ID[string]).Draw(t, "names") {
		quoted, _ := json.Marshal(name)
		all = append(all, string(quoted)+space+":"+genValue(depth-1).Draw(t, "value"))
	}
	if len(all) > 1 {
		all = rapid.Permutation(all).Draw(t, "order")
	}
	return "{" + space + strings.Join(all, ","+space) + space + "}"
}

// genManifest draws a manifest whose known members have their kinds and whose unknown ones have any.
func genManifest(t *rapid.T) string {
	section := func(known ...string) string {
		space := rapid.SampledFrom([]string{"", " ", "\n    "}).Draw(t, "space")
		return genMembers(t, 2, space, rapid.SliceOfDistinct(rapid.SampledFrom(known), rapid.ID[string]).Draw(t, "known"))
	}
	return section(`"nutshell_version":"0.2.0"`, `"id" : "nut-1"`,
		`"task":`+section(`"title":"t"`, `"priority": "low"`, `"estimated_effort":""`),
		`"tags": `+section(`"domains":["a" , "b"]`, `"custom":`+section(`"n": 1.0`, `"deep":{"n":[1e3]}`)),
		`"context":`+section(`"additional":[ ]`, `"requirements":null`),
		`"files":`+section(`"tree":[{"path":"a","x":1.0},{"size":2.0}]`, `"total_count":1e2`),
		`"acceptance":null`,
		`"extensions":`+section(`"zzz":{"n":85.0}`, `"org.x":{"task":{"title":5}}`))
}

// genPath draws a path that exists in the document, or could.
func genPath(t *rapid.T, text []byte) []string {
	var path []string
	for {
		all, list := pieces(t, text)
		if len(all) == 0 || rapid.IntRange(0, 4).Draw(t, "stop") == 0 {
			next := genName()
			if list {
				next = rapid.SampledFrom([]string{"-", strconv.Itoa(len(all)), "7"})
			} else if len(path) == 0 {
				next = rapid.SampledFrom([]string{"task", "publisher", "harness", "created_at", "x_new"})
			}
			return append(path, next.Draw(t, "next"))
		}
		p := rapid.SampledFrom(all).Draw(t, "piece")
		path = append(path, p.name)
		if rapid.IntRange(0, 2).Draw(t, "enough") == 0 {
			return path
		}
		text = []byte(p.text)
	}
}

func compact(t *rapid.T, text []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSetKeepsOtherBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := nutshell.ParseManifest([]byte(genManifest(t)))
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			before := m.Bytes()
			path, value := genPath(t, before), genValue(2).Draw(t, "value")
			remove := false
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0:
				remove = true
				err = m.Remove(nutshell.Path(path...))
			case 1:
				path = []string{"extensions", genName().Draw(t, "extension")}
				err = m.SetExtension(path[1], json.RawMessage(value))
			default:
				err = m.Set(nutshell.Path(path...), json.RawMessage(value))
			}
			checkChange(t, m, before, path, value, remove, err)
		}
	})
}

// checkChange checks a manifest after one change.
func checkChange(t *rapid.T, m *nutshell.Manifest, before []byte, path []string, value string, remove bool, err error) {
	after := m.Bytes()
	if err != nil {
		if !bytes.Equal(before, after) {
			t.Fatalf("%v, but %q changed to %q", err, before, after)
		}
		return
	}
	again, err := nutshell.ParseManifest(after)
	if err != nil || !bytes.Equal(again.Bytes(), after) || !reflect.DeepEqual(again.Sections(), m.Sections()) {
		t.Fatalf("%q became %q: %v", before, after, err)
	}
	touched(t, before, after, path)
	if path[len(path)-1] == "-" {
		return // has another number by now
	}
	got, there := m.Member(nutshell.Path(path...))
	switch parent, _ := again.Member(nutshell.Path(path[:len(path)-1]...)); {
	case remove && there && (len(path) == 1 || parent[0] != '['):
		t.Fatalf("%q is still in %q", path, after)
	case !remove && (!there || compact(t, got) != compact(t, []byte(value))):
		t.Fatalf("set %q to %s, got %s in %q", path, value, got, after)
	}
}

func TestAddedMembersAreInOrder(t *testing.T) {
	values := map[nutshell.Kind]string{
		nutshell.KindText: `"t"`, nutshell.KindTime: `"2026-03-21T10:00:00Z"`, nutshell.KindWhole: "1", nutshell.KindNumber: "0.5",
		nutshell.KindFlag: "true", nutshell.KindTexts: `["a"]`, nutshell.KindList: "[]",
	}
	var leaves []string
	for _, path := range nutshell.Fields() {
		if f, err := nutshell.FieldAt(path); err != nil || f.Kind == nutshell.KindUnknown {
			t.Fatalf("%s: %v, %v", path, f, err)
		} else if f.Kind != nutshell.KindObject {
			leaves = append(leaves, path)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m, err := nutshell.ParseManifest([]byte(rapid.SampledFrom([]string{"{}", "{\n  \"x\": 1\n}"}).Draw(t, "empty")))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range rapid.Permutation(leaves).Draw(t, "order") {
			f, _ := nutshell.FieldAt(path)
			if err := m.Set(path, json.RawMessage(values[f.Kind])); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		collect(t, "", m.Bytes(), &got)
		if got = slices.DeleteFunc(got, func(p string) bool { return p == "x" }); !slices.Equal(got, leaves) {
			t.Fatalf("got  %q\nwant %q", got, leaves)
		}
	})
}

// collect lists the paths of the values other than objects.
func collect(t *rapid.T, prefix string, text []byte, into *[]string) {
	all, _ := pieces(t, text)
	for _, p := range all {
		if p.text[0] == '{' {
			collect(t, prefix+p.name+".", []byte(p.text), into)
		} else {
			*into = append(*into, prefix+p.name)
		}
	}
}
