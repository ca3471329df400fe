// Package suite makes benchmarks: request bundles with hidden tests, to try a provider (the partnership protocol, sections
// 2.2 and 4.2.2). Each provider gets instances of its own, so that answers cannot be shared, and the expected answers are
// computed beforehand. The package hires nobody and judges nothing.
//
// A benchmark has six exercises. Each turns lines of text into lines of text by rules whose names and numbers are drawn
// from a seed, so that a delivery for another provider or an earlier run is wrong. The rules and two examples of each
// exercise are public; the tests are not.
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

// Iterations is the least number of performance tests, each with an input of its own, because one time says little (the
// partnership protocol, section 2.2.3).
const Iterations = 5

// Spec says which benchmark to make.
type Spec struct {
	Task    string
	Variant string   // standard if empty
	Modules []string // all if empty
	Seed    [32]byte // the same seed always gives the same instances
	Run     int      // number of the run in a meeting, from 1: each has instances of its own
}

// Made is one benchmark, ready to be requested.
type Made struct {
	Name   string // of the suite with its version
	Title  string
	Limit  int    // seconds of processor time of a judged run
	Speaks string // language of the delivery, as "python3"
	Bundle []byte // the packed request bundle, with commitments to the hidden tests
	Hidden []byte // the hidden tests as the files of a packed bundle, which never leaves this machine
}

// form says how the exercises of a task are delivered and tested.
type form struct {
	task    string
	speaks  string
	file    string   // to be delivered
	command []string // runs it, before the name of an exercise; nil where pytest imports it
	limit   int      // seconds of processor time of one run
	budget  int      // bytes of performance tests of one file
}

// forms lists the tasks that have a suite.
var forms = []form{
	{task: "python", speaks: "python3", file: "solution.py", limit: 6, budget: 8 << 20},
	{task: "benchmark-task", speaks: "python3", file: "solve.py", command: []string{"python3", "solve.py"}, limit: 3, budget: 600 << 10},
	{task: "shell", speaks: "sh", file: "solve.sh", command: []string{"sh", "solve.sh"}, limit: 3, budget: 600 << 10},
}

// counts has the least number of tests of each layer.
type counts struct{ smoke, correctness, edge, performance, security int }

// plan has the numbers of a variant.
type plan struct {
	counts
	percent int // of the usual size of a performance test
}

// plans has the variants. The standard one has the numbers of the partnership protocol, section 4.2.2.
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
	return task + "-v1"
}

// Check fills in a missing variant and missing modules, and puts the modules in their usual order. Its error is
// ErrUnknown.
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

// SeedFor returns the seed of a meeting's benchmarks with a provider. Secret is this node's own and stays here.
func SeedFor(secret []byte, s guild.Service, meeting string) [32]byte {
	info := fmt.Sprintf("guild benchmark 1\n%s\n%q\n%s", s.PubKey.Hex(), s.D, meeting)
	var seed [32]byte
	key, err := hkdf.Key(sha256.New, secret, nil, info, len(seed))
	if err != nil {
		panic(err) // it fails for lengths that a seed does not have
	}
	copy(seed[:], key)
	return seed
}
