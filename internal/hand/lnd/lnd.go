// Package lnd is the client of one lnd node over its REST API: it has invoices made, paid and looked up by the owner's node. It
// implements lightning.Wallet.
//
// The connection is TLS to one certificate, if the owner gave it, and each request has the owner's macaroon. Answers are
// bounded in size and time, and checked: a payment is proved by the preimage of the invoice's payment hash, and an answer must
// be about the hash that was asked for.
//
// lnd pays a payment hash once, unless the payment failed: then it would try again. Therefore the package asks for a payment
// before it has it made. It stores nothing, decides no payment and repeats none by itself.
package lnd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
)

// Config says which node to use.
type Config struct {
	Connection Connection
	Now        func() time.Time

	Timeout time.Duration // of one request; a minute if zero, as payments can take long
}

// Wallet is the owner's node. It implements lightning.Wallet.
type Wallet struct {
	config Config
	http   *http.Client

	mu   sync.Mutex
	self *info // nil before it is known
}

// New returns the wallet of a connection. It is reached with the first request.
func New(c Config) *Wallet {
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	trusted := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.Connection.Certificate != nil {
		trusted.RootCAs = x509.NewCertPool()
		trusted.RootCAs.AddCert(c.Connection.Certificate)
	}
	return &Wallet{config: c, http: &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: trusted, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute,
		},
		// Another host would get the macaroon.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes connections that no request uses.
func (w *Wallet) Close() { w.http.CloseIdleConnections() }

// maxAnswer limits an answer, in bytes. A payment of many parts has a long one.
const maxAnswer = 8 << 20

// open makes a request, and returns the answer's body. After an error of the node, what it says is the error.
func (w *Wallet) open(ctx context.Context, method, path string, params any) (io.ReadCloser, error) {
	var body io.Reader
	if params != nil {
		b, err := json.Marshal(params)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://"+w.config.Connection.Address+path, body)
	if err != nil {
		return nil, err
	}
	if w.config.Connection.macaroon != nil {
		r.Header.Set("Grpc-Metadata-macaroon", w.config.Connection.macaroon())
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := w.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("%d %s: %w", answer.StatusCode, http.StatusText(answer.StatusCode), err)
	}
	return nil, parseFailure(b, answer.StatusCode)
}

// call makes a request with one answer, and decodes that.
func (w *Wallet) call(ctx context.Context, method, path string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.config.Timeout, lightning.ErrNoAnswer)
	defer cancel()
	body, err := w.open(ctx, method, path, params)
	if err != nil {
		return wrap(path, err)
	}
	defer body.Close()
	if err := json.UnmarshalRead(io.LimitReader(body, maxAnswer), result); err != nil {
		if ctx.Err() != nil {
			return wrap(path, context.Cause(ctx))
		}
		return wrap(path, malformed(err))
	}
	return nil
}

func malformed(err error) error {
	return fmt.Errorf("the answer is malformed: %.300w", err)
}

// wrap names the request in an error that does not name it.
func wrap(path string, err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*lightning.RefusedError](err); ok {
		refused.Method = cmp.Or(refused.Method, path)
		return refused
	}
	return fmt.Errorf("lnd: %s: %w", path, err)
}

// The requests, by their paths.
const (
	pathInfo     = "/v1/getinfo"
	pathBalance  = "/v1/balance/channels"
	pathInvoices = "/v1/invoices"
	pathInvoice  = "/v1/invoice" // followed by a hash
	pathSend     = "/v2/router/send"
	pathTrack    = "/v2/router/track" // followed by a hash
	pathHold     = "/v2/invoices/hodl"
	pathSettle   = "/v2/invoices/settle"
	pathCancel   = "/v2/invoices/cancel"
)

// Check returns an error unless the macaroon allows us to make, pay and look up invoices. Whether it allows us to make and pay them
// is asked by requests that lnd refuses in any case: an invoice over two amounts, and the payment of no invoice.
func (w *Wallet) Check(ctx context.Context) error {
	if _, err := w.Network(ctx); err != nil {
		return err
	}
	if _, err := w.Balance(ctx); err != nil {
		return err
	}
	if _, err := w.Lookup(ctx, guild.Hash{}); err != nil && !lightning.IsRefused(err, lightning.NotFound) {
		return err
	}
	for _, probe := range []struct {
		path   string
		params any
	}{
		{pathInvoices, map[string]string{"value": "1", "value_msat": "1"}},
		{pathSend, map[string]any{"payment_request": "-", "timeout_seconds": 1}},
	} {
		var ignored jsontext.Value
		err := w.call(ctx, http.MethodPost, probe.path, probe.params, &ignored)
		_, unreached := errors.AsType[*url.Error](err)
		if unreached || errors.Is(err, lightning.ErrNoAnswer) || lightning.IsRefused(err, lightning.Untried...) {
			return err
		}
	}
	return nil
}

