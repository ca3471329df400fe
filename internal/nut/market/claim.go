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
	"guild/internal/nut/draft"
	"guild/internal/nut/host"
	"guild/internal/taskserver"
	"guild/internal/workdir"
	"guild/nutshell"
	"guild/nutshell/clawnet"
)

// claimFlags is what claim was asked to do.
type claimFlags struct {
	server     serverFlags
	output     string
	list, json bool
}

func (p program) claimCommand() *cobra.Command {
	var f claimFlags
	cmd := &cobra.Command{
		Use:   "claim TASK [-o DIR]",
		Short: "Take a task, and unpack its bundle into a directory",
		Long: `Take a task that is open or assigned to you, compare its bundle with the hash that
was published, and unpack it. The directory appears whole or not at all, and its
manifest notes where the task is, so that deliver and submit know.

Not every server lets a task be taken without a bid; then the bundle is unpacked
to look at, and you bid for it.

` + aboutServer,
		Example: "  " + p.Hint("claim --list") + "\n  " + p.Hint("claim task-1 -o work"),
		Args:    cobra.ArbitraryArgs,

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				if err := cli.NoArgs()(cmd, args); err != nil {
					return err
				}
				return p.advised(p.listTasks(cmd.Context(), f))
			}
			if err := taskID()(cmd, args); err != nil {
				return err
			}
			return p.advised(p.claim(cmd.Context(), f, args[0]))
		},
	}
	f.server.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "the directory to make; named after the title if not given")
	flags.BoolVar(&f.list, "list", false, "list the open tasks, and take none")
	flags.BoolVar(&f.json, "json", false, "print it as JSON")
	return cmd
}

// listTasks prints the open tasks.
func (p program) listTasks(ctx context.Context, f claimFlags) error {
	c, err := p.taskServer(f.server, "")
	if err != nil {
		return err
	}
	tasks, err := c.Tasks(ctx, taskserver.Open)
	if err != nil {
		return err
	}
	if f.json {
		return cli.PrintJSON(p.Out, append([]taskserver.Task{}, tasks...))
	}
	if len(tasks) == 0 {
		_, err := fmt.Fprintln(p.Out, "no task is open at", c.URL())
		return err
	}
	rows := [][]string{{"TASK", "REWARD", "TITLE", "TAGS"}}
	for _, t := range tasks {
		rows = append(rows, []string{t.ID, t.Reward.String(), cli.Cut(cli.Clean(t.Title), 50), cli.Cut(cli.Clean(strings.Join(t.Tags, " ")), 40)})
	}
	return cli.Table(p.Out, rows)
}

// claimed is what claim has done.
type claimed struct {
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

func (p program) claim(ctx context.Context, f claimFlags, id string) error {
	c, err := p.taskServer(f.server, "")
	if err != nil {
		return err
	}
	t, err := c.Task(ctx, id)
	if err != nil {
		return err
	}
	mine, err := p.takeable(ctx, c, t)
	if err != nil {
		return err
	}
	dir := filepath.Clean(cmp.Or(f.output, host.Slug(t.Title, t.ID)))
	if err := p.vacant(dir); err != nil {
		return err
	}
	made := &claimed{TaskID: t.ID, Server: c.URL(), Dir: dir, Assigned: mine, Reward: t.Reward, Warnings: []string{}, task: t}
	d, err := p.taken(ctx, c, made)
	if err != nil {
		return err
	}
	if d != nil {
		defer d.file.Close()
	}
	if err := p.settle(ctx, d, made); err != nil {
		return err
	}
	p.remember(c.URL())
	return p.printClaimed(made, f.json)
}

// takeable asks whether a task can be taken, and reports whether it is the caller's already.
func (p program) takeable(ctx context.Context, c *taskserver.Client, t taskserver.Task) (mine bool, err error) {
	switch t.Status {
	case taskserver.Open:
		return false, nil
	case taskserver.Assigned:
		me, err := c.Status(ctx)
		if err == nil && me.PeerID != t.AssignedTo {
			err = cli.WithHint(fmt.Errorf("%s is assigned to %s", titled(t), cli.Clean(t.AssignedTo)), "'"+p.Hint("claim --list")+"' lists the open tasks")
		}
		return true, err
	}
	return false, cli.WithHint(fmt.Errorf("%s is %s", titled(t), cli.Clean(t.Status)), "'"+p.Hint("claim --list")+"' lists the open tasks")
}

// vacant asks for a directory that is not there yet or empty.
func (p program) vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if isMissing(dir) || err == nil && len(entries) == 0 {
		return nil
	}
	if err == nil || errors.Is(err, syscall.ENOTDIR) {
		err = fmt.Errorf("%s is there already, and stays as it is", dir)
	}
	return cli.WithHint(err, "name another directory with -o")
}

// taken takes the task and returns its bundle, nil if it has none. A bundle that can be seen before is looked at
// first, so that nobody takes a task that cannot be done.
func (p program) taken(ctx context.Context, c *taskserver.Client, made *claimed) (*downloaded, error) {
	d, err := p.download(ctx, c, made.TaskID, made.task.Hash)
	hidden := taskserver.IsStatus(err, http.StatusForbidden) && !made.Assigned
	none := taskserver.IsStatus(err, http.StatusNotFound)
	if err != nil && !hidden && !none {
		return nil, err
	}
	if d != nil {
		if err := p.fits(d, made.task); err != nil {
			d.file.Close()
			return nil, err
		}
	}
	if !made.Assigned {
		err := c.Claim(ctx, made.TaskID)
		made.Assigned = err == nil
		if err != nil && !taskserver.CannotClaim(err) {
			d.close()
			return nil, err
		}
	}
	if hidden && made.Assigned {
		d, err = p.download(ctx, c, made.TaskID, made.task.Hash)
		if err == nil {
			err = p.fits(d, made.task)
		}
	}
	if d == nil && (hidden || !made.task.Hash.IsZero()) {
		err := fmt.Errorf("the bundle of %s is not there for you: %w", titled(made.task), err)
		return nil, cli.WithHint(err, "the publisher shares it with the one who gets the task: '"+p.Hint("bid "+made.TaskID)+"', then claim again")
	}
	return d, nil
}

