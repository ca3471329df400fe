//go:build !race

// The signer of the Nostr library, which we did not write, signs with code that crashes under the race detector.

package bunker_test

import (
	"context"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip46"

	"guild"
	"guild/internal/hand/bunker"
	"guild/internal/hand/relay"
)

// startLibrarySigner runs the library's signer at a relay. Its one key is the conversation's and the user's.
func startLibrarySigner(t *testing.T, url string) (bunkerURL string) {
	t.Helper()
	public := user.PubKey().Hex()
	signer := nip46.NewStaticKeySigner(user.Reveal())
	pool := relay.New(relay.Config{Now: time.Now})
	run(t, pool.Run)
	requests := []nostr.Filter{{Kinds: []nostr.Kind{nostr.KindNostrConnect}, Tags: nostr.TagMap{"p": {public}}}}
	_, err := pool.Listen(t.Context(), "requests", requests, func(ctx context.Context, _ string, e guild.Verified) {
		_, _, answer, err := signer.HandleRequest(ctx, e.Event())
		if err != nil {
			t.Error(err)
			return
		}
		v, err := guild.Verify(answer)
		if err == nil {
			_, err = pool.Publish(ctx, v, url)
		}
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}, url)
	if err != nil {
		t.Fatal(err)
	}
	return "bunker://" + public + "?relay=" + url
}

func TestLibrarySigner(t *testing.T) {
	url := startRelay(t)
	asUser(t, mustOpen(t, bunker.Config{URL: startLibrarySigner(t, url)}))
}

func TestLibrarySignerWithOtherHash(t *testing.T) {
	url := startRelay(t)
	s := mustOpen(t, bunker.Config{URL: startLibrarySigner(t, url)})
	e := nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: "a backspace \b is hashed otherwise by that library"}
	if err := s.SignEvent(t.Context(), &e); err == nil {
		t.Error("not found")
	}
}
