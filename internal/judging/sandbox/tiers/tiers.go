// Package tiers lists every sandbox.Runner in order of preference and picks one.
package tiers

import (
	"context"
	"fmt"
	"strings"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/container"
	"guild/internal/judging/sandbox/landlock"
	"guild/internal/judging/sandbox/namespaces"
)

// tier is a runner with its name, which Probe also returns.
type tier struct {
	name   string
	runner sandbox.Runner
}

// order returns all tiers, the preferred first: our own, because it reports the most; gVisor, which is the strongest
// wall and the slowest; podman and docker, which report less; Landlock, which has no namespaces.
func order() []tier {
	return []tier{
		{namespaces.Tier, new(namespaces.Runner)},
		{container.TierGVisor, container.GVisor{}},
		{container.TierPodman, container.Podman{}},
		{container.TierDocker, container.Docker{}},
		{landlock.Tier, landlock.Runner{}},
	}
}

// All returns all runners, the preferred first.
func All() []sandbox.Runner {
	var all []sandbox.Runner
	for _, t := range order() {
		all = append(all, t.runner)
	}
	return all
}

// Names returns the names of all tiers, in the order of All.
func Names() []string {
	var names []string
	for _, t := range order() {
		names = append(names, t.name)
	}
	return names
}

// Unknown returns the error for a name that no tier has. It says which tier to use in place of one that an earlier
// version of guild had.
func Unknown(name string) *sandbox.UnusableError {
	if name == "bubblewrap" {
		return &sandbox.UnusableError{
			Reason: "the bubblewrap sandbox is gone, guild does not call bwrap any more",
			Remedy: `use namespaces, which needs the same user namespaces; or name no sandbox (remove judge.tier, or --tier) to get the best that works`,
		}
	}
	return &sandbox.UnusableError{
		Reason: fmt.Sprintf("no sandbox is called %q, only %s", name, strings.Join(Names(), ", ")),
		Remedy: "guild judge doctor lists them",
	}
}

// Best returns the first runner that works on this machine, with its capabilities, or an *UnusableError. It tries a run
// in each until one works. The error is about the namespaces tier, which needs nothing installed.
func Best(ctx context.Context) (sandbox.Runner, sandbox.Caps, error) {
	var own sandbox.Caps
	for _, t := range order() {
		c := t.runner.Probe(ctx)
		if c.Usable {
			return t.runner, c, nil
		}
		if t.name == namespaces.Tier {
			own = c
		}
	}
	return nil, own, &sandbox.UnusableError{Reason: own.Reason, Remedy: own.Remedy}
}

// Pick returns the runner of a tier by its name, or the best one if the name is empty. It never returns another tier
// than the named one. The error is an *UnusableError.
func Pick(ctx context.Context, name string) (sandbox.Runner, sandbox.Caps, error) {
	if name == "" {
		return Best(ctx)
	}
	for _, t := range order() {
		if t.name != name {
			continue
		}
		c := t.runner.Probe(ctx)
		if !c.Usable {
			return nil, c, &sandbox.UnusableError{Reason: name + ": " + c.Reason, Remedy: c.Remedy}
		}
		return t.runner, c, nil
	}
	return nil, sandbox.Caps{}, Unknown(name)
}
