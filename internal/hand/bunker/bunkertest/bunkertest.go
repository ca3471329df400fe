// Package bunkertest runs a remote signer (NIP-46) for tests: a real one, which speaks the protocol over a relay
// with a key of its own for the conversation and another for the user.
package bunkertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
)

// Options say how a signer behaves. The zero value answers all requests honestly.
type Options struct {
	Silent func(method string) bool             // methods without an answer; none if nil
	Change func(signed nostr.Event) nostr.Event // changes a signed event before it is returned; no change if nil
	Ask    string                               // a URL where the person must confirm each sign_event; none if empty
}

// secret is the token in the URL that Start returns.
const secret = "hush"

// signer is a running remote signer.
type signer struct {
	t       testing.TB
	options Options
	pool    *relay.Pool
	relay   string
	self    *key.Signer // signs the conversation
	user    *key.Signer // signs the events
}

// Start runs a signer for user at a relay until the test ends, and returns its bunker:// URL.
func Start(t testing.TB, relayURL string, user key.Secret, o Options) (bunkerURL string) {
	t.Helper()
	self := key.NewSecret(nostr.Generate())
	s := &signer{
		t: t, options: o, relay: relayURL, self: key.NewSigner(self), user: key.NewSigner(user),
		pool: relay.New(relay.Config{Now: time.Now}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.pool.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the remote signer: %v", err)
		}
	})
	patience, done := context.WithTimeout(ctx, 30*time.Second)
	defer done()
	filter := nostr.Filter{Kinds: []nostr.Kind{nostr.KindNostrConnect}, Tags: nostr.TagMap{"p": {self.PubKey().Hex()}}}
	if _, err := s.pool.Listen(patience, "requests", []nostr.Filter{filter}, s.receive, relayURL); err != nil {
		t.Fatal(err)
	}
	query := url.Values{"relay": {relayURL}, "secret": {secret}}
	return "bunker://" + self.PubKey().Hex() + "?" + query.Encode()
}

type request struct {
	ID     string   `json:"id"`
	Method string   `json:"method"`
	Params []string `json:"params"`
}

type answer struct {
	ID     string `json:"id"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

func (s *signer) receive(ctx context.Context, _ string, e guild.Verified) {
	var r request
	plain, err := s.self.Decrypt(ctx, e.Event().Content, e.Event().PubKey)
	if err == nil {
		err = json.Unmarshal([]byte(plain), &r)
	}
	if err != nil {
		s.t.Errorf("the remote signer got a request that it cannot read: %v", err)
		return
	}
	if s.options.Silent != nil && s.options.Silent(r.Method) {
		return
	}
	if r.Method == "sign_event" && s.options.Ask != "" {
		s.send(ctx, e.Event().PubKey, answer{r.ID, "auth_url", s.options.Ask})
	}
	a := answer{ID: r.ID}
	a.Result, err = s.do(ctx, r)
	if err != nil {
		a.Error = err.Error()
	}
	s.send(ctx, e.Event().PubKey, a)
}

func (s *signer) send(ctx context.Context, to nostr.PubKey, a answer) {
	plain, err := json.Marshal(a)
	if err != nil {
		s.t.Error(err)
		return
	}
	content, err := s.self.Encrypt(ctx, string(plain), to)
	if err != nil {
		s.t.Error(err)
		return
	}
	e, err := guild.Sign(ctx, s.self, nostr.Event{
		Kind: nostr.KindNostrConnect, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"p", to.Hex()}}, Content: content,
	})
	if err == nil {
		_, err = s.pool.Publish(ctx, e, s.relay)
	}
	if err != nil && ctx.Err() == nil {
		s.t.Errorf("the remote signer cannot answer: %v", err)
	}
}

// do executes a request.
func (s *signer) do(ctx context.Context, r request) (string, error) {
	want := map[string]int{"connect": 2, "sign_event": 1, "nip44_encrypt": 2, "nip44_decrypt": 2, "nip04_encrypt": 2, "nip04_decrypt": 2}
	if len(r.Params) < want[r.Method] {
		return "", fmt.Errorf("%d parameters for %s", len(r.Params), r.Method)
	}
	switch r.Method {
	case "connect":
		if r.Params[1] != secret {
			return "", errors.New("wrong secret")
		}
		return "ack", nil
	case "get_public_key":
		user, err := s.user.GetPublicKey(ctx)
		return user.Hex(), err
	case "sign_event":
		return s.sign(ctx, r.Params[0])
	}
	other, err := nostr.PubKeyFromHex(r.Params[0])
	if err != nil {
		return "", err
	}
	switch r.Method {
	case "nip44_encrypt":
		return s.user.Encrypt(ctx, r.Params[1], other)
	case "nip44_decrypt":
		return s.user.Decrypt(ctx, r.Params[1], other)
	case "nip04_encrypt":
		return s.user.Nip04Encrypt(ctx, r.Params[1], other)
	case "nip04_decrypt":
		return s.user.Nip04Decrypt(ctx, r.Params[1], other)
	default:
		return "", fmt.Errorf("no such method: %s", r.Method)
	}
}

func (s *signer) sign(ctx context.Context, unsigned string) (string, error) {
	var e nostr.Event
	if err := json.Unmarshal([]byte(unsigned), &e); err != nil {
		return "", err
	}
	signed, err := guild.Sign(ctx, s.user, e)
	if err != nil {
		return "", err
	}
	e = signed.Event()
	if s.options.Change != nil {
		e = s.options.Change(e)
	}
	b, err := json.Marshal(e)
	return string(b), err
}