// close closes what there is.
func (d *downloaded) close() {
	if d != nil {
		d.file.Close()
	}
}

// fits asks whether a bundle is the request that its task is about.
func (p program) fits(d *downloaded, t taskserver.Task) error {
	m := d.bundle.Manifest()
	switch {
	case m.BundleType() == nutshell.TypeDelivery:
		return fmt.Errorf("the bundle of %s is a delivery already", titled(t))
	case t.NutshellID != "" && t.NutshellID != m.ID():
		return fmt.Errorf("the bundle of %s is %s, and %.80q was published", titled(t), m.ID(), t.NutshellID)
	}
	return nil
}

// settle makes the directory: everything is written beside it first.
func (p program) settle(ctx context.Context, d *downloaded, made *claimed) (err error) {
	temporary, err := os.MkdirTemp(filepath.Dir(made.Dir), "."+filepath.Base(made.Dir)+".claim-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	whole := filepath.Join(temporary, "bundle")
	if d == nil {
		err = p.writeFromTask(whole, made.task)
	} else {
		made.describe(d)
		err = workdir.Unpack(ctx, d.bundle, whole)
	}
	if err != nil {
		return err
	}
	if err := noteClaim(whole, made); err != nil {
		return err
	}
	// Unlike os.Rename, the system call replaces an empty directory, in one step, and nothing else.
	if err := syscall.Rename(whole, made.Dir); err != nil {
		return &os.LinkError{Op: "rename", Old: whole, New: made.Dir, Err: err}
	}
	return nil
}

// describe says what is known of the bundle.
func (made *claimed) describe(d *downloaded) {
	made.Bundle, made.Hash, made.Verified = true, d.hash.String(), !made.task.Hash.IsZero()
	made.Warnings = append(made.Warnings, d.bundle.Warnings...)
	made.Vault = d.bundle.Manifest().Credentials().Beside
	made.Foreign = workdir.HoldsForeign(d.bundle)
}

// noteClaim writes where the task is into the manifest. What the bundle said of that is replaced.
func noteClaim(dir string, made *claimed) error {
	m, e, err := noted(dir)
	if err != nil {
		return err
	}
	e.TaskID, e.Server = made.TaskID, made.Server
	if err := m.SetExtension(clawnet.Name, e); err != nil {
		return err
	}
	file := filepath.Join(dir, nutshell.ManifestFile)
	return errors.Join(durable.WriteBytes(file, m.Bytes()), os.Chmod(file, 0o644))
}

// writeFromTask makes a directory of a task without a bundle from what the server says of it.
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
	if err := p.addReward(m, t); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "context"), 0o755); err != nil {
		return err
	}
	words := fmt.Sprintf("# %s\n\n%s\n", title, strings.TrimSpace(t.Description))
	return errors.Join(
		host.WriteNew(dir, nutshell.ManifestFile, m.Bytes(), 0o644),
		host.WriteNew(dir, "context/requirements.md", []byte(words), 0o644),
	)
}

// addReward writes deadline, author and reward of a task into a manifest.
func (p program) addReward(m *nutshell.Manifest, t taskserver.Task) error {
	if _, err := nutshell.Timestamp(t.Deadline).Time(); err == nil {
		if err := m.Set("expires_at", t.Deadline); err != nil {
			return err
		}
	}
	e := clawnet.Extension{PeerID: t.AuthorID, Reward: &clawnet.Reward{Amount: t.Reward, Currency: clawnet.DefaultCurrency}}
	return m.SetExtension(clawnet.Name, e)
}

func (p program) printClaimed(made *claimed, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.Out, made)
	}
	was := "Claimed"
	if !made.Assigned {
		was = "Unpacked"
	}
	fmt.Fprintf(p.Out, "%s %s into %s\n", was, titled(made.task), made.Dir)
	fmt.Fprintf(p.Out, "  reward  %s\n", made.Reward)
	switch {
	case !made.Bundle:
		fmt.Fprintln(p.Out, "  bundle  none: the directory was made from the task's title and description")
	case made.Verified:
		fmt.Fprintf(p.Out, "  bundle  %s, as published\n", made.Hash)
	default:
		fmt.Fprintf(p.Out, "  bundle  %s; the server names no hash to compare it with\n", made.Hash)
	}
	for _, w := range made.Warnings {
		fmt.Fprintf(p.Out, "  ⚠ %s\n", cli.Clean(w))
	}
	if made.Foreign {
		fmt.Fprintln(p.Out, "  ⚠ it has files that agents and editors obey: read them before you start one there")
	}
	if made.Vault {
		fmt.Fprintln(p.Out, "  The credentials come separately, from the publisher.")
	}
	if !made.Assigned {
		_, err := fmt.Fprintf(p.Out, "It is not yours yet: %s\n", p.Hint("bid "+made.TaskID+" --amount N"))
		return err
	}
	_, err := fmt.Fprintf(p.Out, "When it is done: %s\n", p.Hint("deliver --dir "+made.Dir))
	return err
}
