package nwc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
)

// Info asks the wallet about itself and this connection (get_info).
func (w *Wallet) Info(ctx context.Context) (lightning.Info, error) {
	var wire struct {
		Alias   string   `json:"alias"`
		Network string   `json:"network"`
		Methods []string `json:"methods"`
	}
	if err := w.call(ctx, "get_info", struct{}{}, &wire); err != nil {
		return lightning.Info{}, err
	}
	info := lightning.Info{Alias: lightning.Text(wire.Alias), Network: lightning.Text(wire.Network)}
	const most = 100
	for _, method := range wire.Methods[:min(most, len(wire.Methods))] {
		info.Methods = append(info.Methods, lightning.Text(method))
	}
	return info, nil
}

// Check returns an error if the wallet does not allow this connection to do what paying and being paid need.
func (w *Wallet) Check(ctx context.Context) error {
	info, err := w.Info(ctx)
	if err != nil {
		return err
	}
	for _, method := range []string{payInvoice, "make_invoice", "lookup_invoice"} {
		if !slices.Contains(info.Methods, method) {
			return fmt.Errorf("the wallet does not allow this connection to call %s", method)
		}
	}
	return nil
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
	network, err := lightning.ParseNetwork(info.Network)
	if err != nil {
		return "", fmt.Errorf("wallet: %w", err)
	}
	w.mu.Lock()
	w.network = network
	w.mu.Unlock()
	return network, nil
}

// Balance asks what the connection can spend (get_balance).
func (w *Wallet) Balance(ctx context.Context) (guild.Msat, error) {
	var wire struct {
		Balance guild.Msat `json:"balance"`
	}
	const method = "get_balance"
	if err := w.call(ctx, method, struct{}{}, &wire); err != nil {
		return 0, err
	}
	return wire.Balance, wrap(method, lightning.CheckAmount(wire.Balance))
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
	inv, err := lightning.ParseMade(wire.Invoice, amount)
	if err != nil {
		return "", bolt11.Invoice{}, wrap(method, err)
	}
	return wire.Invoice, inv, nil
}

// payParams are the parameters of pay_invoice.
type payParams struct {
	Invoice string `json:"invoice"`
}

const payInvoice = "pay_invoice"

// Prepare makes the request to pay an invoice, which must have an amount. Nothing is sent. The wallet should ignore the request
// after expires.
func (w *Wallet) Prepare(ctx context.Context, invoice string, expires time.Time) (lightning.Order, error) {
	var e guild.Verified
	var content []byte
	_, err := lightning.ParsePayable(invoice)
	if err == nil {
		e, err = w.seal(ctx, payInvoice, payParams{invoice}, expires)
	}
	if err == nil {
		content, err = json.Marshal(e.Event())
	}
	if err != nil {
		return lightning.Order{}, wrap(payInvoice, err)
	}
	return lightning.Order{Content: content, Expires: expires}, nil
}

// Made reports whether a request was made for this connection.
func (w *Wallet) Made(_ context.Context, o lightning.Order) (bool, error) {
	var e nostr.Event
	if json.Unmarshal(o.Content, &e) != nil { // another wallet's order
		return false, nil
	}
	return e.PubKey == w.config.Connection.Secret.PubKey() && e.Kind == nostr.KindNWCWalletRequest, nil
}

// Pay sends a request of Prepare, for the first time or again, and waits for the payment. A wallet that got the request before
// does not pay again, and may not answer.
func (w *Wallet) Pay(ctx context.Context, o lightning.Order) (lightning.Payment, error) {
	p, err := w.pay(ctx, o)
	return p, wrap(payInvoice, err)
}

