package draft

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"guild/internal/cli"
	"guild/nutshell"
)

// The templates are the texts that a bundle's files begin with. Until somebody writes below their headings, check warns
// that they are only templates.

func requirementsTemplate(title string) []byte {
	return fmt.Appendf(nil, `# Requirements%s

<!-- What is to be built, for whom, and why? -->

## Must have

<!-- One line for each thing that must work when the task is done. -->

## Must not

<!-- What must stay as it is? -->
`, suffix(title))
}

func architectureTemplate(title string) []byte {
	return fmt.Appendf(nil, `# Architecture%s

<!-- Which parts are there, and how do they work together? -->

## Where to work

<!-- Which files and folders will change, and which must not? -->

## Decisions

<!-- What has been decided already, and why? -->
`, suffix(title))
}

func referencesTemplate(title string) []byte {
	return fmt.Appendf(nil, `# References%s

<!-- Links to documents, tickets and examples, each with a word on why to read it. -->
`, suffix(title))
}

func otherTemplate(name, title string) []byte {
	heading := strings.ReplaceAll(strings.TrimSuffix(path.Base(name), path.Ext(name)), "-", " ")
	return fmt.Appendf(nil, "# %s%s\n\n<!-- What does an agent have to know about this? -->\n", cli.Clean(heading), suffix(title))
}

func suffix(title string) string {
	if title = cli.Clean(strings.TrimSpace(title)); title == "" {
		return ""
	}
	return ": " + title
}

// nutignore is the first .nutignore of a bundle.
const nutignore = `# What stays out of the bundle, in the form of .gitignore.
# Environment files, private keys, version control and other bundles stay out anyway.
.DS_Store
*.log
*.swp
*~
node_modules/
__pycache__/
`

// testScript returns a test that runs one command.
func testScript(command string) []byte {
	return fmt.Appendf(nil, `#!/bin/sh
# Ends with 0 when the work is done.
set -eu

%s
`, strings.TrimSpace(command))
}

// firstCriteria returns a criteria.json with one criterion. The script may be empty.
func firstCriteria(description, script string) ([]byte, error) {
	type criterion struct {
		ID          string `json:"id"`
		Description string `json:"description"`
		Type        string `json:"type"`
		Script      string `json:"script,omitempty"`
	}
	kind := "shell"
	if script == "" {
		kind = "custom"
	}
	return document(struct {
		Version    string      `json:"criteria_version"`
		Framework  string      `json:"test_framework"`
		Verifiable bool        `json:"auto_verifiable"`
		Criteria   []criterion `json:"criteria"`
	}{Version: nutshell.Version, Framework: kind, Verifiable: script != "", Criteria: []criterion{{"AC-001", description, kind, script}}})
}

// firstEndpoints returns an endpoints.json with one endpoint.
func firstEndpoints(baseURL, method, path, description string) ([]byte, error) {
	type endpoint struct {
		Method      string `json:"method"`
		Path        string `json:"path"`
		Description string `json:"description,omitempty"`
	}
	return document(struct {
		Version   string     `json:"api_version"`
		BaseURL   string     `json:"base_url,omitempty"`
		Endpoints []endpoint `json:"endpoints"`
	}{nutshell.Version, baseURL, []endpoint{{method, path, description}}})
}

// document returns JSON with indentation.
func document(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return []byte(b.String()), err
}
