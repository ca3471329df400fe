package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/seal"
)

// VerifyOptions says what is verified.
type VerifyOptions struct {
	Dir         string        // of the journal
	HighWater   string        // as in journal.Options
	Signer      nostr.PubKey  // who seals it; whoever signed the first one if zero
	Checkpoints []nostr.Event // that were kept elsewhere

	Progress func(entries uint64) // called now and then; may be nil
}

// Report is what was found of a journal.
type Report struct {
	journal.Checked
	Sealed uint64       `json:"sealed"` // entries that its latest seal covers; what came after it can be changed without that being found
	Signer nostr.PubKey `json:"signer,omitzero"`
}

// OK reports whether everything is as it was.
func (r Report) OK() bool { return len(r.Faults) == 0 }

// Verify reads a whole journal as it lies on the disk and writes nothing: every entry, whether each follows from the one
// before it, and whether all of them are what each seal says that they were. An error means that it could not be read;
// what is wrong is a fault.
func Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	v := verification{signer: o.Signer}
	var claims []journal.Claim
	for _, e := range o.Checkpoints {
		point, err := v.checkpoint(e)
		if err != nil {
			return Report{}, err
		}
		claims = append(claims, journal.Claim{Size: point.Size, Root: point.Root, By: fmt.Sprintf("the checkpoint %.8s that was given", e.ID.Hex())})
	}
	found, err := journal.Check(ctx, journal.CheckOptions{
		Dir: o.Dir, HighWater: o.HighWater, Claims: claims, Of: fact.SealSubject, Claim: v.claim, Progress: o.Progress,
	})
	if err != nil {
		return Report{}, err
	}
	for _, id := range v.journals {
		if found.Journal != "" && id != found.Journal {
			found.Faults = append(found.Faults, journal.Fault{What: fmt.Sprintf("a checkpoint is of the journal %s, and this is %s", id, found.Journal)})
		}
	}
	return Report{found, v.sealed, v.signer}, nil
}

// verification reads the seals of a journal.
type verification struct {
	signer   nostr.PubKey
	sealed   uint64
	journals []string // that the checkpoints are of, each once
}

// claim reads what an entry says that the journal was, if it is a seal.
func (v *verification) claim(e fact.Entry) (journal.Claim, error) {
	for _, f := range e.Facts {
		s, ok := f.(fact.JournalSealed)
		if !ok {
			continue
		}
		point, err := v.checkpoint(s.Event)
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
		return journal.Claim{Size: point.Size, Root: point.Root, By: fmt.Sprintf("the seal in entry %d", e.Seq)}, nil
	}
	return journal.Claim{}, nil
}

// checkpoint reads a checkpoint and its signature.
func (v *verification) checkpoint(e nostr.Event) (seal.Checkpoint, error) {
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
	return point, nil
}
