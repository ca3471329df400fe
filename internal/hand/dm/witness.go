package dm

import (
	"fmt"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/seal"
)

// MaxConsistency limits the consistency proofs in one message.
const MaxConsistency = 4

// Witness is a message by which a customer asks a provider to countersign a checkpoint that covers a job of the provider's.
// What it says is not checked, but for its form.
type Witness struct {
	Request    nostr.ID // of the job
	Checkpoint nostr.Event
	Entry      []byte     // of the customer's journal, which records the receipt of the job
	Proof      seal.Proof // that the checkpoint covers the entry

	// Consistency has the proofs from the checkpoints that the provider may have countersigned last. It has seen at most one of
	// them as its last.
	Consistency []seal.Consistency
}

type witness struct {
	head
	Checkpoint  nostr.Event      `json:"checkpoint"`
	Entry       string           `json:"entry"`
	Proof       jsontext.Value   `json:"proof"`
	Consistency []jsontext.Value `json:"consistency"`
}

// Encode writes the content of a message. It fails if the entry is too large for a message.
func (w Witness) Encode() (string, error) {
	form := witness{head: head{TypeWitness, version, w.Request.Hex()}, Checkpoint: w.Checkpoint, Entry: string(w.Entry)}
	var err error
	if form.Proof, err = w.Proof.Encode(); err != nil {
		return "", err
	}
	for _, g := range w.Consistency {
		raw, err := g.Encode()
		if err != nil {
			return "", err
		}
		form.Consistency = append(form.Consistency, raw)
	}
	content, err := encodeForm(form)
	if err == nil && len(content) > maxForm {
		err = fmt.Errorf("%s: %d bytes, at most %d", TypeWitness, len(content), maxForm)
	}
	return content, err
}

// DecodeWitness reads a request for a countersignature. The error is a *guild.DropError.
func DecodeWitness(content string) (Witness, error) {
	var form witness
	id, err := decodeForm(content, &form, &form.head, TypeWitness)
	if err != nil {
		return Witness{}, err
	}
	if len(form.Consistency) > MaxConsistency {
		return Witness{}, guild.Drop(guild.Malformed, "%d consistency proofs, at most %d", len(form.Consistency), MaxConsistency)
	}
	w := Witness{Request: id, Checkpoint: form.Checkpoint, Entry: []byte(form.Entry)}
	if w.Proof, err = seal.DecodeProof(form.Proof); err != nil {
		return Witness{}, guild.Drop(guild.Malformed, "%s: %.200s", TypeWitness, err)
	}
	for _, raw := range form.Consistency {
		g, err := seal.DecodeConsistency(raw)
		if err != nil {
			return Witness{}, guild.Drop(guild.Malformed, "%s: %.200s", TypeWitness, err)
		}
		w.Consistency = append(w.Consistency, g)
	}
	return w, nil
}
