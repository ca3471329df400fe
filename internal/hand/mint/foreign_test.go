package mint

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/cashu"
)

// foreign starts a mint of another project, and returns a client of it and its active keyset. It differs from the present NUTs:
// ids of version 00 only, no locked quotes (NUT-20), no change (NUT-08), answers without amount, unit and key, code 10002 for
// 11003, and code 11001 for pending proofs.
func foreign(t *testing.T) (*Mint, Keyset) {
	t.Helper()
	program, err := filepath.Abs("../../../.cache/bin/gonuts")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Fatalf("there is no gonuts, which these tests run; build it with 'scripts/needs test' (%v)", err)
	}
	child := exec.CommandContext(t.Context(), program, t.TempDir())
	child.Env, child.Stderr = []string{"PATH=" + os.Getenv("PATH")}, os.Stderr
	stdout, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	url, err := bufio.NewReader(stdout).ReadString('\n') // printed when it listens
	if err != nil {
		t.Fatal("gonuts:", err)
	}
	m, err := New(strings.TrimSpace(url), &http.Client{Transport: &http.Transport{}})
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Active(context.Background(), "sat")
	if err != nil {
		t.Fatal(err)
	}
	return m, k
}

// issued has coins signed for a new quote.
func issued(t *testing.T, m *Mint, k Keyset, coins ...coin) []cashu.Proof {
	t.Helper()
	var sum uint64
	for _, c := range coins {
		sum += c.Amount
	}
	q, err := m.Quote(context.Background(), sum, k.Unit, cashu.Point{})
	if err != nil {
		t.Fatal(err)
	}
	signatures, err := m.Issue(context.Background(), q, outputsOf(coins), "")
	if err != nil {
		t.Fatal(err)
	}
	return proofsOf(t, k, coins, signatures)
}

func outputsOf(coins []coin) (outputs []cashu.Output) {
	for _, c := range coins {
		outputs = append(outputs, c.Output)
	}
	return outputs
}

func proofsOf(t *testing.T, k Keyset, coins []coin, signatures []cashu.Signature) (proofs []cashu.Proof) {
	t.Helper()
	for i, c := range coins {
		p := c.proof(t, k, signatures[i])
		if err := p.DLEQ.Check(k.Keys[p.Amount], p.Secret, p.C); err != nil {
			t.Fatal(err)
		}
		proofs = append(proofs, p)
	}
	return proofs
}

// signedBy returns the proof with the signatures of keys on its secret.
func signedBy(t *testing.T, p cashu.Proof, keys ...cashu.Scalar) []cashu.Proof {
	t.Helper()
	var w cashu.Witness
	for _, key := range keys {
		if err := w.Sign(key, p.Secret); err != nil {
			t.Fatal(err)
		}
	}
	p.Witness = w.Text()
	return []cashu.Proof{p}
}

