package market

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/taskserver"
	"guild/internal/nut/host"
	"guild/nutshell"
)

func (p program) submitCommand() *cobra.Command {
	var server serverFlags
	var dir string
	cmd := &cobra.Command{
		Use:   "submit [TASK] FILE.nut",
		Short: "Hand in a delivery bundle",
		Long: `Upload a delivery, and tell the publisher that the work is done. Without a task,
it is the one that the manifest in --dir notes, as claim has written it.`,
		Example:           p.Examples("submit count-words-delivery.nut --dir work", "submit task-1 count-words-delivery.nut"),
		Args:              cli.Arity(cobra.RangeArgs(1, 2), "a task and a delivery bundle"),
		ValidArgsFunction: host.CompleteBundles,
	}
	host.DirFlag(cmd.Flags(), &dir)
	return p.verb(cmd, &server, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		return p.submit(cmd.Context(), server, dir, args)
	})
}

func (p program) submit(ctx context.Context, flags serverFlags, dir string, args []string) (host.Result, error) {
	file, task, server := args[len(args)-1], "", ""
	if len(args) == 2 {
		task = args[0]
	} else {
		_, e, err := noted(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		task, server = e.TaskID, e.Server
	}
	if task == "" {
		err := cli.Usage(fmt.Errorf("%s notes no task that it was claimed from", dir))
		return nil, cli.WithHint(err, "name the task, as in "+p.Hint("submit task-1 "+file)+", or the directory with --dir")
	}
	if err := checkTask(task); err != nil {
		return nil, err
	}
	d, err := p.openDelivery(file)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	c, err := p.taskServer(flags, server)
	if err != nil {
		return nil, err
	}
	made, err := p.handIn(ctx, c, task, d)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// delivery is a delivery bundle in a file of this machine.
type delivery struct {
	bundle
	path   string
	result *nutshell.Result
}

// openDelivery opens a bundle, which must be a delivery with a result. The caller closes it.
func (p program) openDelivery(path string) (*delivery, error) {
	b, err := p.OpenBundle(path)
	if err != nil {
		return nil, err
	}
	d := &delivery{bundle: bundle{Bundle: b}, path: path}
	d.hash, err = b.Hash()
	if kind := b.Manifest().BundleType(); err == nil && kind != nutshell.TypeDelivery {
		err = cli.WithHint(fmt.Errorf("is a %.40q, and only deliveries are handed in", kind), "make one with '"+p.Hint("deliver")+"'")
	}
	if err == nil {
		d.result, err = resultOf(b)
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// resultOf reads the result of a delivery.
func resultOf(b *host.Bundle) (*nutshell.Result, error) {
	raw, err := b.ReadFile(nutshell.ResultFile)
	if err != nil {
		return nil, err
	}
	return nutshell.ParseResult(raw)
}

// submitResult is a delivery that was handed in.
type submitResult struct {
	TaskID string     `json:"task_id"`
	Server string     `json:"server"`
	Hash   guild.Hash `json:"nutshell_hash"`
	Status string     `json:"status"` // of the work
	Before bool       `json:"submitted_before"`

	task taskserver.Task
}

// handIn uploads a delivery and submits it, unless it was handed in before.
func (p program) handIn(ctx context.Context, c *taskserver.Client, id string, d *delivery) (*submitResult, error) {
	t, err := c.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	made := &submitResult{TaskID: id, Server: c.URL(), Hash: d.hash, Status: d.result.Status, task: t}
	request := d.Manifest().RequestID()
	switch {
	case t.NutshellID != "" && request != "" && t.NutshellID != request:
		return nil, fmt.Errorf("%s answers %.80s, and %s is about %.80q", d.path, request, titled(t), t.NutshellID)
	case t.Status == taskserver.Submitted && (t.Hash == d.hash || strings.Contains(t.Result, d.hash.Hex())):
		made.Before = true
		return made, nil
	case t.Status != taskserver.Assigned:
		err := fmt.Errorf("%s is %s: nothing can be handed in", titled(t), cli.Clean(t.Status))
		return nil, cli.WithHint(err, "a task must be yours first: '"+p.Hint("claim "+id)+"', or '"+p.Hint("bid "+id)+"'")
	}
	if err := c.Upload(ctx, id, d.Content(), d.Size, d.hash); err != nil {
		return nil, err
	}
	// The publisher reads these words. The hash is in them, because a server may not keep it otherwise.
	words := d.result.Status + ". Delivery bundle: " + d.hash.String()
	if d.result.Summary != "" {
		words = d.result.Status + ": " + strings.TrimSpace(d.result.Summary) + "\nDelivery bundle: " + d.hash.String()
	}
	if err := c.Submit(ctx, id, words, d.hash); err != nil {
		return nil, err
	}
	p.remember(c.URL())
	return made, nil
}

// Print implements host.Result.
func (r *submitResult) Print(p *host.Program) error {
	was := "Handed in"
	if r.Before {
		was = "Handed in before:"
	}
	work := "why the work is " + r.Status
	switch r.Status {
	case nutshell.Completed:
		work = "the work"
	case nutshell.Partial:
		work = "a part of the work"
	}
	_, err := fmt.Fprintf(p.Out, "%s %s for %s at %s\n  hash  %s\nThe publisher approves it, which pays the reward.\n", was, work, titled(r.task), r.Server, r.Hash)
	return err
}
