package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild"
	"guild/canon"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/step/audit"
	"guild/seal"
)

type auditCompareOptions struct {
	Proof  string // a file: this is checked, and no journal
	Signer string // npub or hex
}

func (p *program) auditCompareCommand() *cobra.Command {
	var o auditCompareOptions
	cmd := p.local(&cobra.Command{
		Use:   "compare OLDER [NEWER]",
		Short: "Prove that one checkpoint follows from another",
		Long: `compare proves that the journal of a later checkpoint has all entries of an
earlier one, unchanged. It shows no entry. Without NEWER it is about the latest
seal of this node, whose journal makes the proof.

With --proof, no journal is needed: what --json printed elsewhere is checked
against the two checkpoints. So anybody who was given two can ask the customer
for a proof. A customer who can give none has shown two histories.

It exits 1 if the later one does not follow from the earlier one.`,
		Example: "  guild audit compare seal.json --json > proof.json\n  guild audit compare old.json new.json --proof proof.json",
		Args:    cli.Arity(cobra.RangeArgs(1, 2), "one or two checkpoints"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		return p.runAuditCompare(cmd.Context(), args, o)
	})
	cmd.Flags().StringVar(&o.Proof, "proof", "", "check this proof, and no journal")
	cmd.Flags().StringVar(&o.Signer, "signer", "", "npub that signed them (default: both of one key)")
	return cmd
}

// checkpointPair is the output of audit compare --json.
type checkpointPair struct {
	OK          bool             `json:"ok"`
	Signer      nostr.PubKey     `json:"signer"`
	Earlier     nostr.Event      `json:"earlier"`
	Later       nostr.Event      `json:"later"`
	Consistency seal.Consistency `json:"consistency,omitzero"`
	Reason      string           `json:"reason,omitempty"` // why it is not OK

	points [2]seal.Checkpoint
}

var errForked = errors.New("the later checkpoint does not follow from the earlier one")

func (p *program) runAuditCompare(ctx context.Context, names []string, o auditCompareOptions) (*cli.Result, error) {
	var g checkpointPair
	var events []nostr.Event
	var points []seal.Checkpoint
	add := func(e nostr.Event) error { // each is verified once
		point, err := parsePoint(e)
		events, points = append(events, e), append(points, point)
		return err
	}
	for _, name := range names {
		e, err := readCheckpoint(name)
		if err == nil {
			err = add(e)
		}
		if err != nil {
			return nil, err
		}
	}
	var proof *seal.Consistency
	if o.Proof != "" {
		given, err := readComparison(o.Proof)
		if err != nil {
			return nil, cli.WithHint(fmt.Errorf("%s is not a proof: %w", o.Proof, err), "guild audit compare --json prints one")
		}
		proof = &given.Consistency
		if len(events) == 1 {
			if err := add(given.Later); err != nil {
				return nil, err
			}
		}
	}
	if len(events) == 1 {
		made, err := p.consistency(ctx, points[0].Size)
		if err == nil {
			err = add(made.Checkpoint)
		}
		if err != nil {
			return nil, err
		}
		proof = &made.Proof
	}
	g.points = [2]seal.Checkpoint(points)
	if err := g.order(events, o.Signer); err != nil {
		return nil, err
	}
	if proof == nil && g.points[0].Size != g.points[1].Size {
		made, err := p.consistency(ctx, g.points[0].Size, g.points[1].Size)
		if err != nil {
			return nil, err
		}
		proof = &made.Proof
	}
	err := g.check(proof)
	g.OK = err == nil
	result := &cli.Result{JSON: &g, Show: func() error { return p.writeComparison(g, o.Signer != "") }}
	if err != nil {
		g.Reason = err.Error()
		return result, cli.Shown(errForked)
	}
	return result, nil
}

// consistency asks the node, or its directory, for the proof from the checkpoint of one size to that of another, or to the
// latest seal.
func (p *program) consistency(ctx context.Context, of ...uint64) (made audit.Consistency, err error) {
	var sizes []string
	for _, size := range of {
		sizes = append(sizes, strconv.FormatUint(size, 10))
	}
	err = p.reading(ctx, func(client *control.Client, _ bool) (err error) {
		made, err = control.Consistency.Call(ctx, client, sizes...)
		return err
	})
	return made, err
}

// order puts the two checkpoints in order. They must be of one journal, by one key.
func (g *checkpointPair) order(events []nostr.Event, signer string) error {
	if g.points[0].Size > g.points[1].Size {
		g.points[0], g.points[1] = g.points[1], g.points[0]
		events[0], events[1] = events[1], events[0]
	}
	g.Earlier, g.Later = events[0], events[1]
	by := g.Earlier.PubKey
	if signer != "" {
		var err error
		if by, err = parseSigner("--signer", signer); err != nil {
			return err
		}
	}
	for _, e := range events {
		if e.PubKey != by {
			return fmt.Errorf("checkpoint %.8s is signed by %s, and not by %s", e.ID.Hex(), nip19.EncodeNpub(e.PubKey), nip19.EncodeNpub(by))
		}
	}
	if a, b := g.points[0].Journal, g.points[1].Journal; a != b {
		return cli.WithHint(fmt.Errorf("the checkpoints are of two journals, %s and %s", a, b), "only checkpoints of one journal can be compared")
	}
	g.Signer = by
	return nil
}

func parsePoint(e nostr.Event) (seal.Checkpoint, error) {
	v, err := guild.Verify(e)
	if err != nil {
		return seal.Checkpoint{}, fmt.Errorf("checkpoint %.8s: %w", e.ID.Hex(), err)
	}
	return seal.ParseCheckpoint(v)
}

// check checks the proof between the two checkpoints. Two of one size need none.
func (g *checkpointPair) check(proof *seal.Consistency) error {
	from, to := g.points[0], g.points[1]
	if from.Size == to.Size {
		g.Consistency = seal.Consistency{From: from.Size, Path: [][]byte{}, To: to.Size}
	} else {
		g.Consistency = *proof
	}
	if g.Consistency.From != from.Size || g.Consistency.To != to.Size {
		return fmt.Errorf("the proof is about %d and %d entries, and the checkpoints about %d and %d", g.Consistency.From, g.Consistency.To, from.Size, to.Size)
	}
	return g.Consistency.Check(from.Root, to.Root)
}

// readComparison reads what compare --json printed.
func readComparison(name string) (g checkpointPair, err error) {
	raw, err := readSome(name)
	if err == nil {
		raw, err = canon.Canonical(raw)
	}
	if err != nil {
		return checkpointPair{}, err
	}
	var printed struct {
		Earlier     nostr.Event     `json:"earlier"`
		Later       nostr.Event     `json:"later"`
		Consistency json.RawMessage `json:"consistency"`
	}
	if err := json.Unmarshal(raw, &printed); err != nil {
		return checkpointPair{}, err
	}
	g.Earlier, g.Later = printed.Earlier, printed.Later
	g.Consistency, err = seal.DecodeConsistency(printed.Consistency)
	return g, err
}

func (p *program) writeComparison(g checkpointPair, named bool) error {
	for i, e := range []nostr.Event{g.Earlier, g.Later} {
		fmt.Fprintf(p.out, "%-9s %s, root %s, event %s\n", []string{"earlier", "later"}[i],
			cli.Count(int(g.points[i].Size), "entry", "entries"), g.points[i].Root, e.ID.Hex())
	}
	fmt.Fprintf(p.out, "signer    %s", nip19.EncodeNpub(g.Earlier.PubKey))
	if !named {
		fmt.Fprint(p.out, ", unconfirmed: name the key that you expect with --signer npub1…")
	}
	if !g.OK {
		_, err := fmt.Fprintf(p.out, "\n✗ %s\nhint: if its owner has no other proof, two histories were signed; keep both checkpoints\n", cli.Clean(g.Reason))
		return err
	}
	_, err := fmt.Fprintf(p.out, "\n✓ the later journal has all entries of the earlier one, by %s\n", cli.Count(len(g.Consistency.Path), "hash", "hashes"))
	return err
}
