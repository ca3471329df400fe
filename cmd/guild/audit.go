package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild/canon"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/step/audit"
)

func (p *program) auditCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "audit",
		Short: "Seal the journal, and prove that it was not changed",
		Long: `A seal is a signature over all entries of the journal so far. If one of them is
changed, left out or reordered afterwards, that can be found, by this node or by
anybody who has a copy of the seal. A running node seals the journal every hour
(records.seal_every) and when it stops.`,
		Example: "  guild audit seal --json > seal.json\n  guild audit verify --checkpoint seal.json\n  guild audit prove 42",
	}, p.auditSealCommand(), p.auditVerifyCommand(), p.auditProveCommand(), p.auditCompareCommand(), p.auditWatchCommand())
}

func (p *program) auditSealCommand() *cobra.Command {
	cmd := call(p, p.acting, control.SealJournal, &cobra.Command{
		Use:   "seal",
		Short: "Seal the journal now",
		Long: `seal signs a checkpoint of the journal, unless nothing was added since the
latest one. Keep the output of --json elsewhere, or give it to somebody: guild
audit verify --checkpoint reads it.`,
		Example: "  guild audit seal --json > seal.json",
	}, func(sealed audit.Sealed) error {
		_, err := fmt.Fprintf(p.out, "sealed    %s\nroot      %s\nevent     %s\n",
			cli.Count(int(sealed.Size), "entry", "entries"), sealed.Root, sealed.Event.ID.Hex())
		return err
	})
	cmd.Flag("json").Usage = "print JSON, with the signed event"
	return cmd
}

type auditVerifyOptions struct {
	Checkpoints []string // files
	Published   bool     // compare with what relays keep
	Signer      string   // npub or hex
	Proof       string   // a directory or file: this is checked, and no journal
}

func (p *program) auditVerifyCommand() *cobra.Command {
	var o auditVerifyOptions
	cmd := p.local(&cobra.Command{
		Use:   "verify",
		Short: "Check that the journal was not changed since it was sealed",
		Long: `verify reads all files of the journal, also its archives, and writes nothing; it
needs no node. Every entry must be whole and name the one before it, and the
entries must match each seal and each checkpoint that is given. Entries after
the latest seal are known to this machine only.

Somebody who can change every file here can also cut off the end with its seals.
A checkpoint that was kept elsewhere finds that, and so do published ones: with
--published the relays are asked for them. Checkpoints of other journals by the
same key are listed, and prove nothing about this one. A repair counts as a
change until a checkpoint from after it is given.

Seals count if the key of this node signed them, or the one of --signer. Without
a key, as beside a copy, the signer of the first seal counts, and nobody vouches
for it.

A node starts from snapshots of what it computed from the journal. Only the one
that records the seals is compared here. If you delete the directory snapshot,
the next start computes all of them again.

With --proof no journal is read. Instead, the output of guild audit prove, a
directory or JSON, is checked, as its receiver would.

It exits 1 when something was changed, and names the first such entry.`,
		Example: "  guild audit verify\n  guild audit verify --published\n  guild audit verify --checkpoint seal.json --json\n" +
			"  guild audit verify --proof proof --signer npub1…",
	}, func(cmd *cobra.Command, _ []string) (*cli.Result, error) { return p.runAuditVerify(cmd.Context(), o) })
	cmd.Flags().StringArrayVar(&o.Checkpoints, "checkpoint", nil, "a seal that was kept elsewhere; may be repeated")
	cmd.Flags().BoolVar(&o.Published, "published", false, "compare with the seals that the relays keep")
	cmd.Flags().StringVar(&o.Signer, "signer", "", "npub that sealed the journal (default: this node's)")
	cmd.Flags().StringVar(&o.Proof, "proof", "", "check a proof, directory or file, and no journal")
	cli.Exclusive(cmd, "proof", "checkpoint")
	cli.Exclusive(cmd, "proof", "published")
	return cmd
}

// audited is the output of verify --json.
type audited struct {
	OK bool `json:"ok"`
	audit.Report
}

var errChanged = errors.New("the journal is not as it was")

func (p *program) runAuditVerify(ctx context.Context, o auditVerifyOptions) (*cli.Result, error) {
	if o.Proof != "" {
		return p.verifyProof(o)
	}
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	v := audit.VerifyOptions{Dir: c.JournalDir(), HighWater: c.HighWater()}
	if v.Signer, err = p.sealer(c, o.Signer); err != nil {
		return nil, err
	}
	for _, name := range o.Checkpoints {
		e, err := readCheckpoint(name)
		if err != nil {
			return nil, err
		}
		v.Checkpoints = append(v.Checkpoints, e)
	}
	if o.Published {
		published, err := p.publishedSeals(ctx, c, v.Signer)
		if err != nil {
			return nil, err
		}
		v.Published = published
	}
	if cli.IsTerminal(p.err) {
		v.Progress = func(entries uint64) { fmt.Fprintf(p.err, "\r%d entries", entries) }
	}
	report, err := audit.Verify(ctx, v)
	if v.Progress != nil {
		fmt.Fprint(p.err, "\r\x1b[K")
	}
	if err != nil {
		return nil, err
	}
	if !report.OK() {
		err = cli.Shown(errChanged)
	}
	return &cli.Result{JSON: audited{report.OK(), report}, Show: func() error { return p.writeAudit(report) }}, err
}

