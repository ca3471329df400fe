package nwc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/bolt11"
)

// Info describes a wallet, in its own words.
type Info struct {
	Alias   string // one line, cut
	Network string // mainnet, testnet, signet or regtest
	Methods []string
}

// Info asks the wallet about itself and this connection (get_info).
func (w *Wallet) Info(ctx context.Context) (Info, error) {
	var wire struct {
		Alias   string   `json:"alias"`
		Network string   `json:"network"`
		Methods []string `json:"methods"`
	}
	if err := w.call(ctx, "get_info", struct{}{}, &wire); err != nil {
		return Info{}, err
	}
	info := Info{Alias: text(wire.Alias), Network: text(wire.Network)}
	const most = 100
	for _, method := range wire.Methods[:min(most, len(wire.Methods))] {
		info.Methods = append(info.Methods, text(method))
	}
	return info, nil
}

// Network returns the network that the wallet is on: what it says, or the main one if it says nothing. It is asked once.
func (w *Wallet) Network(ctx context.Context) (bolt11.Network, error) {
	w.mu.Lock()
	known := w.network
	w.mu.Unlock()
	if known != "" {
		return known, nil
	}
	info, err := w.Info(ctx)
	if err != nil {
		return "", err
	}
	network, ok := networks[info.Network]
	if !ok {
		return "", fmt.Errorf("wallet: the network %.20q is not known", info.Network)
	}
	w.mu.Lock()
	w.network = network
	w.mu.Unlock()
	return network, nil
}

// networks are those of NIP-47 by their names.
var networks = map[string]bolt11.Network{
	"": bolt11.Mainnet, "mainnet": bolt11.Mainnet, "testnet": bolt11.Testnet, "signet": bolt11.Signet, "regtest": bolt11.Regtest,
}

// text returns a text of the wallet as it may be shown.
func text(s string) string { return guild.Cut(guild.Clean(s), 100) }

// Balance asks what the connection can spend (get_balance).
func (w *Wallet) Balance(ctx context.Context) (guild.Msat, error) {
	var wire struct {
		Balance guild.Msat `json:"balance"`
	}
	const method = "get_balance"
	if err := w.call(ctx, method, struct{}{}, &wire); err != nil {
		return 0, err
	}
	return wire.Balance, wrap(method, checkAmount(wire.Balance))
}

// checkAmount refuses what no wallet has: less than nothing, and more than all bitcoin.
func checkAmount(m guild.Msat) error {
	const all = 21_000_000 * 100_000_000 * 1000
	if m < 0 || m > all {
		return fmt.Errorf("an amount of %d msat", m)
	}
	return nil
}

// MakeInvoice has the wallet make an invoice for an amount, valid for some time if that is not zero (make_invoice).
func (w *Wallet) MakeInvoice(ctx context.Context, amount guild.Msat, description string, expiry time.Duration) (string, bolt11.Invoice, error) {
	params := struct {
		Amount      guild.Msat `json:"amount"`
		Description string     `json:"description,omitempty"`
		Expiry      int64      `json:"expiry,omitzero"`
	}{amount, description, int64(expiry / time.Second)}
	var wire transaction
	const method = "make_invoice"
	if err := w.call(ctx, method, params, &wire); err != nil {
		return "", bolt11.Invoice{}, err
	}
	inv, err := bolt11.Decode(wire.Invoice)
	if err != nil {
		return "", bolt11.Invoice{}, wrap(method, err)
	}
	if inv.Amount != amount {
		return "", bolt11.Invoice{}, wrap(method, fmt.Errorf("the invoice is for %s instead of %s", inv.Amount, amount))
	}
	return wire.Invoice, inv, nil
}

// Payment is a payment that the wallet made.
type Payment struct {
	Preimage [32]byte   // of the payment hash: the proof
	Fees     guild.Msat // as the wallet says; 0 if it says nothing, or nothing possible
}

// payParams are the parameters of pay_invoice.
type payParams struct {
	Invoice string `json:"invoice"`
}

const payInvoice = "pay_invoice"

// Prepare makes the request to pay an invoice, which must have an amount. Nothing is sent. The wallet should ignore the request
// after expires. Store it before Pay: after a crash, the same request can be sent again.
func (w *Wallet) Prepare(ctx context.Context, invoice string, expires time.Time) (guild.Verified, error) {
	inv, err := bolt11.Decode(invoice)
	if err == nil && inv.Amount == 0 {
		err = errors.New("the invoice leaves the amount to the payer")
	}
	var e guild.Verified
	if err == nil {
		e, err = w.seal(ctx, payInvoice, payParams{invoice}, expires)
	}
	return e, wrap(payInvoice, err)
}

// Expired reports whether a request of Prepare is surely not done any more if it was not done before.
func Expired(prepared guild.Verified, now time.Time) bool {
	tag := prepared.Event().Tags.Find("expiration")
	if len(tag) < 2 {
		return false
	}
	at, err := strconv.ParseInt(tag[1], 10, 64)
	return err == nil && now.After(time.Unix(at, 0).Add(lateness))
}

