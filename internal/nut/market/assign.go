package market

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/archive"
	"guild/internal/nut/host"
	"guild/internal/taskserver"
)

// assignFlags is what assign was asked to do.
type assignFlags struct {
	server  serverFlags
	dir, to string
	dirSet  bool
	json    bool
}

func (p program) assignCommand() *cobra.Command {
	var f assignFlags
	cmd := &cobra.Command{
		Use:   "assign TASK --to PEER",
		Short: "Give a task to one of those who bid, and share the bundle",
		Long: `Give a task to a peer, and see to it that the server has the bundle for them. It
is packed from the directory that was published, if that is at hand; what the
server has already is compared with the published hash.

` + aboutServer,
		Example: "  " + p.Hint("assign task-1 --to 12D3KooWAbCdEf --dir my-task"),
		Args:    taskID(),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.to == "" {
				return cli.WithHint(cli.Usage(errors.New("assign needs a peer")), "'"+p.Hint("bids "+args[0])+"' lists them; then --to PEER")
			}
			if err := taskserver.CheckPeer(f.to); err != nil {
				return cli.WithHint(cli.Usage(err), "'"+p.Hint("bids "+args[0])+"' lists them")
			}
			f.dirSet = cmd.Flags().Changed("dir")
			return p.advised(p.assign(cmd.Context(), f, args[0]))
		},
	}
	f.server.add(cmd)
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringVar(&f.to, "to", "", "the peer who gets it, as bids prints them")
	flags.BoolVar(&f.json, "json", false, "print it as JSON")
	return cmd
}

func (p program) assign(ctx context.Context, f assignFlags, id string) error {
	c, err := p.taskServer(f.server, "")
	if err != nil {
		return err
	}
	t, err := c.Task(ctx, id)
	if err != nil {
		return err
	}
	again := t.Status == taskserver.Assigned && t.AssignedTo == f.to
	if t.Status != taskserver.Open && !again {
		return fmt.Errorf("%s is %s, and only open tasks are assigned", titled(t), cli.Clean(t.Status))
	}
	s, err := p.toShare(ctx, f, t)
	if err != nil {
		return err
	}
	if s != nil {
		defer s.File.Close()
	}
	stranger := p.hasNotBid(ctx, c, id, f.to)
	if !again {
		if err := c.Assign(ctx, id, f.to); err != nil {
			return err
		}
	}
	if err := p.hand(ctx, c, t, s); err != nil {
		return fmt.Errorf("%s is assigned to %s, but the bundle is not shared yet: %w", id, f.to, err)
	}
	return p.printAssigned(f, t, s, stranger)
}

// toShare packs the directory if it is the one of the task; nil is that the server must have the bundle already.
func (p program) toShare(ctx context.Context, f assignFlags, t taskserver.Task) (*archive.Shared, error) {
	m, e, err := noted(f.dir)
	switch {
	case !f.dirSet && (err != nil || e.TaskID != t.ID):
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

// hasNotBid reports whether the peer is known not to have bid.
func (p program) hasNotBid(ctx context.Context, c *taskserver.Client, id, peer string) bool {
	bids, err := c.Bids(ctx, id)
	return err == nil && !slices.ContainsFunc(bids, func(b taskserver.Bid) bool { return b.BidderID == peer })
}

// hand sees to it that the server has the bundle.
func (p program) hand(ctx context.Context, c *taskserver.Client, t taskserver.Task, s *archive.Shared) error {
	if s != nil {
		return c.Upload(ctx, t.ID, s.Content(), s.Info.Size, s.Info.Hash)
	}
	_, err := c.Download(ctx, t.ID, io.Discard, t.Hash, host.MaxInput)
	if _, other := errors.AsType[*taskserver.HashError](err); other || taskserver.IsStatus(err, http.StatusNotFound) {
		return cli.WithHint(err, "say where it was published from: --dir DIR")
	}
	return err
}

func (p program) printAssigned(f assignFlags, t taskserver.Task, s *archive.Shared, stranger bool) error {
	if f.json {
		return cli.PrintJSON(p.Out, struct {
			TaskID     string `json:"task_id"`
			AssignedTo string `json:"assigned_to"`
			Uploaded   bool   `json:"uploaded"`
			HadBid     bool   `json:"had_bid"`
		}{t.ID, f.to, s != nil, !stranger})
	}
	if stranger {
		fmt.Fprintf(p.Out, "%s has not bid.\n", cli.Clean(f.to))
	}
	_, err := fmt.Fprintf(p.Out, "%s is assigned to %s, who can get the bundle now\n", titled(t), cli.Clean(f.to))
	if s != nil && s.Vault != "" {
		fmt.Fprintln(p.Out, "The vault stays here: seal it for them, and send it beside the bundle.")
	}
	return err
}

// isMissing reports whether a path is not there.
func isMissing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
