// Package humaneval makes task bundles from the HumanEval problems, so that tests of the whole loop have real work and
// deliveries of known quality. It makes bundles, correct solutions and wrong ones. It never runs Python and never
// judges.
//
// problems.jsonl has every second of the 164 problems of github.com/openai/human-eval (MIT, see LICENSE).
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

// Task is the task of every bundle.
const Task = "python"

// TimeLimit limits the processor time of a bundle's tests, in seconds. The correct solutions take up to 130 ms on a
// processor of the 2020s, most of it to start Python.
const TimeLimit = 1

// Problem is one line of problems.jsonl.
type Problem struct {
	ID       string `json:"task_id"` // such as "HumanEval/0"
	Prompt   string `json:"prompt"`  // Python that ends in the signature and docstring of Entry
	Entry    string `json:"entry_point"`
	Solution string `json:"canonical_solution"` // the body to append to Prompt
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

// BundleID returns the id in the bundle's manifest, such as "nut-humaneval-0".
func (p Problem) BundleID() string {
	return "nut-" + strings.ReplaceAll(strings.ToLower(p.ID), "/", "-")
}

// Bundle returns the request bundle as a tree. The scaffold to complete is files/solution.py; a delivery replaces it
// by artifacts/solution.py.
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

// Scaffold returns the file that the provider must complete: the signature, and a body that raises
// NotImplementedError.
func (p Problem) Scaffold() string { return p.Prompt + "    raise NotImplementedError\n" }

// Canonical returns HumanEval's own solution.
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
		"extensions": object{"guild": object{"task": Task, "deliver": "solution.py"}},
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
