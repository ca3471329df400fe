package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/hand/taskserver"
	"guild/internal/hand/workdir"
	"guild/internal/nut/draft"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/clawnet"
)

func (p program) claimCommand() *cobra.Command {
	var output string
	var list bool
	cmd := &cobra.Command{
		Use:   "claim TASK [-o DIR]",
		Short: "Take a task, and unpack its bundle into a directory",
		Long: `Take a task that is open or assigned to you, compare its bundle with the hash
that was published, and unpack it. The directory appears whole or not at all,
and its manifest notes where the task is, so that deliver and submit know.

Not every server lets a task be taken without a bid; then the bundle is unpacked
to look at, and you bid for it.`,
		Example: p.Examples("claim --list", "claim task-1 -o work"),
		Args: func(cmd *cobra.Command, args []string) error {
			if list {
				return cli.NoArgs()(cmd, args)
			}
			return taskID(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&output, "output", "o", "", "the directory to make; named after the title if not given")
	flags.BoolVar(&list, "list", false, "list the open tasks, and take none")
	return p.taskVerb(cmd, "print it as JSON", func(ctx context.Context, c *taskserver.Client, t taskserver.Task) (host.Result, error) {
		if !list {
			return p.claim(ctx, c, t, output)
		}
		tasks, err := c.Tasks(ctx, taskserver.Open)
		if err != nil {
			return nil, err
		}
		none := "no task is open at " + c.URL()
		row := func(t taskserver.Task) []string {
			return []string{t.ID, t.Reward.String(), cli.Cut(cli.Clean(t.Title), 50), cli.Cut(cli.Clean(strings.Join(t.Tags, " ")), 40)}
		}
		return listing[taskserver.Task]{all: append([]taskserver.Task{}, tasks...), none: none, head: []string{"TASK", "REWARD", "TITLE", "TAGS"}, row: row}, nil
	})
}

// claimResult is a task that was claimed, and the directory that was made.
type claimResult struct {
	TaskID   string          `json:"task_id"`
	Server   string          `json:"server"`
	Dir      string          `json:"directory"`
	Assigned bool            `json:"assigned"` // to the caller
	Bundle   bool            `json:"bundle"`   // there was one
	Hash     string          `json:"nutshell_hash,omitempty"`
	Verified bool            `json:"verified"` // against the published hash
	Reward   clawnet.Decimal `json:"reward"`
	Vault    bool            `json:"vault_beside"` // credentials come separately
	Foreign  bool            `json:"agent_files"`  // it has files that agents and editors obey
	Warnings []string        `json:"warnings"`

	task taskserver.Task
}

func (p program) claim(ctx context.Context, c *taskserver.Client, t taskserver.Task, output string) (host.Result, error) {
	r := &claimResult{
		TaskID: t.ID, Server: c.URL(), Dir: filepath.Clean(cmp.Or(output, host.Slug(t.Title, t.ID))),
		Assigned: t.Status == taskserver.Assigned, Reward: t.Reward, Warnings: []string{}, task: t,
	}
	var taken error
	if r.Assigned {
		me, err := c.Peer(ctx)
		if err != nil {
			return nil, err
		}
		if me != t.AssignedTo {
			taken = fmt.Errorf("%s is assigned to %s", titled(t), cli.Clean(t.AssignedTo))
		}
	} else if t.Status != taskserver.Open {
		taken = fmt.Errorf("%s is %s", titled(t), cli.Clean(t.Status))
	}
	if taken != nil {
		return nil, cli.WithHint(taken, "'"+p.Hint("claim --list")+"' lists the open tasks")
	}
	// Rename refuses a directory that is in use, but only after the task is claimed.
	if _, err := os.Lstat(r.Dir); !errors.Is(err, os.ErrNotExist) {
		entries, err := os.ReadDir(r.Dir)
		if err == nil && len(entries) > 0 || errors.Is(err, syscall.ENOTDIR) {
			err = fmt.Errorf("%s exists already, and was not changed", r.Dir)
		}
		if err != nil {
			return nil, cli.WithHint(err, "name another directory with -o")
		}
	}
	b, err := p.take(ctx, c, r)
	if err != nil {
		return nil, err
	}
	if b != nil {
		defer b.Close()
	}
	if err := p.settle(ctx, b, r); err != nil {
		return nil, err
	}
	p.remember(c.URL())
	return r, nil
}

// take claims the task and returns its bundle, or nil if it has none. If it can, it checks the bundle first, so that
// nobody claims a task that cannot be done.
func (p program) take(ctx context.Context, c *taskserver.Client, r *claimResult) (*host.Bundle, error) {
	b, err := p.requestOf(ctx, c, r)
	hidden := taskserver.IsStatus(err, http.StatusForbidden) && !r.Assigned
	if err != nil && !hidden && !taskserver.IsStatus(err, http.StatusNotFound) {
		return nil, err
	}
	if !r.Assigned {
		err := c.Claim(ctx, r.TaskID)
		r.Assigned = err == nil
		if err != nil && !taskserver.CannotClaim(err) {
			if b != nil {
				b.Close()
			}
			return nil, err
		}
	}
	if hidden && r.Assigned {
		b, err = p.requestOf(ctx, c, r)
	}
	if b == nil && (hidden || !r.task.Hash.IsZero()) {
		err := fmt.Errorf("the bundle of %s is not there for you: %w", titled(r.task), err)
		return nil, cli.WithHint(err, "the publisher shares it with the one who gets the task: '"+p.Hint("bid "+r.TaskID)+"', then claim again")
	}
	return b, nil
}

// requestOf downloads the bundle of a task, which must be the request that was published, and describes it in r.
func (p program) requestOf(ctx context.Context, c *taskserver.Client, r *claimResult) (*host.Bundle, error) {
	t := r.task
	b, hash, err := p.download(ctx, c, t.ID, t.Hash)
	if err != nil {
		return nil, err
	}
	m := b.Manifest()
	err = nutshell.RefuseVersionControl(b.Files())
	switch {
	case err != nil:
	case m.BundleType() == nutshell.TypeDelivery:
		err = fmt.Errorf("the bundle of %s is a delivery already", titled(t))
	case t.NutshellID != "" && t.NutshellID != m.ID():
		err = fmt.Errorf("the bundle of %s is %s, and %.80q was published", titled(t), m.ID(), t.NutshellID)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	r.Bundle, r.Hash, r.Verified = true, hash.String(), !t.Hash.IsZero()
	r.Warnings = append(r.Warnings, b.Warnings...)
	r.Vault, r.Foreign = m.Credentials().Beside, workdir.HoldsForeign(b.Bundle)
	return b, nil
}

// settle makes the directory, from the bundle or, if that is nil, from the words of the task. It writes everything beside
// it first, so that a claim that is killed leaves the whole directory or none.
func (p program) settle(ctx context.Context, b *host.Bundle, r *claimResult) (err error) {
	temporary, err := os.MkdirTemp(filepath.Dir(r.Dir), "."+filepath.Base(r.Dir)+".claim-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	whole := filepath.Join(temporary, "bundle")
	if b == nil {
		err = p.writeFromTask(whole, r.task)
	} else {
		err = workdir.Unpack(ctx, b.Bundle, whole)
	}
	if err != nil {
		return err
	}
	err = host.RewriteManifest(whole, func(m *nutshell.Manifest) error {
		e, _, err := clawnet.FromManifest(m)
		if err != nil {
			return err
		}
		e.TaskID, e.Server = r.TaskID, r.Server
		return e.Write(m)
	})
	if err == nil {
		err = os.Chmod(filepath.Join(whole, nutshell.ManifestFile), 0o644)
	}
	if err != nil {
		return err
	}
	return durable.MoveDir(whole, r.Dir)
}

// writeFromTask makes the directory of a task without a bundle from what the server says of it.
func (p program) writeFromTask(dir string, t taskserver.Task) error {
	id, err := host.NewID(p.Random)
	if err != nil {
		return err
	}
	title := cli.Clean(t.Title)
	text, err := draft.Manifest(draft.Outline{Type: nutshell.TypeRequest, Title: title, Summary: cli.Clean(t.Description), Skills: t.Tags}, id, p.Now())
	if err != nil {
		return err
	}
	m, err := nutshell.ParseManifest(text)
	if err != nil {
		return err
	}
	if _, bad := nutshell.Timestamp(t.Deadline).Time(); bad == nil {
		err = m.Set("expires_at", t.Deadline)
	}
	reward := clawnet.Reward{Amount: t.Reward, Currency: clawnet.DefaultCurrency}
	words := fmt.Sprintf("# %s\n\n%s\n", title, strings.TrimSpace(t.Description))
	if err := errors.Join(err, clawnet.Extension{PeerID: t.AuthorID, Reward: &reward}.Write(m), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	return errors.Join(
		host.WriteNew(dir, nutshell.ManifestFile, m.Bytes(), 0o644),
		host.WriteNew(dir, "context/requirements.md", []byte(words), 0o644),
	)
}

// Print implements host.Result.
func (r *claimResult) Print(p *host.Program) error {
	was := "Claimed"
	if !r.Assigned {
		was = "Unpacked"
	}
	fmt.Fprintf(p.Out, "%s %s into %s\n", was, titled(r.task), r.Dir)
	fmt.Fprintf(p.Out, "  reward  %s\n", r.Reward)
	switch {
	case !r.Bundle:
		fmt.Fprintln(p.Out, "  bundle  none: the directory was made from the task's title and description")
	case r.Verified:
		fmt.Fprintf(p.Out, "  bundle  %s, as published\n", r.Hash)
	default:
		fmt.Fprintf(p.Out, "  bundle  %s; the server names no hash to compare it with\n", r.Hash)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(p.Out, "  ⚠ %s\n", cli.Clean(w))
	}
	if r.Foreign {
		fmt.Fprintln(p.Out, "  ⚠ it has files that agents and editors obey: read them before you start one there")
	}
	if r.Vault {
		fmt.Fprintln(p.Out, "  The credentials come separately, from the publisher.")
	}
	next := "When it is done: " + p.Hint("deliver --dir "+r.Dir)
	if !r.Assigned {
		next = "It is not yours yet: " + p.Hint("bid "+r.TaskID+" --amount N")
	}
	_, err := fmt.Fprintln(p.Out, next)
	return err
}
