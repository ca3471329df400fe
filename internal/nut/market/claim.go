package market

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"guild/internal/cli"
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
		Long: `Take a task that is open or assigned to you, compare its bundle with the hash that
was published, and unpack it. The directory appears whole or not at all, and its
manifest notes where the task is, so that deliver and submit know.

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
		return listResult{server: c.URL(), tasks: append([]taskserver.Task{}, tasks...)}, nil
	})
}

// listResult is the open tasks of a server.
type listResult struct {
	server string
	tasks  []taskserver.Task
}

// MarshalJSON writes the list alone.
func (r listResult) MarshalJSON() ([]byte, error) { return json.Marshal(r.tasks) }

// Print implements host.Result.
func (r listResult) Print(p *host.Program) error {
	if len(r.tasks) == 0 {
		_, err := fmt.Fprintln(p.Out, "no task is open at", r.server)
		return err
	}
	rows := [][]string{{"TASK", "REWARD", "TITLE", "TAGS"}}
	for _, t := range r.tasks {
		rows = append(rows, []string{t.ID, t.Reward.String(), cli.Cut(cli.Clean(t.Title), 50), cli.Cut(cli.Clean(strings.Join(t.Tags, " ")), 40)})
	}
	return cli.Table(p.Out, rows)
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
	othersHint := "'" + p.Hint("claim --list") + "' lists the open tasks"
	switch t.Status {
	case taskserver.Open:
	case taskserver.Assigned:
		me, err := c.Peer(ctx)
		if err != nil {
			return nil, err
		}
		if me != t.AssignedTo {
			return nil, cli.WithHint(fmt.Errorf("%s is assigned to %s", titled(t), cli.Clean(t.AssignedTo)), othersHint)
		}
	default:
		return nil, cli.WithHint(fmt.Errorf("%s is %s", titled(t), cli.Clean(t.Status)), othersHint)
	}
	dir := filepath.Clean(cmp.Or(output, host.Slug(t.Title, t.ID)))
	if err := checkVacant(dir); err != nil {
		return nil, err
	}
	r := &claimResult{
		TaskID: t.ID, Server: c.URL(), Dir: dir, Assigned: t.Status == taskserver.Assigned, Reward: t.Reward, Warnings: []string{}, task: t,
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

// checkVacant returns an error if there is anything at dir but an empty directory.
func checkVacant(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		return nil
	}
	if err == nil || errors.Is(err, syscall.ENOTDIR) {
		err = fmt.Errorf("%s is there already, and stays as it is", dir)
	}
	return cli.WithHint(err, "name another directory with -o")
}

// take claims the task and returns its bundle, or nil if it has none. If it can, it checks the bundle first, so that
// nobody claims a task that cannot be done.
func (p program) take(ctx context.Context, c *taskserver.Client, r *claimResult) (*bundle, error) {
	b, err := p.requestOf(ctx, c, r.task)
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
		b, err = p.requestOf(ctx, c, r.task)
	}
	if b == nil && (hidden || !r.task.Hash.IsZero()) {
		err := fmt.Errorf("the bundle of %s is not there for you: %w", titled(r.task), err)
		return nil, cli.WithHint(err, "the publisher shares it with the one who gets the task: '"+p.Hint("bid "+r.TaskID)+"', then claim again")
	}
	return b, nil
}

// requestOf downloads the bundle of a task, which must be the request that was published.
func (p program) requestOf(ctx context.Context, c *taskserver.Client, t taskserver.Task) (*bundle, error) {
	b, err := p.download(ctx, c, t.ID, t.Hash)
	if err != nil {
		return nil, err
	}
	m := b.Manifest()
	switch {
	case m.BundleType() == nutshell.TypeDelivery:
		err = fmt.Errorf("the bundle of %s is a delivery already", titled(t))
	case t.NutshellID != "" && t.NutshellID != m.ID():
		err = fmt.Errorf("the bundle of %s is %s, and %.80q was published", titled(t), m.ID(), t.NutshellID)
	default:
		return b, nil
	}
	b.Close()
	return nil, err
}

// settle makes the directory, from the bundle or from the words of the task. It writes everything beside it first.
func (p program) settle(ctx context.Context, b *bundle, r *claimResult) (err error) {
	temporary, err := os.MkdirTemp(filepath.Dir(r.Dir), "."+filepath.Base(r.Dir)+".claim-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	whole := filepath.Join(temporary, "bundle")
	if b == nil {
		err = p.writeFromTask(whole, r.task)
	} else {
		r.Bundle, r.Hash, r.Verified = true, b.hash.String(), !r.task.Hash.IsZero()
		r.Warnings = append(r.Warnings, b.Warnings...)
		r.Vault, r.Foreign = b.Manifest().Credentials().Beside, workdir.HoldsForeign(b.Bundle.Bundle)
		err = workdir.Unpack(ctx, b.Bundle.Bundle, whole)
	}
	if err != nil {
		return err
	}
	_, e, err := noted(whole)
	if err == nil {
		err = note(whole, e, r.TaskID, r.Server)
	}
	if err == nil {
		err = os.Chmod(filepath.Join(whole, nutshell.ManifestFile), 0o644)
	}
	if err != nil {
		return err
	}
	// Unlike os.Rename, the system call replaces an empty directory, in one step, and nothing else.
	if err := syscall.Rename(whole, r.Dir); err != nil {
		return &os.LinkError{Op: "rename", Old: whole, New: r.Dir, Err: err}
	}
	return nil
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
	if _, err := nutshell.Timestamp(t.Deadline).Time(); err == nil {
		if err := m.Set("expires_at", t.Deadline); err != nil {
			return err
		}
	}
	e := clawnet.Extension{PeerID: t.AuthorID, Reward: &clawnet.Reward{Amount: t.Reward, Currency: clawnet.DefaultCurrency}}
	if err := m.SetExtension(clawnet.Name, e); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	words := fmt.Sprintf("# %s\n\n%s\n", title, strings.TrimSpace(t.Description))
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
