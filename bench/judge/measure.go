package main

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"guild/internal/judging/sandbox"
)

// measure runs all contestants.
func (s *stand) measure(ctx context.Context, o options) (*report, error) {
	version, err := exec.CommandContext(ctx, python, "-m", "pytest", "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("pytest: %w: %s", err, version)
	}
	usable, absent := others(ctx)
	caps := s.own.Probe(ctx)
	r := &report{
		Runs:   o.n,
		Width:  o.c,
		Rounds: o.rounds,
		CPUs:   runtime.NumCPU(),
		Go:     runtime.Version(),
		Python: strings.TrimSpace(string(version)),
		Absent: absent,
	}
	for _, h := range []struct {
		name string
		all  []contestant
	}{{"15 tests", s.testers(usable)}, {"true", s.starters(usable)}, {"one test", s.judges(caps)}} {
		all := r.present(ctx, h.all)
		results, err := race(ctx, all, o)
		if err != nil {
			return nil, err
		}
		r.Heats = append(r.Heats, newHeat(h.name, results))
	}
	if r.Memory, err = s.idle(ctx, o.rounds); err != nil {
		return nil, err
	}
	if r.Calls, err = s.calls(ctx, o.rounds, r.Absent); err != nil {
		return nil, err
	}
	for _, gap := range caps.Gaps {
		r.Absent["own runtime"] += gap + "; "
	}
	r.judge()
	return r, nil
}

// present removes contestants that cannot run here and records the reason.
func (r *report) present(ctx context.Context, all []contestant) []contestant {
	return slices.DeleteFunc(all, func(c contestant) bool {
		err := c.lap(ctx)
		if err != nil {
			r.Absent[c.name] = err.Error()
		}
		return err != nil
	})
}

// testers returns the contestants that run the 15 tests.
func (s *stand) testers(usable map[string]sandbox.Runner) []contestant {
	args := append([]string{"-m", "pytest"}, append(pytestOptions, "test_solution.py")...)
	warm := sandbox.Spec{Argv: []string{python, "-B"}, Program: &sandbox.Program{Name: "bench", Setup: setup}, Copies: s.copies()}
	all := []contestant{
		{barePytest, func(ctx context.Context) error { return s.bare(ctx, python, args...) }},
		{ownCold, s.pytest(s.own)},
		{ownFork, s.sandboxed(s.own, warm)}, // a fork of a warm interpreter
		{splitJudging, s.split()},
	}
	for _, tier := range slices.Sorted(maps.Keys(usable)) {
		all = append(all, contestant{tier, s.pytest(usable[tier])})
	}
	return all
}

// starters returns the contestants that only start a sandbox.
func (s *stand) starters(usable map[string]sandbox.Runner) []contestant {
	bwrap := []string{
		"--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
		"--tmpfs", "/tmp", "/bin/true",
	}
	nothing := sandbox.Spec{Argv: []string{"/bin/true"}}
	all := []contestant{
		{bareBwrap, func(ctx context.Context) error { return s.bare(ctx, "bwrap", bwrap...) }},
		{ownCold, s.sandboxed(s.own, nothing)},
		{ownFork, s.sandboxed(s.own, sandbox.Spec{
			Argv: []string{python, "-I"}, Program: &sandbox.Program{Name: "nothing", Setup: "import os\ndef main():\n    os._exit(0)\n"},
		})},
	}
	for _, tier := range slices.Sorted(maps.Keys(usable)) {
		all = append(all, contestant{tier, s.sandboxed(usable[tier], nothing)})
	}
	return all
}
