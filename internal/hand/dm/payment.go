package dm

import (
	"encoding/hex"

	"fiatjaf.com/nostr"

	"guild"
)

// Types of messages about locked money, which a customer and a provider sign away to one another.
const (
	TypeRelease = "guild.release" // by the customer, after its verdict
	TypeReturn  = "guild.return"  // by the provider, of what was not released
)

// maxSignatures limits the signatures in a message.
const maxSignatures = 64

// Signatures is a message with signatures on locked ecash (NUT-11), for who can spend it with another signature of its own; or, of what
// is held over Lightning, with the preimage by which it is taken.
type Signatures struct {
	Type       string // TypeRelease, TypeReturn or TypeRuling
	Request    nostr.ID
	Amount     uint64            // that they are worth, in the unit of the lock
	Signatures map[string]string // by Y of the ecash, both in hex; of a release none if nothing is paid
	Preimage   string            // in hex; empty if nothing is paid, or ecash
	Reason     string            // for a person
}

type signatures struct {
	head
	Amount     uint64            `json:"amount"`
	Signatures map[string]string `json:"signatures"`
	Preimage   string            `json:"preimage,omitempty"`
	Reason     string            `json:"reason,omitempty"`
}

// Encode writes the content of a message.
func (s Signatures) Encode() (string, error) {
	return encodeForm(signatures{
		head: head{s.Type, version, s.Request.Hex()}, Amount: s.Amount, Signatures: s.Signatures, Preimage: s.Preimage,
		Reason: guild.Cut(guild.Clean(s.Reason), maxText),
	})
}

// DecodeSignatures reads a message of one of the two types. Whether the signatures are right is not checked. The error is a
// *guild.DropError.
func DecodeSignatures(content, of string) (Signatures, error) {
	var w signatures
	id, err := decodeForm(content, &w, &w.head, of)
	if err != nil {
		return Signatures{}, err
	}
	if len(w.Signatures) > maxSignatures {
		return Signatures{}, guild.Drop(guild.Malformed, "%d signatures in a message", len(w.Signatures))
	}
	if b, err := hex.DecodeString(w.Preimage); err != nil || len(b) != 0 && (len(b) != 32 || of != TypeRelease) {
		return Signatures{}, guild.Drop(guild.Malformed, "a preimage in another form")
	}
	for y, signature := range w.Signatures {
		if _, err := hex.DecodeString(y + signature); err != nil || len(y) != 66 || len(signature) != 128 {
			return Signatures{}, guild.Drop(guild.Malformed, "a signature on locked money in another form")
		}
	}
	return Signatures{Type: of, Request: id, Amount: w.Amount, Signatures: w.Signatures, Preimage: w.Preimage, Reason: clean(w.Reason, maxText)}, nil
}
