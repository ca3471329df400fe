package guild_test

import (
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
)

// The costs of every event for its author and its readers. With -tags libsecp256k1, Verify is several times faster.

// request returns a template of the size of a request with a small bundle inside.
func request() nostr.Event {
	return nostr.Event{
		Kind: 5050, CreatedAt: 1_700_000_000, Content: strings.Repeat("bundle", 300),
		Tags: nostr.Tags{{"p", nostr.GetPublicKey(nostr.KeyOne).Hex()}, {"encrypted"}},
	}
}

func BenchmarkEventID(b *testing.B) {
	e := request()
	b.SetBytes(int64(len(e.Content)))
	for b.Loop() {
		guild.EventID(e)
	}
}

func BenchmarkSign(b *testing.B) {
	s, e := key.NewSigner(key.NewSecret(nostr.Generate())), request()
	for b.Loop() {
		if _, err := guild.Sign(b.Context(), s, e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	v, err := guild.Sign(b.Context(), key.NewSigner(key.NewSecret(nostr.Generate())), request())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := guild.Verify(v.Event()); err != nil {
			b.Fatal(err)
		}
	}
}
