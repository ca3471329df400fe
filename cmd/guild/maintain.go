package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/node"
)

type archiveOptions struct {
	Before time.Duration // entries older than this go
}

func (p *program) journalRepairCommand() *cobra.Command {
	return p.local(&cobra.Command{
		Use:   "repair",
		Short: "Rebuild a damaged journal from its whole entries",
		Long: `repair keeps a copy of all but the keys, rebuilds the journal from the entries
that are whole, and lists those that are lost. What a job says is lost if its
key is. Damaged streams of strangers' events are moved aside, and relays are
asked for them again. No node may be running.

An entry's guard is its subject, as one job or the trust for one task. A guard
that lost entries is put into quarantine: its remaining entries are kept and
shown, but nothing is done or decided for it, because a lost entry may mean that
it was done already. 'guild journal release GUARD' ends that.`,
		Example: "  guild journal repair",
	}, func(cmd *cobra.Command, _ []string) (*cli.Result, error) {
		c, err := p.config()
		if err != nil {
			return nil, err
		}
		n, err := nodeConfig(c, key.Identity{}, nodeOptions{Log: p.logger(p.err)})
		if err != nil {
			return nil, err
		}
		report, err := node.Repair(cmd.Context(), n)
		if err != nil {
			return nil, err
		}
		return &cli.Result{JSON: upkeepOf(report), Show: func() error {
			_, err := fmt.Fprintln(p.out, "repaired:", strings.Join(append(reportLines(report.Report), quarantineLines(report)...), "\n  "))
			return err
		}}, nil
	})
}

func (p *program) journalReleaseCommand() *cobra.Command {
	all := false
	cmd := send(p, p.reading, control.ReleaseGuards, &cobra.Command{
		Use:   "release GUARD...",
		Short: "End the quarantine after a repair",
		Long: `release ends the quarantine of a guard, as one job or the trust for one task,
that lost entries when the journal was repaired. guild then continues from the
remaining entries, and may repeat what the lost ones recorded: a job whose
request is lost may be asked for, judged and paid a second time. 'guild job
show' and 'guild journal ls --subject' show the remaining entries.
'guild job cancel' closes a job instead.

GUARD is a guard's name, or the beginning of one.`,
		Example: "  guild journal release job.5f21c9aa\n  guild journal release --all --json",
		Args:    cobra.ArbitraryArgs,
	}, func(_ *cobra.Command, guards []string) (control.Releasing, []string, error) {
		if all == (len(guards) > 0) {
			return control.Releasing{}, nil, cli.WithHint(errors.New("name guards, or give --all"), "guild status lists what is in quarantine")
		}
		return control.Releasing{Guards: guards, All: all}, nil, nil
	}, p.showReleased)
	cmd.Flags().BoolVar(&all, "all", false, "release all that is in quarantine")
	return cmd
}

func (p *program) showReleased(released []control.Released) error {
	for _, r := range released {
		about := ""
		if r.Job != nil {
			about = fmt.Sprintf("  %s, %d asked  %s", endingWord(r.Job.Ending), len(r.Job.Attempts), cli.Cut(cli.Clean(r.Job.Title), 40))
		}
		fmt.Fprintf(p.out, "released  %s%s\n", cli.Clean(r.Guard), about)
	}
	if len(released) == 0 {
		_, err := fmt.Fprintln(p.out, "nothing is in quarantine")
		return err
	}
	_, err := fmt.Fprintln(p.out, "what is left of them counts from now on, and what was lost may be done again")
	return err
}

func (p *program) journalArchiveCommand() *cobra.Command {
	var o archiveOptions
	cmd := p.local(&cobra.Command{
		Use:   "archive --before AGE",
		Short: "Move old entries into a signed, compressed archive",
		Long: `archive signs a checkpoint, moves the entries that are older than AGE into a
compressed file beside the journal, and records that in the journal. The output
of guild does not change. No node may be running.`,
		Example: "  guild journal archive --before 2160h",
	}, func(cmd *cobra.Command, _ []string) (*cli.Result, error) { return p.runArchive(cmd.Context(), o) })
	cmd.Flags().DurationVar(&o.Before, "before", 0, "age of the youngest entry that goes, as 720h (required)")
	return cmd
}

func (p *program) runArchive(ctx context.Context, o archiveOptions) (*cli.Result, error) {
	if o.Before <= 0 {
		return nil, cli.Usage(cli.WithHint(fmt.Errorf("--before is missing"), "guild journal archive --before 2160h"))
	}
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	sign, err := p.checkpointSigner(c)
	if err != nil {
		return nil, err
	}
	if err := c.Paths.MakeDirs(); err != nil {
		return nil, err
	}
	j, err := journal.Open(ctx, journal.Options{Dir: c.JournalDir(), HighWater: c.HighWater(), Now: p.now, Log: p.logger(p.err)})
	if err != nil {
		return nil, err
	}
	defer j.Close()
	report, err := j.Archive(ctx, p.now().Add(-o.Before), sign)
	if err != nil {
		return nil, err
	}
	return &cli.Result{JSON: upkeepOf(node.Repaired{Report: report}), Show: func() error {
		_, err := fmt.Fprintln(p.out, "archived:", strings.Join(reportLines(report), "\n  "))
		return err
	}}, nil
}

