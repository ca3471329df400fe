package nut

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"guild/nutshell"
	"guild/nutshell/check"
)

// specified is the example of the specification, section 4.
const specified = `
  🐚 Nutshell Completeness Check

  ✓ task.title: "Build REST API for User Management"
  ✓ task.summary: provided
  ✓ context/requirements.md: exists (2.1 KB)
  ✗ context/architecture.md: referenced but missing
  ✗ credentials: no vault configured — agent won't have DB access
  ⚠ acceptance: no test scripts — agent can't self-verify
  ⚠ harness.constraints: empty — agent has no guardrails

  Status: INCOMPLETE — 2 items need attention before agent can start

  To fix:
    1. Create context/architecture.md with system architecture
    2. Add credentials with: nutshell add-credential --name staging-db --type postgresql
`

func TestTheSpecificationsExampleComesOutByteForByte(t *testing.T) {
	r, err := check.Tree(fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1",
			"task":{"title":"Build REST API for User Management","summary":"CRUD"},
			"context":{"requirements":"context/requirements.md","architecture":"context/architecture.md"},
			"credentials":{"scopes":[{"name":"staging-db","type":"postgresql"}]}}`)},
		"context/requirements.md": {Data: make([]byte, 2150)},
	}, check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	layOut(&b, r, false)
	if b.String() != specified {
		t.Errorf("%s", b.String())
	}
}

func TestTheStatusLineCountsInWords(t *testing.T) {
	gap := check.Item{Field: "f", Mark: check.Missing, Text: "t"}
	warning := check.Item{Field: "f", Mark: check.Warning, Text: "t"}
	for want, r := range map[string]check.Report{
		"READY — agent can start":                                        {Status: check.Ready},
		"READY — agent can start, with 1 warning":                        {Status: check.Ready, Items: []check.Item{warning}},
		"READY — agent can start, with 2 warnings":                       {Status: check.Ready, Items: []check.Item{warning, warning}},
		"READY — it can be delivered":                                    {Status: check.Ready, Delivery: true},
		"INCOMPLETE — 1 item needs attention before agent can start":     {Status: check.Incomplete, Items: []check.Item{gap, warning}},
		"INCOMPLETE — 2 items need attention before it can be delivered": {Status: check.Incomplete, Items: []check.Item{gap, gap}, Delivery: true},
		"DRAFT — 1 item needs attention before agent can start":          {Status: check.Draft, Items: []check.Item{gap}},
	} {
		if got := verdict(r); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestColoursAreOnTheMarksOnly(t *testing.T) {
	var b bytes.Buffer
	printItems(&b, []check.Item{{Mark: check.OK, Text: "a"}, {Mark: check.Missing, Text: "b\x1b[0m"}, {Mark: check.Warning, Text: "c"}}, true)
	if got, want := b.String(), "  \x1b[32m✓\x1b[m a\n  \x1b[31m✗\x1b[m b·[0m\n  \x1b[33m⚠\x1b[m c\n"; got != want {
		t.Errorf("%q", got)
	}
}

func TestAFixOfSeveralCommandsIsOneNumber(t *testing.T) {
	var b bytes.Buffer
	printFixes(&b, "To fix:", []string{"first\nand: more", "second"})
	if got, want := b.String(), "\n  To fix:\n    1. first\n       and: more\n    2. second\n"; got != want {
		t.Errorf("%q", got)
	}
}

func TestANewFileTakesNobodysPlace(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := writeNew(dir, "a/b/c.md", []byte("first"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(dir, "a/b/c.md", []byte("second"), 0o644); !errors.Is(err, errExists) {
		t.Error(err)
	}
	if err := os.Symlink(filepath.Join(outside, "x"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(dir, "link", []byte("second"), 0o644); !errors.Is(err, errExists) {
		t.Error("a link was followed or replaced:", err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(dir, "out/x", []byte("second"), 0o644); err == nil {
		t.Error("written through a link out of the directory")
	}
	got, err := os.ReadFile(filepath.Join(dir, "a/b/c.md"))
	if err != nil || string(got) != "first" {
		t.Errorf("%q, %v", got, err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "a/b"))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if left, err = os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestAManifestIsRewrittenInPlace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, nutshell.ManifestFile)
	if err := os.WriteFile(file, []byte(`{"id": "nut-1", "mine": 1.00}`), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := rewriteManifest(dir, func(m *nutshell.Manifest) error { return m.Set("id", "nut-2") }); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	if err := rewriteManifest(dir, func(*nutshell.Manifest) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != `{"id": "nut-2", "mine": 1.00}` {
		t.Errorf("%s, %v", got, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestANewIDIsARandomUUID(t *testing.T) {
	id, err := newID(bytes.NewReader(bytes.Repeat([]byte{0xff}, 16)))
	if err != nil || id != "nut-ffffffff-ffff-4fff-bfff-ffffffffffff" {
		t.Errorf("%s, %v", id, err)
	}
	if _, err := newID(strings.NewReader("short")); err == nil {
		t.Error("an id without enough randomness")
	}
}

func TestADirectoryIsNamedInCommandsWhereItMatters(t *testing.T) {
	p := &Program{Name: "guild nut"}
	for dir, want := range map[string]string{
		".": "guild nut check", "my-task": "guild nut check --dir my-task", "it's mine": `guild nut check --dir 'it'\''s mine'`,
	} {
		if got := p.within(dir, "check"); got != want {
			t.Errorf("%s", got)
		}
	}
}
