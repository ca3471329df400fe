package receipt

import (
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Kind is the kind of a receipt's event. It is a regular kind: relays keep all such events, also those of superseded
// receipts.
const Kind = 2021

// Event returns the unsigned event of a receipt. Its content is the canonical receipt. Its tags are for searches: the
// receipt's id, the provider, the job's events, and the receipt that this one supersedes. Its date is that of the
// receipt, so that equal receipts give equal events.
func (r Receipt) Event() (nostr.Event, error) {
	b, err := r.Encode()
	if err != nil {
		return nostr.Event{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, r.Timestamp)
	if err != nil {
		return nostr.Event{}, fmt.Errorf("receipt %.40s: %w", r.ID, invalid("timestamp", "%.40q is not ISO 8601", r.Timestamp))
	}
	e := nostr.Event{Kind: Kind, CreatedAt: nostr.Timestamp(at.Unix()), Content: string(b), Tags: nostr.Tags{
		{"d", r.ID},
		{"p", r.ProviderPubKey.Hex()},
		{"e", r.RequestEvent.Hex(), "", "request"},
	}}
	if r.ResultEvent != (nostr.ID{}) {
		e.Tags = append(e.Tags, nostr.Tag{"e", r.ResultEvent.Hex(), "", "result"})
	}
	if r.Supersedes != "" {
		e.Tags = append(e.Tags, nostr.Tag{"supersedes", r.Supersedes})
	}
	return e, nil
}

// ParseEvent returns the receipt in an event. The event must equal the result of Receipt.Event, so that all readers
// understand it in the same way. Its author is the customer who judged. ParseEvent does not validate the receipt.
func ParseEvent(v guild.Verified) (Receipt, error) {
	e := v.Event()
	if e.Kind != Kind {
		return Receipt{}, fmt.Errorf("kind %d is not that of receipts, %d: %w", e.Kind, Kind, ErrInvalid)
	}
	r, err := Decode([]byte(e.Content))
	if err != nil {
		return Receipt{}, fmt.Errorf("the content: %w", err)
	}
	said, err := r.Event()
	switch {
	case err != nil:
		return Receipt{}, err
	case e.Content != said.Content:
		return Receipt{}, fmt.Errorf("the content: not a receipt in its canonical form: %w", ErrInvalid)
	case e.CreatedAt != said.CreatedAt || !slices.EqualFunc(e.Tags, said.Tags, slices.Equal[nostr.Tag]):
		return Receipt{}, fmt.Errorf("its date and tags are not those of the receipt in it: %w", ErrInvalid)
	}
	return r, nil
}
