package market

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/taskserver"
	"guild/nutshell/clawnet"
)

// bidFlags is what bid was asked to do.
type bidFlags struct {
	server          serverFlags
	amount, message string
	json            bool
}

func (p program) bidCommand() *cobra.Command {
	var f bidFlags
	cmd := &cobra.Command{
		Use:   "bid TASK --amount N",
		Short: "Offer to do a task",
		Long: "Offer to do a task for an amount, in the currency of its reward. The publisher\n" +
			"chooses; then claim gets you the bundle.\n\n" + aboutServer,
		Example: "  " + p.Hint("bid task-1 --amount 450 --message 'done by tomorrow'"),
		Args:    taskID(),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.amount == "" {
				return cli.WithHint(cli.Usage(errors.New("a bid needs an amount")), "as in "+p.Hint("bid "+args[0]+" --amount 450"))
			}
			return p.advised(p.bid(cmd.Context(), f, args[0]))
		},
	}
	f.server.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.amount, "amount", "", "what you want for it: a number, 0 to help for nothing")
	flags.StringVar(&f.message, "message", "", "a word to the publisher")
	flags.BoolVar(&f.json, "json", false, "print it as JSON")
	return cmd
}

func (p program) bid(ctx context.Context, f bidFlags, id string) error {
	amount, err := parseAmount("amount", f.amount)
	if err != nil {
		return err
	}
	c, err := p.taskServer(f.server, "")
	if err != nil {
		return err
	}
	t, err := c.Task(ctx, id)
	if err != nil {
		return err
	}
	if t.Status != taskserver.Open {
		return cli.WithHint(fmt.Errorf("%s is %s: it takes no bids", titled(t), cli.Clean(t.Status)), "'"+p.Hint("claim --list")+"' lists the open tasks")
	}
	if err := c.Bid(ctx, id, amount, f.message); err != nil {
		return err
	}
	p.remember(c.URL())
	if f.json {
		return cli.PrintJSON(p.Out, struct {
			TaskID string          `json:"task_id"`
			Amount clawnet.Decimal `json:"amount"`
			Reward clawnet.Decimal `json:"reward"`
		}{id, amount, t.Reward})
	}
	fmt.Fprintf(p.Out, "Bid %s for %s, whose reward is %s\n", amount, titled(t), t.Reward)
	_, err = fmt.Fprintf(p.Out, "If you are chosen: %s\n", p.Hint("claim "+id))
	return err
}
