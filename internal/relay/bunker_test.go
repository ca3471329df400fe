package relay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/keyer"
	"fiatjaf.com/nostr/khatru"
	"fiatjaf.com/nostr/nip46"

	"guild"
	"guild/internal/relay"
)

// signer answers NIP-46 requests at a relay as the library's signer does, if answer says so.
func signer(t *testing.T, r *khatru.Relay, url string, answer func(method string) bool) (bunkerURL string) {
	t.Helper()
	listening := make(chan struct{}, 100)
	r.OnListenerAdded = func(*khatru.WebSocket, int, string, nostr.Filter) { listening <- struct{}{} }
	key := nostr.SecretKey{77}
	static := nip46.NewStaticKeySigner(key)
	ready := make(chan *relay.Pool, 1)
	c := config(newInbox(), url)
	c.Receive = func(ctx context.Context, _ string, e guild.Verified) {
		p := <-ready
		ready <- p
		request, _, reply, err := static.HandleRequest(ctx, e.Event())
		if err != nil || !answer(request.Method) {
			return
		}
		if v, err := guild.Verify(reply); err == nil {
			_, _ = p.Publish(ctx, v, url)
		}
	}
	p, _ := run(t, c)
	ready <- p
	public := nostr.GetPublicKey(key).Hex()
	p.Subscribe("requests", []nostr.Filter{{
		Kinds: []nostr.Kind{nostr.KindNostrConnect}, Tags: nostr.TagMap{"p": {public}},
	}})
	await(t, listening)
	return "bunker://" + public + "?relay=" + url + "&secret=hush"
}

func all(string) bool { return true }

func open(t *testing.T, url, bunkerURL string, timeout time.Duration) (*relay.Bunker, error) {
	t.Helper()
	p, _ := run(t, config(newInbox(), url))
	b, err := relay.OpenBunker(t.Context(),
		relay.BunkerConfig{Pool: p, URL: bunkerURL, Key: nostr.SecretKey{9}, Now: time.Now, Timeout: timeout})
	if err == nil {
		t.Cleanup(b.Close)
	}
	return b, err
}

func TestABunkerSignsAndEncryptsWithAKeyElsewhere(t *testing.T) {
	r, url := honest(t, 500)
	b, err := open(t, url, signer(t, r, url, all), 0)
	if err != nil {
		t.Fatal(err)
	}
	user, err := b.GetPublicKey(t.Context())
	if err != nil || user != nostr.GetPublicKey(nostr.SecretKey{77}) {
		t.Fatalf("user %v, %v", user, err)
	}
	e, err := guild.Sign(t.Context(), b, nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: "by proxy",
		Tags: nostr.Tags{{"t", "a\nb"}}})
	if err != nil || e.Event().PubKey != user {
		t.Fatalf("%v, %v", e, err)
	}
	if _, err := guild.Verify(e.Event()); err != nil {
		t.Error(err)
	}
	bobs := keyer.NewPlainKeySigner(bob)
	secret, err := b.Encrypt(t.Context(), "to bob", nostr.GetPublicKey(bob))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := bobs.Decrypt(t.Context(), secret, user); got != "to bob" {
		t.Errorf("bob read %q, %v", got, err)
	}
	secret, err = bobs.Encrypt(t.Context(), "from bob", user)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Decrypt(t.Context(), secret, nostr.GetPublicKey(bob)); got != "from bob" {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := b.Decrypt(t.Context(), "nonsense", user); !isRefusal(err, "nip44_decrypt") {
		t.Errorf("got %v", err)
	}
}

func isRefusal(err error, method string) bool {
	refusal, ok := errors.AsType[*relay.BunkerError](err)
	return ok && refusal.Method == method && refusal.Message != ""
}

func TestABunkerThatDoesNotAnswerIsGivenUp(t *testing.T) {
	r, url := honest(t, 500)
	b, err := open(t, url, signer(t, r, url, func(method string) bool { return method != "sign_event" }), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	err = b.SignEvent(t.Context(), &nostr.Event{Kind: 1})
	if !errors.Is(err, relay.ErrNoAnswer) || !strings.Contains(err.Error(), "sign_event") {
		t.Errorf("got %v", err)
	}
}

func TestABunkerThatCannotBeUsedIsRefusedWithoutItsSecret(t *testing.T) {
	_, url := honest(t, 500)
	public := nostr.GetPublicKey(bob).Hex()
	tests := []struct{ name, url string }{
		{"not a bunker", "https://" + public + "?relay=" + url + "&secret=hush"},
		{"no key", "bunker://bob?relay=" + url + "&secret=hush"},
		{"no relay", "bunker://" + public + "?secret=hush"},
		{"a relay in clear", "bunker://" + public + "?relay=ws://example.com&secret=hush"},
		{"nobody there", "bunker://" + public + "?relay=" + url + "&secret=hush"},
		{"no such relay", "bunker://" + public + "?relay=ws://127.0.0.1:1&secret=hush"},
		{"not a URL", "bunker://%zz?secret=hush"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := open(t, url, test.url, time.Second); err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestABunkerThatSignsSomethingElseIsFound(t *testing.T) {
	r, url := honest(t, 500)
	b, err := open(t, url, signer(t, r, url, all), 0)
	if err != nil {
		t.Fatal(err)
	}
	e := nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: "backspace \b is hashed otherwise by that signer"}
	if err := b.SignEvent(t.Context(), &e); err == nil {
		t.Error("not found")
	}
}
