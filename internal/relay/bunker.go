package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/keyer"
	"fiatjaf.com/nostr/nip44"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
)

// BunkerConfig says which remote signer to use.
type BunkerConfig struct {
	Pool *Pool            // carries the requests; it must be running
	URL  string           // bunker://<public key of the signer, hex>?relay=wss://...&secret=...
	Key  nostr.SecretKey  // ours towards the signer; to be kept, for the signer knows us by it
	Now  func() time.Time // stamps the requests

	Timeout time.Duration    // of one request; 30 s if zero
	AuthURL func(url string) // called when the signer wants the person to confirm something at a URL
}

// ErrNoAnswer says that the remote signer has not answered in time.
var ErrNoAnswer = errors.New("the remote signer has not answered")

// BunkerError is a refusal by the remote signer.
type BunkerError struct {
	Method  string // of NIP-46, such as sign_event
	Message string // as the signer put it
}

// Error returns what was refused and why.
func (e *BunkerError) Error() string {
	return "the remote signer refused " + e.Method + ": " + e.Message
}

// Bunker is a remote signer (NIP-46). It signs and encrypts with a key that is not on this machine. A request
// that must be confirmed by a person takes as long as the person does, up to the time-out.
type Bunker struct {
	cfg    BunkerConfig
	signer nostr.PubKey // of the bunker itself, not of the user
	relays []string
	secret string
	shared [32]byte // NIP-44 conversation key
	self   keyer.KeySigner
	cancel func()

	mu      sync.Mutex
	user    nostr.PubKey // zero until it was asked for
	waiting map[string]chan<- bunkerAnswer
}

var _ nostr.Keyer = (*Bunker)(nil)

type bunkerRequest struct {
	ID     string   `json:"id"`
	Method string   `json:"method"`
	Params []string `json:"params"`
}

type bunkerAnswer struct {
	ID     string `json:"id"`
	Result string `json:"result"`
	Error  string `json:"error"`
}

// OpenBunker connects to a remote signer and asks it for the user's public key.
func OpenBunker(ctx context.Context, c BunkerConfig) (*Bunker, error) {
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.AuthURL == nil {
		c.AuthURL = func(string) {}
	}
	b := &Bunker{cfg: c, self: keyer.NewPlainKeySigner(c.Key), waiting: make(map[string]chan<- bunkerAnswer)}
	if err := b.parse(c.URL); err != nil {
		return nil, fmt.Errorf("bunker: %w", err)
	}
	if err := b.connect(ctx); err != nil {
		b.Close()
		return nil, fmt.Errorf("bunker: %w", err)
	}
	return b, nil
}

// parse reads the URL. Its errors do not repeat it, because it holds a secret.
func (b *Bunker) parse(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "bunker" {
		return errors.New("the URL does not begin with bunker://")
	}
	if b.signer, err = nostr.PubKeyFromHex(u.Host); err != nil {
		return fmt.Errorf("public key in the URL: %w", err)
	}
	query := u.Query()
	b.secret = query.Get("secret")
	for _, relay := range query["relay"] {
		clean, err := normalize(relay, b.cfg.Pool.cfg.AllowPlain)
		if err != nil {
			return err
		}
		b.relays = append(b.relays, clean)
	}
	if len(b.relays) == 0 {
		return errors.New("the URL names no relay")
	}
	b.shared, err = nip44.GenerateConversationKey(b.signer, b.cfg.Key)
	return err
}

func (b *Bunker) connect(ctx context.Context) error {
	self := nostr.GetPublicKey(b.cfg.Key)
	sub, cancel := b.cfg.Pool.subscribe("bunker "+self.Hex(), []nostr.Filter{{
		Kinds:   []nostr.Kind{nostr.KindNostrConnect},
		Authors: []nostr.PubKey{b.signer},
		Tags:    nostr.TagMap{"p": {self.Hex()}},
		Since:   nostr.Timestamp(b.cfg.Now().Unix()) - overlap,
	}}, b.relays, b.receive)
	b.cancel = cancel
	if err := b.listening(ctx, sub); err != nil {
		return err
	}
	result, err := b.call(ctx, "connect", b.signer.Hex(), b.secret)
	if err != nil {
		return err
	}
	if result != "ack" && result != b.secret {
		return errors.New("the signer has confirmed another secret")
	}
	_, err = b.GetPublicKey(ctx)
	return err
}

// listening waits until answers would be heard.
func (b *Bunker) listening(ctx context.Context, sub *standing) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	select {
	case <-sub.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%v: %w", b.relays, ErrNoRelay)
	}
}

// Close ends the subscription to the signer's answers.
func (b *Bunker) Close() {
	if b.cancel != nil {
		b.cancel()
	}
}

// receive gives an answer to the one who waits for it.
func (b *Bunker) receive(_ context.Context, _ string, e guild.Verified) {
	plain, err := nip44.Decrypt(e.Event().Content, b.shared)
	if err != nil {
		return
	}
	var a bunkerAnswer
	if json.Unmarshal([]byte(plain), &a) != nil {
		return
	}
	b.mu.Lock()
	answer := b.waiting[a.ID]
	if a.Result != "auth_url" {
		delete(b.waiting, a.ID)
	}
	b.mu.Unlock()
	switch {
	case answer == nil:
	case a.Result == "auth_url":
		b.cfg.AuthURL(printable(a.Error))
	default:
		answer <- a // has space for the one answer
	}
}

