package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
)

func (p *program) eventsCommand() *cobra.Command {
	var asJSON bool
	rejected := &cobra.Command{
		Use:   "rejected",
		Short: "List events that were dropped, and why",
		Long: `rejected lists the latest events that came from a relay and changed nothing: a bad
signature, a result from a stranger, a second result. The newest is last.`,
		Example: "  guild events rejected\n  guild events rejected --json | jq -r .reason | sort | uniq -c",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runEventsRejected(cmd.Context(), asJSON) },
	}
	rejected.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cli.Group(&cobra.Command{
		Use:     "events",
		Short:   "Look at events from relays",
		Example: "  guild events rejected",
	}, rejected)
}

func (p *program) runEventsRejected(ctx context.Context, asJSON bool) error {
	client, done, err := p.journalReader(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := client.Rejected(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"AT", "REASON", "FROM", "EVENT"}}
	for _, d := range all {
		if asJSON {
			if err := cli.PrintLine(p.out, d); err != nil {
				return err
			}
		}
		at := time.UnixMilli(d.At).Format(time.DateTime)
		rows = append(rows, []string{at, d.Reason, cli.Cut(d.From, 26), cli.Cut(cli.Clean(d.Event), 24)})
	}
	if asJSON {
		return nil
	}
	return cli.Table(p.out, rows)
}
