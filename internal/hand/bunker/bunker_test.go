package bunker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/bunker"
	"guild/internal/hand/bunker/bunkertest"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/internal/hand/relayd"
)

var (
	user = key.NewSecret(nostr.SecretKey{77})
	us   = key.NewSecret(nostr.SecretKey{9})
	bob  = key.NewSecret(nostr.SecretKey{2})
)

// startRelay runs a real relay for the test.
func startRelay(t *testing.T) string {
	t.Helper()
	r, err := relayd.Open(relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	run(t, r.Run)
	return r.URL()
}

// run runs a function until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// open opens a remote signer with a pool of its own.
func open(t *testing.T, c bunker.Config) (*bunker.Signer, error) {
	t.Helper()
	c.Pool = relay.New(relay.Config{Now: time.Now})
	run(t, c.Pool.Run)
	c.Key, c.Now = us, time.Now
	s, err := bunker.Open(t.Context(), c)
	if err == nil {
		t.Cleanup(s.Close)
	}
	return s, err
}

func mustOpen(t *testing.T, c bunker.Config) *bunker.Signer {
	t.Helper()
	s, err := open(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignAsUser(t *testing.T) {
	s := mustOpen(t, bunker.Config{URL: bunkertest.Start(t, startRelay(t), user, bunkertest.Options{})})
	asUser(t, s)
}

// asUser signs with s, and checks that the signature is the user's and of the event.
func asUser(t *testing.T, s *bunker.Signer) {
	t.Helper()
	for _, e := range []nostr.Event{
		{Kind: 1, CreatedAt: 1_700_000_000, Content: "by \"proxy\"\n\u2028", Tags: nostr.Tags{{"t", "a\nb"}, {"d"}}},
		{Kind: 0},
	} {
		signed, err := guild.Sign(t.Context(), s, e)
		if err != nil {
			t.Fatal(err)
		}
		got := signed.Event()
		if _, err := guild.Verify(got); err != nil || got.PubKey != user.PubKey() || got.Content != e.Content || len(got.Tags) != len(e.Tags) {
			t.Errorf("%v: %v", got, err)
		}
	}
}

func TestEncryptAndDecrypt(t *testing.T) {
	s := mustOpen(t, bunker.Config{URL: bunkertest.Start(t, startRelay(t), user, bunkertest.Options{})})
	bobs := key.NewSigner(bob)
	type cipher func(ctx context.Context, text string, other nostr.PubKey) (string, error)
	for name, c := range map[string]struct{ encrypt, decrypt, bobEncrypt, bobDecrypt cipher }{
		"nip44": {s.Encrypt, s.Decrypt, bobs.Encrypt, bobs.Decrypt},
		"nip04": {s.Nip04Encrypt, s.Nip04Decrypt, bobs.Nip04Encrypt, bobs.Nip04Decrypt},
	} {
		t.Run(name, func(t *testing.T) {
			secret, err := c.encrypt(t.Context(), "to bob", bob.PubKey())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.bobDecrypt(t.Context(), secret, user.PubKey()); got != "to bob" {
				t.Errorf("bob read %q, %v", got, err)
			}
			secret, err = c.bobEncrypt(t.Context(), "from bob", user.PubKey())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.decrypt(t.Context(), secret, bob.PubKey()); got != "from bob" {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
	_, err := s.Decrypt(t.Context(), "nonsense", user.PubKey())
	if refusal, ok := errors.AsType[*bunker.RefusedError](err); !ok || refusal.Method != "nip44_decrypt" || refusal.Message == "" {
		t.Errorf("nonsense: %v", err)
	}
}

func TestSilentSigner(t *testing.T) {
	silent := bunkertest.Options{Silent: func(method string) bool { return method == "sign_event" }}
	s := mustOpen(t, bunker.Config{URL: bunkertest.Start(t, startRelay(t), user, silent), Timeout: 5 * time.Second})
	err := s.SignEvent(t.Context(), &nostr.Event{Kind: 1})
	if !errors.Is(err, bunker.ErrNoAnswer) || !strings.Contains(err.Error(), "sign_event") {
		t.Errorf("got %v", err)
	}
}

func TestUnusableAddresses(t *testing.T) {
	url := startRelay(t)
	public := bob.PubKey().Hex()
	for name, address := range map[string]string{
		"not a bunker":     "https://" + public + "?relay=" + url + "&secret=hush",
		"no key":           "bunker://bob?relay=" + url + "&secret=hush",
		"no relay":         "bunker://" + public + "?secret=hush",
		"a relay in clear": "bunker://" + public + "?relay=ws://example.com&secret=hush",
		"no signer there":  "bunker://" + public + "?relay=" + url + "&secret=hush",
		"no such relay":    "bunker://" + public + "?relay=ws://127.0.0.1:1&secret=hush",
		"not a URL":        "bunker://%zz?secret=hush",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, bunker.Config{URL: address, Timeout: time.Second})
			if err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestWrongSecret(t *testing.T) {
	address := bunkertest.Start(t, startRelay(t), user, bunkertest.Options{})
	_, err := open(t, bunker.Config{URL: strings.Replace(address, "hush", "guess", 1)})
	if refusal, ok := errors.AsType[*bunker.RefusedError](err); !ok || refusal.Method != "connect" {
		t.Errorf("got %v", err)
	}
}

func TestLyingSigner(t *testing.T) {
	for name, change := range map[string]func(nostr.Event) nostr.Event{
		"another event": func(e nostr.Event) nostr.Event {
			e.Content, e.ID = "", nostr.ID{}
			signed, err := guild.Sign(context.Background(), key.NewSigner(user), e)
			if err != nil {
				t.Error(err)
			}
			return signed.Event()
		},
		"by another key": func(e nostr.Event) nostr.Event {
			signed, err := guild.Sign(context.Background(), key.NewSigner(bob), e)
			if err != nil {
				t.Error(err)
			}
			return signed.Event()
		},
		"a forged signature": func(e nostr.Event) nostr.Event { e.Sig[3] ^= 1; return e },
		"no signature":       func(e nostr.Event) nostr.Event { e.Sig = [64]byte{}; return e },
	} {
		t.Run(name, func(t *testing.T) {
			options := bunkertest.Options{Change: change}
			s := mustOpen(t, bunker.Config{URL: bunkertest.Start(t, startRelay(t), user, options)})
			e := nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: "this and nothing else"}
			if err := s.SignEvent(t.Context(), &e); err == nil || e.Sig != [64]byte{} {
				t.Errorf("taken: %v, %v", e, err)
			}
		})
	}
}

func TestAuthURL(t *testing.T) {
	for address, want := range map[string]int{
		"https://signer.example/confirm?id=7":   1,
		"javascript:alert(1)":                   0,
		"https://signer.example/\x1b]0;title\a": 0,
	} {
		t.Run(fmt.Sprintf("%q", address), func(t *testing.T) {
			options := bunkertest.Options{Ask: address}
			shown := make(chan string, 10)
			s := mustOpen(t, bunker.Config{
				URL: bunkertest.Start(t, startRelay(t), user, options), AuthURL: func(url string) { shown <- url },
			})
			asUser(t, s) // each of the two events is confirmed
			if len(shown) != 2*want {
				t.Errorf("shown %d times", len(shown))
			}
		})
	}
}
