// Package suite makes benchmarks: request bundles with hidden tests, to test a provider (the partnership protocol,
// sections 2.2 and 4.2.2). Each provider gets its own instances, so that answers cannot be shared, and the expected
// answers are computed in advance. The package hires no provider and judges nothing.
//
// A benchmark has six exercises. Each turns lines of text into lines of text by rules whose names and numbers are drawn
// from a seed, so that a delivery for another provider or an earlier run is wrong. The rules and at least two examples
// of each exercise are public; the tests are not.
package suite

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"guild"
)

// ErrUnknown means that there is no suite for a task, variant or module.
var ErrUnknown = errors.New("no benchmark")

// Variants and modules of the shipped suites (the partnership protocol, section 2.2.3).
var (
	Variants = []string{"standard", "stress", "correctness"}
	Modules  = []string{"computation", "memory", "io"}
)

// Iterations is the minimum number of performance tests, each with its own input, because a single time is not
// conclusive (the partnership protocol, section 2.2.3).
const Iterations = 5

// Spec describes a benchmark to make.
type Spec struct {
	Task    string
	Variant string   // standard if empty
	Modules []string // all modules if empty
	Seed    [32]byte // the same seed always gives the same instances
	Run     int      // number of the run in a meeting, from 1; each run has its own instances
}

// Made is one benchmark, ready to be requested.
type Made struct {
	Name   string // name and version of the suite
	Title  string
	Limit  int    // processor time of a judged run, in seconds
	Speaks string // language of the delivery, as "python3"
	Bundle []byte // the packed request bundle, with commitments to the hidden tests
	Hidden []byte // the hidden tests as files of a packed bundle, which never leaves this machine
}

// form describes how the exercises of a task are delivered and tested.
type form struct {
	task    string
	speaks  string
	file    string   // the file to deliver
	command []string // runs it, with the name of an exercise appended; nil if pytest imports it
	limit   int      // processor time of one run, in seconds
	budget  int      // bytes of performance tests in one file
}

// forms lists the tasks that have a suite.
var forms = []form{
	{task: "python", speaks: "python3", file: "solution.py", limit: 6, budget: 8 << 20},
	{task: "benchmark-task", speaks: "python3", file: "solve.py", command: []string{"python3", "solve.py"}, limit: 3, budget: 600 << 10},
	{task: "shell", speaks: "sh", file: "solve.sh", command: []string{"sh", "solve.sh"}, limit: 3, budget: 600 << 10},
}

// counts has the minimum number of tests in each layer.
type counts struct{ smoke, correctness, edge, performance, security int }

// plan has the numbers of a variant.
type plan struct {
	counts
	percent int // of the usual size of a performance test
}

// plans lists the variants. The standard one has the numbers of the partnership protocol, section 4.2.2.
var plans = map[string]plan{
	"standard":    {counts{smoke: 5, correctness: 25, edge: 15, performance: Iterations, security: 5}, 100},
	"stress":      {counts{smoke: 5, correctness: 25, edge: 15, performance: 3 * Iterations, security: 5}, 200},
	"correctness": {counts{smoke: 5, correctness: 60, edge: 30, performance: Iterations, security: 10}, 25},
}

// Tasks lists the tasks that have a suite.
func Tasks() []string {
	tasks := make([]string, len(forms))
	for i, f := range forms {
		tasks[i] = f.task
	}
	return tasks
}

// Name returns the name and version of a task's suite, or "" if it has none.
func Name(task string) string {
	if !slices.Contains(Tasks(), task) {
		return ""
	}
	return task + "-v2"
}

// Check sets a missing variant and missing modules, and sorts the modules. Its error matches ErrUnknown.
func Check(task, variant string, modules []string) (string, []string, error) {
	if variant == "" {
		variant = Variants[0]
	}
	if len(modules) == 0 {
		modules = Modules
	}
	switch {
	case Name(task) == "":
		return "", nil, fmt.Errorf("task %.80q: %w; want one of %s", task, ErrUnknown, strings.Join(Tasks(), ", "))
	case !slices.Contains(Variants, variant):
		return "", nil, fmt.Errorf("type %.80q: %w; want one of %s", variant, ErrUnknown, strings.Join(Variants, ", "))
	}
	for _, m := range modules {
		if !slices.Contains(Modules, m) {
			return "", nil, fmt.Errorf("module %.80q: %w; want one of %s", m, ErrUnknown, strings.Join(Modules, ", "))
		}
	}
	var ordered []string
	for _, m := range Modules {
		if slices.Contains(modules, m) {
			ordered = append(ordered, m)
		}
	}
	return variant, ordered, nil
}

// Make makes a benchmark. The same specification always gives the same bytes.
func Make(s Spec) (Made, error) {
	variant, modules, err := Check(s.Task, s.Variant, s.Modules)
	if err != nil {
		return Made{}, fmt.Errorf("make a benchmark: %w", err)
	}
	i := slices.IndexFunc(forms, func(f form) bool { return f.task == s.Task })
	b := draw(s, forms[i], variant, modules)
	made := Made{Name: Name(s.Task), Title: b.title(), Limit: b.limit, Speaks: b.speaks}
	made.Bundle, made.Hidden, err = b.pack()
	if err != nil {
		return Made{}, fmt.Errorf("make a benchmark for %s: %w", s.Task, err)
	}
	return made, nil
}

// SeedFor returns the seed of a meeting's benchmarks with a provider. secret belongs to this node and must not leave
// it: it keeps providers from computing the seed from the public values.
func SeedFor(secret []byte, s guild.Service, meeting string) [32]byte {
	info := fmt.Sprintf("guild benchmark 1\n%s\n%q\n%s", s.PubKey.Hex(), s.D, meeting)
	var seed [32]byte
	key, err := hkdf.Key(sha256.New, secret, nil, info, len(seed))
	if err != nil {
		panic(err) // fails only for longer keys
	}
	copy(seed[:], key)
	return seed
}
