package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
)

// Kind is the kind of the event that signs a document. It is part of the document and never published. Its x tag is the
// hash of the canonical JSON of all other members, so a remote signer signs a small event however large the document is.
//
// It is not file metadata (kind 1063), because guild signs that for files with content of others, which could be a trust
// document.
const Kind nostr.Kind = 2025

// maxSignature limits the size of the event that signs a document, in bytes.
const maxSignature = 4 << 10

// signatureMember is the member of a document that contains the event.
const signatureMember = "signature"

// Errors of documents of other guilds.
var (
	ErrSignature = errors.New("the signature is not that of this document")
	ErrUnsigned  = errors.New("the document is not signed")
	ErrSigner    = errors.New("another guild has signed the document")
	ErrDate      = errors.New("the document is dated in the future")
	ErrKnown     = errors.New("the document was imported before")
	ErrOlder     = errors.New("a newer document of this guild was imported before")
)

// Signed is a document of another guild, whose signature Decode has verified. Documents of earlier versions have no
// signature: nothing proves that the guild that they name wrote them.
type Signed struct {
	Document
	By    nostr.PubKey // the guild; zero without a signature
	At    int64        // Unix s, by its clock
	Event nostr.ID     // of the event that signs
}

// Sign returns the document as JSON with a signature of its guild, whose key s must have. at is the time of the signature,
// which orders the documents of a guild.
func (d Document) Sign(ctx context.Context, s nostr.Signer, at time.Time) ([]byte, error) {
	body, err := d.Encode()
	if err != nil {
		return nil, err
	}
	v, err := guild.Sign(ctx, s, nostr.Event{
		Kind: Kind, CreatedAt: nostr.Timestamp(at.Unix()), Tags: nostr.Tags{{"x", guild.Sum(body).Hex()}, {"alt", "Trust of a guild"}},
	})
	if err != nil {
		return nil, fmt.Errorf("trust document: %w", err)
	}
	if signer := v.Event().PubKey.Hex(); signer != d.Guild {
		return nil, fmt.Errorf("trust document of guild %.8s: the key is that of %.8s", d.Guild, signer)
	}
	b, err := canon.Marshal(struct {
		Document
		Signature nostr.Event `json:"signature"`
	}{d, v.Event()})
	if err == nil && len(b) > MaxDocument {
		err = fmt.Errorf("%d bytes, at most %d", len(b), MaxDocument)
	}
	if err != nil {
		return nil, fmt.Errorf("trust document: %w", err)
	}
	return b, nil
}

// readSignature checks the signature of a document. A document without one gives a zero Signed.
func readSignature(b []byte) (Signed, error) {
	var head map[string]json.RawMessage
	if err := json.Unmarshal(b, &head); err != nil {
		return Signed{}, err
	}
	if head[signatureMember] == nil {
		return Signed{}, nil
	}
	canonical, err := canon.Canonical(b) // refuses JSON that two parsers could read differently
	if err != nil {
		return Signed{}, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(canonical, &members); err != nil {
		return Signed{}, err
	}
	raw, author := members[signatureMember], struct {
		Guild nostr.PubKey `json:"guild"`
	}{}
	if err := json.Unmarshal(canonical, &author); err != nil {
		return Signed{}, err
	}
	delete(members, signatureMember)
	body, err := canon.Marshal(members)
	if err != nil {
		return Signed{}, err
	}
	v, err := verifySignature(raw, guild.Sum(body), author.Guild)
	if err != nil {
		return Signed{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	e := v.Event()
	return Signed{By: e.PubKey, At: int64(e.CreatedAt), Event: e.ID}, nil
}

// verifySignature checks the event that signs a document with this hash, whose guild is author.
func verifySignature(raw json.RawMessage, hash guild.Hash, author nostr.PubKey) (guild.Verified, error) {
	if len(raw) > maxSignature {
		return guild.Verified{}, fmt.Errorf("%d bytes, at most %d", len(raw), maxSignature)
	}
	var e nostr.Event
	if err := json.Unmarshal(raw, &e); err != nil {
		return guild.Verified{}, err
	}
	x := e.Tags.Find("x")
	switch {
	case e.Kind != Kind:
		return guild.Verified{}, fmt.Errorf("an event of kind %d, want %d", e.Kind, Kind)
	case len(x) < 2 || x[1] != hash.Hex():
		return guild.Verified{}, errors.New("it was changed after it was signed")
	case e.PubKey != author:
		return guild.Verified{}, fmt.Errorf("guild %.8s signed what guild %.8s is said to have learned", e.PubKey.Hex(), author.Hex())
	}
	return guild.Verify(e)
}
