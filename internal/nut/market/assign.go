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
)

// assignFlags say who gets the task, and where its bundle comes from.
type assignFlags struct {
	dir, to  string
	dirGiven bool
}

func (p program) assignCommand() *cobra.Command {
	var f assignFlags
	cmd := &cobra.Command{
		Use:   "assign TASK --to PEER",
		Short: "Give a task to one of those who bid, and share the bundle",
		Long: `Give a task to a peer, and see to it that the server has the bundle for them. It
is packed from the directory that was published, if that is at hand; what the
server has already is compared with the published hash.`,
		Example: p.Examples("assign task-1 --to 12D3KooWAbCdEf --dir my-task"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if f.to == "" {
				return cli.WithHint(cli.Usage(errors.New("assign needs a peer")), "'"+p.Hint("bids "+args[0])+"' lists them; then --to PEER")
			}
			if err := taskserver.CheckPeer(f.to); err != nil {
				return cli.WithHint(cli.Usage(err), "'"+p.Hint("bids "+args[0])+"' lists them")
			}
			f.dirGiven = cmd.Flags().Changed("dir")
			return nil
		},
	}
	host.DirFlag(cmd.Flags(), &f.dir)
	cmd.Flags().StringVar(&f.to, "to", "", "the peer who gets it, as bids prints them")
	return p.taskVerb(cmd, "print it as JSON", func(ctx context.Context, c *taskserver.Client, t taskserver.Task) (host.Result, error) {
		return p.assign(ctx, c, t, f)
	})
}

func (p program) assign(ctx context.Context, c *taskserver.Client, t taskserver.Task, f assignFlags) (host.Result, error) {
	again := t.Status == taskserver.Assigned && t.AssignedTo == f.to
	if t.Status != taskserver.Open && !again {
		return nil, fmt.Errorf("%s is %s, and only open tasks are assigned", titled(t), cli.Clean(t.Status))
	}
	s, err := p.toShare(ctx, f, t)
	if err != nil {
		return nil, err
	}
	result := assignResult{TaskID: t.ID, AssignedTo: f.to, Uploaded: s != nil, HadBid: true, task: t}
	if bids, err := c.Bids(ctx, t.ID); err == nil {
		result.HadBid = slices.ContainsFunc(bids, func(b taskserver.Bid) bool { return b.BidderID == f.to })
	}
	if s != nil {
		defer s.File.Close()
		result.vaultKept = s.Vault != ""
	}
	if !again {
		if err := c.Assign(ctx, t.ID, f.to); err != nil {
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
		return nil, fmt.Errorf("%s is assigned to %s, but the bundle is not shared yet: %w", t.ID, f.to, err)
	}
	return result, nil
}

// toShare packs the directory if the task was published from it. It returns nil if the server must have the bundle
// already.
func (p program) toShare(ctx context.Context, f assignFlags, t taskserver.Task) (*archive.Shared, error) {
	m, e, err := noted(f.dir)
	switch {
	case !f.dirGiven && (err != nil || e.TaskID != t.ID):
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, p.NoBundle(f.dir)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.dir, err)
	case t.NutshellID != "" && t.NutshellID != m.ID():
		return nil, fmt.Errorf("%s is not what %s was published from: its id is %s", f.dir, titled(t), m.ID())
	}
	s, err := archive.Share(ctx, p.Program, f.dir, e)
	if err != nil {
		return nil, err
	}
	if !t.Hash.IsZero() && s.Info.Hash != t.Hash {
		s.File.Close()
		err := fmt.Errorf("%s has changed since it was published: %w", f.dir, &taskserver.HashError{Want: t.Hash, Got: s.Info.Hash})
		return nil, cli.WithHint(err, "undo the changes; or, if the server has the bundle, assign from another directory")
	}
	return s, nil
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
