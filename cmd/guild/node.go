package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/key"
)

// nodeOptions is what the verbs that run a node ask of it.
type nodeOptions struct {
	Services []service    // offered to others; none for a mere customer
	Log      *slog.Logger // what the node does
	Ready    io.Writer    // gets one line when the node listens
}

// service is one service that "guild work" offers.
type service struct {
	Task        string
	Name        string        // as it calls itself
	D           string        // tells services of one key apart
	Exec        string        // run by /bin/sh -c
	Env         []string      // names of variables that pass through
	Network     bool          // the command may reach the network
	Unsandboxed bool          // the command runs without a sandbox
	Jobs        int           // at the same time
	Queue       int           // waiting beyond those
	TimeLimit   time.Duration // of one command
	PriceMsat   int64
}

var errNoNode = errors.New("this program was built without the node")

// runNode runs a node until ctx ends.
func runNode(ctx context.Context, c config.Config, id key.Identity, o nodeOptions) error {
	return errNoNode
}

// startOwnNode runs a node inside this process for a verb that found none running. stop returns when no other
// client and no open job remains.
func startOwnNode(ctx context.Context, c config.Config, id key.Identity, o nodeOptions) (client *control.Client, stop func() error, err error) {
	return nil, nil, errNoNode
}

// demoOptions is what "guild demo" asks for.
type demoOptions struct {
	JSON bool
	Keep string // directory that is left behind; a temporary one when empty
}

// runDemo runs the whole loop on this machine and prints what came of it.
func runDemo(ctx context.Context, o demoOptions, out io.Writer) error { return errNoNode }