// kindAppData is NIP-78: the form in which a checkpoint is signed, so that a remote signer can sign it too.
const kindAppData = 30078

// checkpointSigner returns a signer for the node's key: it makes a Nostr event with the checkpoint as its content.
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

// upkeep is the output of journal repair and journal archive as JSON. The members of the embedded report, with capitals, are
// those of November 2026 and deprecated.
type upkeep struct {
	node.Repaired

	Kept        uint64         `json:"kept"`              // entries that stay in the journal
	Through     uint64         `json:"through,omitempty"` // the last archived entry
	File        string         `json:"file,omitempty"`    // the new archive file
	Root        string         `json:"root,omitempty"`    // of the Merkle tree over the archived entries, in hex
	Dropped     []uint64       `json:"dropped"`           // entries that were lost
	Quarantined []fact.Subject `json:"quarantined"`       // guards that lost entries, or may have, or words that they need
	Wordless    []fact.Subject `json:"wordless"`          // guards whose words are lost with their key
	Aside       string         `json:"aside,omitempty"`   // directory with a copy of the damaged journal
	Reason      string         `json:"reason,omitempty"`  // the damage
	Renewed     []upkeepStream `json:"renewed"`           // side streams that were damaged
	Jobs        []upkeepJob    `json:"jobs"`              // that lost entries, or may have
}

type upkeepStream struct {
	Stream string `json:"stream"`
	Aside  string `json:"aside"` // directory with the damaged stream
}

type upkeepJob struct {
	Job    string       `json:"job"`
	Title  string       `json:"title,omitempty"` // empty if lost
	Ending guild.Ending `json:"ending"`          // open if lost
	Known  bool         `json:"known"`           // the entry that opened it is intact
}

func upkeepOf(r node.Repaired) upkeep {
	u := upkeep{
		Repaired: r, Kept: r.Kept, Through: r.Through, File: r.File, Root: r.Root, Dropped: append([]uint64{}, r.Dropped...),
		Quarantined: append([]fact.Subject{}, r.Quarantined...), Wordless: append([]fact.Subject{}, r.Wordless...), Aside: r.Aside, Reason: r.Reason,
		Renewed: []upkeepStream{}, Jobs: []upkeepJob{},
	}
	for _, renewed := range r.Renewed {
		u.Renewed = append(u.Renewed, upkeepStream(renewed))
	}
	for _, j := range r.Jobs {
		u.Jobs = append(u.Jobs, upkeepJob{Job: j.Job.String(), Title: j.Title, Ending: j.Ending, Known: j.Known})
	}
	return u
}

// quarantineLines lists the jobs and other guards that a repair has put into quarantine.
func quarantineLines(r node.Repaired) []string {
	if len(r.Quarantined) == 0 {
		return nil
	}
	lines := []string{"in quarantine, because entries are lost or may be; nothing is done or decided for these until"}
	lines = append(lines, "'"+journal.Releasing+" GUARD', and what is lost may then be done again:")
	for _, j := range r.Jobs {
		about := "its opening is lost"
		if j.Known {
			about = endingWord(j.Ending) + "  " + cli.Cut(cli.Clean(j.Title), 40)
		}
		lines = append(lines, "  "+string(fact.JobSubject(j.Job))+"  "+about)
	}
	for _, guard := range r.Quarantined {
		if guard.Noun() != "job" {
			lines = append(lines, "  "+cli.Clean(string(guard)))
		}
	}
	return lines
}

// reportLines describes a repair or an archive in a few lines.
func reportLines(r journal.Report) []string {
	if r.Aside == "" && r.File == "" && len(r.Renewed) == 0 {
		return []string{"nothing to do"}
	}
	lines := []string{fmt.Sprintf("%d entries kept", r.Kept)}
	if r.Aside == "" && r.File == "" {
		lines = []string{"all entries are whole"}
	}
	for _, renewed := range r.Renewed {
		lines = append(lines, fmt.Sprintf("stream %s was damaged and is begun anew; as it was it is in %s", renewed.Stream, renewed.Aside))
	}
	if r.Reason != "" {
		lines = append(lines, "found     "+cli.Clean(r.Reason))
	}
	if len(r.Dropped) > 0 {
		lines = append(lines, fmt.Sprintf("lost      %s", cli.Count(len(r.Dropped), "entry", "entries")))
	}
	if len(r.Wordless) > 0 {
		lines = append(lines, fmt.Sprintf("the words of %s are lost with their keys", cli.Count(len(r.Wordless), "job", "jobs")))
	}
	if r.Aside != "" {
		lines = append(lines, "a copy of everything but the keys, as it was, is in "+r.Aside)
	}
	if r.File != "" {
		lines = append(lines, fmt.Sprintf("entries up to %d are in %s", r.Through, r.File))
	}
	return lines
}