// call makes one request and waits for its answer.
func (b *Bunker) call(ctx context.Context, method string, params ...string) (string, error) {
	var sending sync.WaitGroup
	defer sending.Wait()
	ctx, cancel := context.WithTimeoutCause(ctx, b.cfg.Timeout, ErrNoAnswer)
	defer cancel()
	id := rand.Text()
	request, err := b.request(ctx, bunkerRequest{id, method, params})
	if err != nil {
		return "", fmt.Errorf("%s: %w", method, err)
	}
	answer := make(chan bunkerAnswer, 1)
	b.mu.Lock()
	b.waiting[id] = answer
	b.mu.Unlock()
	defer b.unawait(id)
	sent := make(chan error, 1)
	sending.Go(func() {
		_, err := b.cfg.Pool.Publish(ctx, request, b.relays...)
		sent <- err
	})
	a, err := await(ctx, answer, sent)
	if err != nil {
		return "", fmt.Errorf("%s: %w", method, err)
	}
	if a.Error != "" {
		return "", &BunkerError{method, printable(a.Error)}
	}
	return a.Result, nil
}

// await waits for the answer, or for the news that the request could not be sent.
func await(ctx context.Context, answer <-chan bunkerAnswer, sent <-chan error) (bunkerAnswer, error) {
	for {
		select {
		case a := <-answer:
			return a, nil
		case err := <-sent:
			if err != nil {
				return bunkerAnswer{}, err
			}
			sent = nil
		case <-ctx.Done():
			return bunkerAnswer{}, context.Cause(ctx)
		}
	}
}

func (b *Bunker) unawait(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

func (b *Bunker) request(ctx context.Context, r bunkerRequest) (guild.Verified, error) {
	plain, err := json.Marshal(r)
	if err != nil {
		return guild.Verified{}, err
	}
	content, err := nip44.Encrypt(string(plain), b.shared)
	if err != nil {
		return guild.Verified{}, err
	}
	return guild.Sign(ctx, b.self, nostr.Event{
		Kind:      nostr.KindNostrConnect,
		CreatedAt: nostr.Timestamp(b.cfg.Now().Unix()),
		Tags:      nostr.Tags{{"p", b.signer.Hex()}},
		Content:   content,
	})
}

// GetPublicKey returns the key of the user, as whom the signer signs. The signer is asked once.
func (b *Bunker) GetPublicKey(ctx context.Context) (nostr.PubKey, error) {
	b.mu.Lock()
	user := b.user
	b.mu.Unlock()
	if user != nostr.ZeroPK {
		return user, nil
	}
	digits, err := b.call(ctx, "get_public_key")
	if err != nil {
		return nostr.ZeroPK, err
	}
	if user, err = nostr.PubKeyFromHex(digits); err != nil {
		return nostr.ZeroPK, fmt.Errorf("get_public_key: %w", err)
	}
	b.mu.Lock()
	b.user = user
	b.mu.Unlock()
	return user, nil
}

// SignEvent has e signed and checks that it is e that was signed, by the user and validly.
func (b *Bunker) SignEvent(ctx context.Context, e *nostr.Event) error {
	user, err := b.GetPublicKey(ctx)
	if err != nil {
		return err
	}
	want := nostr.Event{PubKey: user, Kind: e.Kind, CreatedAt: e.CreatedAt, Tags: e.Tags, Content: e.Content}
	answer, err := b.call(ctx, "sign_event", want.String())
	if err != nil {
		return err
	}
	signed, err := parseEvent([]byte(answer))
	if err != nil {
		return fmt.Errorf("sign_event: %w", err)
	}
	if signed.PubKey != user || signed.ID != guild.EventID(want) {
		return errors.New("sign_event: the signer has signed something else")
	}
	if _, err := guild.Verify(signed); err != nil {
		return fmt.Errorf("sign_event: %w", err)
	}
	*e = signed
	return nil
}

// Encrypt has a text encrypted to a recipient (NIP-44).
func (b *Bunker) Encrypt(ctx context.Context, plaintext string, recipient nostr.PubKey) (string, error) {
	return b.call(ctx, "nip44_encrypt", recipient.Hex(), plaintext)
}

// Decrypt has a text decrypted that a sender has encrypted to the user (NIP-44).
func (b *Bunker) Decrypt(ctx context.Context, ciphertext string, sender nostr.PubKey) (string, error) {
	return b.call(ctx, "nip44_decrypt", sender.Hex(), ciphertext)
}

// Nip04Encrypt has a text encrypted to a recipient (NIP-04, which guild reads but does not send).
func (b *Bunker) Nip04Encrypt(ctx context.Context, plaintext string, recipient nostr.PubKey) (string, error) {
	return b.call(ctx, "nip04_encrypt", recipient.Hex(), plaintext)
}

// Nip04Decrypt has a text decrypted that a sender has encrypted to the user (NIP-04).
func (b *Bunker) Nip04Decrypt(ctx context.Context, ciphertext string, sender nostr.PubKey) (string, error) {
	return b.call(ctx, "nip04_decrypt", sender.Hex(), ciphertext)
}

// parseEvent reads one event that stands alone, as strictly as parse.
func parseEvent(raw []byte) (nostr.Event, error) {
	p := parser{d: jsontext.NewDecoder(bytes.NewBuffer(raw))}
	e := p.event()
	p.finish()
	return e, p.err
}
