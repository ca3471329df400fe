// Package humaneval turns the HumanEval problems into task bundles, so that tests of the whole loop have real
// work to hire for and deliveries whose worth is known beforehand. It owns the making of bundles, right
// solutions and wrong ones; it never runs Python and never judges.
//
// problems.jsonl holds every second of the 164 problems of github.com/openai/human-eval (MIT, see LICENSE).
package humaneval

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"
)

//go:embed problems.jsonl
var problems string

// Task is the routing task of every bundle.
const Task = "python"

// TimeLimit is how much processor time the tests of one bundle may take, in seconds. The right solutions take up to
// 130 ms of a 2020s processor, most of it to start Python.
const TimeLimit = 1

// Problem is one line of problems.jsonl.
type Problem struct {
	ID       string `json:"task_id"` // as "HumanEval/0"
	Prompt   string `json:"prompt"`  // Python that ends in the signature and docstring of Entry
	Entry    string `json:"entry_point"`
	Solution string `json:"canonical_solution"` // the body that belongs under Prompt
	Test     string `json:"test"`               // Python that defines check(candidate)
}

// Problems returns all 82 problems in the order of the file.
func Problems() ([]Problem, error) {
	var all []Problem
	lines := bufio.NewScanner(strings.NewReader(problems))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p Problem
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("problems.jsonl: problem %d: %w", len(all), err)
		}
		all = append(all, p)
	}
	return all, lines.Err()
}

// BundleID is the id in the manifest of the problem's bundle, as "nut-humaneval-0".
func (p Problem) BundleID() string {
	return "nut-" + strings.ReplaceAll(strings.ToLower(p.ID), "/", "-")
}

// Bundle returns the request bundle as a tree: the scaffold to fill in is files/solution.py, and a delivery
// replaces it by artifacts/solution.py.
func (p Problem) Bundle() (fs.FS, error) {
	manifest, err := indented(p.manifest())
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", p.ID, err)
	}
	criteria, err := indented(p.criteria())
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", p.ID, err)
	}
	return fstest.MapFS{
		"nutshell.json":           file(manifest),
		"context/requirements.md": file(p.requirements()),
		"files/solution.py":       file(p.Scaffold()),
		"tests/criteria.json":     file(criteria),
		"tests/test_solution.py":  file(p.Tests()),
	}, nil
}

// Scaffold is what the customer hands out: the signature, and a body that is still to be written.
func (p Problem) Scaffold() string { return p.Prompt + "    raise NotImplementedError\n" }

// Canonical is the solution that HumanEval itself gives.
func (p Problem) Canonical() string { return p.Prompt + p.Solution }

func (p Problem) requirements() string {
	return fmt.Sprintf("# %s\n\nComplete `%s` in `solution.py` so that it does what its docstring says.\n\n```python\n%s```\n",
		p.ID, p.Entry, p.Prompt)
}

type object = map[string]any

func (p Problem) manifest() object {
	return object{
		"nutshell_version": "0.2.0",
		"bundle_type":      "request",
		"id":               p.BundleID(),
		"created_at":       "2026-01-01T00:00:00Z",
		"task": object{
			"title":   p.ID + ": " + p.Entry,
			"summary": "Complete the Python function " + p.Entry + " so that it does what its docstring says.",
		},
		"tags":       object{"skills_required": []string{"python"}},
		"context":    object{"requirements": "context/requirements.md"},
		"acceptance": object{"criteria_file": "tests/criteria.json", "test_scripts": []string{"tests/test_solution.py"}, "auto_verifiable": true},
		"harness":    object{"constraints": []string{"Deliver solution.py and nothing else", "Use the standard library only"}},
		"extensions": object{"guild": object{"task": Task}},
	}
}

func (p Problem) criteria() object {
	return object{
		"criteria_version":   "0.2.0",
		"test_framework":     "pytest",
		"auto_verifiable":    true,
		"time_limit_seconds": TimeLimit,
		"criteria": []object{{
			"id":          "AC-001",
			"description": p.Entry + " passes the tests of " + p.ID,
			"type":        "pytest",
			"script":      "tests/test_solution.py",
		}},
	}
}

func indented(v any) (string, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return string(b) + "\n", err
}

func file(content string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(content), Mode: 0o644}
}
