package market

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/taskserver"
)

func (p program) bidsCommand() *cobra.Command {
	var server serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "bids TASK",
		Short:   "List what was bid for a task that you have published",
		Long:    "List what was bid for a task, the least first.\n\n" + aboutServer,
		Example: "  " + p.Hint("bids task-1") + "\n  " + p.Hint("bids task-1 --json"),
		Args:    taskID(),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.advised(p.bids(cmd.Context(), server, args[0], asJSON))
		},
	}
	server.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return cmd
}

func (p program) bids(ctx context.Context, server serverFlags, id string, asJSON bool) error {
	c, err := p.taskServer(server, "")
	if err != nil {
		return err
	}
	bids, err := c.Bids(ctx, id)
	if err != nil {
		return err
	}
	slices.SortStableFunc(bids, func(a, b taskserver.Bid) int { return a.Amount.Cmp(b.Amount) })
	if asJSON {
		return cli.PrintJSON(p.Out, append([]taskserver.Bid{}, bids...))
	}
	rows := [][]string{{"PEER", "AMOUNT", "NAME", "MESSAGE"}}
	for _, b := range bids {
		name := b.BidderName
		if name == b.BidderID {
			name = ""
		}
		rows = append(rows, []string{b.BidderID, b.Amount.String(), cli.Cut(cli.Clean(name), 20), cli.Cut(cli.Clean(b.Message), 60)})
	}
	if len(bids) == 0 {
		_, err := p.Out.Write([]byte("nobody has bid for " + id + " yet\n"))
		return err
	}
	return cli.Table(p.Out, rows)
}