// sealer returns the key that seals the journal: the one named, or this node's; zero if there is no key.
func (p *program) sealer(c config.Config, named string) (nostr.PubKey, error) {
	const hint = "name the key that seals the journal: --signer npub1…"
	if named != "" {
		return parseSigner("--signer", named)
	}
	id, err := p.identity(c)
	switch {
	case errors.Is(err, key.ErrNone):
		return nostr.ZeroPK, nil
	case errors.Is(err, cli.ErrNoTerminal):
		return nostr.ZeroPK, cli.WithHint(fmt.Errorf("who seals this journal is only known with the passphrase: %w", err), "set GUILD_PASSPHRASE, or "+hint)
	case err != nil && cli.HintOf(err) != "":
		return nostr.ZeroPK, cli.WithHint(err, cli.HintOf(err)+", or "+hint)
	case err != nil:
		return nostr.ZeroPK, cli.WithHint(err, hint)
	case id.Bunker != "":
		return nostr.ZeroPK, cli.WithHint(errors.New("who seals this journal is only known to the remote signer"), hint)
	}
	return id.PubKey, nil
}

// parseSigner reads the key of whoever seals a journal. from says in errors where it was named.
func parseSigner(from, named string) (nostr.PubKey, error) {
	if prefix, value, err := nip19.Decode(named); err == nil && prefix == "npub" {
		return value.(nostr.PubKey), nil
	}
	pubkey, err := nostr.PubKeyFromHex(named)
	if err != nil {
		return nostr.ZeroPK, cli.Usage(fmt.Errorf("%s %.80q: want an npub", from, named))
	}
	return pubkey, nil
}

// readCheckpoint reads a checkpoint's event, or what guild audit seal and prove print as JSON.
func readCheckpoint(name string) (nostr.Event, error) {
	raw, err := readSome(name)
	if err != nil {
		return nostr.Event{}, err
	}
	var e nostr.Event
	raw, err = canon.Canonical(raw)
	if err == nil {
		var printed struct {
			Event      json.RawMessage `json:"event"`
			Checkpoint json.RawMessage `json:"checkpoint"`
		}
		if err = json.Unmarshal(raw, &printed); err == nil {
			for _, inner := range []json.RawMessage{printed.Event, printed.Checkpoint} {
				if inner != nil {
					raw = inner
				}
			}
			err = json.Unmarshal(raw, &e)
		}
	}
	if err != nil {
		return nostr.Event{}, cli.WithHint(fmt.Errorf("%s is not a checkpoint: %w", name, err), "guild audit seal --json prints one")
	}
	return e, nil
}

func (p *program) writeAudit(r audit.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "journal   %s: %s", cli.Clean(r.Journal), cli.Count(int(r.Entries), "entry", "entries"))
	if r.Archived > 0 {
		fmt.Fprintf(&b, ", %d of them in archive files", r.Archived)
	}
	fmt.Fprintf(&b, "\nroot      %s\n", r.Root)
	switch {
	case r.Claims > 0:
		fmt.Fprintf(&b, "sealed    %s by %s, %s\n", cli.Count(int(r.Covered), "entry", "entries"), nip19.EncodeNpub(r.Signer),
			cli.Count(r.Claims, "seal", "seals"))
	case r.OK():
		fmt.Fprintln(&b, "sealed    nothing yet: guild audit seal does")
	default:
		fmt.Fprintln(&b, "sealed    nothing that could be relied on")
	}
	if r.Assumed {
		fmt.Fprintln(&b, "signer    unconfirmed: name the owner's key with --signer npub1…")
	}
	if len(r.Others) > 0 {
		fmt.Fprintf(&b, "others    this key has published seals of other journals, too: %s\n", cli.Clean(strings.Join(r.Others, ", ")))
	}
	for _, one := range r.Repairs {
		fmt.Fprintf(&b, "repaired  in entry %d, %s: %s dropped\n", one.Entry, time.UnixMilli(one.At).Format(time.DateOnly), cli.Count(one.Dropped, "entry", "entries"))
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "✗ %s\n", cli.Clean(f.What))
		for _, line := range [][2]string{{"entries", through(f)}, {"file", f.File}, {"was", f.Want}, {"is", f.Got}} {
			if line[1] != "" {
				fmt.Fprintf(&b, "  %-7s %s\n", line[0], cli.Clean(line[1]))
			}
		}
	}
	switch {
	case r.OK() && len(r.Repairs) > 0:
		fmt.Fprintln(&b, "✓ nothing was changed since, and before but for the repair")
	case r.OK():
		fmt.Fprintln(&b, "✓ nothing was changed")
	default:
		fmt.Fprintf(&b, "✗ the journal is not as it was\nhint: keep a copy of it; if it does not open any more, '%s' keeps what is intact\n", journal.Repairing)
	}
	_, err := io.WriteString(p.out, b.String())
	return err
}

// through says which entries a fault is about, if they are several.
func through(f journal.Fault) string {
	if f.Through <= f.Entry {
		return ""
	}
	return fmt.Sprintf("%d to %d", f.Entry, f.Through)
}