// Pay sends a request of Prepare, for the first time or again, and waits for the payment. A wallet that got the request before
// does not pay again, and may not answer. After an error the payment may have been made, or be made until the request expires,
// and Lookup says it. Only a *RefusedError whose code says that nothing was tried, such as INSUFFICIENT_BALANCE or
// QUOTA_EXCEEDED, means that it was not.
func (w *Wallet) Pay(ctx context.Context, prepared guild.Verified) (Payment, error) {
	hash, err := w.paymentHash(ctx, prepared.Event())
	if err != nil {
		return Payment{}, wrap(payInvoice, err)
	}
	var wire struct {
		Preimage string     `json:"preimage"`
		Fees     guild.Msat `json:"fees_paid"`
	}
	if err := w.send(ctx, prepared, payInvoice, &wire); err != nil {
		return Payment{}, wrap(payInvoice, err)
	}
	preimage, ok := opens(wire.Preimage, hash)
	if !ok {
		return Payment{}, wrap(payInvoice, ErrUnproven)
	}
	if checkAmount(wire.Fees) != nil {
		wire.Fees = 0
	}
	return Payment{preimage, wire.Fees}, nil
}

// paymentHash reads our own request: two keys have the same NIP-44 secret on both sides.
func (w *Wallet) paymentHash(ctx context.Context, e nostr.Event) (guild.Hash, error) {
	if e.PubKey != w.config.Connection.Secret.PubKey() || e.Kind != nostr.KindNWCWalletRequest {
		return guild.Hash{}, errors.New("not a request of this connection")
	}
	plain, err := w.self.Decrypt(ctx, e.Content, w.config.Connection.Wallet)
	if err != nil {
		return guild.Hash{}, err
	}
	var r request
	var p payParams
	if err := json.Unmarshal([]byte(plain), &r); err != nil {
		return guild.Hash{}, err
	}
	if err := json.Unmarshal(r.Params, &p); err != nil || r.Method != payInvoice {
		return guild.Hash{}, errors.New("not a request to pay")
	}
	inv, err := bolt11.Decode(p.Invoice)
	return inv.PaymentHash, err
}

// opens reports whether a text is the preimage of a payment hash.
func opens(preimage string, hash guild.Hash) (p [32]byte, ok bool) {
	b, err := hex.DecodeString(preimage)
	if err != nil || len(b) != len(p) || guild.Hash(sha256.Sum256(b)) != hash {
		return p, false
	}
	return [32]byte(b), true
}

// Transaction is an invoice that the wallet made or paid.
type Transaction struct {
	Outgoing bool
	Settled  bool       // as the wallet says; of an outgoing one, Preimage proves it
	Failed   bool       // as the wallet says: it is not paid, and will not be
	Amount   guild.Msat // without fees
	Fees     guild.Msat
	Preimage [32]byte // of the payment hash; zero if the wallet does not give it
}

// transaction is a Transaction as wallets write it.
type transaction struct {
	Type     string     `json:"type"`
	State    string     `json:"state"`
	Invoice  string     `json:"invoice"`
	Hash     string     `json:"payment_hash"`
	Preimage string     `json:"preimage"`
	Amount   guild.Msat `json:"amount"`
	Fees     guild.Msat `json:"fees_paid"`
	Settled  int64      `json:"settled_at"`
}

// Lookup asks for the transaction with a payment hash (lookup_invoice). The error is a *RefusedError with the code NOT_FOUND if
// the wallet does not know it.
func (w *Wallet) Lookup(ctx context.Context, hash guild.Hash) (Transaction, error) {
	params := struct {
		Hash string `json:"payment_hash"`
	}{hash.Hex()}
	var wire transaction
	const method = "lookup_invoice"
	if err := w.call(ctx, method, params, &wire); err != nil {
		return Transaction{}, err
	}
	t, err := wire.read(hash)
	return t, wrap(method, err)
}

// read checks that the transaction is the one with a payment hash.
func (t transaction) read(hash guild.Hash) (Transaction, error) {
	inv, err := bolt11.Decode(t.Invoice) // which the wallet need not give, and may have from a looser program
	switch {
	case err == nil && inv.PaymentHash != hash:
		return Transaction{}, errors.New("the answer is about another invoice")
	case t.Hash != hash.Hex():
		return Transaction{}, errors.New("the answer is about another payment hash")
	case t.Type != "incoming" && t.Type != "outgoing":
		return Transaction{}, fmt.Errorf("the type %.20q is not known", t.Type)
	}
	for _, m := range []guild.Msat{t.Amount, t.Fees} {
		if err := checkAmount(m); err != nil {
			return Transaction{}, err
		}
	}
	result := Transaction{
		Outgoing: t.Type == "outgoing", Amount: t.Amount, Fees: t.Fees,
		Settled: t.State == "settled" || t.State == "" && t.Settled > 0,
		Failed:  slices.Contains([]string{"failed", "expired"}, t.State),
	}
	if preimage, ok := opens(t.Preimage, hash); ok {
		result.Preimage = preimage
	}
	return result, nil
}
