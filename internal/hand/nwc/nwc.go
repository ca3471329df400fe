// Package nwc is the client of a Lightning wallet behind Nostr Wallet Connect (NIP-47): it has invoices made, paid and looked up
// by the owner's wallet, over relays. It implements lightning.Wallet.
//
// It owns the conversation with one wallet: which requests wait for an answer. An answer counts if the wallet's key signed it
// and it names the request. What can be checked of it is: a payment is proved by the preimage of the invoice's payment hash, and
// an invoice must be for the amount that was asked for. Messages are encrypted by NIP-44 only.
//
// The package opens no connection (a [relay.Pool] does), stores nothing, decides no payment and repeats none by itself.
package nwc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/key"
	"guild/internal/hand/lightning"
	"guild/internal/hand/relay"
)

// Connection lets a client use the owner's wallet, within the limits that it set. Whoever has the secret can do so.
type Connection struct {
	Wallet nostr.PubKey
	Relays []string   // where the wallet listens
	Secret key.Secret // of the client
}

// Limits of a connection string.
const (
	maxConnection = 2000 // bytes
	maxRelays     = 5
)

// Parse parses a connection string, nostr+walletconnect://<public key, hex>?relay=wss://...&secret=<hex>. Its errors do not
// repeat it.
func Parse(text string) (c Connection, err error) {
	if len(text) > maxConnection {
		return Connection{}, fmt.Errorf("wallet connection: %d bytes; at most %d are read", len(text), maxConnection)
	}
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "nostr+walletconnect" {
		return Connection{}, errors.New("wallet connection: it does not begin with nostr+walletconnect://")
	}
	if c.Wallet, err = nostr.PubKeyFromHex(cmp.Or(u.Host, u.Opaque)); err != nil {
		return Connection{}, errors.New("wallet connection: the part before the question mark is not a public key")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.User != nil || len(query["secret"]) != 1 {
		return Connection{}, errors.New("wallet connection: it has not one secret")
	}
	secret := query.Get("secret")
	if c.Secret, err = key.ParseSecret(secret); err != nil || len(secret) != 64 {
		return Connection{}, errors.New("wallet connection: the secret is not a key in hex")
	}
	if n := len(query["relay"]); n == 0 || n > maxRelays {
		return Connection{}, fmt.Errorf("wallet connection: %d relays; want 1 to %d", n, maxRelays)
	}
	for _, raw := range query["relay"] {
		normal, err := relay.Normalize(raw)
		if err != nil {
			return Connection{}, fmt.Errorf("wallet connection: relay: %w", err)
		}
		if !slices.Contains(c.Relays, normal) {
			c.Relays = append(c.Relays, normal)
		}
	}
	return c, nil
}

// Config says which wallet to use.
type Config struct {
	Pool       *relay.Pool // carries the requests; it must be running
	Connection Connection
	Now        func() time.Time // stamps the requests

	Timeout time.Duration // of one request; a minute if zero, as payments can take long
}

// ErrEncryption is the error of a wallet that offers only the old encryption.
var ErrEncryption = errors.New("the wallet offers only the old encryption (NIP-04), which is not used for payments")

// Wallet is the owner's wallet. It implements lightning.Wallet.
type Wallet struct {
	config Config
	self   *key.Signer

	name    string        // of the subscription
	opening chan struct{} // has room for who opens or closes
	close   func()        // ends the subscription to the answers; nil before the first request

	mu      sync.Mutex
	waiting map[nostr.ID]chan<- answer
	network bolt11.Network // "" before it is known
}

// opened counts the wallets, each of which has a subscription of its own.
var opened atomic.Int64

// New returns the wallet of a connection. It is reached with the first request.
func New(c Config) *Wallet {
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	return &Wallet{
		config: c, self: key.NewSigner(c.Connection.Secret), name: fmt.Sprint("wallet ", opened.Add(1)), opening: make(chan struct{}, 1),
		waiting: map[nostr.ID]chan<- answer{},
	}
}

// open reads what the wallet supports and subscribes to its answers, once. The error is ErrEncryption if it does not support NIP-44.
func (w *Wallet) open(ctx context.Context) error {
	select {
	case w.opening <- struct{}{}:
		defer func() { <-w.opening }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if w.close != nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.config.Timeout, lightning.ErrNoAnswer)
	defer cancel()
	if err := w.checkSupport(ctx); err != nil {
		return err
	}
	self := w.config.Connection.Secret.PubKey().Hex()
	var err error
	w.close, err = w.config.Pool.Listen(ctx, w.name, []nostr.Filter{{
		Kinds:   []nostr.Kind{nostr.KindNWCWalletResponse},
		Authors: []nostr.PubKey{w.config.Connection.Wallet},
		Tags:    nostr.TagMap{"p": {self}},
		Since:   nostr.Timestamp(w.config.Now().Add(-lateness).Unix()),
	}}, w.receive, w.config.Connection.Relays...)
	return err
}

// lateness bounds the difference between the wallet's clock and ours.
const lateness = 2 * time.Minute

// checkSupport reads the wallet's info event (kind 13194).
func (w *Wallet) checkSupport(ctx context.Context) error {
	events, err := w.config.Pool.Query(ctx, []nostr.Filter{{
		Kinds: []nostr.Kind{nostr.KindNWCWalletInfo}, Authors: []nostr.PubKey{w.config.Connection.Wallet}, Limit: 1,
	}}, w.config.Connection.Relays...)
	if len(events) == 0 {
		if err != nil {
			return err
		}
		return errors.New("it has published nothing about itself (kind 13194) at the relays of the connection")
	}
	for tag := range events[0].Event().Tags.FindAll("encryption") {
		if slices.Contains(strings.FieldsFunc(strings.Join(tag[1:], " "), isSeparator), "nip44_v2") {
			return nil
		}
	}
	return ErrEncryption
}

// isSeparator also takes commas, which some wallets use between the names.
func isSeparator(r rune) bool { return r == ' ' || r == ',' }

// Close ends the subscription to the wallet's answers. Requests under way time out.
func (w *Wallet) Close() {
	w.opening <- struct{}{}
	defer func() { <-w.opening }()
	if w.close != nil {
		w.close()
		w.close = nil
	}
}

// receive passes an answer to the request that it names. Unreadable and unexpected answers are dropped.
func (w *Wallet) receive(ctx context.Context, _ string, e guild.Verified) {
	tag := e.Event().Tags.Find("e")
	if len(tag) < 2 {
		return
	}
	id, err := nostr.IDFromHex(tag[1])
	if err != nil {
		return
	}
	w.mu.Lock()
	waits := w.waiting[id] != nil
	w.mu.Unlock()
	if !waits {
		return
	}
	plain, err := w.self.Decrypt(ctx, e.Event().Content, w.config.Connection.Wallet)
	if err != nil {
		return
	}
	a, err := parseAnswer([]byte(plain))
	if err != nil {
		return
	}
	w.mu.Lock()
	answers := w.waiting[id]
	delete(w.waiting, id)
	w.mu.Unlock()
	if answers != nil {
		answers <- a // has room: an answer is passed on once
	}
}
