package dm

import (
	"context"
	"errors"
	"fmt"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/bunker"
	"guild/internal/hand/relay"
)

// Note makes a note to ourselves: a replaceable event (NIP-78) with a name, encrypted to our own key. We can ask relays for
// the events of our key, so others cannot bury it among their events, as they could a private message. A note
// beyond MaxRumor is an error.
func Note(ctx context.Context, keyer nostr.Keyer, us nostr.PubKey, name, content string, at nostr.Timestamp) (nostr.Event, error) {
	if len(content) > MaxRumor {
		return nostr.Event{}, fmt.Errorf("note %s: %w, and this one %d", name, errTooLarge, len(content))
	}
	sealed, err := keyer.Encrypt(ctx, content, us)
	if err != nil {
		return nostr.Event{}, fmt.Errorf("note %s: %w", name, err)
	}
	v, err := guild.Sign(ctx, keyer, nostr.Event{Kind: nostr.KindApplicationSpecificData, CreatedAt: at, Tags: nostr.Tags{{"d", name}}, Content: sealed})
	if err != nil {
		return nostr.Event{}, fmt.Errorf("note %s: %w", name, err)
	}
	return v.Event(), nil
}

// ReadNote reads a note of ours. The error is a *guild.DropError for an invalid note, and another one if the signer could
// not be reached.
func ReadNote(ctx context.Context, keyer nostr.Keyer, us nostr.PubKey, name string, v guild.Verified) (string, error) {
	e := v.Event()
	if e.Kind != nostr.KindApplicationSpecificData || e.PubKey != us || e.Tags.GetD() != name {
		return "", guild.Drop(guild.Unexpected, "kind %d is not our note %s", e.Kind, name)
	}
	return decrypt(ctx, keyer, e, maxSeal, maxRumor)
}

// unanswered reports whether the signer could not be asked, so that the error says nothing about the ciphertext.
func unanswered(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, bunker.ErrNoAnswer) || errors.Is(err, relay.ErrNoRelay)
}
