package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/journal"
)

type archiveOptions struct {
	Before time.Duration // entries older than this go
	JSON   bool
}

func (p *program) journalRepairCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Rebuild a damaged journal from what is left of it",
		Long: `repair keeps a copy of everything, rebuilds the journal from the entries that are
whole and fit their chain, and says what is lost. No node may be running.`,
		Example: "  guild journal repair",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.config()
			if err != nil {
				return err
			}
			report, err := journal.Repair(cmd.Context(), p.journalAt(c))
			if err != nil {
				return err
			}
			return p.writeReport("repaired", report, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) journalArchiveCommand() *cobra.Command {
	var o archiveOptions
	cmd := &cobra.Command{
		Use:   "archive --before AGE",
		Short: "Move old entries into a signed, compressed archive",
		Long: `archive signs a checkpoint, moves the entries that are older than AGE into a
compressed file beside the journal, and notes that in the journal. Nothing that
guild shows changes. No node may be running.`,
		Example: "  guild journal archive --before 2160h",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runArchive(cmd.Context(), o) },
	}
	cmd.Flags().DurationVar(&o.Before, "before", 0, "age of the youngest entry that goes, as 720h (required)")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print JSON")
	return cmd
}

func (p *program) runArchive(ctx context.Context, o archiveOptions) error {
	if o.Before <= 0 {
		return cli.Usage(cli.WithHint(fmt.Errorf("--before is missing"), "guild journal archive --before 2160h"))
	}
	c, err := p.config()
	if err != nil {
		return err
	}
	sign, err := p.checkpointSigner(c)
	if err != nil {
		return err
	}
	j, err := p.openJournal(ctx, c)
	if err != nil {
		return err
	}
	defer j.Close()
	report, err := j.Archive(ctx, p.now().Add(-o.Before), sign)
	if err != nil {
		return err
	}
	return p.writeReport("archived", report, o.JSON)
}

// kindAppData is NIP-78: the form in which a checkpoint is signed, so that a remote signer can sign it too.
const kindAppData = 30078

// checkpointSigner signs as the node: what it returns is a Nostr event with the checkpoint as its content.
func (p *program) checkpointSigner(c config.Config) (journal.Sign, error) {
	id, err := p.identity(c)
	if err != nil {
		return nil, err
	}
	if id.Signer == nil {
		return nil, fmt.Errorf("the identity is a remote signer, which this verb does not reach")
	}
	return func(ctx context.Context, checkpoint []byte) ([]byte, error) {
		e := nostr.Event{
			Kind:      kindAppData,
			CreatedAt: nostr.Timestamp(p.now().Unix()),
			Tags:      nostr.Tags{{"d", "guild-checkpoint"}},
			Content:   string(checkpoint),
		}
		signed, err := guild.Sign(ctx, id.Signer, e)
		if err != nil {
			return nil, err
		}
		return json.Marshal(signed.Event())
	}, nil
}

func (p *program) writeReport(what string, report journal.Report, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.out, report)
	}
	_, err := fmt.Fprintln(p.out, what+":", reportText(report))
	return err
}

// reportText says in a few lines what was done to a journal.
func reportText(r journal.Report) string {
	if r.Aside == "" && r.File == "" {
		return "there was nothing to do"
	}
	lines := []string{fmt.Sprintf("%d entries kept", r.Kept)}
	if r.Reason != "" {
		lines = append(lines, "found     "+cli.Clean(r.Reason))
	}
	if len(r.Dropped) > 0 {
		lines = append(lines, fmt.Sprintf("lost      %d entries: %s", len(r.Dropped), cli.Clean(fmt.Sprint(r.Dropped))))
	}
	if r.Aside != "" {
		lines = append(lines, "a copy of everything as it was is in "+r.Aside)
	}
	if r.File != "" {
		lines = append(lines, fmt.Sprintf("entries up to %d are in %s", r.Through, r.File))
	}
	return strings.Join(lines, "\n  ")
}
