package node

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"guild"
	"guild/internal/sandbox"
	"guild/internal/work"
)

// Worker is a service that this node offers, done by a command.
type Worker struct {
	Task    string
	D       string
	Name    string
	Kind    int
	Command string   // for /bin/sh -c
	Env     []string // names of our variables that it may see
	Mounts  []string // host directories that it may read

	Network     bool
	Unsandboxed bool
	Slots       int
	Queue       int
	Limit       time.Duration
	Price       guild.Msat

	// Do replaces the command, for workers that are part of a program.
	Do func(ctx context.Context, a work.Assignment) error
}

// services turns the workers into services. Without a sandbox only an explicit Unsandboxed works.
func (n *Node) services() ([]work.Service, error) {
	var services []work.Service
	for _, w := range n.c.Workers {
		do := w.Do
		if do == nil {
			command, err := n.command(w)
			if err != nil {
				return nil, fmt.Errorf("the service %q: %w", w.Task, err)
			}
			do = command.Do
		}
		services = append(services, work.Service{
			Task: w.Task, D: w.D, Name: w.Name, Kind: cmp.Or(w.Kind, n.kind(w.Task)), Slots: w.Slots, Queue: w.Queue, Limit: w.Limit,
			Price: w.Price, Do: do,
		})
	}
	return services, nil
}

func (n *Node) command(w Worker) (work.Exec, error) {
	command, mounts, err := work.Resolve(w.Command)
	if err != nil {
		return work.Exec{}, err
	}
	x := work.Exec{
		Command: command, Env: pick(w.Env), Mounts: append(mounts, w.Mounts...), Network: w.Network, Runner: n.runnerBox,
		Limits: workerLimits, Log: n.c.Log,
	}
	switch {
	case w.Unsandboxed:
		x.Runner = work.Bare{}
	case n.unboxed != nil:
		return work.Exec{}, n.unboxed
	}
	return x, nil
}

// workerLimits are wider than the judge's: an agent is no test.
var workerLimits = sandbox.Limits{CPU: time.Hour, Memory: 8 << 30, Disk: 1 << 30, Output: 4 << 20, Pids: 500}

// pick returns our own values of the named variables.
func pick(names []string) []string {
	var env []string
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
