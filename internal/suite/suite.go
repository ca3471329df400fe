// Package suite makes benchmarks: request bundles with hidden tests for getting to know a provider (the partnership
// protocol, sections 2.2 and 4.2.2). Each provider gets instances of its own, so that answers cannot be shared, and
// what is expected was computed beforehand. The package asks nobody and judges nothing.
package suite

import (
	"errors"

	"guild"
)

// ErrUnknown is a task, variant or module that no suite is shipped for.
var ErrUnknown = errors.New("no benchmark is known for it")

// Variants and modules of the shipped suites (the partnership protocol, section 2.2.3).
var (
	Variants = []string{"standard", "stress", "correctness"}
	Modules  = []string{"computation", "memory", "io"}
)

// Spec says which benchmark is wanted.
type Spec struct {
	Task    string
	Variant string
	Modules []string
	Seed    [32]byte // two seeds give two sets of instances; the same one always the same
	Run     int      // of the meeting, from 1: each has instances of its own
}

// Made is one benchmark, ready to be asked for.
type Made struct {
	Name   string // of the suite with its version
	Title  string
	Bundle []byte // the packed request bundle, with the commitments to what is hidden
	Hidden []byte // the hidden tests as the files of a packed bundle, which never leaves this machine
}

// Tasks lists the tasks that a suite is shipped for.
func Tasks() []string { return nil }

// Make makes a benchmark.
func Make(s Spec) (Made, error) { return Made{}, ErrUnknown }

// SeedFor is the seed of a meeting's benchmarks with a provider: secret is this node's own and stays here.
func SeedFor(secret []byte, s guild.Service, meeting string) [32]byte { return [32]byte{} }
