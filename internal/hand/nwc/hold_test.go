package nwc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/key"
	"guild/internal/hand/lightning"
	"guild/internal/hand/lightning/lightningtest"
	"guild/internal/hand/nwc/nwctest"
)

// ledger stands for a wallet with an account for each client, which can hold payments between them, as far as NIP-47 speaks of them.
type ledger struct {
	t       *testing.T
	methods []string
	mu      sync.Mutex
	all     map[guild.Hash]*billed
	ahead   time.Duration     // of its clock
	seen    map[nostr.ID]bool // requests, of which none is carried out twice
}

// billed is an invoice and its payment.
type billed struct {
	by, from nostr.PubKey
	text     string
	amount   guild.Msat
	state    string
	preimage string
}

// params are those of all requests.
type params struct {
	Hash        string     `json:"payment_hash"`
	Preimage    string     `json:"preimage"`
	Invoice     string     `json:"invoice"`
	Amount      guild.Msat `json:"amount"`
	Description string     `json:"description"`
	Expiry      int64      `json:"expiry"`
	Blocks      uint64     `json:"min_cltv_expiry_delta"`
}

// answer returns the answer to a request of a client: nil while a payment is held.
func (l *ledger) answer(client nostr.PubKey, id nostr.ID, r request) (object, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[id] {
		return nil, ""
	}
	l.seen[id] = true
	var p params
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return nil, "OTHER"
	}
	hash, _ := guild.ParseHash(p.Hash)
	switch r.Method {
	case "get_info":
		return object{"alias": "ledger", "network": "regtest", "methods": l.methods}, ""
	case makeHold:
		if l.all[hash] != nil {
			return nil, "OTHER"
		}
		one := &billed{by: client, amount: p.Amount, state: "pending"}
		one.text = nwctest.Sign(l.t, bolt11.Invoice{
			Network: bolt11.Regtest, Amount: p.Amount, Created: time.Now().Truncate(time.Second).UTC(), PaymentHash: hash, Description: p.Description,
			Expiry: time.Duration(p.Expiry) * time.Second, MinFinalCLTV: p.Blocks,
		})
		l.all[hash] = one
		return l.shown(one, client, hash), ""
	case payInvoice:
		inv, err := bolt11.Decode(p.Invoice)
		one := l.all[inv.PaymentHash]
		if err != nil || one == nil {
			return nil, "PAYMENT_FAILED"
		}
		one.from = client
		if one.state != "pending" {
			return nil, "PAYMENT_FAILED"
		}
		one.state = "accepted"
		return nil, ""
	case settleHold:
		raw, _ := hex.DecodeString(p.Preimage)
		one := l.all[sha256.Sum256(raw)]
		if one == nil || one.by != client || one.state != "accepted" {
			return nil, "NOT_FOUND"
		}
		one.state, one.preimage = "settled", p.Preimage
		return object{}, ""
	case cancelHold:
		one := l.all[hash]
		if one == nil || one.by != client || one.state != "accepted" { // as Alby Hub, which looks among what it holds
			return nil, "NOT_FOUND"
		}
		one.state = "failed"
		return object{}, ""
	case "lookup_invoice":
		if one := l.all[hash]; one != nil && (one.by == client || one.from == client) {
			return l.shown(one, client, hash), ""
		}
		return nil, "NOT_FOUND"
	}
	return nil, "NOT_IMPLEMENTED"
}

// shown returns a transaction as a client sees it. As with Alby Hub, whatever is not settled when the invoice expires is "expired".
func (l *ledger) shown(b *billed, client nostr.PubKey, hash guild.Hash) object {
	state, of := b.state, "incoming"
	if client == b.from {
		of = "outgoing"
		if state == "accepted" {
			state = "pending"
		}
	}
	if ends := lightning.Ends(b.text); state != "settled" && time.Now().Add(l.ahead).After(ends) {
		state = "expired"
	}
	return object{"type": of, "state": state, "invoice": b.text, "payment_hash": hash.Hex(), "amount": b.amount, "preimage": b.preimage, "created_at": 1}
}

// open connects a client to the ledger at a relay.
func (l *ledger) open(t *testing.T, url string, client key.Secret) *Wallet {
	t.Helper()
	w := New(Config{Pool: newPool(t), Connection: Connection{Wallet: them.PubKey(), Relays: []string{url}, Secret: client}, Now: time.Now})
	t.Cleanup(w.Close)
	return w
}

