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
)

type upOptions struct {
	Relays []string // instead of the configured ones
}

func (p *program) upCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a node until interrupted",
		Long: `up runs a node: it carries out jobs that were opened with guild hire, and answers
the other verbs on its control socket. It offers each service that the
configuration has in a table [services.NAME]; guild work ls lists them. If
meeting.auto is set, which guild init asks for, it also benchmarks providers that
it has not met, within a daily budget. Ctrl-C ends it gracefully; a second one at
once. Nothing is lost either way.`,
		Example: "  guild up\n  guild up --relay wss://relay.example.com",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runUp(cmd.Context(), o) },
	}
	cmd.Flags().StringArrayVar(&o.Relays, "relay", nil, "relay to use instead of the configured ones (repeatable)")
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
	return p.serve(ctx, o.Relays, services, true)
}

// serve runs a node with the given services until ctx ends. It may meet providers.
func (p *program) serve(ctx context.Context, relays []string, services []service, meet bool) error {
	if err := config.CheckRelays(relays); err != nil {
		return cli.Usage(fmt.Errorf("--relay: %w", err))
	}
	c, err := p.config()
	if err != nil {
		return err
	}
	if len(relays) > 0 {
		c.Relays = relays
	}
	id, err := p.identity(c)
	if err != nil {
		return err
	}
	err = runNode(ctx, c, id, nodeOptions{Meet: meet, Services: services, Log: p.logger(p.err), Ready: p.out})
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
