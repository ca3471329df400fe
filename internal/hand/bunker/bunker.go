// Package bunker signs with a key on another machine: it is the client of a remote signer (NIP-46).
//
// It owns the conversation with one signer: which requests wait for an answer, and the key that the signer signs with.
// Answers are not trusted: a signed event is compared with the one that was sent, and verified. The package opens no
// connection (a [relay.Pool] does), stores nothing and never sees the user's key.
package bunker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
)

// Config says which remote signer to use.
type Config struct {
	Pool *relay.Pool      // carries the requests; it must be running
	URL  string           // bunker://<public key of the signer, hex>?relay=wss://...&secret=...
	Key  key.Secret       // our client key; to be stored, since the signer knows us by it
	Now  func() time.Time // stamps the requests

	Timeout time.Duration    // of one request; 30 s if zero
	AuthURL func(url string) // called if the person must confirm a request at an http(s) URL
}

// ErrNoAnswer is the error if the remote signer does not answer in time.
var ErrNoAnswer = errors.New("the remote signer has not answered")

// RefusedError is a refusal by the remote signer.
type RefusedError struct {
	Method  string // of NIP-46, such as sign_event
	Message string // by the signer, cut to 500 bytes
}

// Error returns the method and the signer's message.
func (e *RefusedError) Error() string {
	return "the remote signer refused " + e.Method + ": " + strconv.Quote(e.Message)
}

// maxMessage is the longest message of a refusal that is kept, in bytes.
const maxMessage = 500

// Signer is a remote signer. A request that a person must confirm waits for the person, up to the time-out. It is safe for
// concurrent use.
type Signer struct {
	config Config
	remote nostr.PubKey // of the signer itself, not of the user
	relays []string
	secret string
	self   *key.Signer
	cancel func() // ends the subscription to the answers

	mu      sync.Mutex
	user    nostr.PubKey // zero until it was asked for
	waiting map[string]chan<- answer
}

var _ nostr.Keyer = (*Signer)(nil)

// Open connects to a remote signer and asks it for the user's public key. Its errors do not show the secret
// in the URL.
func Open(ctx context.Context, c Config) (*Signer, error) {
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	if c.AuthURL == nil {
		c.AuthURL = func(string) {}
	}
	s := &Signer{config: c, self: key.NewSigner(c.Key), waiting: make(map[string]chan<- answer)}
	if err := s.parse(c.URL); err != nil {
		return nil, fmt.Errorf("bunker: %w", err)
	}
	if err := s.connect(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("bunker: %w", err)
	}
	return s, nil
}

// parse reads the URL. Its errors do not repeat it, because it holds a secret.
func (s *Signer) parse(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "bunker" {
		return errors.New("the URL does not begin with bunker://")
	}
	if s.remote, err = nostr.PubKeyFromHex(u.Host); err != nil {
		return fmt.Errorf("public key in the URL: %w", err)
	}
	query := u.Query()
	s.secret, s.relays = query.Get("secret"), query["relay"]
	if len(s.relays) == 0 {
		return errors.New("the URL names no relay")
	}
	return nil
}

// connect subscribes to the answers, and then sends the first request.
func (s *Signer) connect(ctx context.Context) error {
	if err := s.listen(ctx); err != nil {
		return err
	}
	result, err := s.call(ctx, "connect", s.remote.Hex(), s.secret)
	if err != nil {
		return err
	}
	if result != "ack" && result != s.secret {
		return errors.New("the signer has confirmed another secret")
	}
	_, err = s.GetPublicKey(ctx)
	return err
}

// lateness bounds the difference between the signer's clock and ours.
const lateness = 2 * time.Minute

func (s *Signer) listen(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, ErrNoAnswer)
	defer cancel()
	self := s.config.Key.PubKey().Hex()
	s.cancel, err = s.config.Pool.Listen(ctx, "bunker "+self, []nostr.Filter{{
		Kinds:   []nostr.Kind{nostr.KindNostrConnect},
		Authors: []nostr.PubKey{s.remote},
		Tags:    nostr.TagMap{"p": {self}},
		Since:   nostr.Timestamp(s.config.Now().Add(-lateness).Unix()),
	}}, s.receive, s.relays...)
	return err
}

// Close ends the subscription to the signer's answers. Requests under way time out.
func (s *Signer) Close() {
	if s.cancel != nil {
		s.cancel()
	}
}

// GetPublicKey returns the user's key, with which the signer signs. It asks the signer once.
func (s *Signer) GetPublicKey(ctx context.Context) (nostr.PubKey, error) {
	s.mu.Lock()
	user := s.user
	s.mu.Unlock()
	if user != nostr.ZeroPK {
		return user, nil
	}
	digits, err := s.call(ctx, "get_public_key")
	if err != nil {
		return nostr.ZeroPK, err
	}
	if user, err = nostr.PubKeyFromHex(digits); err != nil {
		return nostr.ZeroPK, fmt.Errorf("get_public_key: %w", err)
	}
	s.mu.Lock()
	s.user = user
	s.mu.Unlock()
	return user, nil
}

// SignEvent has e signed, and verifies that the signature is the user's and of e.
func (s *Signer) SignEvent(ctx context.Context, e *nostr.Event) error {
	user, err := s.GetPublicKey(ctx)
	if err != nil {
		return err
	}
	want := nostr.Event{PubKey: user, Kind: e.Kind, CreatedAt: e.CreatedAt, Tags: e.Tags, Content: e.Content}
	if want.Tags == nil {
		want.Tags = nostr.Tags{}
	}
	want.ID = guild.EventID(want)
	text, err := s.call(ctx, "sign_event", want.String())
	if err != nil {
		return err
	}
	if want.Sig, err = signatureOf(text, want.ID); err != nil {
		return fmt.Errorf("sign_event: %w", err)
	}
	if _, err := guild.Verify(want); err != nil {
		return fmt.Errorf("sign_event: %w", err)
	}
	*e = want
	return nil
}

// Encrypt has a text encrypted for a recipient (NIP-44).
func (s *Signer) Encrypt(ctx context.Context, plain string, recipient nostr.PubKey) (string, error) {
	return s.call(ctx, "nip44_encrypt", recipient.Hex(), plain)
}

// Decrypt has a text decrypted that a sender encrypted for the user (NIP-44).
func (s *Signer) Decrypt(ctx context.Context, cipher string, sender nostr.PubKey) (string, error) {
	return s.call(ctx, "nip44_decrypt", sender.Hex(), cipher)
}

// Nip04Encrypt has a text encrypted for a recipient (NIP-04, which guild reads but does not send).
func (s *Signer) Nip04Encrypt(ctx context.Context, plain string, recipient nostr.PubKey) (string, error) {
	return s.call(ctx, "nip04_encrypt", recipient.Hex(), plain)
}

// Nip04Decrypt has a text decrypted that a sender encrypted for the user (NIP-04).
func (s *Signer) Nip04Decrypt(ctx context.Context, cipher string, sender nostr.PubKey) (string, error) {
	return s.call(ctx, "nip04_decrypt", sender.Hex(), cipher)
}