// startLedger runs a ledger that allows some methods, and returns its relay.
func startLedger(t *testing.T, methods ...string) (*ledger, string) {
	l := &ledger{t: t, methods: methods, all: map[guild.Hash]*billed{}, seen: map[nostr.ID]bool{}}
	s := start(t, "nip44_v2", func(ctx context.Context, s *service, id nostr.ID, r request) {
		var client nostr.PubKey
		select {
		case e := <-s.seen:
			client = e.PubKey
		case <-ctx.Done():
			return
		}
		result, code := l.answer(client, id, r)
		content := object{"result_type": r.Method, "error": nil, "result": result}
		switch {
		case code != "":
			content = object{"result_type": r.Method, "error": object{"code": code, "message": fmt.Sprint("no: ", code)}, "result": nil}
		case result == nil:
			return
		}
		s.answerTo(ctx, client, id, content)
	})
	return l, s.url
}

func TestHold(t *testing.T) {
	l, url := startLedger(t, "get_info", payInvoice, "lookup_invoice", makeHold, settleHold, cancelHold)
	lightningtest.TestHold(t, lightningtest.Rig{
		Payer: l.open(t, url, us), Payee: l.open(t, url, stranger), Network: bolt11.Regtest, Fixed: true, Patience: 300 * time.Millisecond,
	})
}

// TestUnable checks that nothing is made that could not be settled or canceled.
func TestUnable(t *testing.T) {
	l, url := startLedger(t, "get_info", payInvoice, "lookup_invoice", makeHold, settleHold)
	w := l.open(t, url, us)
	if text, _, err := w.MakeHold(t.Context(), lightning.Hold{Amount: 5000, Blocks: 300}); !lightning.IsRefused(err, lightning.NotImplemented) {
		t.Error(text, err)
	}
	if len(l.all) > 0 {
		t.Error("it made an invoice")
	}
}

// TestBeyondTheInvoice checks what is done with a payment that is held for longer than its invoice is valid.
func TestBeyondTheInvoice(t *testing.T) {
	l, url := startLedger(t, "get_info", payInvoice, "lookup_invoice", makeHold, settleHold, cancelHold)
	payer, payee := l.open(t, url, us), l.open(t, url, stranger)
	payer.config.Timeout = 300 * time.Millisecond
	begin := func(first byte) (preimage [32]byte) {
		preimage[0] = first
		text, _, err := payee.MakeHold(t.Context(), lightning.Hold{Hash: sha256.Sum256(preimage[:]), Amount: 5000, Expiry: time.Hour, Blocks: 300})
		if err != nil {
			t.Fatal(err)
		}
		o, err := payer.Prepare(t.Context(), text, time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := payer.Pay(t.Context(), o); err == nil {
			t.Fatal("it was paid:", p)
		}
		return preimage
	}
	taken, back := begin(1), begin(2)
	l.ages(2 * time.Hour)
	for _, w := range []*Wallet{payer, payee} {
		if seen, err := w.Lookup(t.Context(), sha256.Sum256(taken[:])); err != nil || seen.Failed || seen.Settled || seen.Accepted {
			t.Errorf("while it is held: %+v, %v", seen, err)
		}
	}
	for range 2 {
		if err := payee.Settle(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
	}
	if seen, err := payer.Lookup(t.Context(), sha256.Sum256(taken[:])); err != nil || !seen.Settled || seen.Preimage != taken {
		t.Errorf("%+v, %v", seen, err)
	}
	payee.config.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	for range 2 {
		if err := payee.Cancel(t.Context(), sha256.Sum256(back[:])); err != nil {
			t.Fatal(err)
		}
	}
	if err := payee.Settle(t.Context(), back); err == nil {
		t.Error("what was given back can be taken")
	}
}

// ages sets the ledger's clock forward.
func (l *ledger) ages(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead += by
}

// TestCancelOpen checks that an invoice which the wallet does not cancel counts as cancelled when it has expired, and not before.
func TestCancelOpen(t *testing.T) {
	l, url := startLedger(t, "get_info", payInvoice, "lookup_invoice", makeHold, settleHold, cancelHold)
	w := l.open(t, url, us)
	text, _, err := w.MakeHold(t.Context(), lightning.Hold{Hash: hash, Amount: 5000, Expiry: time.Hour, Blocks: 300})
	if err != nil {
		t.Fatal(err)
	}
	for after, open := range map[time.Duration]bool{-time.Hour: true, 0: true, 50 * time.Second: true, 70 * time.Second: false} {
		w.config.Now = func() time.Time { return lightning.Ends(text).Add(after) }
		if err := w.Cancel(t.Context(), hash); errors.Is(err, lightning.ErrOpen) != open || (err == nil) == open {
			t.Error(after, err)
		}
	}
}
