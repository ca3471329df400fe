package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) marketWatchCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Follow who comes, changes and goes",
		Long: `watch prints a line whenever a provider is announced for the first time, changes
what it says, is taken back, or moves to another state here. It needs a running
node, and goes on until Ctrl-C.`,
		Example: "  guild market watch\n  guild market watch --json",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runMarketWatch(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per change")
	return cmd
}

func (p *program) runMarketWatch(ctx context.Context, asJSON bool) error {
	return p.running(ctx, func(client *control.Client, _ bool) error {
		for change, err := range control.MarketChanges.Lines(ctx, client) {
			if ctx.Err() != nil {
				return nil // Ctrl-C is how it ends
			}
			if err == nil && asJSON {
				err = cli.PrintLine(p.out, change)
			} else if err == nil {
				_, err = fmt.Fprintln(p.out, describeChange(change))
			}
			if err != nil {
				return err
			}
		}
		return errors.New("the node has stopped")
	})
}

func describeChange(c control.Change) string {
	return fmt.Sprintf("%s  %-12s %s  %s", clock(c.At), c.Event, cli.ShortNpub(c.Npub), cli.Clean(c.Text))
}
