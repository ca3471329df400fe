package main

import (
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
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/step/audit"
	"guild/seal"
	"guild/verify"
)

func (p *program) auditProveCommand() *cobra.Command {
	var dir string
	var force bool
	cmd := p.local(&cobra.Command{
		Use:   "prove JOB|RECEIPT|ENTRY",
		Short: "Prove that an entry is in the sealed journal",
		Long: `prove writes an entry, the hashes that lead from it to the root of the sealed
journal, and the signed checkpoint with that root. With these three anybody can
check, with guild audit verify --proof, that the entry was in the journal, and
sees no other entry. For a job or a receipt it is the entry that names the
receipt.`,
		Example: "  guild audit prove 42\n  guild audit prove r-5f21c9aa --out proof",
		Args:    cli.OneArg("a job, a receipt, or the number of an entry"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		var proven audit.Proven
		err := p.reading(cmd.Context(), func(client *control.Client, _ bool) (err error) {
			proven, err = control.Proof.Call(cmd.Context(), client, args[0])
			return err
		})
		if err != nil {
			return nil, err
		}
		point, err := checkProof(proven) // as its receiver will
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", proven.Seq, err)
		}
		if dir != "" {
			if err := writeProof(proven, dir, force); err != nil {
				return nil, err
			}
		}
		return &cli.Result{JSON: proven, Show: func() error { return p.printProof(proven, point) }}, nil
	})
	cmd.Flags().StringVar(&dir, "out", "", "directory to write entry, proof.json and checkpoint.event.json to")
	cmd.Flags().BoolVar(&force, "force", false, "replace the proof that is there")
	return cmd
}

func (p *program) printProof(proven audit.Proven, point seal.Checkpoint) error {
	subject, _, _ := strings.Cut(proven.Entry, "\n")
	_, err := fmt.Fprintf(p.out, "entry     %d of %s, %s\nproof     %s to the root %s\nsealed    %s by %s\nevent     %s\n",
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
	if proven.Proof.Size != point.Size {
		return seal.Checkpoint{}, fmt.Errorf("the proof is of a journal of %d entries, and the checkpoint of %d", proven.Proof.Size, point.Size)
	}
	return point, proven.Proof.Check(seal.Leaf([]byte(proven.Entry)), point.Root)
}

// writeProof writes the three files under the names that they have in an export.
func writeProof(proven audit.Proven, dir string, force bool) error {
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
	if there, err := os.ReadDir(dir); err != nil {
		return err
	} else if len(there) > 0 && !force {
		return cli.WithHint(fmt.Errorf("%s is not empty", dir), "name another directory, or replace the proof in this one with --force")
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

// checkedProof is the output of verify --proof --json.
type checkedProof struct {
	OK         bool            `json:"ok"`
	Seq        uint64          `json:"seq"`
	Checkpoint seal.Checkpoint `json:"checkpoint,omitzero"`
	Signer     nostr.PubKey    `json:"signer"`
	Reason     string          `json:"reason,omitempty"` // why it is not OK
}

var errUnproven = errors.New("the proof does not hold")

// verifyProof checks a proof that was given to somebody. It needs no node and no home.
func (p *program) verifyProof(o auditVerifyOptions) (*cli.Result, error) {
	signer := nostr.ZeroPK
	if o.Signer != "" {
		var err error
		if signer, err = parseSigner("--signer", o.Signer); err != nil {
			return nil, err
		}
	}
	proven, err := readProof(o.Proof)
	if err != nil {
		return nil, cli.WithHint(fmt.Errorf("%s is not a proof: %w", o.Proof, err), "guild audit prove writes one: its directory (--out), or what --json prints")
	}
	point, err := checkProof(proven)
	if by := proven.Checkpoint.PubKey; err == nil && signer != nostr.ZeroPK && by != signer {
		err = fmt.Errorf("the checkpoint is signed by %s, and not by %s", nip19.EncodeNpub(by), nip19.EncodeNpub(signer))
	}
	checked := checkedProof{OK: err == nil, Seq: proven.Seq, Checkpoint: point, Signer: proven.Checkpoint.PubKey}
	result := &cli.Result{JSON: &checked, Show: func() error { return p.writeCheckedProof(proven, checked, signer != nostr.ZeroPK) }}
	if err != nil {
		checked.Reason = err.Error()
		return result, cli.Shown(errUnproven)
	}
	return result, nil
}

func (p *program) writeCheckedProof(proven audit.Proven, checked checkedProof, named bool) error {
	if !checked.OK {
		_, err := fmt.Fprintf(p.out, "✗ %s\n", cli.Clean(checked.Reason))
		return err
	}
	if err := p.printProof(proven, checked.Checkpoint); err != nil {
		return err
	}
	if !named {
		fmt.Fprintln(p.out, "signer    unconfirmed: name the key that you expect with --signer npub1…")
	}
	_, err := fmt.Fprintln(p.out, "✓ the entry is in the journal that was sealed")
	return err
}

// readProof reads what prove wrote: a directory of three files, or JSON.
func readProof(name string) (proven audit.Proven, err error) {
	if info, err := os.Stat(name); err != nil {
		return proven, err
	} else if !info.IsDir() {
		raw, err := readSome(name)
		if err == nil {
			raw, err = canon.Canonical(raw)
		}
		if err == nil {
			err = json.Unmarshal(raw, &proven)
		}
		if err == nil && proven.Seq != proven.Proof.Index+1 {
			err = fmt.Errorf("it says entry %d and proves entry %d", proven.Seq, proven.Proof.Index+1)
		}
		return proven, err
	}
	entry, err := readSome(filepath.Join(name, path.Base(verify.FileEntry)))
	if err != nil {
		return proven, err
	}
	proof, err := readSome(filepath.Join(name, path.Base(verify.FileProof)))
	if err != nil {
		return proven, err
	}
	proven.Entry = string(entry)
	if proven.Proof, err = seal.DecodeProof(proof); err != nil {
		return proven, err
	}
	proven.Seq = proven.Proof.Index + 1
	proven.Checkpoint, err = readCheckpoint(filepath.Join(name, path.Base(verify.FileCheckpoint)))
	return proven, err
}

// readSome reads a file of at most 1 MiB: no entry, proof or checkpoint is larger.
func readSome(name string) ([]byte, error) {
	const most = 1 << 20
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(raw) > most {
		err = fmt.Errorf("%s has over %d bytes", name, most)
	}
	return raw, err
}
