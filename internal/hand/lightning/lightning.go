// Package lightning has what the owner's Lightning wallets have in common: the interface by which the node uses one, and the
// values that it exchanges with it. The packages nwc and lnd implement the interface; lightningtest tests all implementations.
//
// The package owns no fact, opens no connection and decides no payment.
package lightning

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"guild"
	"guild/bolt11"
)

// Wallet is the owner's Lightning wallet. It is safe for concurrent use. Its errors name the request that failed; what the wallet
// itself refused is a *RefusedError.
type Wallet interface {
	// Check returns an error unless the wallet answers and allows us to make, pay and look up invoices. It moves no money.
	Check(ctx context.Context) error
	// Info returns what the wallet says about itself.
	Info(ctx context.Context) (Info, error)
	// Network returns the network that the wallet is on. The wallet is asked once.
	Network(ctx context.Context) (bolt11.Network, error)
	// Balance returns what can be spent, in msat.
	Balance(ctx context.Context) (guild.Msat, error)
	// MakeInvoice makes an invoice over an amount, and returns its text and its content. It is valid for expiry, in whole seconds,
	// or as long as the wallet decides if that is zero.
	MakeInvoice(ctx context.Context, amount guild.Msat, description string, expiry time.Duration) (string, bolt11.Invoice, error)
	// Prepare makes the order to pay an invoice, which must have an amount. Nothing is paid. The wallet does not begin to pay after
	// expires, unless that is zero. Store the order before Pay: after a crash it can be given again.
	Prepare(ctx context.Context, invoice string, expires time.Time) (Order, error)
	// Made reports whether Prepare of this wallet made an order, now or in an earlier process.
	Made(ctx context.Context, o Order) (bool, error)
	// Pay gives an order to the wallet, for the first time or again, and waits for the payment. The wallet does not pay an order
	// twice, also if the first payment failed. After an error the payment may have been made, or be made later, and Lookup says it.
	// Only a *RefusedError with one of the codes Untried means that this call has moved no money and will not.
	Pay(ctx context.Context, o Order) (Payment, error)
	// Lookup returns what the wallet knows of a payment hash. The error is a *RefusedError with the code NotFound if that is nothing.
	Lookup(ctx context.Context, hash guild.Hash) (Transaction, error)
	// MakeHold makes an invoice for a payment hash that somebody else chose, and returns its text and its content. The wallet holds the
	// payment, until Settle or Cancel. Making the same one again returns the first. The error is a *RefusedError with one of the codes
	// Unable if the wallet cannot do that, or does not allow us to.
	MakeHold(ctx context.Context, h Hold) (string, bolt11.Invoice, error)
	// Settle takes the payment that is held for the hash of a preimage. It may be repeated. Lookup says whether it was taken.
	Settle(ctx context.Context, preimage [32]byte) error
	// Cancel gives back the payment that is held for a hash, and lets nobody pay the invoice any more. It may be repeated, and is no
	// error for a hash of which the wallet knows nothing. After an ErrOpen repeat it: the wallet cancels nothing that is not paid.
	Cancel(ctx context.Context, hash guild.Hash) error
	// Close frees the connection. Requests under way may fail.
	Close()
}

// Info describes a wallet, in its own words.
type Info struct {
	Alias   string   // one line, cut
	Network string   // mainnet, testnet, signet or regtest; mainnet if empty
	Methods []string // of NIP-47, that the connection may call; none if the wallet has no such names
}

// Order tells a wallet to pay an invoice. Only the wallet that made it understands its content.
type Order struct {
	Content json.RawMessage
	Expires time.Time // the wallet does not begin to pay afterwards; never expires if zero
}

// lateness bounds the difference between the wallet's clock and ours, and how long a request can be on its way.
const lateness = 2 * time.Minute

// Expired reports whether the wallet will surely not pay an order any more if it has not begun to.
func (o Order) Expired(now time.Time) bool {
	return !o.Expires.IsZero() && now.After(o.Expires.Add(lateness))
}

// Payment is a payment that the wallet made.
type Payment struct {
	Preimage [32]byte   // of the payment hash: the proof
	Fees     guild.Msat // as the wallet says; 0 if it says nothing, or nothing possible
}

