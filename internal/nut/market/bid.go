package market

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/hand/taskserver"
	"guild/internal/nut/host"
	"guild/nutshell/clawnet"
)

func (p program) bidsCommand() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:               "bids TASK",
		Short:             "List what was bid for a task that you have published",
		Long:              "List what was bid for a task, the least first.",
		Example:           p.Examples("bids task-1", "bids task-1 --json"),
		Args:              taskID,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	return p.verb(cmd, &f, "print them as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		c, err := p.taskServer(f, "")
		if err != nil {
			return nil, err
		}
		bids, err := c.Bids(cmd.Context(), args[0])
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(bids, func(a, b taskserver.Bid) int { return a.Amount.Cmp(b.Amount) })
		return bidsResult{task: args[0], bids: append([]taskserver.Bid{}, bids...)}, nil
	})
}

// bidsResult is the bids for a task.
type bidsResult struct {
	task string
	bids []taskserver.Bid
}

// MarshalJSON writes the list alone.
func (r bidsResult) MarshalJSON() ([]byte, error) { return json.Marshal(r.bids) }

// Print implements host.Result.
func (r bidsResult) Print(p *host.Program) error {
	if len(r.bids) == 0 {
		_, err := fmt.Fprintf(p.Out, "nobody has bid for %s yet\n", r.task)
		return err
	}
	rows := [][]string{{"PEER", "AMOUNT", "NAME", "MESSAGE"}}
	for _, b := range r.bids {
		name := b.BidderName
		if name == b.BidderID {
			name = ""
		}
		rows = append(rows, []string{b.BidderID, b.Amount.String(), cli.Cut(cli.Clean(name), 20), cli.Cut(cli.Clean(b.Message), 60)})
	}
	return cli.Table(p.Out, rows)
}

func (p program) bidCommand() *cobra.Command {
	var text, message string
	var amount clawnet.Decimal
	cmd := &cobra.Command{
		Use:   "bid TASK --amount N",
		Short: "Offer to do a task",
		Long: "Offer to do a task for an amount, in the currency of its reward. The publisher\n" +
			"chooses; then claim gets you the bundle.",
		Example: p.Examples("bid task-1 --amount 450 --message 'done by tomorrow'"),
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if text == "" {
				return cli.WithHint(cli.Usage(errors.New("a bid needs an amount")), "as in "+p.Hint("bid "+args[0]+" --amount 450"))
			}
			amount, err = parseAmount("amount", text)
			return err
		},
	}
	cmd.Flags().StringVar(&text, "amount", "", "what you want for it: a number, 0 to help for nothing")
	cmd.Flags().StringVar(&message, "message", "", "a word to the publisher")
	return p.taskVerb(cmd, "print it as JSON", func(ctx context.Context, c *taskserver.Client, t taskserver.Task) (host.Result, error) {
		if t.Status != taskserver.Open {
			return nil, cli.WithHint(fmt.Errorf("%s is %s: it takes no bids", titled(t), cli.Clean(t.Status)), "'"+p.Hint("claim --list")+"' lists the open tasks")
		}
		if err := c.Bid(ctx, t.ID, amount, message); err != nil {
			return nil, err
		}
		p.remember(c.URL())
		return bidResult{TaskID: t.ID, Amount: amount, Reward: t.Reward, task: t}, nil
	})
}

type bidResult struct {
	TaskID string          `json:"task_id"`
	Amount clawnet.Decimal `json:"amount"`
	Reward clawnet.Decimal `json:"reward"`

	task taskserver.Task
}

// Print implements host.Result.
func (r bidResult) Print(p *host.Program) error {
	fmt.Fprintf(p.Out, "Bid %s for %s, whose reward is %s\n", r.Amount, titled(r.task), r.Reward)
	_, err := fmt.Fprintf(p.Out, "If you are chosen: %s\n", p.Hint("claim "+r.TaskID))
	return err
}
