package market

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/internal/taskserver"
	"guild/nutshell"
)

// submitFlags is what submit was asked to do.
type submitFlags struct {
	server serverFlags
	dir    string
	json   bool
}

func (p program) submitCommand() *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit [TASK] FILE.nut",
		Short: "Hand in a delivery bundle",
		Long: `Upload a delivery, and tell the publisher that the work is done. Without a task,
it is the one that the manifest in --dir notes, as claim has written it.

` + aboutServer,
		Example: "  " + p.Hint("submit count-words-delivery.nut --dir work") + "\n  " + p.Hint("submit task-1 count-words-delivery.nut"),
		Args:    cli.Arity(cobra.RangeArgs(1, 2), "a task and a delivery bundle"),

		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"nut"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.advised(p.submit(cmd.Context(), f, args))
		},
	}
	f.server.add(cmd)
	host.DirFlag(cmd.Flags(), &f.dir)
	cmd.Flags().BoolVar(&f.json, "json", false, "print it as JSON")
	return cmd
}

func (p program) submit(ctx context.Context, f submitFlags, args []string) error {
	task, server := "", ""
	if len(args) == 2 {
		task = args[0]
	} else {
		_, e, err := noted(f.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", f.dir, err)
		}
		task, server = e.TaskID, e.Server
	}
	if task == "" {
		err := cli.Usage(fmt.Errorf("%s notes no task that it was claimed from", f.dir))
		return cli.WithHint(err, "name the task, as in "+p.Hint("submit task-1 "+args[0])+", or the directory with --dir")
	}
	if err := checkTask(task); err != nil {
		return err
	}
	d, err := p.openDelivery(args[len(args)-1])
	if err != nil {
		return err
	}
	defer d.done()
	c, err := p.taskServer(f.server, server)
	if err != nil {
		return err
	}
	made, err := p.handIn(ctx, c, task, d)
	if err != nil {
		return err
	}
	return p.printSubmitted(made, f.json)
}

// delivery is a delivery bundle on this disk.
type delivery struct {
	path   string
	file   *os.File
	bundle *nutshell.Bundle
	result *nutshell.Result
	hash   guild.Hash
	size   int64
	done   func()
}

// openDelivery opens a bundle that must be a delivery with a result.
func (p program) openDelivery(path string) (*delivery, error) {
	b, f, done, err := p.OpenBundle(path)
	if err != nil {
		return nil, err
	}
	d := &delivery{path: path, file: f, bundle: b, done: done}
	if d.hash, err = host.HashOf(f); err == nil {
		d.size, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil && b.Manifest().BundleType() != nutshell.TypeDelivery {
		err = cli.WithHint(fmt.Errorf("is a %.40q, and only deliveries are handed in", b.Manifest().BundleType()), "make one with '"+p.Hint("deliver")+"'")
	}
	if err == nil {
		d.result, err = resultOf(b)
	}
	if err != nil {
		done()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// resultOf reads what a delivery says of itself.
func resultOf(b *nutshell.Bundle) (*nutshell.Result, error) {
	raw, err := b.ReadFile(nutshell.ResultFile)
	if err != nil {
		return nil, err
	}
	return nutshell.ParseResult(raw)
}

// submitted is what submit has done.
type submitted struct {
	TaskID string     `json:"task_id"`
	Server string     `json:"server"`
	Hash   guild.Hash `json:"nutshell_hash"`
	Status string     `json:"status"` // of the work
	Before bool       `json:"submitted_before"`

	task taskserver.Task
}

// handIn uploads a delivery and submits it. One that was handed in before is left as it is.
func (p program) handIn(ctx context.Context, c *taskserver.Client, id string, d *delivery) (*submitted, error) {
	t, err := c.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	made := &submitted{TaskID: id, Server: c.URL(), Hash: d.hash, Status: d.result.Status, task: t}
	request := d.bundle.Manifest().RequestID()
	switch {
	case t.NutshellID != "" && request != "" && t.NutshellID != request:
		return nil, fmt.Errorf("%s answers %.80s, and %s is about %.80q", d.path, request, titled(t), t.NutshellID)
	case t.Status == taskserver.Submitted && names(t, d.hash):
		made.Before = true
		return made, nil
	case t.Status != taskserver.Assigned:
		err := fmt.Errorf("%s is %s: nothing can be handed in", titled(t), cli.Clean(t.Status))
		return nil, cli.WithHint(err, "a task must be yours first: '"+p.Hint("claim "+id)+"', or '"+p.Hint("bid "+id)+"'")
	}
	if err := c.Upload(ctx, id, io.NewSectionReader(d.file, 0, d.size), d.size, d.hash); err != nil {
		return nil, err
	}
	if err := c.Submit(ctx, id, inWords(d), d.hash); err != nil {
		return nil, err
	}
	p.remember(c.URL())
	return made, nil
}

// names reports whether a task names a hash as that of its delivery.
func names(t taskserver.Task, hash guild.Hash) bool {
	return t.Hash == hash || strings.Contains(t.Result, hash.Hex())
}

// inWords is what the publisher reads of a delivery. The hash is in it, because a server may not keep it otherwise.
func inWords(d *delivery) string {
	words := "Delivery bundle: " + d.hash.String()
	if d.result.Summary == "" {
		return d.result.Status + ". " + words
	}
	return d.result.Status + ": " + strings.TrimSpace(d.result.Summary) + "\n" + words
}

func (p program) printSubmitted(made *submitted, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.Out, made)
	}
	was := "Handed in"
	if made.Before {
		was = "Handed in before:"
	}
	_, err := fmt.Fprintf(p.Out, "%s %s for %s at %s\n  hash  %s\nThe publisher approves it, which pays the reward.\n",
		was, aWork(made.Status), titled(made.task), made.Server, made.Hash)
	return err
}

// aWork words the status of a delivery.
func aWork(status string) string {
	switch status {
	case nutshell.Completed:
		return "the work"
	case nutshell.Partial:
		return "a part of the work"
	}
	return "why the work is " + status
}

// sameDir reports whether two paths are the same directory.
func sameDir(a, b string) bool {
	one, err := os.Stat(filepath.Clean(a))
	if err != nil {
		return false
	}
	other, err := os.Stat(filepath.Clean(b))
	return err == nil && os.SameFile(one, other)
}
