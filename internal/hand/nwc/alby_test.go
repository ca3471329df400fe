package nwc

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
	"guild/internal/hand/lightning/lightningtest"
	"guild/internal/hand/nwc/nwctest"
)

func TestAlbyWallet(t *testing.T) {
	url, bill := startRelay(t), invoice(t, 5000, hash)
	other := invoice(t, 6000, guild.Hash{1})
	lines := nwctest.Start(t, url, them.Reveal(), []nwctest.Invoice{
		{Text: bill, Hash: hash, Preimage: preimage, Amount: 5000}, {Text: other, Hash: guild.Hash{1}, Preimage: preimage, Amount: 6000},
	}, us.PubKey())
	w, err := open(t, url)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if info, err := w.Info(ctx); err != nil || info.Alias != "Alby" || info.Network != "regtest" || len(info.Methods) != 5 {
		t.Error(info, err)
	}
	if balance, err := w.Balance(ctx); err != nil || balance != 21000 {
		t.Error(balance, err)
	}
	if _, inv, err := w.MakeInvoice(ctx, 5000, "work", time.Hour); err != nil || inv.PaymentHash != hash {
		t.Error(inv, err)
	}

	if _, _, err := w.MakeHold(ctx, lightning.Hold{Hash: hash, Amount: 5000, Blocks: 300}); !lightning.IsRefused(err, lightning.NotImplemented) {
		t.Error("this wallet holds nothing:", err)
	}

	prepared, err := w.Prepare(ctx, bill, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := w.Pay(ctx, prepared); err != nil || p.Preimage[0] != 1 || p.Fees != 2 {
		t.Fatal(p, err)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), bill) {
		t.Error("the wallet was not asked:", lines.Text())
	}
	w.config.Timeout = 200 * time.Millisecond
	if p, err := w.Pay(ctx, prepared); !errors.Is(err, lightning.ErrNoAnswer) { // this wallet passes over what it knows
		t.Error(p, err)
	}
	w.config.Timeout = time.Minute
	if found, err := w.Lookup(ctx, hash); err != nil || !found.Outgoing || !found.Settled || found.Amount != 5000 || found.Preimage[0] != 1 {
		t.Error(found, err)
	}
	if prepared, err = w.Prepare(ctx, other, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if p, err := w.Pay(ctx, prepared); !errors.Is(err, lightning.ErrUnproven) {
		t.Error("paid with the preimage of another invoice:", p, err)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), other) {
		t.Error("the first invoice was paid twice:", lines.Text())
	}
	_, err = w.Lookup(ctx, guild.Hash{2})
	if refused, ok := errors.AsType[*lightning.RefusedError](err); !ok || refused.Code != "NOT_FOUND" {
		t.Error(err)
	}
}

// bill makes an invoice that the wallet knows.
func bill(t *testing.T, number byte, amount guild.Msat, fate string) nwctest.Invoice {
	t.Helper()
	preimage := [32]byte{number}
	one := nwctest.Invoice{Hash: sha256.Sum256(preimage[:]), Preimage: hex.EncodeToString(preimage[:]), Amount: amount, Fate: fate}
	one.Text = invoice(t, amount, one.Hash)
	return one
}

func TestAlbyConformance(t *testing.T) {
	url := startRelay(t)
	fails, stuck := bill(t, 1, 7000, "failed"), bill(t, 2, 8000, "pending")
	lines := nwctest.Start(t, url, them.Reveal(), []nwctest.Invoice{
		bill(t, 3, lightningtest.First, ""), bill(t, 4, lightningtest.Second, ""), bill(t, 5, lightningtest.Back, ""), fails, stuck,
	}, us.PubKey(), stranger.PubKey())
	payer, err := open(t, url)
	if err != nil {
		t.Fatal(err)
	}
	c := payer.config
	c.Pool, c.Connection.Secret = newPool(t), stranger
	payee := New(c)
	t.Cleanup(payee.Close)
	said := follow(lines)
	lightningtest.Test(t, lightningtest.Rig{
		Payer: payer, Payee: payee, Network: bolt11.Regtest, Fails: fails.Text, Stuck: stuck.Text, Orders: said.count,
		Fixed: true, Patience: 500 * time.Millisecond, // this wallet passes over what it knows
	})
}

// transcript collects what a program prints.
type transcript struct {
	mu    sync.Mutex
	lines []string
}

func follow(lines *bufio.Scanner) *transcript {
	all := &transcript{}
	go func() {
		for lines.Scan() {
			all.mu.Lock()
			all.lines = append(all.lines, lines.Text())
			all.mu.Unlock()
		}
	}()
	return all
}

// count returns how many lines have a text.
func (a *transcript) count(text string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range a.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
