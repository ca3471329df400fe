// Package bitcoind is the client of one Bitcoin wallet over JSON-RPC: that of a bitcoind, or a btcwallet in front of a btcd. It makes
// addresses, signs transactions, has them sent, and finds what was paid to an address and the block that proves it.
//
// Prepare and Send are apart, so that a transaction can be kept before anybody sees it, and be sent again after a crash. What the wallet
// signs is read and must be what was asked for. The package stores nothing, decides no payment and repeats none by itself.
//
// btcwallet 0.16 signs for old addresses only (P2PKH), so its other coins are not spent: among them all that it earns, since Address
// makes addresses of segregated witness.
package bitcoind

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/bitcoin"
)

// Wallet is the owner's wallet. It is safe for concurrent use.
type Wallet struct {
	connection Connection
	http       *http.Client
	spending   sync.Mutex // while inputs are chosen and not locked yet
}

// New returns the wallet of a connection. It is reached with the first request.
func New(c Connection) *Wallet {
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute,
	}
	if c.Certificate != nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		transport.TLSClientConfig.RootCAs.AddCert(c.Certificate)
	}
	return &Wallet{connection: c, http: &http.Client{
		Transport: transport, Timeout: time.Minute,
		// Another host would get the password.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Reaches reports whether a connection is to the same wallet, perhaps with another password.
func (w *Wallet) Reaches(c Connection) bool {
	return w.connection.Address == c.Address && w.connection.Wallet == c.Wallet
}

// Close closes connections that no request uses.
func (w *Wallet) Close() { w.http.CloseIdleConnections() }

// Confirmations returns how many a payment to us needs before the work.
func (w *Wallet) Confirmations() int { return w.connection.Confirmations }

// RefusedError is the error that a wallet answers with.
type RefusedError struct {
	Method  string
	Code    int    // of bitcoind
	Message string // by the wallet, cut
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("bitcoind refused %s: %d: %q", e.Method, e.Code, e.Message)
}

// maxAnswer limits an answer, in bytes: the ids of a block's transactions, or a wallet with many outputs.
const maxAnswer = 16 << 20

// call makes a request. After an answer with an error that is a *RefusedError.
func (w *Wallet) call(ctx context.Context, result any, method string, params ...any) error {
	if err := w.exchange(ctx, result, method, params); err != nil {
		if _, refused := errors.AsType[*RefusedError](err); refused {
			return err
		}
		return fmt.Errorf("bitcoind %s: %w", method, err)
	}
	return nil
}

func (w *Wallet) exchange(ctx context.Context, result any, method string, params []any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "1.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	at := url.URL{Scheme: "http", Host: w.connection.Address, Path: "/"}
	if w.connection.Certificate != nil {
		at.Scheme = "https"
	}
	if w.connection.Wallet != "" {
		at = *at.JoinPath("wallet", w.connection.Wallet)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	user, password, err := w.connection.login()
	if err != nil {
		return err
	}
	r.SetBasicAuth(user, password)
	r.Header.Set("Content-Type", "application/json")
	answer, err := w.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(b) > maxAnswer:
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case answer.StatusCode == http.StatusUnauthorized:
		return errors.New("the user or the password is wrong")
	}
	var wire struct {
		Result jsontext.Value `json:"result"`
		Error  *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(b, &wire, json.RejectUnknownMembers(false)); err != nil {
		err = fmt.Errorf("%d %s, which is no answer of bitcoind", answer.StatusCode, http.StatusText(answer.StatusCode))
		if w.connection.Certificate == nil {
			err = fmt.Errorf("%w (a btcwallet needs its certificate: cert=)", err)
		}
		return err
	}
	if wire.Error != nil {
		return &RefusedError{Method: method, Code: wire.Error.Code, Message: guild.Cut(guild.Clean(wire.Error.Message), 500)}
	}
	return json.Unmarshal(wire.Result, result)
}

// Check returns an error unless the wallet answers and its node gives us its network. It moves no money.
func (w *Wallet) Check(ctx context.Context) error {
	_, err := w.Network(ctx)
	if err == nil {
		_, err = w.Balance(ctx)
	}
	return err
}

// Network returns the network of the wallet's node: main, test, signet, regtest or simnet.
func (w *Wallet) Network(ctx context.Context) (string, error) {
	var info struct {
		Chain string `json:"chain"`
	}
	err := w.call(ctx, &info, "getblockchaininfo")
	switch info.Chain {
	case "mainnet": // as btcd calls it
		return "main", err
	case "testnet3", "testnet4", "signet": // their addresses are the same
		return "test", err
	}
	return info.Chain, err
}

// Balance returns what is confirmed and can be spent, in sat.
func (w *Wallet) Balance(ctx context.Context) (int64, error) {
	coins, err := w.coins(ctx)
	sum := int64(0)
	for _, c := range coins {
		sum += c.satoshis
	}
	return sum, err
}

// Address makes a new address, for one payment.
func (w *Wallet) Address(ctx context.Context, label string) (address string, err error) {
	err = w.call(ctx, &address, "getnewaddress", label, "bech32")
	if isRefused(err) { // to btcwallet the label is the name of an account
		err = w.call(ctx, &address, "getnewaddress", "default", "bech32")
	}
	if err != nil {
		return "", err
	}
	network, err := w.Network(ctx)
	if err != nil {
		return "", err
	}
	if _, of, err := bitcoin.Script(address); err != nil || of != network {
		return "", errors.Join(fmt.Errorf("bitcoind made %.100q, which is no address of %s", address, network), err)
	}
	return address, nil
}

// satoshis reads an amount of an answer, which is in BTC.
func satoshis(btc float64) (int64, error) {
	n := math.Round(btc * 1e8)
	if math.IsNaN(n) || n < 0 || n > bitcoin.MaxSatoshis {
		return 0, fmt.Errorf("an amount of %v BTC", btc)
	}
	return int64(n), nil
}
