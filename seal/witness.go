package seal

import (
	"encoding/hex"
	"fmt"

	"fiatjaf.com/nostr"

	"guild"
)

// KindWitness is the kind of a countersignature's event. It is a regular kind: relays keep all such events.
const KindWitness = 2026

// Witness is the statement of a provider that it was shown a checkpoint of a customer, and that this checkpoint has all
// entries of the one that the provider has witnessed before.
type Witness struct {
	Customer   nostr.PubKey // the owner of the journal
	Checkpoint Checkpoint
}

type witness struct {
	Customer string `json:"customer"`
	Checkpoint
}

// Event returns the unsigned event of a countersignature, with canonical JSON as content. at is Unix s. The tags name the
// customer (p), the journal (d) and the root (x), for searches.
func (w Witness) Event(at int64) nostr.Event {
	c := w.Checkpoint
	content := fmt.Sprintf(`{"customer":%q,"journal":%q,"root":%q,"size":%d}`, w.Customer.Hex(), c.Journal, c.Root, c.Size)
	return nostr.Event{
		Kind: KindWitness, CreatedAt: nostr.Timestamp(at), Content: content,
		Tags: nostr.Tags{{"p", w.Customer.Hex()}, {"d", c.Journal}, {"x", c.Root.Hex()}},
	}
}

// ParseWitness reads a countersignature from its event, whose author is the provider.
func ParseWitness(v guild.Verified) (Witness, error) {
	e := v.Event()
	if e.Kind != KindWitness {
		return Witness{}, fmt.Errorf("event %.8s of kind %d is not a countersignature: %w", e.ID.Hex(), e.Kind, ErrInvalid)
	}
	var w witness
	if err := decode([]byte(e.Content), maxContent, &w); err != nil {
		return Witness{}, fmt.Errorf("countersignature %.8s: %w", e.ID.Hex(), err)
	}
	if err := w.Validate(); err != nil {
		return Witness{}, fmt.Errorf("countersignature %.8s: %w", e.ID.Hex(), err)
	}
	customer, err := hex.DecodeString(w.Customer)
	if err != nil || len(customer) != len(nostr.PubKey{}) || nostr.PubKey(customer).Hex() != w.Customer {
		return Witness{}, fmt.Errorf("countersignature %.8s: %.80q is not the key of a customer: %w", e.ID.Hex(), w.Customer, ErrInvalid)
	}
	return Witness{Customer: nostr.PubKey(customer), Checkpoint: w.Checkpoint}, nil
}
