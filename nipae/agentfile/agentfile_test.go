package agentfile

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"guild/nipae"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       nipae.Definition
	}{
		{"TOML", "slug = 'fixer'\ntitle = 'Fixer'\ninstructions = 'Fix it.'\ntools = ['read', 'write']\n",
			nipae.Definition{D: "fixer", Title: "Fixer", Instructions: "Fix it.", Tools: []string{"read", "write"}}},
		{"Markdown with TOML", "+++\nslug = 'fixer'\nuse_criteria = 'a bug'\n+++\n\n# How\n\nFix it.\n",
			nipae.Definition{D: "fixer", UseCriteria: "a bug", Instructions: "# How\n\nFix it."}},
		{"Markdown about an agent with instructions", "+++\nslug = 'fixer'\ninstructions = 'Fix it.'\n+++\nMore.",
			nipae.Definition{D: "fixer", Instructions: "Fix it.", Content: "More."}},
		{"a Claude Code agent", "---\nname: reviewer\ndescription: Reviews code. Use it after changes.\ntools: Read, Grep , Bash\nmodel: sonnet\n---\n\nYou review.\r\nBriefly.\n",
			nipae.Definition{
				D: "reviewer", Title: "reviewer", Description: "Reviews code. Use it after changes.", UseCriteria: "Reviews code. Use it after changes.",
				Tools: []string{"Read", "Grep", "Bash"}, Instructions: "You review.\nBriefly.",
			}},
		{"a Claude Code agent with a list of tools", "---\nname: a\ntools:\n  - Read\n---\n", nipae.Definition{D: "a", Title: "a", Tools: []string{"Read"}}},
		{"front matter alone", "+++\nslug = 'a'\n+++", nipae.Definition{D: "a"}},
	} {
		got, err := Parse([]byte(c.file))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v\n%+v, want\n%+v", c.name, err, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"no slug", "title = 'x'", "slug: missing"},
		{"a key that does not exist", "slug = 'a'\nmodel = 'x'", "unknown key model"},
		{"front matter without an end", "+++\nslug = 'a'\n", ErrForm.Error()},
		{"prose", "Fix it.", ErrForm.Error()},
		{"no name", "---\ndescription: x\n---\n", "no name"},
		{"a pattern for a tool", "---\nname: a\ntools: Bash(git:*)\n---\n", "tool tag"},
		{"a tool with shell characters", "slug = 'a'\ntools = ['x;rm -rf /']", "tool tag"},
		{"tools that are no names", "---\nname: a\ntools: {x: 1}\n---\n", "tools"},
		{"three texts", "+++\nslug = 'a'\ninstructions = 'b'\ncontent = 'c'\n+++\nd", "a text follows"},
	} {
		if _, err := Parse([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Parse(make([]byte, MaxSize+1)); !errors.Is(err, ErrTooBig) {
		t.Errorf("too large: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("+++\nslug = 'a'\ntools = ['x']\nrole = \"\"\"\nx\n\"\"\"\n+++\n\nDo it.\n"))
	f.Add([]byte("---\nname: a\ndescription: b\ntools: c, d\n---\ne\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Parse(b)
		if err != nil {
			return
		}
		text, err := Format(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		first, errFirst := d.Event()
		second, errSecond := again.Event()
		if errFirst != nil || errSecond != nil || !reflect.DeepEqual(first.Tags, second.Tags) {
			t.Errorf("%v, %v\n%q is now\n%q", errFirst, errSecond, first.Tags, second.Tags)
		}
	})
}
