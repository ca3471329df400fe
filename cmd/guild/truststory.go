package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

// storyOptions is what guild trust history shows.
type storyOptions struct {
	Task  string
	Whole bool // with the arithmetic
	JSON  bool
}

func (p *program) trustHistoryCommand() *cobra.Command {
	var o storyOptions
	cmd := &cobra.Command{
		Use:   "history PROVIDER",
		Short: "Tell what happened between you and a provider, and why",
		Long: `history tells, in order, how a provider came to be known, what its work did to
trust, how its state changed and for what reason, and what was said of it in public.
--verbose adds the arithmetic of each change.

A provider is named by its npub, also shortened as market ls shows it or by its
start alone, its key in hex, or a NIP-05 name.`,
		Example: "  guild trust history npub1…\n  guild trust history npub1… --task python --verbose",
		Args:    cli.OneArg("a provider"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runTrustHistory(cmd.Context(), args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Task, "task", "", "only what is about this task")
	f.BoolVarP(&o.Whole, "verbose", "v", false, "with the arithmetic of each change")
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	return cmd
}

func (p *program) runTrustHistory(ctx context.Context, who string, o storyOptions) error {
	client, done, err := p.reader(ctx)
	if err != nil {
		return err
	}
	defer done()
	key, err := namedProvider(ctx, who)
	if err != nil {
		return cli.Usage(err)
	}
	story, err := client.Story(ctx, key, o.Task)
	if err != nil {
		return err
	}
	if o.JSON {
		return cli.PrintJSON(p.out, story)
	}
	if len(story) == 0 {
		fmt.Fprintln(p.err, "nothing happened between you and this provider yet; guild market show tells what it announces")
		return nil
	}
	tell(p.out, story, o.Whole)
	return nil
}

// tell prints a story, a line for each chapter and a heading for each day.
func tell(w io.Writer, story []control.Chapter, whole bool) {
	day := ""
	for _, c := range story {
		at := time.UnixMilli(c.At)
		if today := at.Format("Monday, 2 January 2006"); today != day {
			fmt.Fprintln(w, today)
			day = today
		}
		about := cli.Clean(cmp.Or(c.Task, c.D))
		if about != "" {
			about += ": "
		}
		fmt.Fprintf(w, "  %s  %s%s\n", at.Format("15:04:05"), about, cli.Clean(c.Text))
		if whole && c.Rationale != "" {
			fmt.Fprintf(w, "            %s\n", cli.Clean(c.Rationale))
		}
	}
}
