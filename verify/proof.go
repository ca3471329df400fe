package verify

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
	"guild/replay"
	"guild/seal"
)

// compareTrajectory returns why REPLAY.jsonl is not the trajectory that the receipt names, or nil.
func (x *export) compareTrajectory() error {
	b, there := x.files[FileReplay]
	if !there {
		return missing(FileReplay)
	}
	hash, err := replay.TrajectoryHash(bytes.NewReader(b))
	if err != nil {
		return err
	}
	if hash != x.receipt.TrajectoryHash {
		return fmt.Errorf("it is %s, and the receipt says %s", hash, x.receipt.TrajectoryHash)
	}
	// The hash covers all lines. Only SessionStart has values that the receipt also states.
	for line, err := range replay.Read(bytes.NewReader(b)) {
		if err != nil {
			return err
		}
		if start, ok := line.Event.(replay.SessionStart); ok {
			if start.SessionID != x.receipt.SessionID {
				return fmt.Errorf("it is of the session %.80q, and the receipt of %.80q", start.SessionID, x.receipt.SessionID)
			}
			if start.PolicyBundleID != x.receipt.PolicyBundleID {
				return fmt.Errorf("it is by the policy %.80q, and the receipt by %.80q", start.PolicyBundleID, x.receipt.PolicyBundleID)
			}
			break
		}
	}
	return nil
}

// checkTrajectory checks the trajectory of the job.
func (x *export) checkTrajectory() (string, error) {
	if !x.known {
		return "", noReceipt
	}
	if x.trajectory != nil {
		return "", x.trajectory
	}
	return fmt.Sprintf("%s of the session %.80q", x.receipt.TrajectoryHash, x.receipt.SessionID), nil
}

// checkPolicy checks that policy.json is the policy that the receipt names.
func (x *export) checkPolicy() (string, error) {
	b, there := x.files[FilePolicy]
	switch {
	case !x.known:
		return "", noReceipt
	case !there:
		return "", missing(FilePolicy)
	}
	hash, err := canon.Hash(b)
	if err != nil {
		return "", err
	}
	if hash.String() != x.receipt.PolicyBundleID {
		return "", fmt.Errorf("it is %s, and the receipt says %.80q", hash, x.receipt.PolicyBundleID)
	}
	return hash.String(), nil
}

// recorded is the fact with which a journal records a receipt.
type recorded struct {
	Type       string `json:"type"`
	Attempt    string `json:"attempt"`
	Receipt    string `json:"receipt"`
	Stored     string `json:"stored"`
	Replay     string `json:"replay"`
	Trajectory string `json:"trajectory"`
}

const recordedType = "attempt.recorded"

// checkEntry checks that the journal entry records the receipt, and that the entry is in the tree of the checkpoint.
func (x *export) checkEntry() (string, error) {
	entry, there := x.files[FileEntry]
	proof, hasProof := x.files[FileProof]
	switch {
	case !x.known:
		return "", noReceipt
	case !there && hasProof:
		return "", fmt.Errorf("%s is there, and %s is not", FileProof, FileEntry)
	case !there:
		return "", missing(FileEntry)
	}
	fact, err := findRecorded(entry, x.receipt.ID)
	if err != nil {
		return "", err
	}
	if err := x.compareRecorded(fact); err != nil {
		return "", err
	}
	if !hasProof {
		return "", absence("it names the receipt, but " + FileProof + " is not there")
	}
	p, err := seal.DecodeProof(proof)
	if err != nil {
		return "", err
	}
	canonical, err := canon.Canonical(proof)
	if err != nil {
		return "", err
	}
	if again, err := p.Encode(); err != nil || !bytes.Equal(again, canonical) {
		return "", errors.New("not exactly the fields of a proof")
	}
	if x.unsealed != nil {
		return "", absence("it names the receipt, but there is no checkpoint that holds")
	}
	if p.Size != x.sealing.Size {
		return "", fmt.Errorf("the proof is of a tree of %d entries, and the checkpoint of %d", p.Size, x.sealing.Size)
	}
	if err := p.Check(seal.Leaf(entry), x.sealing.Root); err != nil {
		return "", err
	}
	return fmt.Sprintf("entry %d of %d", p.Index+1, p.Size), nil
}