func TestForeignMint(t *testing.T) {
	m, k := foreign(t)
	ctx := context.Background()
	if all, err := m.Keysets(ctx); err != nil || len(all) != 1 || k.Fee != 100 || len(k.Keys) != 60 || !strings.HasPrefix(k.ID, "00") {
		t.Fatal(len(all), k.ID, k.Fee, len(k.Keys), err)
	}
	if _, err := m.Quote(ctx, 8, "sat", cashu.RandomScalar().PubKey()); err == nil || !strings.Contains(err.Error(), "NUT-20") {
		t.Error("a quote that is not locked:", err)
	}

	q, err := m.Quote(ctx, 8, "sat", cashu.Point{})
	if err != nil || q.State != Unpaid {
		t.Fatal(q, err)
	}
	if q, err = m.QuoteState(ctx, q); err != nil || q.State != Paid {
		t.Fatal(q, err)
	}
	first := []coin{newCoin(k, "a", 8)}
	signatures, err := m.Issue(ctx, q, outputsOf(first), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = m.Issue(ctx, q, outputsOf(first), ""); !errors.Is(err, ErrIssued) {
		t.Error(err)
	}
	if q, err = m.QuoteState(ctx, q); err != nil || q.State != Issued {
		t.Error(q, err)
	}

	coins := []coin{newCoin(k, "b", 1), newCoin(k, "c", 2), newCoin(k, "d", 4)} // and 1 is the fee
	inputs := proofsOf(t, k, first, signatures)
	signatures, err = m.Swap(ctx, inputs, outputsOf(coins))
	if err != nil {
		t.Fatal(err)
	}
	proofsOf(t, k, coins, signatures)
	if _, err = m.Swap(ctx, inputs, []cashu.Output{newCoin(k, "e", 1).Output, newCoin(k, "f", 2).Output, newCoin(k, "g", 4).Output}); !errors.Is(err, ErrSpent) {
		t.Error(err)
	}
	if _, err = m.Swap(ctx, issued(t, m, k, newCoin(k, "h", 8)), outputsOf(coins)); !errors.Is(err, ErrSigned) {
		t.Error(err)
	}

	states, err := m.States(ctx, []cashu.Point{cashu.HashToCurve("b"), cashu.HashToCurve("a")})
	if err != nil || states[0].State != Unspent || states[1].State != Spent {
		t.Error(states, err)
	}
	lost := append([]cashu.Output{newCoin(k, "unknown", 0).Output}, outputsOf(coins)...)
	lost[2].Amount = 0
	restored, err := m.Restore(ctx, lost)
	if err != nil || len(restored) != 3 || restored[coins[1].B].Amount != 2 || restored[coins[2].B].C != signatures[2].C {
		t.Error(restored, err)
	}
}

func TestForeignMintLocks(t *testing.T) {
	m, k := foreign(t)
	ctx := context.Background()
	provider, customer, thief := cashu.RandomScalar(), cashu.RandomScalar(), cashu.RandomScalar()
	lock := func(locktime time.Time) coin {
		secret, err := cashu.Condition{
			Kind: cashu.P2PK, Nonce: locktime.String(), Keys: []cashu.Point{provider.PubKey(), customer.PubKey()}, Sigs: 2,
			Locktime: locktime.Unix(), Refund: []cashu.Point{customer.PubKey()}, RefundSigs: 1,
		}.Secret()
		if err != nil {
			t.Fatal(err)
		}
		return newCoin(k, secret, 8)
	}
	open, expired := lock(time.Now().Add(time.Hour)), lock(time.Now().Add(-time.Hour))
	proofs := issued(t, m, k, open, expired)
	out := func() []cashu.Output {
		return []cashu.Output{newCoin(k, rand(), 1).Output, newCoin(k, rand(), 2).Output, newCoin(k, rand(), 4).Output}
	}

	for name, inputs := range map[string][]cashu.Proof{
		"without a signature":            {proofs[0]},
		"by the provider alone":          signedBy(t, proofs[0], provider),
		"by the customer before the end": signedBy(t, proofs[0], customer),
		"by one key twice":               signedBy(t, proofs[0], provider, provider),
		"by a thief":                     signedBy(t, proofs[0], provider, thief),
		"by the provider after the end":  signedBy(t, proofs[1], provider),
		"by a thief after the end":       signedBy(t, proofs[1], thief),
	} {
		var refused *Error
		if _, err := m.Swap(ctx, inputs, out()); !errors.As(err, &refused) || refused.Code == 0 {
			t.Error(name, err)
		}
	}
	both := signedBy(t, proofs[0], provider, customer)
	if _, err := m.Swap(ctx, both, out()); err != nil {
		t.Error("release:", err)
	}
	refund := signedBy(t, proofs[1], customer)
	if _, err := m.Swap(ctx, refund, out()); err != nil {
		t.Error("refund:", err)
	}
	states, err := m.States(ctx, []cashu.Point{cashu.HashToCurve(open.secret), cashu.HashToCurve(expired.secret)})
	if err != nil || states[0] != (ProofState{Spent, both[0].Witness}) || states[1] != (ProofState{Spent, refund[0].Witness}) {
		t.Error(states, err)
	}
}

// rand returns a new secret.
func rand() string { return cashu.RandomScalar().PubKey().String() }

func TestForeignMintMelts(t *testing.T) {
	m, k := foreign(t)
	ctx := context.Background()
	preimage := [32]byte{1}
	q, err := m.MeltQuote(ctx, invoiceAt(time.Now(), 7_000, guild.Hash(sha256.Sum256(preimage[:]))), "sat")
	if err != nil || q.Amount != 7 || q.State != Unpaid {
		t.Fatal(q, err)
	}
	inputs := issued(t, m, k, newCoin(k, "a", 8)) // 1 is the fee of the input
	if now, err := m.MeltState(ctx, q); err != nil || now != q {
		t.Error(now, err)
	}
	paid, change, err := m.Melt(ctx, q, inputs, []cashu.Output{newCoin(k, "b", 0).Output})
	if err != nil || paid.State != Paid || len(change) > 0 {
		t.Fatal(paid, change, err)
	}
	if paid.Preimage != "" {
		t.Error("the mint did not pay, and its preimage is taken as proof:", paid.Preimage)
	}
	states, err := m.States(ctx, []cashu.Point{cashu.HashToCurve("a")})
	if err != nil || states[0].State != Spent {
		t.Error(states, err)
	}
	_, err = m.Issue(ctx, Quote{ID: "unknown"}, []cashu.Output{newCoin(k, "c", 1).Output}, "")
	var refused *Error
	if !errors.As(err, &refused) {
		t.Error(err)
	}
}
