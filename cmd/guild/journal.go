package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

type journalOptions struct {
	Since   string // sequence number, time (RFC 3339) or duration back from now
	Subject string // prefix, as "job" or "job.5f21"
}

func (p *program) journalCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "journal",
		Short: "Look at the journal of facts, repair or archive it",
		Long: `The journal holds every decision of this node, in order; everything else that
guild shows is computed from it. These verbs ask the running node, or open the
journal themselves if none runs.`,
		Example: "  guild journal ls --subject job.5f21",
	}, p.journalLsCommand(), p.journalShowCommand(), p.journalRepairCommand(), p.journalReleaseCommand(), p.journalArchiveCommand())
}

func (p *program) journalLsCommand() *cobra.Command {
	var o journalOptions
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List entries, the oldest first",
		Example: "  guild journal ls --since 1h\n  guild journal ls --subject trust --json",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runJournalLs(cmd.Context(), o, cli.AsJSON(cmd)) },
	}
	cmd.Flags().StringVar(&o.Since, "since", "", "from this entry number, RFC 3339 time, or so long ago (as 1h)")
	cmd.Flags().StringVar(&o.Subject, "subject", "", "only subjects that begin so, as job or job.5f21")
	cli.JSONFlag(cmd, "print one JSON object per line")
	return cmd
}

func (p *program) journalShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show SEQ",
		Short:   "Print one entry as JSON",
		Example: "  guild journal show 42",
		Args:    cli.OneArg("the number of an entry"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if seq, err := strconv.ParseUint(args[0], 10, 64); err != nil || seq == 0 {
				return cli.Usage(fmt.Errorf("%q is not the number of an entry", args[0]))
			}
			return p.readingJournal(cmd.Context(), func(client *control.Client, _ bool) error {
				r, err := control.OneEntry.Call(cmd.Context(), client, args[0])
				if err != nil {
					return err
				}
				return cli.PrintJSON(p.out, r)
			})
		},
	}
	cli.JSONFlag(cmd, "print errors as JSON, too")
	return cmd
}

func (p *program) runJournalLs(ctx context.Context, o journalOptions, asJSON bool) error {
	since, err := p.parseSince(o.Since)
	if err != nil {
		return cli.Usage(err)
	}
	return p.readingJournal(ctx, func(client *control.Client, _ bool) error {
		return printLines(p, asJSON, control.Entries.Lines(ctx, client, since, o.Subject), p.showRecord)
	})
}

// parseSince turns a duration into the time so long ago, and checks the two other forms.
func (p *program) parseSince(text string) (string, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return p.now().Add(-d).UTC().Format(time.RFC3339), nil
	}
	if _, err := strconv.ParseUint(text, 10, 64); err == nil || text == "" {
		return text, nil
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		return "", fmt.Errorf("--since %q: want an entry number, a time such as 2026-01-31T12:00:00Z, or a duration such as 1h", text)
	}
	return text, nil
}

func (p *program) showRecord(r control.Record) error {
	var e struct {
		At    int64 `json:"at"`
		Facts []struct {
			Type string `json:"type"`
		} `json:"facts"`
	}
	if err := json.Unmarshal(r.Entry, &e); err != nil {
		return fmt.Errorf("entry %d: %w", r.Seq, err)
	}
	var types []string
	for _, f := range e.Facts {
		types = append(types, f.Type)
	}
	at := time.UnixMilli(e.At).Format(time.DateTime)
	noun, id, _ := strings.Cut(r.Subject, ".")
	_, err := fmt.Fprintf(p.out, "%6d  %s  %-17s %s\n", r.Seq, at, cli.Clean(noun+"."+short(id)), cli.Clean(strings.Join(types, " ")))
	return err
}
