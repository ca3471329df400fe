package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild"
	"guild/canon"
	"guild/internal/audit"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/journal"
	"guild/internal/key"
	"guild/seal"
	"guild/verify"
)

func (p *program) auditCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "audit",
		Short: "Seal the journal, and prove that nothing in it was changed",
		Long: `A seal is a signature over everything in the journal so far. What it covers cannot
be changed, left out or put in another order without that being found: by this node,
or by anybody who has a copy of the seal. A running node seals every hour
(records.seal_every) and when it stops.`,
		Example: "  guild audit seal --json > seal.json\n  guild audit verify --checkpoint seal.json\n  guild audit prove 42",
	}, p.auditSealCommand(), p.auditVerifyCommand(), p.auditProveCommand())
}

func (p *program) auditSealCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "Seal the journal now",
		Long: `seal signs a checkpoint of the journal as it is now, unless nothing was added since
the latest one. What --json prints can be kept elsewhere, or given to somebody:
guild audit verify --checkpoint takes it.`,
		Example: "  guild audit seal --json > seal.json",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.acting(cmd.Context(), func(client *control.Client, _ bool) error {
				sealed, err := client.Seal(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return cli.PrintJSON(p.out, sealed)
				}
				_, err = fmt.Fprintf(p.out, "sealed    %s\nroot      %s\nevent     %s\n",
					cli.Count(int(sealed.Size), "entry", "entries"), sealed.Root, sealed.Event.ID.Hex())
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the signed event")
	return cmd
}

type auditVerifyOptions struct {
	Checkpoints []string // files
	Published   bool     // compare with what relays keep
	Signer      string   // npub or hex
	JSON        bool
}

func (p *program) auditVerifyCommand() *cobra.Command {
	var o auditVerifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that nothing in the journal was changed since it was sealed",
		Long: `verify reads all files of the journal, also its archives, and writes nothing; no
node need run. Every entry must be whole and name the one before it, and all of
them must be what each seal, and each checkpoint that is given, says that they
were. What was added after the latest seal is only known to this machine.

Whoever can change every file here can also cut off the end with its seals. A
checkpoint that was kept elsewhere finds that too, and so do those that were
published: with --published the relays are asked for them.

It exits 1 when something was changed, and says which entry is the first.`,
		Example: "  guild audit verify\n  guild audit verify --published\n  guild audit verify --checkpoint seal.json --json",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runAuditVerify(cmd.Context(), o) },
	}
	cmd.Flags().StringArrayVar(&o.Checkpoints, "checkpoint", nil, "a seal that was kept elsewhere; may be repeated")
	cmd.Flags().BoolVar(&o.Published, "published", false, "compare with the seals that the relays keep")
	cmd.Flags().StringVar(&o.Signer, "signer", "", "npub that sealed the journal (default: this node's)")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print JSON")
	return cmd
}

// audited is what verify prints as JSON.
type audited struct {
	OK bool `json:"ok"`
	audit.Report
}

var errChanged = errors.New("the journal is not as it was")

