package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/journal"
	"guild/internal/step/work"
)

type upOptions struct {
	Relays  []string // instead of the configured ones
	Untried bool     // offer services whose worker passed no try
}

func (p *program) upCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a node until interrupted",
		Long: `up runs a node: it benchmarks providers on the relays, carries out jobs that were
opened with guild hire, and answers the other verbs on its control socket. It
offers each service that the configuration has in a table [services.NAME]; guild
work ls lists them. Ctrl-C ends it gracefully; a second one at once. Nothing is
lost either way.`,
		Example: "  guild up\n  guild up --relay wss://relay.example.com",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runUp(cmd.Context(), o) },
	}
	cmd.Flags().StringArrayVar(&o.Relays, "relay", nil, "relay to use instead of the configured ones (repeatable)")
	cmd.Flags().BoolVar(&o.Untried, "untried", false, "announce services although their worker passed no try (guild work try)")
	return cmd
}

func (p *program) runUp(ctx context.Context, o upOptions) error {
	c, err := p.config()
	if err != nil {
		return err
	}
	services, err := configured(c)
	if err != nil {
		return cli.Usage(err)
	}
	return p.serve(ctx, serveOptions{Relays: o.Relays, Untried: o.Untried, Meet: true}, services)
}

// serveOptions are the options of the verbs that run a node until they are interrupted.
type serveOptions struct {
	Relays  []string // instead of the configured ones
	Untried bool     // services are announced although their worker passed no try
	Meet    bool     // new providers are tried by itself
}

// serve runs a node with the given services until ctx ends.
func (p *program) serve(ctx context.Context, o serveOptions, services []service) error {
	c, err := p.config()
	if err != nil {
		return err
	}
	if len(o.Relays) > 0 {
		c.Relays = o.Relays
	}
	if !o.Untried && !c.Work.Untried {
		markUntried(c, services)
	}
	id, err := p.identity(c)
	if err != nil {
		return err
	}
	err = runNode(ctx, c, id, nodeOptions{Meet: o.Meet, Services: services, Log: p.logger(p.err), Ready: p.out})
	if untried, ok := errors.AsType[*work.UntriedError](err); ok {
		return cli.WithHint(err, tryHint(c, untried.Service))
	}
	if errors.Is(err, journal.ErrLocked) {
		return cli.WithHint(err, "stop that one, or give this one a home of its own: guild init --home DIR, then add --home DIR")
	}
	return err
}

// logger writes warnings, or everything with --verbose.
func (p *program) logger(w io.Writer) *slog.Logger {
	level := slog.LevelWarn
	if p.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