// Info asks the node about itself.
func (w *Wallet) Info(ctx context.Context) (lightning.Info, error) {
	self, err := w.info(ctx)
	return lightning.Info{Alias: lightning.Text(self.Alias), Network: self.network()}, err
}

// info asks the node about itself, and notes what never changes.
func (w *Wallet) info(ctx context.Context) (info, error) {
	var self info
	err := w.call(ctx, http.MethodGet, pathInfo, nil, &self)
	if err == nil {
		err = wrap(pathInfo, self.check())
	}
	if err != nil {
		return info{}, err
	}
	w.mu.Lock()
	w.self = &self
	w.mu.Unlock()
	return self, nil
}

// known returns what the node says about itself, which it is asked once.
func (w *Wallet) known(ctx context.Context) (info, error) {
	w.mu.Lock()
	self := w.self
	w.mu.Unlock()
	if self != nil {
		return *self, nil
	}
	return w.info(ctx)
}

// Network returns the network that the node is on.
func (w *Wallet) Network(ctx context.Context) (bolt11.Network, error) {
	self, err := w.known(ctx)
	if err != nil {
		return "", err
	}
	network, err := lightning.ParseNetwork(self.network())
	return network, wrap(pathInfo, err)
}

// Balance returns the node's part of its open channels, in msat. Some of it is a reserve that lnd does not spend.
func (w *Wallet) Balance(ctx context.Context) (guild.Msat, error) {
	var wire balance
	if err := w.call(ctx, http.MethodGet, pathBalance, nil, &wire); err != nil {
		return 0, err
	}
	return wire.Local.Msat, wrap(pathBalance, lightning.CheckAmount(wire.Local.Msat))
}

// MakeInvoice makes an invoice. It tells the payer the node's unannounced channels, as many nodes have no other.
func (w *Wallet) MakeInvoice(ctx context.Context, amount guild.Msat, description string, expiry time.Duration) (string, bolt11.Invoice, error) {
	params := struct {
		Memo    string     `json:"memo"`
		Amount  guild.Msat `json:"value_msat,string"`
		Expiry  int64      `json:"expiry,string,omitzero"` // seconds
		Private bool       `json:"private"`
	}{Memo: description, Amount: amount, Expiry: int64(expiry / time.Second), Private: true}
	var wire struct {
		Invoice string `json:"payment_request"`
	}
	if err := w.call(ctx, http.MethodPost, pathInvoices, params, &wire); err != nil {
		return "", bolt11.Invoice{}, err
	}
	inv, err := lightning.ParseMade(wire.Invoice, amount)
	if err != nil {
		return "", bolt11.Invoice{}, wrap(pathInvoices, err)
	}
	return wire.Invoice, inv, nil
}

// Lookup asks for the payment or the invoice with a hash.
func (w *Wallet) Lookup(ctx context.Context, hash guild.Hash) (lightning.Transaction, error) {
	p, err := w.track(ctx, hash)
	if err == nil {
		return p.transaction(hash), nil
	}
	if !lightning.IsRefused(err, lightning.NotFound) {
		return lightning.Transaction{}, err
	}
	_, t, err := w.invoice(ctx, hash)
	return t, err
}

// invoice asks for the invoice with a hash, and returns its text, too.
func (w *Wallet) invoice(ctx context.Context, hash guild.Hash) (string, lightning.Transaction, error) {
	var wire invoice
	if err := w.call(ctx, http.MethodGet, pathInvoice+"/"+hash.Hex(), nil, &wire); err != nil {
		return "", lightning.Transaction{}, err
	}
	t, err := wire.transaction(hash)
	return wire.Text, t, wrap(pathInvoice, err)
}

// track asks for the state of a payment. lnd begins its answer with the state of now.
func (w *Wallet) track(ctx context.Context, hash guild.Hash) (payment, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.config.Timeout, lightning.ErrNoAnswer)
	defer cancel()
	p, err := w.follow(ctx, http.MethodGet, pathTrack+"/"+base64.URLEncoding.EncodeToString(hash[:]), nil, hash)
	return p, wrap(pathTrack, err)
}

// follow makes a request that is answered by states of a payment, and returns the first.
func (w *Wallet) follow(ctx context.Context, method, path string, params any, hash guild.Hash) (payment, error) {
	body, err := w.open(ctx, method, path, params)
	if err != nil {
		return payment{}, err
	}
	defer body.Close()
	p, err := parseUpdate(io.LimitReader(body, maxAnswer), hash)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p, err
}
