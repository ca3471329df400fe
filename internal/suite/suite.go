// Package suite makes benchmarks: request bundles with hidden tests for getting to know a provider (the partnership
// protocol, sections 2.2 and 4.2.2). Each provider gets instances of its own, so that answers cannot be shared, and
// what is expected was computed beforehand. The package asks nobody and judges nothing.
//
// A benchmark is six exercises. Each turns lines of text into lines of text by rules whose names and numbers were
// drawn from a seed, so that what was delivered to somebody else, or for an earlier run, is wrong. Its requirements
// and two examples of each exercise are public; the tests are not.
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

// ErrUnknown is a task, variant or module that no suite is shipped for.
var ErrUnknown = errors.New("no benchmark is known for it")

// Variants and modules of the shipped suites (the partnership protocol, section 2.2.3).
var (
	Variants = []string{"standard", "stress", "correctness"}
	Modules  = []string{"computation", "memory", "io"}
)

// Iterations is how many performance tests there are at least, each with an input of its own: one time says
// little (the partnership protocol, section 2.2.3).
const Iterations = 5

// Spec says which benchmark is wanted.
type Spec struct {
	Task    string
	Variant string   // standard if empty
	Modules []string // all if empty
	Seed    [32]byte // two seeds give two sets of instances; the same one always the same
	Run     int      // of the meeting, from 1: each has instances of its own
}

// Made is one benchmark, ready to be asked for.
type Made struct {
	Name   string // of the suite with its version
	Title  string
	Limit  int    // seconds of processor time that a judged run may take
	Speaks string // language of what is to be delivered, as "python3"
	Bundle []byte // the packed request bundle, with the commitments to what is hidden
	Hidden []byte // the hidden tests as the files of a packed bundle, which never leaves this machine
}

// form is how the exercises of a task are asked for and tested.
type form struct {
	task    string
	speaks  string
	file    string   // to be delivered
	command []string // that runs it with the name of an exercise; nil where pytest imports it
	limit   int      // seconds of processor time of one run
	budget  int      // bytes of performance tests of one file
}

// forms are the tasks that a suite is shipped for.
var forms = []form{
	{task: "python", speaks: "python3", file: "solution.py", limit: 6, budget: 8 << 20},
	{task: "benchmark-task", speaks: "python3", file: "solve.py", command: []string{"python3", "solve.py"}, limit: 3, budget: 600 << 10},
	{task: "shell", speaks: "sh", file: "solve.sh", command: []string{"sh", "solve.sh"}, limit: 3, budget: 600 << 10},
}

// counts is how many tests of each layer there are at least.
type counts struct{ smoke, correctness, edge, performance, security int }

// plan is what a variant asks of the exercises.
type plan struct {
	counts
	percent int // of the usual size of a performance test
}

// plans are the variants. The standard one has the numbers of the partnership protocol, section 4.2.2.
var plans = map[string]plan{
	"standard":    {counts{5, 25, 15, Iterations, 5}, 100},
	"stress":      {counts{5, 25, 15, 3 * Iterations, 5}, 200},
	"correctness": {counts{5, 60, 30, Iterations, 10}, 25},
}

// Tasks lists the tasks that a suite is shipped for.
func Tasks() []string {
	tasks := make([]string, len(forms))
	for i, f := range forms {
		tasks[i] = f.task
	}
	return tasks
}

// Name is the name and version of a task's suite, or "" when none is shipped for it.
func Name(task string) string {
	if !slices.Contains(Tasks(), task) {
		return ""
	}
	return task + "-v1"
}

// Check fills in what is left out of a variant and modules, and puts the modules in their usual order. What no suite
// is shipped for is ErrUnknown.
func Check(task, variant string, modules []string) (string, []string, error) {
	if variant == "" {
		variant = Variants[0]
	}
	if len(modules) == 0 {
		modules = Modules
	}
	switch {
	case Name(task) == "":
		return "", nil, fmt.Errorf("task %.80q: %w; there are %s", task, ErrUnknown, strings.Join(Tasks(), ", "))
	case !slices.Contains(Variants, variant):
		return "", nil, fmt.Errorf("type %.80q: %w; there are %s", variant, ErrUnknown, strings.Join(Variants, ", "))
	}
	for _, m := range modules {
		if !slices.Contains(Modules, m) {
			return "", nil, fmt.Errorf("module %.80q: %w; there are %s", m, ErrUnknown, strings.Join(Modules, ", "))
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
	if made.Bundle, made.Hidden, err = b.pack(); err != nil {
		return Made{}, fmt.Errorf("make a benchmark for %s: %w", s.Task, err)
	}
	return made, nil
}

// SeedFor is the seed of a meeting's benchmarks with a provider: secret is this node's own and stays here.
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
