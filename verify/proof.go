package verify

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
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
	var sequence replay.Sequence
	judged := x.receipt.VerdictHash.String() // by the last judge.run, if any
	for line, err := range replay.Read(bytes.NewReader(b)) {
		if err != nil {
			return err
		}
		err = cmp.Or(replay.Check(line.Event), sequence.Add(line.Event))
		switch e := line.Event.(type) {
		case replay.SessionStart:
			err = cmp.Or(err, x.checkStart(e))
		case replay.ToolCall:
			if e.Tool == "judge.run" {
				judged, err = verdictOf(e, err)
			}
		case replay.SessionEnd:
			err = cmp.Or(err, x.checkEnd(e))
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line.Number, err)
		}
	}
	if judged != x.receipt.VerdictHash.String() {
		return fmt.Errorf("its last verdict is %.80q, and the receipt's %s", judged, x.receipt.VerdictHash)
	}
	return nil
}

// verdictOf returns the hash of the verdict that a call of the judge names, or the error of the call.
func verdictOf(call replay.ToolCall, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var params struct {
		Hash string `json:"hash"`
	}
	err = json.Unmarshal(call.Params, &params)
	return params.Hash, err
}

func (x *export) checkStart(s replay.SessionStart) error {
	switch {
	case s.SessionID != x.receipt.SessionID:
		return fmt.Errorf("it is of the session %.80q, and the receipt of %.80q", s.SessionID, x.receipt.SessionID)
	case s.PolicyBundleID != x.receipt.PolicyBundleID:
		return fmt.Errorf("it is by the policy %.80q, and the receipt by %.80q", s.PolicyBundleID, x.receipt.PolicyBundleID)
	}
	return nil
}

// checkEnd checks that the session ended as the receipt says. An owner may accept a PARTIAL, and a job may be cancelled
// or out of time after a SUCCESS.
func (x *export) checkEnd(s replay.SessionEnd) error {
	r := x.receipt
	good := r.Outcome == guild.Success || r.Outcome == guild.Partial
	switch {
	case s.Status == replay.Success && !good, s.Status == replay.Failed && r.Outcome == guild.Success:
		return fmt.Errorf("status %s, and the receipt's outcome is %q", s.Status, r.Outcome)
	case s.Confidence < 0 || s.Confidence > 1:
		return fmt.Errorf("confidence %v is not from 0 to 1", s.Confidence)
	case r.Score != nil && guild.Score(math.Round(float64(s.Confidence)*1e6)) != *r.Score:
		return fmt.Errorf("confidence %v, and the receipt's score is %d millionths", s.Confidence, *r.Score)
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
	var policy struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(b, &policy); err != nil || policy.Name == "" {
		return "", errors.New("it is not an object with the name of a policy")
	}
	return fmt.Sprintf("%.40q, %s", policy.Name, hash), nil
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
	subject, fact, at, err := findRecorded(entry, x.receipt.ID)
	if err != nil {
		return "", err
	}
	if want := "job." + x.receipt.Job.String(); subject != want {
		return "", fmt.Errorf("it is about %.80q, and the receipt's is %s", subject, want)
	}
	if stamp, ok := x.receiptTime(); ok && at/1000+clockSlack < stamp {
		return "", errors.New("it is older than the receipt")
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
	if x.sealedAt+clockSlack < at/1000 {
		return "", errors.New("the checkpoint is older than it")
	}
	if p.Size != x.sealing.Size {
		return "", fmt.Errorf("the proof is of a tree of %d entries, and the checkpoint of %d", p.Size, x.sealing.Size)
	}
	if err := p.Check(seal.Leaf(entry), x.sealing.Root); err != nil {
		return "", err
	}
	return fmt.Sprintf("entry %d of %d", p.Index+1, p.Size), nil
}

// findRecorded returns the fact that records a receipt in an entry, with the subject and the time of the entry in Unix
// ms. An entry is a subject, a newline and the decision as JSON.
func findRecorded(entry []byte, id string) (subject string, one recorded, at int64, err error) {
	about, body, ok := bytes.Cut(entry, []byte("\n"))
	if !ok {
		return "", recorded{}, 0, errors.New("it has no subject")
	}
	canonical, err := canon.Canonical(body)
	if err != nil {
		return "", recorded{}, 0, err
	}
	var decision struct {
		At    int64            `json:"at"`
		Facts []jsontext.Value `json:"facts"`
	}
	if err := json.Unmarshal(canonical, &decision); err != nil {
		return "", recorded{}, 0, err
	}
	one, err = recordOf(decision.Facts, id)
	return string(about), one, decision.At, err
}

// recordOf returns the only fact that records a receipt.
func recordOf(facts []jsontext.Value, id string) (recorded, error) {
	var found []recorded
	for _, fact := range facts {
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
	x.sealedAt, x.sealedBy = int64(v.Event().CreatedAt), v.Event().PubKey
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

// witness reads the provider's countersignature of the checkpoint, and returns its date in Unix s.
func (x *export) witness() (int64, error) {
	v, err := x.event(FileWitness)
	if err != nil {
		return 0, err
	}
	if x.unsealed != nil {
		return 0, absence("there is no checkpoint that holds")
	}
	w, err := seal.ParseWitness(v)
	if err != nil {
		return 0, err
	}
	e, want := v.Event(), seal.Witness{Customer: x.sealedBy, Checkpoint: x.sealing}
	switch {
	case e.PubKey != x.receipt.ProviderPubKey:
		return 0, fmt.Errorf("signed by %.8s, and the provider is %s", e.PubKey.Hex(), x.receipt.ProviderID)
	case e.PubKey == x.sealedBy:
		return 0, errors.New("the customer itself has signed it")
	case w != want:
		return 0, fmt.Errorf("it is about %d entries of %s with the root %s, of the customer %.8s", w.Checkpoint.Size, w.Checkpoint.Journal, w.Checkpoint.Root, w.Customer.Hex())
	case !slices.EqualFunc(e.Tags, want.Event(0).Tags, slices.Equal[nostr.Tag]):
		return 0, errors.New("its tags are not those of what it says")
	case int64(e.CreatedAt)+clockSlack < x.sealedAt:
		return 0, errors.New("it is older than the checkpoint")
	}
	return int64(e.CreatedAt), nil
}

// checkWitness checks that the provider has countersigned the checkpoint.
func (x *export) checkWitness() (string, error) {
	if !x.known {
		return "", noReceipt
	}
	if x.unwitnessed != nil {
		return "", x.unwitnessed
	}
	return fmt.Sprintf("by the provider %s", x.receipt.ProviderID), nil
}
