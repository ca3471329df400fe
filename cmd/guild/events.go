package main

import (
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) eventsCommand() *cobra.Command {
	rejected := &cobra.Command{
		Use:   "rejected",
		Short: "List events that were dropped, and why",
		Long: `rejected lists the latest events from relays that changed nothing: with a bad
signature, a result from a stranger, a second result. The newest is last.`,
		Example: "  guild events rejected\n  guild events rejected --json | jq -r .reason | sort | uniq -c",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.readingJournal(cmd.Context(), func(client *control.Client, _ bool) error {
				if cli.AsJSON(cmd) {
					return printLines(p, true, control.Rejected.Lines(cmd.Context(), client), nil)
				}
				all, err := control.Rejected.Call(cmd.Context(), client)
				if err != nil {
					return err
				}
				return table(p, "", "AT,REASON,FROM,EVENT", func(d control.Dropped) []string {
					return []string{time.UnixMilli(d.At).Format(time.DateTime), d.Reason, cli.Cut(d.From, 26), cli.Cut(cli.Clean(d.Event), 24)}
				})(all)
			})
		},
	}
	cli.JSONFlag(rejected, "print one JSON object per line")
	return cli.Group(&cobra.Command{
		Use:     "events",
		Short:   "Look at events from relays",
		Example: "  guild events rejected",
	}, rejected)
}
