package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/journal"
	"guild/internal/step/work"
)

type upOptions struct {
	Relays  []string // instead of the configured ones
	Untried bool     // offer services whose worker passed no try
	asJSON  bool
}

func (p *program) upCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a node until interrupted",
		Long: `up runs a node: it carries out jobs that were opened with guild hire, and
answers the other verbs on its control socket. It offers each service that the
configuration has in a table [services.NAME]; guild work ls lists them. If
meeting.auto is set, which guild init asks for, it also benchmarks providers
that it has not met, within a daily budget. Ctrl-C ends it gracefully; a second
one at once. Nothing is lost either way.`,
		Example: "  guild up\n  guild up --relay wss://relay.example.com",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.asJSON = cli.AsJSON(cmd)
			return p.runUp(cmd.Context(), o)
		},
	}
	cli.JSONFlag(cmd, "print what happens as JSON, one object on each line")
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
	return p.serve(ctx, serveOptions{Relays: o.Relays, Untried: o.Untried, Meet: true, JSON: o.asJSON}, services)
}

// serveOptions are the options of the verbs that run a node until they are interrupted.
type serveOptions struct {
	Relays  []string // instead of the configured ones
	Untried bool     // services are announced although their worker passed no try
	Meet    bool     // new providers are benchmarked without a command
	JSON    bool     // what happens is printed as JSON
}

// serve runs a node with the given services until ctx ends.
func (p *program) serve(ctx context.Context, o serveOptions, services []service) error {
	if err := config.CheckRelays(o.Relays); err != nil {
		return cli.Usage(fmt.Errorf("--relay: %w", err))
	}
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
	err = p.serveShown(ctx, o, nodeOptions{Meet: o.Meet, Services: services}, func(ctx context.Context, n nodeOptions) error {
		return runNode(ctx, c, id, n)
	})
	if untried, ok := errors.AsType[*work.UntriedError](err); ok {
		return cli.WithHint(err, tryHint(c, untried.Service))
	}
	if errors.Is(err, journal.ErrLocked) {
		return cli.WithHint(err, "stop that one, or give this one a home of its own: guild init --home DIR, then add --home DIR")
	}
	return err
}

// serveShown runs a node and shows what happens to its services: on a terminal as a screen, else as lines.
func (p *program) serveShown(ctx context.Context, o serveOptions, n nodeOptions, run func(context.Context, nodeOptions) error) error {
	n.Log, n.Events = p.logger(p.err), newWorkEvents()
	in, out, live := p.terminal()
	if live && !o.JSON && len(n.Services) > 0 {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var names []string
		for _, s := range n.Services {
			names = append(names, s.D)
		}
		return showWork(in, out, names, n.Events, stop, func(log io.Writer) error {
			n.Log = p.logger(log)
			return run(ctx, n)
		})
	}
	show := printWork(p.out)
	if o.JSON {
		show = func(e workEvent) error { return cli.PrintLine(p.out, e) }
	}
	ended, shown := make(chan struct{}), make(chan error, 1)
	go func() { shown <- n.Events.pass(ended, show) }()
	err := run(ctx, n)
	close(ended)
	return errors.Join(err, <-shown)
}

// logger writes warnings, or everything with --verbose.
func (p *program) logger(w io.Writer) *slog.Logger {
	level := slog.LevelWarn
	if p.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
