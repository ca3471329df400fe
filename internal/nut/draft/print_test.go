package draft

import (
	"bytes"
	"testing"
	"testing/fstest"

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

func TestReportLayout(t *testing.T) {
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

func TestReportColours(t *testing.T) {
	var b bytes.Buffer
	printItems(&b, []check.Item{{Mark: check.OK, Text: "a"}, {Mark: check.Missing, Text: "b\x1b[0m"}, {Mark: check.Warning, Text: "c"}}, true)
	if got, want := b.String(), "  \x1b[32m✓\x1b[m a\n  \x1b[31m✗\x1b[m b·[0m\n  \x1b[33m⚠\x1b[m c\n"; got != want {
		t.Errorf("%q", got)
	}
}

func TestFixOfSeveralLines(t *testing.T) {
	var b bytes.Buffer
	printFixes(&b, "To fix:", []string{"first\nand: more", "second"})
	if got, want := b.String(), "\n  To fix:\n    1. first\n       and: more\n    2. second\n"; got != want {
		t.Errorf("%q", got)
	}
}