// Transaction is an invoice that the wallet made or paid.
type Transaction struct {
	Outgoing bool
	Settled  bool       // as the wallet says; of an outgoing one, Preimage proves it
	Failed   bool       // as the wallet says: it is not paid, and will not be; an invoice that has expired need not have failed
	Accepted bool       // of an incoming one: the payment has arrived whole, and the wallet holds it
	Amount   guild.Msat // without fees
	Fees     guild.Msat
	Preimage [32]byte // of the payment hash; zero if the wallet does not give it
}

// Errors of wallets. After ErrNoAnswer and ErrUnderWay the payment may be made later.
var (
	ErrNoAnswer = errors.New("the wallet has not answered")
	ErrUnderWay = errors.New("the payment is under way")
	ErrUnproven = errors.New("the wallet gives no preimage of the invoice's payment hash")
)

// NotFound is the code of a wallet that knows nothing of a payment hash.
const NotFound = "NOT_FOUND"

// Other codes of NIP-47 that wallets refuse with.
const (
	PaymentFailed       = "PAYMENT_FAILED"
	InsufficientBalance = "INSUFFICIENT_BALANCE"
	Restricted          = "RESTRICTED"
	Unauthorized        = "UNAUTHORIZED"
	NotImplemented      = "NOT_IMPLEMENTED"
)

// Untried are the codes of a wallet that has not tried to pay.
var Untried = []string{InsufficientBalance, "QUOTA_EXCEEDED", Restricted, Unauthorized, NotImplemented}

// RefusedError is the error that a wallet answers with.
type RefusedError struct {
	Method  string // what was asked for, as the wallet's protocol names it
	Code    string // of NIP-47, such as NOT_FOUND
	Message string // by the wallet, cut
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the wallet refused %s: %s: %s", e.Method, strconv.Quote(e.Code), strconv.Quote(e.Message))
}

// Unable are the codes of a wallet that cannot do something, or does not allow us to.
var Unable = []string{NotImplemented, Restricted, Unauthorized}

// IsRefused reports whether a wallet refused with one of some codes.
func IsRefused(err error, codes ...string) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	return ok && slices.Contains(codes, refused.Code)
}

// networks are the networks by the names that wallets use.
var networks = map[string]bolt11.Network{
	"": bolt11.Mainnet, "mainnet": bolt11.Mainnet, "testnet": bolt11.Testnet, "signet": bolt11.Signet, "regtest": bolt11.Regtest,
}

// ParseNetwork returns the network of a name that a wallet gives: the main one if it gives none.
func ParseNetwork(name string) (bolt11.Network, error) {
	network, ok := networks[name]
	if !ok {
		return "", fmt.Errorf("the network %.20q is not known", name)
	}
	return network, nil
}

// CheckAmount refuses what no wallet has: less than nothing, and more than all bitcoin.
func CheckAmount(m guild.Msat) error {
	const all = 21_000_000 * 100_000_000 * 1000
	if m < 0 || m > all {
		return fmt.Errorf("an amount of %d msat", m)
	}
	return nil
}

// Text returns a text of a wallet as it may be shown: one line of at most 100 bytes.
func Text(s string) string { return guild.Cut(guild.Clean(s), 100) }

// Opens reports whether a text in hex is the preimage of a payment hash, and returns the preimage.
func Opens(preimage string, hash guild.Hash) (p [32]byte, ok bool) {
	b, err := hex.DecodeString(preimage)
	if err != nil || len(b) != len(p) || guild.Hash(sha256.Sum256(b)) != hash {
		return p, false
	}
	return [32]byte(b), true
}

// ParsePayable decodes an invoice that is to be paid. It must have an amount.
func ParsePayable(invoice string) (bolt11.Invoice, error) {
	inv, err := bolt11.Decode(invoice)
	if err == nil && inv.Amount == 0 {
		err = errors.New("the invoice leaves the amount to the payer")
	}
	return inv, err
}

// ParseMade decodes an invoice that a wallet made, which must be over the amount that was asked for.
func ParseMade(invoice string, amount guild.Msat) (bolt11.Invoice, error) {
	inv, err := bolt11.Decode(invoice)
	if err == nil && inv.Amount != amount {
		err = fmt.Errorf("the invoice is for %s instead of %s", inv.Amount, amount)
	}
	if err != nil {
		return bolt11.Invoice{}, err
	}
	return inv, nil
}
