package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/fact"
	"guild/internal/journal"
)

type journalOptions struct {
	Since   string // sequence number, time (RFC 3339) or duration back from now
	Subject string // prefix, as "job" or "job.5f21"
	JSON    bool
}

func (p *program) journalCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "journal",
		Short: "Look at the journal of facts, repair or archive it",
		Long: `The journal holds every decision of this node, in order; everything else that guild
shows is computed from it. These verbs ask the running node, or open the journal
themselves when none runs.`,
		Example: "  guild journal ls --subject job.5f21",
	}, p.journalLsCommand(), p.journalShowCommand(), p.journalRepairCommand(), p.journalArchiveCommand())
}

func (p *program) journalLsCommand() *cobra.Command {
	var o journalOptions
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List entries, the oldest first",
		Example: "  guild journal ls --since 1h\n  guild journal ls --subject trust --json",
		Args:    noArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runJournalLs(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.Since, "since", "", "from this entry number, RFC 3339 time, or so long ago (as 1h)")
	cmd.Flags().StringVar(&o.Subject, "subject", "", "only subjects that begin so, as job or job.5f21")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print one JSON object per line")
	return cmd
}

func (p *program) journalShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show SEQ",
		Short:   "Print one entry as JSON",
		Example: "  guild journal show 42",
		Args:    oneArg("the number of an entry"),
		RunE:    func(cmd *cobra.Command, args []string) error { return p.runJournalShow(cmd.Context(), args[0]) },
	}
}

func (p *program) runJournalLs(ctx context.Context, o journalOptions) error {
	since, err := p.parseSince(o.Since)
	if err != nil {
		return usage(err)
	}
	records, done, err := p.records(ctx, since, o.Subject)
	if err != nil {
		return err
	}
	defer done()
	for r, err := range records {
		if err != nil {
			return err
		}
		if err := p.writeRecord(r, o.JSON); err != nil {
			return err
		}
	}
	return nil
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

func (p *program) writeRecord(r control.Record, asJSON bool) error {
	if asJSON {
		return printLine(p.out, r)
	}
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
	_, err := fmt.Fprintf(p.out, "%6d  %s  %-17s %s\n", r.Seq, at, clean(noun+"."+short(id)), clean(strings.Join(types, " ")))
	return err
}

// records yields entries from the running node or, when none runs, from the journal itself, which its lock
// then keeps from any node.
func (p *program) records(ctx context.Context, since, subject string) (iter.Seq2[control.Record, error], func(), error) {
	c, err := p.config()
	if err != nil {
		return nil, nil, err
	}
	client := control.Dial(c.Socket())
	_, err = client.Status(ctx)
	if err == nil {
		return client.Journal(ctx, since, subject), func() {}, nil
	}
	if !errors.Is(err, control.ErrNotRunning) {
		return nil, nil, err
	}
	j, err := p.openJournal(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return stored(ctx, j, since, subject), func() { j.Close() }, nil
}

// journalAt says how the verbs open the journal of a node that does not run.
func (p *program) journalAt(c config.Config) journal.Options {
	return journal.Options{Dir: c.JournalDir(), HighWater: c.HighWater(), Now: p.now, Log: p.logger(p.err)}
}

func (p *program) openJournal(ctx context.Context, c config.Config) (*journal.Journal, error) {
	if err := c.Paths.MakeDirs(); err != nil {
		return nil, err
	}
	return journal.Open(ctx, p.journalAt(c))
}

// stored yields the entries of an open journal as the API does.
func stored(ctx context.Context, j *journal.Journal, since, subject string) iter.Seq2[control.Record, error] {
	return func(yield func(control.Record, error) bool) {
		from, notBefore := sinceBounds(since)
		for e, err := range j.Entries(ctx, from) {
			if err != nil {
				yield(control.Record{}, err)
				return
			}
			if e.At < notBefore || !strings.HasPrefix(string(e.Subject), subject) {
				continue
			}
			if !yield(record(e)) {
				return
			}
		}
	}
}

// sinceBounds splits what parseSince returned: a first sequence, or the Unix ms of a first time.
func sinceBounds(since string) (from uint64, notBefore int64) {
	if t, err := time.Parse(time.RFC3339, since); err == nil {
		return 1, t.UnixMilli()
	}
	from, _ = strconv.ParseUint(since, 10, 64)
	return max(1, from), 0
}

func record(e fact.Entry) (control.Record, error) {
	b, err := json.Marshal(e)
	return control.Record{Seq: e.Seq, Subject: string(e.Subject), Entry: b}, err
}

func (p *program) runJournalShow(ctx context.Context, text string) error {
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seq == 0 {
		return usage(fmt.Errorf("%q is not the number of an entry", text))
	}
	c, err := p.config()
	if err != nil {
		return err
	}
	r, err := control.Dial(c.Socket()).Record(ctx, seq)
	if errors.Is(err, control.ErrNotRunning) {
		r, err = p.storedRecord(ctx, c, seq)
	}
	if err != nil {
		return err
	}
	return printJSON(p.out, r)
}

func (p *program) storedRecord(ctx context.Context, c config.Config, seq uint64) (control.Record, error) {
	j, err := p.openJournal(ctx, c)
	if err != nil {
		return control.Record{}, err
	}
	defer j.Close()
	e, err := j.Entry(ctx, seq)
	if err != nil {
		return control.Record{}, err
	}
	return record(e)
}
