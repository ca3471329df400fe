package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) trustHistoryCommand() *cobra.Command {
	whole := false
	cmd := call(p, p.reading, control.Story, &cobra.Command{
		Use:   "history PROVIDER",
		Short: "Tell the history of a provider, with reasons",
		Long: `history tells, in order, how this node got to know a provider, how its work
changed trust, how its state changed and why, and its public reviews. --verbose
adds the arithmetic of each change.

A provider is named by its npub, also shortened as market ls shows it or by its
start alone, its key in hex, or a NIP-05 name.`,
		Example: "  guild trust history npub1…\n  guild trust history npub1… --task python --verbose",
	}, func(story []control.Chapter) error {
		if len(story) == 0 {
			fmt.Fprintln(p.err, "nothing happened between you and this provider yet; guild market show tells what it announces")
			return nil
		}
		writeStory(p.out, story, whole)
		return nil
	})
	cmd.Flags().String("task", "", "only what is about this task")
	cmd.Flags().BoolVarP(&whole, "verbose", "v", false, "with the arithmetic of each change")
	return cmd
}

// writeStory prints a story, a line for each chapter and a heading for each day.
func writeStory(w io.Writer, story []control.Chapter, whole bool) {
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
