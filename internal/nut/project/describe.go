package project

import (
	"context"
	"fmt"
	"strings"

	"guild/nutshell"
)

// Limits of processor time for one run of the tests, in seconds.
const (
	apartTime  = 60
	besideTime = 300
)

// criterion is a criterion of a criteria.json.
type criterion struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	Type        string `json:"type"`
	Script      string `json:"script,omitempty"`
}

// criteria is a criteria.json.
type criteria struct {
	Version    string      `json:"criteria_version"`
	Framework  string      `json:"test_framework"`
	Verifiable bool        `json:"auto_verifiable"`
	TimeLimit  int         `json:"time_limit_seconds"`
	Criteria   []criterion `json:"criteria"`
}

// describe writes what says what is to be done: the criteria, the requirements and the manifest.
func (m *maker) describe(context.Context) error {
	if m.plan.framework != "" {
		if err := m.writeCriteria(); err != nil {
			return err
		}
	}
	if err := m.write("context/requirements.md", "", m.requirements(), false); err != nil {
		return err
	}
	raw, err := m.manifest()
	if err != nil {
		return err
	}
	return m.write(nutshell.ManifestFile, "", raw, false)
}

// writeCriteria writes the criteria, and those for hidden tests where the open ones do not run them.
func (m *maker) writeCriteria() error {
	about := "The tests pass: " + m.plan.command
	open := criteria{Version: nutshell.Version, Framework: m.plan.framework, Verifiable: true, TimeLimit: apartTime}
	own := open
	switch {
	case m.plan.framework == shell:
		open.TimeLimit, own.TimeLimit = besideTime, besideTime
		open.Criteria = []criterion{{ID: "tests", Description: about, Type: shell, Script: "tests/run.sh"}}
		own.Criteria = []criterion{{ID: "hidden", Description: about, Type: shell, Script: hidden + "/run.sh"}}
		if err := m.write("tests/run.sh", "", runScript(m.plan.command, keptDir), true); err != nil {
			return err
		}
	case len(m.plan.paths) == 0: // all tests, with the hidden ones
		open.Criteria = []criterion{{ID: "tests", Description: about, Type: m.plan.framework}}
	default:
		for i, p := range m.plan.paths {
			id := "tests"
			if i > 0 {
				id = fmt.Sprintf("tests-%d", i+1)
			}
			if _, is := within(p, m.roots); !is {
				open.Criteria = append(open.Criteria, criterion{ID: id, Description: about, Type: m.plan.framework, Script: m.plan.script(p)})
			}
		}
		own.Criteria = []criterion{{ID: "hidden", Description: "The hidden tests pass", Type: m.plan.framework, Script: hidden}}
	}
	if len(m.Hidden) > 0 && len(own.Criteria) > 0 {
		if err := m.writeHiddenCriteria(own); err != nil {
			return err
		}
	}
	raw, err := document(open)
	if err != nil {
		return err
	}
	return m.write(lists, "", raw, false)
}

func (m *maker) writeHiddenCriteria(own criteria) error {
	if m.plan.framework == shell {
		if err := m.write(hidden+"/run.sh", "", runScript(m.plan.command, keptDir, hidden+"/kept"), true); err != nil {
			return err
		}
	}
	raw, err := document(own)
	if err != nil {
		return err
	}
	return m.write(hidden+"/criteria.json", "", raw, false)
}

// script returns the path in the bundle for one that a command names, which may be that of a folder or of one test.
func (p plan) script(name string) string {
	file, one, single := strings.Cut(name, "::")
	if single {
		return p.place(file) + "::" + one
	}
	return p.place(file + "/")
}

// runScript returns a script that puts the customer's tests in the place of what was delivered there, and runs a command.
func runScript(command string, kept ...string) []byte {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# The customer's tests replace what was delivered in their place.\n")
	for _, dir := range kept {
		fmt.Fprintf(&b, "if test -d /judge/%[1]s; then cp -R /judge/%[1]s/. . || exit 1; fi\n", dir)
	}
	fmt.Fprintf(&b, "%s\n", command)
	return []byte(b.String())
}

// requirements returns the text that a provider reads first.
func (m *maker) requirements() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n## What is here\n\n- `files/`: the project\n", m.Title, strings.TrimSpace(m.wish.Sentence))
	switch {
	case m.plan.framework == "":
		b.WriteString("- `tests/`: its tests; `tests/criteria.json` says how they are run\n")
	case m.plan.framework == shell:
		fmt.Fprintf(&b, "- `tests/kept/`: its tests, which belong beside the files of the project; `tests/run.sh` runs `%s`\n", m.plan.command)
	case m.plan.framework == goTest:
		fmt.Fprintf(&b, "- `tests/`: its tests, which belong beside the files of the project; they are run by `%s`\n", m.plan.command)
	default:
		fmt.Fprintf(&b, "- `tests/`: its tests, which are run by `%s` with `files/` as the directory\n", m.plan.command)
	}
	if len(m.Hidden) > 0 {
		b.WriteString("- the customer has more tests, which stay hidden until the delivery is judged\n")
	}
	b.WriteString("\n## What to deliver\n\n" +
		"Each file that you change or add, whole, under the path that it has in the project: `src/a.py` for `files/src/a.py`. " +
		"Leave out what you do not change. The customer's tests decide as they are; changed ones are not used. No file can be removed.\n")
	return []byte(b.String())
}

// manifest returns the nutshell.json.
func (m *maker) manifest() ([]byte, error) {
	type object map[string]any
	from := origin{Framework: m.plan.framework}
	if m.tree.repo != nil {
		from.Prefix = m.tree.repo.Prefix
	}
	skills := []string{}
	if m.Task != "" {
		skills = append(skills, m.Task)
	}
	return document(struct {
		Version    string `json:"nutshell_version"`
		Type       string `json:"bundle_type"`
		ID         string `json:"id"`
		Task       object `json:"task"`
		Tags       object `json:"tags"`
		Context    object `json:"context"`
		Acceptance object `json:"acceptance"`
		Extensions object `json:"extensions"`
	}{
		Version: nutshell.Version, Type: nutshell.TypeRequest, ID: m.id(),
		Task:       object{"title": m.Title, "summary": strings.TrimSpace(m.wish.Sentence)},
		Tags:       object{"skills_required": skills, "domains": []string{}},
		Context:    object{"requirements": "context/requirements.md"},
		Acceptance: object{"criteria_file": lists, "auto_verifiable": true},
		Extensions: object{"guild": object{"task": m.Task, "project": from}},
	})
}
