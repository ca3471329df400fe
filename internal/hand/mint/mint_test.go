package mint

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"guild"
	"guild/cashu"
)

func TestMintAndSwap(t *testing.T) {
	h := newHonest()
	m, ctx := h.serve(t), context.Background()
	k, err := m.Active(ctx, "sat")
	if err != nil {
		t.Fatal(err)
	}

	owner := cashu.RandomScalar()
	q, err := m.Quote(ctx, 12, "sat", owner.PubKey())
	if err != nil || q.State != Unpaid {
		t.Fatal(q, err)
	}
	coins := []coin{newCoin(k, "a", 4), newCoin(k, "b", 8)}
	outputs := []cashu.Output{coins[0].Output, coins[1].Output}
	if _, err = m.Issue(ctx, q, outputs, ""); !errors.Is(err, ErrUnpaid) {
		t.Fatal(err)
	}
	h.quotes[q.ID].State = Paid
	if q, err = m.QuoteState(ctx, q); err != nil || q.State != Paid {
		t.Fatal(q, err)
	}
	if known, err := m.QuoteState(ctx, Quote{ID: q.ID, Amount: q.Amount, Unit: q.Unit, Key: q.Key}); err != nil || known != q {
		t.Error(known, err) // without its invoice
	}
	var w cashu.Witness
	if err := w.Sign(owner, cashu.QuoteMessage(q.ID, outputs)); err != nil {
		t.Fatal(err)
	}
	if _, err = m.Issue(ctx, q, outputs, ""); err == nil || !strings.Contains(err.Error(), "code 20008") {
		t.Fatal(err)
	}
	signatures, err := m.Issue(ctx, q, outputs, w.Signatures[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err = m.Issue(ctx, q, outputs, w.Signatures[0]); !errors.Is(err, ErrIssued) {
		t.Fatal(err)
	}

	inputs := []cashu.Proof{coins[0].proof(t, k, signatures[0]), coins[1].proof(t, k, signatures[1])}
	inputs[0].Witness = `{"signatures":[]}`
	next := []cashu.Output{newCoin(k, "c", 1).Output, newCoin(k, "d", 2).Output, newCoin(k, "e", 8).Output}
	signatures, err = m.Swap(ctx, inputs, next)
	if err != nil || len(signatures) != 3 {
		t.Fatal(signatures, err)
	}
	if last := h.bodies[len(h.bodies)-1]; strings.Contains(last, "dleq") || inputs[0].DLEQ == nil {
		t.Errorf("the mint got %s", last)
	}
	if _, err = m.Swap(ctx, inputs, next); !errors.Is(err, ErrSpent) {
		t.Error(err)
	}
	if _, err = m.Swap(ctx, []cashu.Proof{h.mintCoin(t, "f", 8)}, next); !errors.Is(err, ErrSigned) {
		t.Error(err)
	}

	states, err := m.States(ctx, []cashu.Point{cashu.HashToCurve("c"), cashu.HashToCurve("a")})
	if want := []ProofState{{State: Unspent}, {Spent, inputs[0].Witness}}; err != nil || !slices.Equal(states, want) {
		t.Error(states, err)
	}
	unknown := newCoin(k, "never signed", 0).Output
	blank := next[1]
	blank.Amount = 0
	restored, err := m.Restore(ctx, []cashu.Output{unknown, next[0], blank})
	if err != nil || len(restored) != 2 || restored[next[0].B].C != signatures[0].C || restored[blank.B].Amount != 2 {
		t.Error(restored, err)
	}
}

func TestMeltReturnsChange(t *testing.T) {
	h := newHonest()
	m, ctx := h.serve(t), context.Background()
	preimage := [32]byte{31: 7}
	bill := invoice(60_000, guild.Hash(sha256.Sum256(preimage[:])))
	q, err := m.MeltQuote(ctx, bill, "sat")
	if err != nil || q.Amount != 60 || q.Reserve != 4 || q.State != Unpaid {
		t.Fatal(q, err)
	}
	change := []cashu.Output{newCoin(h.keysets[0], "x", 0).Output, newCoin(h.keysets[0], "y", 0).Output}
	paid, signatures, err := m.Melt(ctx, q, []cashu.Proof{h.mintCoin(t, "z", 64)}, change)
	if err != nil || paid.State != Paid || len(paid.Preimage) != 64 || len(signatures) != 1 || signatures[0].Amount != 4 {
		t.Fatal(paid, signatures, err)
	}
	if now, err := m.MeltState(ctx, q); err != nil || now != paid {
		t.Error(now, err)
	}

	h.change = func(_ string, answer map[string]any) { answer["payment_preimage"] = strings.Repeat("0", 64) }
	if now, err := m.MeltState(ctx, q); err != nil || now.State != Paid || now.Preimage != "" {
		t.Error("a preimage of another hash is taken as proof:", now, err)
	}
	h.change = func(_ string, answer map[string]any) { answer["state"] = "UNPAID" }
	if _, err := m.MeltState(ctx, paid); !isLie(err) {
		t.Error(err)
	}
}

func TestKeysets(t *testing.T) {
	h := newHonest()
	h.add("01", "sat", 50, true)
	h.add("00", "sat", 0, false)
	h.add("01", "usd", 0, true)
	h.keysets = append(h.keysets, Keyset{cashu.Keyset{ID: "02" + strings.Repeat("a", 64), Unit: "sat"}, true})
	h.keysets = append(h.keysets, Keyset{cashu.Keyset{ID: "I2yN+iRYfkzT", Unit: "sat"}, true})
	m, ctx := h.serve(t), context.Background()
	all, err := m.Keysets(ctx)
	if err != nil || len(all) != 4 || all[2].Active || all[1].Fee != 50 || len(all[0].Keys) != 8 {
		t.Fatal(len(all), err)
	}
	if k, err := m.Active(ctx, "sat"); err != nil || k.ID != h.keysets[1].ID {
		t.Error("not the cheapest:", k.ID, err)
	}
	if _, err := m.Active(ctx, "eur"); err == nil {
		t.Error("a keyset of no unit")
	}
	if _, err := m.Keyset(ctx, h.keysets[4].ID); err == nil {
		t.Error("a keyset of version 02")
	}
	h.keysets[0].Fee, h.keysets[0].Active = 200, false
	if all, err = m.Keysets(ctx); err != nil || all[0].Fee != 200 || all[0].Active {
		t.Error(err)
	}
	h.keysets = nil
	if k, err := m.Keyset(ctx, all[3].ID); err != nil || k.Unit != "usd" {
		t.Error("it was not kept:", err)
	}
}

func TestAddresses(t *testing.T) {
	for base, want := range map[string]string{
		"https://mint.example/Bitcoin/":        "https://mint.example/Bitcoin",
		"https://mint.example":                 "https://mint.example",
		"http://127.0.0.1:3338":                "http://127.0.0.1:3338",
		"http://localhost:3338":                "http://localhost:3338",
		"http://mint.example":                  "",
		"http://127.0.0.1.example":             "",
		"ftp://mint.example":                   "",
		"mint.example":                         "",
		"https:///v1":                          "",
		"https://user@mint.example":            "",
		"https://mint.example?x=1":             "",
		"https://mint.example?":                "",
		"https://mint.example#x":               "",
		"https://" + strings.Repeat("a", 1000): "",
	} {
		m, err := New(base, http.DefaultClient)
		if (err == nil) != (want != "") || err == nil && m.URL() != want {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func isLie(err error) bool {
	_, ok := errors.AsType[*LieError](err)
	return ok
}