func (p *program) runAuditVerify(ctx context.Context, o auditVerifyOptions) error {
	c, err := p.config()
	if err != nil {
		return err
	}
	v := audit.VerifyOptions{Dir: c.JournalDir(), HighWater: c.HighWater()}
	if v.Signer, err = p.sealer(c, o.Signer); err != nil {
		return cli.Usage(err)
	}
	for _, name := range o.Checkpoints {
		e, err := readCheckpoint(name)
		if err != nil {
			return err
		}
		v.Checkpoints = append(v.Checkpoints, e)
	}
	if o.Published {
		published, err := p.publishedSeals(ctx, c, v.Signer)
		if err != nil {
			return err
		}
		v.Checkpoints = append(v.Checkpoints, published...)
	}
	if cli.IsTerminal(p.err) {
		v.Progress = func(entries uint64) { fmt.Fprintf(p.err, "\r%d entries", entries) }
	}
	report, err := audit.Verify(ctx, v)
	if v.Progress != nil {
		fmt.Fprint(p.err, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	if o.JSON {
		err = cli.PrintJSON(p.out, audited{report.OK(), report})
	} else {
		err = p.writeAudit(report)
	}
	if err == nil && !report.OK() {
		err = cli.Shown(errChanged)
	}
	return err
}

// sealer is who seals the journal: the one named, or this node, if it can be told who that is without asking anybody.
func (p *program) sealer(c config.Config, named string) (nostr.PubKey, error) {
	if named == "" {
		id, err := key.Load(c.Paths.Data, func() ([]byte, error) { return nil, key.ErrPassphrase }, key.TakeEnv)
		if err != nil {
			return nostr.ZeroPK, nil
		}
		return id.PubKey, nil
	}
	if prefix, value, err := nip19.Decode(named); err == nil && prefix == "npub" {
		return value.(nostr.PubKey), nil
	}
	pubkey, err := nostr.PubKeyFromHex(named)
	if err != nil {
		return nostr.ZeroPK, fmt.Errorf("--signer %.80q: want an npub", named)
	}
	return pubkey, nil
}

// readCheckpoint reads a checkpoint's event, or what guild audit seal and prove print as JSON.
func readCheckpoint(name string) (nostr.Event, error) {
	const most = 1 << 20 // bytes
	f, err := os.Open(name)
	if err != nil {
		return nostr.Event{}, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most))
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
		return nostr.Event{}, cli.WithHint(fmt.Errorf("%s is no checkpoint: %w", name, err), "guild audit seal --json prints one")
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
	if r.Claims > 0 {
		fmt.Fprintf(&b, "sealed    %s by %s, %s\n", cli.Count(int(r.Covered), "entry", "entries"), nip19.EncodeNpub(r.Signer),
			cli.Count(r.Claims, "seal", "seals"))
	} else {
		fmt.Fprintln(&b, "sealed    nothing yet: guild audit seal does")
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "✗ %s\n", cli.Clean(f.What))
		for _, line := range [][2]string{{"entries", through(f)}, {"file", f.File}, {"was", f.Want}, {"is", f.Got}} {
			if line[1] != "" {
				fmt.Fprintf(&b, "  %-7s %s\n", line[0], cli.Clean(line[1]))
			}
		}
	}
	if r.OK() {
		fmt.Fprintln(&b, "✓ nothing was changed")
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

func (p *program) auditProveCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "prove JOB|RECEIPT|ENTRY",
		Short: "Prove that an entry is in the sealed journal",
		Long: `prove writes an entry, the hashes that lead from it to the root of the sealed
journal, and the signed checkpoint with that root: whoever has these three knows
that the entry was in the journal, and sees no other. Of a job or a receipt it is
the entry that names the receipt.`,
		Example: "  guild audit prove 42\n  guild audit prove r-5f21c9aa --out proof",
		Args:    cli.OneArg("a job, a receipt, or the number of an entry"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, done, err := p.reader(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			proven, err := client.Proof(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return p.showProof(proven, dir, asJSON)
		},
	}
	cmd.Flags().StringVar(&dir, "out", "", "directory to write entry, proof.json and checkpoint.event.json to")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// showProof checks a proof like anybody who gets it would, and writes it.
func (p *program) showProof(proven audit.Proven, dir string, asJSON bool) error {
	point, err := checkProof(proven)
	if err != nil {
		return fmt.Errorf("entry %d: %w", proven.Seq, err)
	}
	if dir != "" {
		if err := writeProof(proven, dir); err != nil {
			return err
		}
	}
	if asJSON {
		return cli.PrintJSON(p.out, proven)
	}
	subject, _, _ := strings.Cut(proven.Entry, "\n")
	_, err = fmt.Fprintf(p.out, "entry     %d of %s, %s\nproof     %s to the root %s\nsealed    %s by %s\nevent     %s\n",
		proven.Seq, cli.Clean(subject), cli.Size(int64(len(proven.Entry))), cli.Count(len(proven.Proof.Path), "hash", "hashes"), point.Root,
		cli.Count(int(point.Size), "entry", "entries"), nip19.EncodeNpub(proven.Checkpoint.PubKey), proven.Checkpoint.ID.Hex())
	return err
}

func checkProof(proven audit.Proven) (seal.Checkpoint, error) {
	v, err := guild.Verify(proven.Checkpoint)
	if err != nil {
		return seal.Checkpoint{}, err
	}
	point, err := seal.ParseCheckpoint(v)
	if err != nil {
		return seal.Checkpoint{}, err
	}
	return point, proven.Proof.Check(seal.Leaf([]byte(proven.Entry)), point.Root)
}

// writeProof writes the three files under the names that they have in an export.
func writeProof(proven audit.Proven, dir string) error {
	proof, err := proven.Proof.Encode()
	if err != nil {
		return err
	}
	checkpoint, err := canon.Marshal(proven.Checkpoint)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, b := range map[string][]byte{
		verify.FileEntry: []byte(proven.Entry), verify.FileProof: proof, verify.FileCheckpoint: checkpoint,
	} {
		if err := os.WriteFile(filepath.Join(dir, path.Base(name)), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}
