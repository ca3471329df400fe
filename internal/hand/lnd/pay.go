package lnd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
)

// order is the content of a lightning.Order. lnd pays the payment hash of the invoice once.
type order struct {
	Node    string `json:"node"` // its public key, in hex
	Invoice string `json:"invoice"`
}

func parseOrder(b []byte) (o order, inv bolt11.Invoice, err error) {
	if err = json.Unmarshal(b, &o); err == nil {
		inv, err = lightning.ParsePayable(o.Invoice)
	}
	if err != nil {
		return order{}, bolt11.Invoice{}, fmt.Errorf("the order: %w", err)
	}
	return o, inv, nil
}

// Prepare makes the order to pay an invoice. The invoice is not sent to lnd.
func (w *Wallet) Prepare(ctx context.Context, invoice string, expires time.Time) (lightning.Order, error) {
	if _, err := lightning.ParsePayable(invoice); err != nil {
		return lightning.Order{}, wrap(pathSend, err)
	}
	self, err := w.known(ctx)
	if err != nil {
		return lightning.Order{}, err
	}
	content, err := json.Marshal(order{self.Key, invoice})
	return lightning.Order{Content: content, Expires: expires}, wrap(pathSend, err)
}

// Made reports whether an order was made for this node, over this connection or another.
func (w *Wallet) Made(ctx context.Context, o lightning.Order) (bool, error) {
	mine, _, err := parseOrder(o.Content)
	if err != nil { // another wallet's order
		return false, nil
	}
	self, err := w.known(ctx)
	return err == nil && mine.Node == self.Key, err
}

// Pay has the node pay an invoice, if it has never tried to. Otherwise it returns what became of that. The node tries for at most
// Config.Timeout. An order that has expired is not given to it.
func (w *Wallet) Pay(ctx context.Context, o lightning.Order) (lightning.Payment, error) {
	mine, inv, err := parseOrder(o.Content)
	if err != nil {
		return lightning.Payment{}, wrap(pathSend, err)
	}
	self, err := w.known(ctx)
	if err != nil {
		return lightning.Payment{}, err
	}
	if mine.Node != self.Key {
		return lightning.Payment{}, wrap(pathSend, errors.New("the order is to another node"))
	}
	seen, err := w.track(ctx, inv.PaymentHash)
	if err == nil {
		return seen.payment(inv.PaymentHash)
	}
	if !lightning.IsRefused(err, lightning.NotFound) {
		return lightning.Payment{}, err
	}
	switch {
	case self.owns(inv):
		return lightning.Payment{}, &lightning.RefusedError{Method: pathSend, Code: lightning.Restricted, Message: "the invoice is the node's own"}
	case !o.Expires.IsZero() && w.config.Now().After(o.Expires):
		return lightning.Payment{}, wrap(pathSend, errors.New("the order has expired"))
	}
	sent, err := w.send(ctx, mine.Invoice, inv)
	if lightning.IsRefused(err, existing) { // somebody else ordered it in between
		sent, err = w.track(ctx, inv.PaymentHash)
	}
	if err != nil {
		return lightning.Payment{}, err
	}
	return sent.payment(inv.PaymentHash)
}

// send has the node begin to pay, and waits for the end.
func (w *Wallet) send(ctx context.Context, text string, inv bolt11.Invoice) (payment, error) {
	const answering = 5 * time.Second // after the last try
	ctx, cancel := context.WithTimeoutCause(ctx, w.config.Timeout+answering, lightning.ErrNoAnswer)
	defer cancel()
	params := struct {
		Invoice  string     `json:"payment_request"`
		Timeout  int64      `json:"timeout_seconds"`
		FeeLimit guild.Msat `json:"fee_limit_msat,string"`
		Last     bool       `json:"no_inflight_updates"`
	}{Invoice: text, Timeout: max(1, int64(w.config.Timeout/time.Second)), FeeLimit: feeLimit(inv.Amount), Last: true}
	p, err := w.follow(ctx, http.MethodPost, pathSend, params, inv.PaymentHash)
	return p, wrap(pathSend, err)
}

// feeLimit returns the most that is paid to the nodes on the way, in msat: a hundredth of the amount, but 10 sat at least.
func feeLimit(amount guild.Msat) guild.Msat { return max(amount/100, 10_000) }
