package check_test

import (
	"fmt"
	"log"
	"testing/fstest"

	"guild/nutshell/check"
)

// The specification's example (section 4): a document and the credentials are missing.
func ExampleTree() {
	tree := fstest.MapFS{
		"nutshell.json": {Data: []byte(`{
  "nutshell_version": "0.2.0",
  "bundle_type": "request",
  "id": "nut-a1b2c3d4",
  "task": {"title": "Build REST API for User Management", "summary": "CRUD endpoints with JWT."},
  "context": {"requirements": "context/requirements.md", "architecture": "context/architecture.md"},
  "credentials": {"scopes": [{"name": "staging-db", "type": "postgresql"}]}
}`)},
		"context/requirements.md": {Data: make([]byte, 2150)},
	}
	r, err := check.Tree(tree, check.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range r.Items {
		fmt.Println(i.Mark, i.Text)
	}
	fmt.Println(r.Status, r.Missing())
	// Output:
	// ok task.title: "Build REST API for User Management"
	// ok task.summary: provided
	// ok context/requirements.md: exists (2.1 KB)
	// missing context/architecture.md: referenced but missing
	// missing credentials: no vault configured — agent won't have DB access
	// warning acceptance: no test scripts — agent can't self-verify
	// warning harness.constraints: empty — agent has no guardrails
	// incomplete [context.architecture credentials.vault]
}

func ExampleValidate() {
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(`{
  "nutshell_version": "2.0",
  "bundle_type": "request",
  "id": "nut-a1b2c3d4",
  "task": {"title": "Sort a list"}
}`)}}
	r, err := check.Validate(tree, check.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range r.Items {
		fmt.Println(i.Mark, i.Text)
	}
	// Output:
	// missing nutshell_version: "2.0" is not known, only 0.x
	// ok task.title: "Sort a list"
}