func (w *Wallet) pay(ctx context.Context, o lightning.Order) (lightning.Payment, error) {
	var e nostr.Event
	if err := json.Unmarshal(o.Content, &e); err != nil {
		return lightning.Payment{}, fmt.Errorf("the order: %w", err)
	}
	prepared, err := guild.Verify(e)
	if err != nil {
		return lightning.Payment{}, fmt.Errorf("the order: %w", err)
	}
	hash, err := w.paymentHash(ctx, e)
	if err != nil {
		return lightning.Payment{}, err
	}
	var wire struct {
		Preimage string     `json:"preimage"`
		Fees     guild.Msat `json:"fees_paid"`
	}
	if err := w.send(ctx, prepared, payInvoice, &wire); err != nil {
		return lightning.Payment{}, err
	}
	preimage, ok := lightning.Opens(wire.Preimage, hash)
	if !ok {
		return lightning.Payment{}, lightning.ErrUnproven
	}
	if lightning.CheckAmount(wire.Fees) != nil {
		wire.Fees = 0
	}
	return lightning.Payment{Preimage: preimage, Fees: wire.Fees}, nil
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

// transaction is a lightning.Transaction as wallets write it.
type transaction struct {
	Type     string     `json:"type"`
	State    string     `json:"state"`
	Invoice  string     `json:"invoice"`
	Hash     string     `json:"payment_hash"`
	Preimage string     `json:"preimage"`
	Amount   guild.Msat `json:"amount"`
	Fees     guild.Msat `json:"fees_paid"`
	Settled  int64      `json:"settled_at"`
	Expires  int64      `json:"expires_at"`
}

// Lookup asks for the transaction with a payment hash (lookup_invoice). The error is a
// *lightning.RefusedError with the code NOT_FOUND if the wallet does not know it.
func (w *Wallet) Lookup(ctx context.Context, hash guild.Hash) (lightning.Transaction, error) {
	_, t, err := w.lookup(ctx, hash)
	return t, err
}

// lookup returns what Lookup does, also as the wallet writes it.
func (w *Wallet) lookup(ctx context.Context, hash guild.Hash) (transaction, lightning.Transaction, error) {
	var wire transaction
	const method = "lookup_invoice"
	if err := w.call(ctx, method, hashParams{hash.Hex()}, &wire); err != nil {
		return transaction{}, lightning.Transaction{}, err
	}
	t, err := wire.read(hash)
	return wire, t, wrap(method, err)
}

// hashParams are the parameters of requests about a payment hash.
type hashParams struct {
	Hash string `json:"payment_hash"`
}

// ends returns when the invoice expires, or zero if the wallet does not say it.
func (t transaction) ends() time.Time {
	if end := lightning.Ends(t.Invoice); !end.IsZero() || t.Expires <= 0 {
		return end
	}
	return time.Unix(t.Expires, 0)
}

// read checks that the transaction is the one with a payment hash.
func (t transaction) read(hash guild.Hash) (lightning.Transaction, error) {
	inv, err := bolt11.Decode(t.Invoice) // which the wallet need not give, and may have from a looser program
	switch {
	case err == nil && inv.PaymentHash != hash:
		return lightning.Transaction{}, errors.New("the answer is about another invoice")
	case t.Hash != hash.Hex():
		return lightning.Transaction{}, errors.New("the answer is about another payment hash")
	case t.Type != "incoming" && t.Type != "outgoing":
		return lightning.Transaction{}, fmt.Errorf("the type %.20q is not known", t.Type)
	}
	for _, m := range []guild.Msat{t.Amount, t.Fees} {
		if err := lightning.CheckAmount(m); err != nil {
			return lightning.Transaction{}, err
		}
	}
	// Wallets say "expired" of what is not settled when its invoice expires, also while its payment is held or under way.
	result := lightning.Transaction{
		Outgoing: t.Type == "outgoing", Amount: t.Amount, Fees: t.Fees,
		Settled: t.State == "settled" || (t.State == "" || t.State == "expired") && t.Settled > 0,
		Failed:  t.State == "failed",
	}
	result.Accepted = t.State == "accepted" && !result.Outgoing
	if preimage, ok := lightning.Opens(t.Preimage, hash); ok {
		result.Preimage = preimage
	}
	return result, nil
}
