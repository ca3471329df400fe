package nwc

import (
	"errors"
	"strings"
	"testing"
	"time"

	"guild"
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
	if p, err := w.Pay(ctx, prepared); !errors.Is(err, ErrNoAnswer) { // this wallet passes over what it knows
		t.Error(p, err)
	}
	w.config.Timeout = time.Minute
	if found, err := w.Lookup(ctx, hash); err != nil || !found.Outgoing || !found.Settled || found.Amount != 5000 || found.Preimage[0] != 1 {
		t.Error(found, err)
	}
	if prepared, err = w.Prepare(ctx, other, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if p, err := w.Pay(ctx, prepared); !errors.Is(err, ErrUnproven) {
		t.Error("paid with the preimage of another invoice:", p, err)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), other) {
		t.Error("the first invoice was paid twice:", lines.Text())
	}
	_, err = w.Lookup(ctx, guild.Hash{2})
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Code != "NOT_FOUND" {
		t.Error(err)
	}
}