// findRecorded returns the fact that records a receipt in an entry. An entry is a subject, a newline and the decision
// as JSON.
func findRecorded(entry []byte, id string) (recorded, error) {
	_, body, ok := bytes.Cut(entry, []byte("\n"))
	if !ok {
		return recorded{}, errors.New("it has no subject")
	}
	canonical, err := canon.Canonical(body)
	if err != nil {
		return recorded{}, err
	}
	var decision struct {
		Facts []jsontext.Value `json:"facts"`
	}
	if err := json.Unmarshal(canonical, &decision); err != nil {
		return recorded{}, err
	}
	var found []recorded
	for _, fact := range decision.Facts {
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(fact, &head); err != nil {
			return recorded{}, err
		}
		if head.Type != recordedType {
			continue
		}
		var r recorded
		if err := json.Unmarshal(fact, &r); err != nil {
			return recorded{}, err
		}
		if r.Receipt == id {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		return recorded{}, fmt.Errorf("%d facts in it record the receipt %.40s", len(found), id)
	}
	return found[0], nil
}

// compareRecorded compares the fact with the receipt, and with REPLAY.jsonl if that is valid.
func (x *export) compareRecorded(r recorded) error {
	if r.Attempt != x.receipt.Attempt.Hex() {
		return fmt.Errorf("its attempt is %.64q, and the receipt's %s", r.Attempt, x.receipt.Attempt.Hex())
	}
	if stored := guild.Sum(x.stated).String(); r.Stored != stored {
		return fmt.Errorf("the receipt that it stored is %.80q, and this one is %s", r.Stored, stored)
	}
	if trajectory := x.receipt.TrajectoryHash.String(); r.Trajectory != trajectory {
		return fmt.Errorf("its trajectory is %.80q, and the receipt's %s", r.Trajectory, trajectory)
	}
	if x.trajectory == nil {
		if hash := guild.Sum(x.files[FileReplay]).String(); r.Replay != hash {
			return fmt.Errorf("the REPLAY.jsonl that it names is %.80q, and this one is %s", r.Replay, hash)
		}
	}
	return nil
}

// checkpoint reads the checkpoint, which the customer must have signed.
func (x *export) checkpoint() (seal.Checkpoint, error) {
	v, err := x.event(FileCheckpoint)
	if err != nil {
		return seal.Checkpoint{}, err
	}
	c, err := seal.ParseCheckpoint(v)
	if err != nil {
		return seal.Checkpoint{}, err
	}
	if author := v.Event().PubKey; x.hasCustomer && author != x.customer {
		return seal.Checkpoint{}, fmt.Errorf("signed by %.8s, and the customer is %.8s", author.Hex(), x.customer.Hex())
	}
	if want := c.Event(0); !slices.EqualFunc(v.Event().Tags, want.Tags, slices.Equal[nostr.Tag]) {
		return seal.Checkpoint{}, errors.New("its tags are not those of what it says")
	}
	if at, ok := x.receiptTime(); ok && int64(v.Event().CreatedAt)+clockSlack < at {
		return seal.Checkpoint{}, errors.New("it is older than the receipt")
	}
	return c, nil
}

// checkCheckpoint checks the customer's public statement about the journal.
func (x *export) checkCheckpoint() (string, error) {
	if !x.known {
		return "", noReceipt
	}
	if x.unsealed != nil {
		return "", x.unsealed
	}
	return fmt.Sprintf("%d entries of %s, %s", x.sealing.Size, x.sealing.Journal, x.sealing.Root), nil
}
