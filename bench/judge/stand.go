package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"guild"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/namespaces"
	"guild/internal/judging/sandbox/tiers"
)

// Names of the contestants in the goals.
const (
	barePytest   = "bare pytest"
	bareBwrap    = "bare bwrap"
	ownCold      = "own runtime, cold"
	ownFork      = "own runtime, fork server"
	splitJudging = "split judging"
	testsAlone   = "tests alone"
	wholeRun     = "whole run"
)

// python is the real interpreter. The shim of a version manager can start three times slower.
const python = "/usr/bin/python3"

// pytestOptions disable parts of pytest that depend on the machine, such as plugins and the cache.
var pytestOptions = []string{"-q", "-p", "no:cacheprovider", "-c", os.DevNull}

// setup is the first part of a program that runs pytest. It runs one empty session, so that everything that pytest
// imports is loaded before the fork.
const setup = `import contextlib
import io
import os
import sys

import pytest

OPTIONS = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--capture=sys"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    pytest.main(OPTIONS + ["/nothing"])


def main():
    sys.path.insert(0, "/box/work")
    code = int(pytest.main(OPTIONS + ["/box/work/test_solution.py"]))
    sys.stdout.flush()
    os._exit(code)
`

// tests has the file of 15 tests and the code under test.
//
//go:embed testdata/solution.py testdata/test_solution.py
var tests embed.FS

// stand has the inputs of all contestants.
type stand struct {
	dir      string // files of the tests for the bare contestants
	bundle   string // the same as a request bundle
	delivery string
	own      *namespaces.Runner
}

func newStand() (*stand, error) {
	dir, err := os.MkdirTemp("", "bench-judge")
	if err != nil {
		return nil, err
	}
	s := &stand{
		dir: filepath.Join(dir, "bare"), bundle: filepath.Join(dir, "bundle"), delivery: filepath.Join(dir, "delivered"),
		own: &namespaces.Runner{},
	}
	for from, to := range map[string]string{
		"solution.py":      filepath.Join(s.dir, "solution.py"),
		"test_solution.py": filepath.Join(s.dir, "test_solution.py"),
	} {
		b, err := tests.ReadFile("testdata/" + from)
		if err != nil {
			return s, err
		}
		below := filepath.Join(s.bundle, "tests", from)
		if from == "solution.py" {
			below = filepath.Join(s.delivery, "delivery", "artifacts", from)
		}
		if err := errors.Join(write(to, b), write(below, b)); err != nil {
			return s, err
		}
	}
	criteria := `{"criteria_version": "0.2.0", "test_framework": "pytest", "time_limit_seconds": 20,
		"criteria": [{"id": "AC-1", "script": "tests/test_solution.py", "type": "pytest"}]}`
	manifest := `{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-00000000-0000-4000-8000-000000000001",
		"task": {"title": "Measure"}, "acceptance": {"criteria_file": "tests/criteria.json"}}`
	return s, errors.Join(
		write(filepath.Join(s.bundle, "tests", "criteria.json"), []byte(criteria)),
		write(filepath.Join(s.bundle, "nutshell.json"), []byte(manifest)))
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func (s *stand) close() {
	s.own.Close()
	os.RemoveAll(filepath.Dir(s.dir))
}

// env returns the environment of all contestants.
func env() []string {
	return []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "PYTHONDONTWRITEBYTECODE=1"}
}

// bare runs a command without a sandbox.
func (s *stand) bare(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = s.dir, env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// pytest returns a lap that runs the tests cold in a sandbox.
func (s *stand) pytest(r sandbox.Runner) func(context.Context) error {
	argv := append([]string{python, "-m", "pytest"}, append(pytestOptions, "test_solution.py")...)
	return s.sandboxed(r, sandbox.Spec{Argv: argv, Copies: s.copies()})
}

func (s *stand) copies() []sandbox.Copy {
	return []sandbox.Copy{{Host: s.dir, Inside: sandbox.Workspace}}
}

// sandboxed returns a lap that runs spec and requires its success.
func (s *stand) sandboxed(r sandbox.Runner, spec sandbox.Spec) func(context.Context) error {
	spec.Env = env()
	return func(ctx context.Context) error {
		var out, complaint bytes.Buffer
		res, err := r.Run(ctx, spec, sandbox.IO{Stdout: &out, Stderr: &complaint})
		if err != nil {
			return err
		}
		if res.Exit != 0 || spec.Copies != nil && !strings.Contains(out.String(), "15 passed") {
			return fmt.Errorf("exit %d %s %s: %s%s", res.Exit, res.Signal, res.Killed, out.String(), complaint.String())
		}
		return nil
	}
}

// split returns a lap that judges the tests through the engine.
func (s *stand) split() func(context.Context) error {
	engine := &exam.Engine{Runner: s.own}
	return func(ctx context.Context) error {
		r, err := engine.Examine(ctx, s.bundle, s.delivery)
		if err != nil {
			return err
		}
		passed := 0
		for _, f := range r.Findings {
			if f.Strength != guild.Strong {
				return fmt.Errorf("the judgement is %s, not strong: %s %s", f.Strength, f.Because, f.Fault)
			}
			for _, t := range f.Tests {
				if t.State == guild.TestPassed {
					passed++
				}
			}
		}
		if passed != 15 {
			return fmt.Errorf("%d of 15 tests passed: %+v", passed, r.Findings)
		}
		return nil
	}
}

// others returns the usable runners of other tiers, and the reasons of the unusable ones, by tier.
func others(ctx context.Context) (usable map[string]sandbox.Runner, absent map[string]string) {
	usable, absent = map[string]sandbox.Runner{}, map[string]string{}
	for _, r := range tiers.All() {
		c := r.Probe(ctx)
		switch {
		case c.Tier == namespaces.Tier:
		case c.Usable:
			usable[c.Tier] = r
		default:
			absent[c.Tier] = c.Reason
		}
	}
	return usable, absent
}
