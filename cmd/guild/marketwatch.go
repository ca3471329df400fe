package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) marketWatchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Follow changes of providers",
		Long: `watch prints a line when a provider is announced for the first time, changes its
announcement, retracts it, or gets another state here. It needs a running node,
and goes on until Ctrl-C.`,
		Example: "  guild market watch\n  guild market watch --json",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runMarketWatch(cmd.Context(), cli.AsJSON(cmd)) },
	}
	cli.JSONFlag(cmd, "print one JSON object per change")
	return cmd
}

func (p *program) runMarketWatch(ctx context.Context, asJSON bool) error {
	return p.running(ctx, func(client *control.Client, _ bool) error {
		err := printLines(p, asJSON, control.MarketChanges.Lines(ctx, client), func(c control.Change) error {
			_, err := fmt.Fprintf(p.out, "%s  %-12s %s  %s\n", clock(c.At), c.Event, cli.ShortNpub(c.Npub), cli.Clean(c.Text))
			return err
		})
		if ctx.Err() != nil {
			return nil // Ctrl-C ended it
		}
		return cmp.Or(err, errors.New("the node has stopped"))
	})
}
