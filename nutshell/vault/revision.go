package vault

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
)

// RevisionKind is the kind of the events that bring a vault for a bundle (docs/adr/0012): application data of
// NIP-78, of which a relay keeps the newest for each key and d tag.
const RevisionKind nostr.Kind = 30078

// RevisionSuffix is added to the name of a bundle file for its revision: task.nut has task.nut.vault beside it.
const RevisionSuffix = ".vault"

// MaxRevision limits the size of a revision, in bytes of its JSON.
const MaxRevision = 2 << 20

// revisionTags limits the number of tags of a revision. Three are ours.
const revisionTags = 20

// dPrefix, followed by the id of a bundle, is the d tag of its revisions.
const dPrefix = "nutshell-vault:"

// Errors of revisions.
var (
	ErrNotRevision = errors.New("not a vault for this bundle")
	ErrForeignKey  = errors.New("the vault is signed by another key than the manifest names")
	ErrRollback    = errors.New("the vault is older than the one that is known")
)

// Revision is a sealed vault for a bundle, the first or a newer one, signed by the key that may issue them. Only
// NewRevision's event, signed, and ParseRevision make one.
//
// Anybody can seal a vault for a provider, whose public key is public, and put it beside a bundle: the provider would
// then work with an attacker's credentials. So the manifest, which has the bundle's hash, names the key that must sign.
// An older revision is genuine as well, but its credentials may have been withdrawn: After refuses to go back.
type Revision struct {
	ID        nostr.ID
	Bundle    string // the id of the bundle, "nut-…"
	PubKey    nostr.PubKey
	CreatedAt nostr.Timestamp
	Form      string // one of the forms of encryption; empty for the one that the manifest names
	Sealed    []byte
}

// NewRevision returns the event, to be signed, that makes sealed the vault of a bundle. It must be dated later than
// the revision that it replaces.
func NewRevision(bundle, form string, sealed []byte, at time.Time) (nostr.Event, error) {
	if len(sealed) > MaxSealed {
		return nostr.Event{}, ErrTooLarge
	}
	return nostr.Event{
		Kind:      RevisionKind,
		CreatedAt: nostr.Timestamp(at.Unix()),
		Tags: nostr.Tags{
			{"d", dPrefix + bundle}, {"x", guild.Sum(sealed).Hex()}, {"encryption", form},
		},
		Content: base64.StdEncoding.EncodeToString(sealed),
	}, nil
}

// MarshalRevision returns the revision file of a signed event.
func MarshalRevision(e guild.Verified) ([]byte, error) {
	b, err := json.Marshal(e.Event(), jsontext.WithIndent("  "))
	return append(b, '\n'), err
}

// ParseRevision parses a revision of a bundle and verifies that it is signed by the key in the manifest's
// credentials.rotation.pubkey. The error is ErrNotRevision, ErrForeignKey, guild.ErrWrongID or guild.ErrBadSignature, or
// ErrTampered if the content does not have the hash in the x tag.
func ParseRevision(raw []byte, bundle string, by nostr.PubKey) (Revision, error) {
	if len(raw) > MaxRevision {
		return Revision{}, fmt.Errorf("%d bytes: %w", len(raw), ErrTooLarge)
	}
	if err := (text{"the event", MaxRevision}).check(raw); err != nil {
		return Revision{}, fmt.Errorf("%w: %w", ErrNotRevision, err)
	}
	var e nostr.Event
	if err := json.Unmarshal(raw, &e); err != nil {
		return Revision{}, fmt.Errorf("the event has a member of the wrong type: %w", ErrNotRevision)
	}
	if err := envelope(e, bundle, by); err != nil {
		return Revision{}, err
	}
	verified, err := guild.Verify(e)
	if err != nil {
		return Revision{}, err
	}
	return RevisionOf(verified, bundle, by)
}

// RevisionOf is ParseRevision for an event that has been verified already, such as one from a relay.
func RevisionOf(v guild.Verified, bundle string, by nostr.PubKey) (Revision, error) {
	e := v.Event()
	if err := envelope(e, bundle, by); err != nil {
		return Revision{}, err
	}
	if base64.StdEncoding.DecodedLen(len(e.Content)) > MaxSealed+2 {
		return Revision{}, ErrTooLarge
	}
	sealed, err := base64.StdEncoding.Strict().DecodeString(e.Content)
	if err != nil || strings.ContainsAny(e.Content, "\r\n") {
		return Revision{}, fmt.Errorf("the content is not base64: %w", ErrNotRevision)
	}
	x, _ := tag(e, "x")
	if x != guild.Sum(sealed).Hex() {
		return Revision{}, fmt.Errorf("the x tag is the hash of something else: %w", ErrTampered)
	}
	form, _ := tag(e, "encryption")
	return Revision{ID: e.ID, Bundle: bundle, PubKey: e.PubKey, CreatedAt: e.CreatedAt, Form: form, Sealed: sealed}, nil
}

// envelope makes the cheap checks, before that of the signature.
func envelope(e nostr.Event, bundle string, by nostr.PubKey) error {
	d, one := tag(e, "d")
	switch {
	case e.Kind != RevisionKind:
		return fmt.Errorf("kind %d: %w", e.Kind, ErrNotRevision)
	case len(e.Tags) > revisionTags:
		return fmt.Errorf("%d tags: %w", len(e.Tags), ErrNotRevision)
	case !one || d != dPrefix+bundle:
		return fmt.Errorf("its d tag is not %s%.140s: %w", dPrefix, bundle, ErrNotRevision)
	case e.PubKey != by:
		return fmt.Errorf("%.8s: %w", e.PubKey.Hex(), ErrForeignKey)
	}
	return nil
}

// tag returns the value of the only tag of this name.
func tag(e nostr.Event, name string) (value string, one bool) {
	n := 0
	for _, t := range e.Tags {
		if len(t) >= 2 && t[0] == name {
			value, n = t[1], n+1
		}
	}
	return value, n == 1
}

// supersedes reports whether r replaces another revision of the same bundle: it is later, or of the same second with a
// lower id (NIP-01).
func (r Revision) supersedes(other Revision) bool {
	if c := cmp.Compare(r.CreatedAt, other.CreatedAt); c != 0 {
		return c > 0
	}
	return r.ID.Hex() < other.ID.Hex()
}

// After returns ErrRollback if a known revision, of which id and time are enough, supersedes r.
func (r Revision) After(known Revision) error {
	if known.supersedes(r) {
		return fmt.Errorf("of %s, not %s: %w", when(r), when(known), ErrRollback)
	}
	return nil
}

func when(r Revision) string { return r.CreatedAt.Time().UTC().Format(time.RFC3339) }
