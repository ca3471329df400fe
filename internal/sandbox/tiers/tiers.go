// Package tiers knows every sandbox.Runner there is and which of them to prefer. It owns the order and nothing
// else.
package tiers

import (
	"context"
	"fmt"
	"strings"

	"guild/internal/sandbox"
	"guild/internal/sandbox/bubblewrap"
	"guild/internal/sandbox/container"
	"guild/internal/sandbox/landlock"
	"guild/internal/sandbox/namespaces"
)

// tier is a runner with its name, which is known before it is asked.
type tier struct {
	name   string
	runner sandbox.Runner
}

// order is the preferred first: our own, which reports the most; then gVisor, whose walls are the strongest and
// which costs the most, for whoever names it or has no namespaces; then what else makes namespaces, by how much it
// reports; then what only restricts.
func order() []tier {
	return []tier{
		{namespaces.Tier, new(namespaces.Runner)},
		{container.TierGVisor, container.GVisor{}},
		{bubblewrap.Tier, bubblewrap.Runner{}},
		{container.TierPodman, container.Podman{}},
		{container.TierDocker, container.Docker{}},
		{landlock.Tier, landlock.Runner{}},
	}
}

// own is the tier that needs nothing installed, so what it lacks is what to tell who has none.
const own = namespaces.Tier

// All are the runners there are, the preferred first.
func All() []sandbox.Runner {
	var all []sandbox.Runner
	for _, t := range order() {
		all = append(all, t.runner)
	}
	return all
}

// Names are the names of the tiers, the preferred first.
func Names() []string {
	var names []string
	for _, t := range order() {
		names = append(names, t.name)
	}
	return names
}

// byName returns the runner of a tier, usable or not.
func byName(name string) (sandbox.Runner, error) {
	for _, t := range order() {
		if t.name == name {
			return t.runner, nil
		}
	}
	return nil, fmt.Errorf("no sandbox is called %q, only %s", name, strings.Join(Names(), ", "))
}

// Best returns the preferred runner of those that work on this machine and what it can do, or an *UnusableError. It
// tries a run in each until one works.
func Best(ctx context.Context) (sandbox.Runner, sandbox.Caps, error) {
	var said sandbox.Caps
	for _, t := range order() {
		c := t.runner.Probe(ctx)
		if c.Usable {
			return t.runner, c, nil
		}
		if t.name == own {
			said = c
		}
	}
	return nil, said, &sandbox.UnusableError{Reason: said.Reason, Remedy: said.Remedy}
}

// Pick returns the runner of a tier by its name, or the best if the name is empty. No other takes the place of one
// that was asked for. The error is an *UnusableError.
func Pick(ctx context.Context, name string) (sandbox.Runner, sandbox.Caps, error) {
	if name == "" {
		return Best(ctx)
	}
	r, err := byName(name)
	if err != nil {
		return nil, sandbox.Caps{}, &sandbox.UnusableError{Reason: err.Error(), Remedy: "guild judge doctor lists them"}
	}
	c := r.Probe(ctx)
	if !c.Usable {
		return nil, c, &sandbox.UnusableError{Reason: name + ": " + c.Reason, Remedy: c.Remedy}
	}
	return r, c, nil
}
