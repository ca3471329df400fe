package nutshell_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"guild/nutshell"
)

func ExamplePath() {
	fmt.Println(nutshell.Path("task", "title"))
	fmt.Println(nutshell.Path("extensions", "org.example", "level"))
	// Output:
	// task.title
	// extensions."org.example".level
}

func TestPathRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", ".", `"`, `\`, "-", "0", "a.b", "\u2028", "\n"})), 1, 6).Draw(t, "names")
		path := nutshell.Path(names...)
		again, err := nutshell.SplitPath(path)
		if err != nil || !slices.Equal(again, names) {
			t.Fatalf("%q became %s and %q, %v", names, path, again, err)
		}
	})
}

func TestMember(t *testing.T) {
	m := parse(t, `{"task":{"title" : "t"},"x":[{"a.b": 1.0 },[2]],"extensions":{"zzz":{}}}`)
	for path, want := range map[string]string{
		"task.title": `"t"`, `x.0."a.b"`: "1.0", "x.1.0": "2", "x.1": "[2]", "extensions": `{"zzz":{}}`,
		"x.2": "", "x.-": "", "x.00": "", "x.a": "", "task.title.x": "", "none": "", "task..title": "", "": "",
	} {
		got, ok := m.Member(path)
		if string(got) != want || ok != (want != "") {
			t.Errorf("%s: %s, %v", path, got, ok)
		}
	}
}

func TestRemoveKeepsTheRest(t *testing.T) {
	table := []struct{ name, before, path, after string }{
		{"the first", `{"a": 1 , "b":2}`, "a", `{"b":2}`},
		{"the last", `{"a": 1 , "b":2 }`, "b", `{"a": 1 }`},
		{"the only one", `{ "a": 1 }`, "a", `{  }`},
		{"one within", `{"x":{"a":1.0,"b":2,"c":1e3}}`, "x.b", `{"x":{"a":1.0,"c":1e3}}`},
		{"an element", `{"x":[1.0, 2 ,3]}`, "x.1", `{"x":[1.0, 3]}`},
		{"the only element", `{"x":[1]}`, "x.0", `{"x":[]}`},
		{"a member of an element", `{"x":[{"a":1}]}`, "x.0.a", `{"x":[{}]}`},
		{"a line", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "b", "{\n  \"a\": 1\n}\n"},
		{"what is not there", `{"a":1}`, "b.c", `{"a":1}`},
		{"the place after the last", `{"x":[1]}`, "x.-", `{"x":[1]}`},
		{"a name with dots", `{"a.b":1,"a":{"b":2}}`, `"a.b"`, `{"a":{"b":2}}`},
	}
	for _, row := range table {
		m := parse(t, row.before)
		if err := m.Remove(row.path); err != nil || string(m.Bytes()) != row.after {
			t.Errorf("%s: %v\ngot  %s\nwant %s", row.name, err, m.Bytes(), row.after)
		}
	}
	if err := parse(t, `{}`).Remove("a..b"); err == nil {
		t.Error("a path that is none was taken")
	}
}
