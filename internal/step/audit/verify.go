package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/seal"
)

// VerifyOptions configures Verify.
type VerifyOptions struct {
	Dir         string        // of the journal
	HighWater   string        // as in journal.Options
	Signer      nostr.PubKey  // the key that seals the journal; if zero, the key of its first seal
	Checkpoints []nostr.Event // checkpoints that were kept elsewhere
	Published   []nostr.Event // events of the signer from relays; they may be about other journals, or not be checkpoints

	Progress func(entries uint64) // called now and then; optional
}

// Report is the result of Verify.
type Report struct {
	journal.Checked
	Sealed  uint64       `json:"sealed"` // entries that the latest seal covers; changes to later ones are not detected
	Signer  nostr.PubKey `json:"signer,omitzero"`
	Assumed bool         `json:"assumed,omitempty"` // no signer was given, and Signer is the key of the first seal
	Others  []string     `json:"others,omitempty"`  // ids of other journals with published seals
}

// OK reports whether nothing was changed.
func (r Report) OK() bool { return len(r.Faults) == 0 }

// Verify reads a whole journal from the disk and writes nothing. It checks every entry, that each follows from the one
// before it, and that the entries match every seal. It returns an error if the journal cannot be read. What is wrong
// with the journal is in the faults of the report.
func Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	v := verification{signer: o.Signer, signed: map[sized]said{}}
	var claims []journal.Claim
	for _, e := range o.Checkpoints {
		by := fmt.Sprintf("the checkpoint %.8s that was given", e.ID.Hex())
		point, err := v.checkpoint(e, by)
		if err != nil {
			return Report{}, err
		}
		claims = append(claims, journal.Claim{Size: point.Size, Root: point.Root, By: by})
	}
	published, others, err := v.published(o)
	if err != nil {
		return Report{}, err
	}
	claims = append(claims, published...)
	v.given, v.snapshots = len(v.faults), snapshotsIn(o.Dir)
	found, err := journal.Check(ctx, journal.CheckOptions{
		Dir: o.Dir, HighWater: o.HighWater, Claims: claims, Of: fact.SealSubject, Claim: v.claim, Follow: v.follow, Progress: o.Progress,
	})
	if err != nil {
		return Report{}, err
	}
	for _, id := range v.journals {
		if found.Journal != "" && id != found.Journal {
			found.Faults = append(found.Faults, journal.Fault{What: fmt.Sprintf("a checkpoint is of journal %s, this is %s", id, found.Journal)})
		}
	}
	found.Faults = slices.Insert(found.Faults, 0, v.faults...)
	return Report{Checked: found, Sealed: v.sealed, Signer: v.signer, Assumed: o.Signer == nostr.ZeroPK && v.signer != nostr.ZeroPK, Others: others}, nil
}

// published returns the claims of checkpoints from relays. A key may have sealed other journals or signed other events.
// Other journals are listed and make no claims. If this journal has lost its id, all checkpoints are used.
func (v *verification) published(o VerifyOptions) (claims []journal.Claim, others []string, err error) {
	id, _ := journal.Identity(o.Dir) // Check reports what is wrong with it
	for _, e := range o.Published {
		signed, err := guild.Verify(e)
		if err != nil {
			return nil, nil, fmt.Errorf("checkpoint: %w", err)
		}
		point, err := seal.ParseCheckpoint(signed)
		if err != nil {
			continue
		}
		if id != "" && point.Journal != id {
			if !slices.Contains(others, point.Journal) {
				others = append(others, point.Journal)
			}
			continue
		}
		by := fmt.Sprintf("the checkpoint %.8s that was published", e.ID.Hex())
		if point, err = v.checkpoint(e, by); err != nil {
			return nil, nil, err
		}
		claims = append(claims, journal.Claim{Size: point.Size, Root: point.Root, By: by})
	}
	return claims, others, nil
}

// verification collects the seals of a journal.
type verification struct {
	signer   nostr.PubKey
	sealed   uint64
	journals []string       // the journals of the checkpoints, each once
	signed   map[sized]said // the first checkpoint for each

	fold      *Fold           // of the entries so far
	snapshots []fold.Snapshot // of the fold
	faults    []journal.Fault
	given     int // number of the faults that come from given checkpoints
}

