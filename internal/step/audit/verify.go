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

// VerifyOptions says what is verified.
type VerifyOptions struct {
	Dir         string        // of the journal
	HighWater   string        // as in journal.Options
	Signer      nostr.PubKey  // who seals it; whoever signed the first one if zero
	Checkpoints []nostr.Event // that were kept elsewhere
	Published   []nostr.Event // by the signer, as relays keep them: of any journal, and perhaps what is none

	Progress func(entries uint64) // called now and then; may be nil
}

// Report is what was found of a journal.
type Report struct {
	journal.Checked
	Sealed  uint64       `json:"sealed"` // entries that its latest seal covers; what came after it can be changed without that being found
	Signer  nostr.PubKey `json:"signer,omitzero"`
	Assumed bool         `json:"assumed,omitempty"` // nobody said who seals it: Signer is whoever signed the first seal
	Others  []string     `json:"others,omitempty"`  // ids of other journals of which there are published seals
}

// OK reports whether everything is as it was.
func (r Report) OK() bool { return len(r.Faults) == 0 }

// Verify reads a whole journal as it lies on the disk and writes nothing: every entry, whether each follows from the one
// before it, and whether all of them are what each seal says that they were. An error means that it could not be read;
// what is wrong is a fault.
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
			found.Faults = append(found.Faults, journal.Fault{What: fmt.Sprintf("a checkpoint is of the journal %s, and this is %s", id, found.Journal)})
		}
	}
	found.Faults = slices.Insert(found.Faults, 0, v.faults...)
	return Report{Checked: found, Sealed: v.sealed, Signer: v.signer, Assumed: o.Signer == nostr.ZeroPK && v.signer != nostr.ZeroPK, Others: others}, nil
}

// published reads what relays keep. A key may have sealed other journals, or signed what is no checkpoint; those are told
// and no claims. Of a journal that has no id any more, all are.
func (v *verification) published(o VerifyOptions) (claims []journal.Claim, others []string, err error) {
	id, _ := journal.Identity(o.Dir) // Check says what is wrong with it
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

// verification reads the seals of a journal.
type verification struct {
	signer   nostr.PubKey
	sealed   uint64
	journals []string       // that the checkpoints are of, each once
	signed   map[sized]said // the first checkpoint of each

	fold      *Fold           // over the entries so far
	snapshots []fold.Snapshot // of the fold
	faults    []journal.Fault
	given     int // of the faults, those of the checkpoints that were given
}

// sized is what only one checkpoint can be of.
type sized struct {
	journal string
	entries uint64
}

type said struct {
	root guild.Hash
	by   string
}

// claim reads what an entry says that the journal was, if it is a seal.
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
			return journal.Claim{}, errors.New("the seal says something else than its signed event")
		}
		if point.Size <= v.sealed {
			return journal.Claim{}, fmt.Errorf("the seal covers %d entries, and one before it %d", point.Size, v.sealed)
		}
		v.sealed = point.Size
		return journal.Claim{Size: point.Size, Root: point.Root, By: by}, nil
	}
	return journal.Claim{}, nil
}

// checkpoint reads a checkpoint and its signature. by names it, for a person.
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

// compare tells of two checkpoints that no one journal can have: somebody signed two histories.
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

// snapshotDir is where a journal has its snapshots.
const snapshotDir = "snapshot"

// snapshotsIn are the snapshots of the audit fold beside a journal. None is needed, and none is made.
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

// follow folds the entries, and holds each snapshot against what they came to. What a node has from a snapshot decides
// what it seals next.
func (v *verification) follow(e fact.Entry, root func() guild.Hash) {
	if e.Seq == 1 { // also where the reading began anew, since something was archived meanwhile
		v.fold, v.sealed, v.faults = NewFold(), 0, v.faults[:v.given]
	}
	v.fold.Apply(e)
	for _, snap := range v.snapshots {
		if snap.Seq != e.Seq || snap.Prefix != root() { // one of other entries is passed over by the node too
			continue
		}
		restored := NewFold()
		if err := restored.Restore(snap.State); err != nil {
			continue // this too
		}
		want, wantErr := v.fold.Freeze()()
		got, gotErr := restored.Freeze()()
		if wantErr == nil && gotErr == nil && !bytes.Equal(want, got) {
			v.faults = append(v.faults, journal.Fault{File: snapshotDir,
				What: fmt.Sprintf("the snapshot of what was sealed through entry %d says something else than the entries", snap.Seq)})
		}
	}
}
