package market

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/hand/taskserver"
	"guild/internal/nut/archive"
	"guild/internal/nut/host"
	"guild/nutshell/clawnet"
)

func (p program) bidsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "bids TASK",
		Short:             "List what was bid for a task that you have published",
		Long:              "List what was bid for a task, the least first.",
		Example:           p.Examples("bids task-1", "bids task-1 --json"),
		Args:              taskID,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	return p.verb(cmd, "print them as JSON", func(ctx context.Context, s *server, args []string) (host.Result, error) {
		c, err := s.client("")
		if err != nil {
			return nil, err
		}
		bids, err := c.Bids(ctx, args[0])
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(bids, func(a, b taskserver.Bid) int { return a.Amount.Cmp(b.Amount) })
		none := fmt.Sprintf("nobody has bid for %s yet", args[0])
		row := func(b taskserver.Bid) []string {
			name := b.BidderName
			if name == b.BidderID {
				name = ""
			}
			return []string{b.BidderID, b.Amount.String(), cli.Cut(cli.Clean(name), 20), cli.Cut(cli.Clean(b.Message), 60)}
		}
		return listing[taskserver.Bid]{all: append([]taskserver.Bid{}, bids...), none: none, head: []string{"PEER", "AMOUNT", "NAME", "MESSAGE"}, row: row}, nil
	})
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

func (p program) assignCommand() *cobra.Command {
	var dir, to string
	cmd := &cobra.Command{
		Use:   "assign TASK --to PEER",
		Short: "Give a task to one of those who bid, and share the bundle",
		Long: `Give a task to a peer, and see to it that the server has the bundle for them. It
is packed from the directory that was published, if that is at hand; what the
server has already is compared with the published hash.`,
		Example: p.Examples("assign task-1 --to 12D3KooWAbCdEf --dir my-task"),
		PreRunE: func(_ *cobra.Command, args []string) error {
			err := taskserver.CheckPeer(to)
			if to == "" {
				err = errors.New("assign needs a peer")
			}
			if err != nil {
				return cli.WithHint(cli.Usage(err), "'"+p.Hint("bids "+args[0])+"' lists them; then --to PEER")
			}
			return nil
		},
	}
	host.DirFlag(cmd.Flags(), &dir)
	cmd.Flags().StringVar(&to, "to", "", "the peer who gets it, as bids prints them")
	return p.taskVerb(cmd, "print it as JSON", func(ctx context.Context, c *taskserver.Client, t taskserver.Task) (host.Result, error) {
		again := t.Status == taskserver.Assigned && t.AssignedTo == to
		if t.Status != taskserver.Open && !again {
			return nil, fmt.Errorf("%s is %s, and only open tasks are assigned", titled(t), cli.Clean(t.Status))
		}
		result := assignResult{TaskID: t.ID, AssignedTo: to, HadBid: true, task: t}
		s, err := p.toShare(ctx, dir, cmd.Flags().Changed("dir"), t)
		if err != nil {
			return nil, err
		}
		if s != nil {
			defer s.File.Close()
			result.Uploaded, result.vaultKept = true, s.Vault != ""
		}
		if bids, err := c.Bids(ctx, t.ID); err == nil {
			result.HadBid = slices.ContainsFunc(bids, func(b taskserver.Bid) bool { return b.BidderID == to })
		}
		if !again {
			if err := c.Assign(ctx, t.ID, to); err != nil {
				return nil, err
			}
		}
		if s != nil {
			err = c.Upload(ctx, t.ID, s.Content(), s.Info.Size, s.Info.Hash)
		} else {
			_, err = c.Download(ctx, t.ID, io.Discard, t.Hash, host.MaxInput)
			if _, other := errors.AsType[*taskserver.HashError](err); other || taskserver.IsStatus(err, http.StatusNotFound) {
				err = cli.WithHint(err, "say where it was published from: --dir DIR")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s is assigned to %s, but the bundle is not shared yet: %w", t.ID, to, err)
		}
		return result, nil
	})
}

// toShare packs the directory that a task was published from. It returns nil if the person has not given it and it is
// not the current one: the server must have the bundle then.
func (p program) toShare(ctx context.Context, dir string, given bool, t taskserver.Task) (*archive.Shared, error) {
	m, e, err := p.noted(dir)
	switch {
	case !given && (err != nil || e.TaskID != t.ID):
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, p.NoBundle(dir)
	case err != nil:
		return nil, err
	case t.NutshellID != "" && t.NutshellID != m.ID():
		return nil, fmt.Errorf("%s is not what %s was published from: its id is %s", dir, titled(t), m.ID())
	}
	s, err := archive.Share(ctx, p.Program, dir, e)
	if err == nil && !t.Hash.IsZero() && s.Info.Hash != t.Hash {
		s.File.Close()
		err = fmt.Errorf("%s has changed since it was published: %w", dir, &taskserver.HashError{Want: t.Hash, Got: s.Info.Hash})
		return nil, cli.WithHint(err, "undo the changes; or, if the server has the bundle, assign from another directory")
	}
	return s, err
}

type assignResult struct {
	TaskID     string `json:"task_id"`
	AssignedTo string `json:"assigned_to"`
	Uploaded   bool   `json:"uploaded"`
	HadBid     bool   `json:"had_bid"` // as far as the server tells

	task      taskserver.Task
	vaultKept bool
}

// Print implements host.Result.
func (r assignResult) Print(p *host.Program) error {
	if !r.HadBid {
		fmt.Fprintf(p.Out, "%s has not bid.\n", cli.Clean(r.AssignedTo))
	}
	_, err := fmt.Fprintf(p.Out, "%s is assigned to %s, who can get the bundle now\n", titled(r.task), cli.Clean(r.AssignedTo))
	if r.vaultKept {
		fmt.Fprintln(p.Out, "The vault stays here: seal it for them, and send it beside the bundle.")
	}
	return err
}