// sized identifies a state of a journal, of which there is only one root.
type sized struct {
	journal string
	entries uint64
}

type said struct {
	root guild.Hash
	by   string
}

// claim returns what an entry claims about the journal, if the entry is a seal.
func (v *verification) claim(e fact.Entry) (journal.Claim, error) {
	for _, f := range e.Facts {
		s, ok := f.(fact.JournalSealed)
		if !ok {
			continue
		}
		by := fmt.Sprintf("the seal in entry %d", e.Seq)
		point, err := v.checkpoint(s.Event, by)
		if err != nil {
			return journal.Claim{}, err
		}
		if point.Size != s.Size || point.Root != s.Root {
			return journal.Claim{}, errors.New("the seal differs from its signed event")
		}
		if point.Size <= v.sealed {
			return journal.Claim{}, fmt.Errorf("the seal covers %d entries, an earlier one %d", point.Size, v.sealed)
		}
		v.sealed = point.Size
		return journal.Claim{Size: point.Size, Root: point.Root, By: by}, nil
	}
	return journal.Claim{}, nil
}

// checkpoint parses a checkpoint and checks its signature. by names it for a person.
func (v *verification) checkpoint(e nostr.Event, by string) (seal.Checkpoint, error) {
	signed, err := guild.Verify(e)
	if err != nil {
		return seal.Checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	point, err := seal.ParseCheckpoint(signed)
	if err != nil {
		return seal.Checkpoint{}, err
	}
	if v.signer == nostr.ZeroPK {
		v.signer = e.PubKey
	}
	if e.PubKey != v.signer {
		return seal.Checkpoint{}, fmt.Errorf("checkpoint %.8s is signed by %s, and not by %s", e.ID.Hex(), e.PubKey.Hex(), v.signer.Hex())
	}
	if !slices.Contains(v.journals, point.Journal) {
		v.journals = append(v.journals, point.Journal)
	}
	v.compare(point, by)
	return point, nil
}

// compare adds a fault if two checkpoints have different roots for the same state of a journal: the signer has signed
// two histories.
func (v *verification) compare(point seal.Checkpoint, by string) {
	of := sized{point.Journal, point.Size}
	before, known := v.signed[of]
	if !known {
		v.signed[of] = said{point.Root, by}
	} else if before.root != point.Root {
		v.faults = append(v.faults, journal.Fault{
			What: fmt.Sprintf("two histories were signed: %s and %s are both of the first %d entries, and differ", before.by, by, point.Size),
			Want: before.root.String(), Got: point.Root.String(),
		})
	}
}

// snapshotDir is the directory of a journal's snapshots.
const snapshotDir = "snapshot"

// snapshotsIn returns the snapshots of the audit fold of a journal. They are optional, and a missing directory is not
// created.
func snapshotsIn(dir string) []fold.Snapshot {
	dir = filepath.Join(dir, snapshotDir)
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	store, err := fold.OpenStore(dir)
	if err != nil {
		return nil
	}
	f := NewFold()
	return slices.Collect(store.Load(f.Name(), f.Version()))
}

// follow folds an entry, and compares each snapshot with the state that the entries lead to. A changed snapshot would
// make a node believe that everything is sealed, because a node decides by its snapshot what to seal next.
func (v *verification) follow(e fact.Entry, root func() guild.Hash) {
	if e.Seq == 1 { // also if the reading has started again, because entries were archived meanwhile
		v.fold, v.sealed, v.faults = NewFold(), 0, v.faults[:v.given]
	}
	v.fold.Apply(e)
	for _, snap := range v.snapshots {
		if snap.Seq != e.Seq || snap.Prefix != root() { // a node ignores a snapshot of other entries, too
			continue
		}
		restored := NewFold()
		if err := restored.Restore(snap.State); err != nil {
			continue // and this one
		}
		want, wantErr := v.fold.Freeze()()
		got, gotErr := restored.Freeze()()
		if wantErr == nil && gotErr == nil && !bytes.Equal(want, got) {
			v.faults = append(v.faults, journal.Fault{File: snapshotDir,
				What: fmt.Sprintf("the snapshot of the seals through entry %d differs from the entries", snap.Seq)})
		}
	}
}
