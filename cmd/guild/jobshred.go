package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) jobShredCommand() *cobra.Command {
	yes := false
	cmd := p.local(&cobra.Command{
		Use:   "shred JOB",
		Short: "Erase what a job said; its receipts and proofs stay",
		Long: `shred erases what a job that is over said, for good: its title, inputs and
messages, the bundle, the deliveries, verdicts and trajectories. In the journal
these words are encrypted with a key of the job, which is erased; files that
another job has, too, stay until that is shredded. The job's receipts, hashes
and proofs stay whole, and so does every export made before.

It cannot erase what left the node: events on relays, also on the node's own,
what the provider has, published reviews, exports, and backups of the
directory. Entries that an older guild stored unencrypted stay as they are; the
answer says how many.

JOB is a job's id or the beginning of one.`,
		Example: "  guild job shred 5f21c9aa\n  guild job shred 5f21c9aa --yes --json",
	}, func(cmd *cobra.Command, args []string) (result *cli.Result, err error) {
		err = p.running(cmd.Context(), func(client *control.Client, _ bool) error {
			result, err = p.runJobShred(cmd.Context(), client, args[0], yes)
			return err
		})
		return result, err
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (p *program) runJobShred(ctx context.Context, client *control.Client, id string, yes bool) (*cli.Result, error) {
	job, err := control.OneJob.Call(ctx, client, id)
	if err != nil {
		return nil, err
	}
	already := job.Erased != 0
	if !yes && job.Shredded == 0 {
		if err := p.askToShred(ctx, job); err != nil {
			return nil, err
		}
	}
	if job, err = control.ShredJob.Call(ctx, client, job.ID); err != nil {
		return nil, err
	}
	return &cli.Result{JSON: job, Show: func() error {
		text := shreddedWords(job)
		if already {
			text = "was " + text + " before"
		}
		_, err := fmt.Fprintf(p.out, "job %s: %s\n", short(job.ID), text)
		return err
	}}, nil
}

// askToShred asks the person at a terminal, and refuses without one.
func (p *program) askToShred(ctx context.Context, job control.Job) error {
	ask, err := p.nut().Asker(ctx)
	if err != nil {
		return cli.WithHint(cli.Usage(errors.New("nothing was erased: it cannot be undone")), "--yes erases it without asking")
	}
	sure, err := ask.Yes(fmt.Sprintf("Erase what job %s said (%s)? It cannot be undone.", short(job.ID), cli.Cut(cli.Clean(job.Title), 40)))
	if err == nil && !sure {
		err = errors.New("nothing was erased")
	}
	return err
}

// shreddedWords says how the shredding of a job stands, "" if it is not shredded.
func shreddedWords(job control.Job) string {
	switch {
	case job.Shredded == 0:
		return ""
	case job.Erased == 0:
		return "being shredded"
	case job.Exposed > 0:
		return fmt.Sprintf("shredded on %s, but for %s that an older guild stored unencrypted", dateOf(job.Erased), cli.Count(job.Exposed, "entry", "entries"))
	}
	return "shredded on " + dateOf(job.Erased)
}

func dateOf(ms int64) string { return time.UnixMilli(ms).Format(time.DateTime) }
