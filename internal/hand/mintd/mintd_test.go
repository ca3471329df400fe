package mintd

import (
	"bytes"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"guild"
	"guild/bolt11"
	"guild/cashu"
)

// faucet is that of the tests' mints.
var faucet = Options{Faucet: 10000}

func TestEverythingSaysThatItIsWorthless(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	var about info
	w.get("/v1/info", &about)
	for _, text := range []string{about.Name, about.Description, about.Motd} {
		if !strings.Contains(text, "worthless") {
			t.Errorf("%q", text)
		}
	}
	invoice, err := bolt11.Decode(w.quote(3).Request)
	if err != nil || invoice.Network != bolt11.Regtest || !strings.Contains(invoice.Description, "worthless") || invoice.Amount != 3000 {
		t.Errorf("%+v, %v", invoice, err)
	}
	if hex.EncodeToString(invoice.Payee[:]) != about.PubKey {
		t.Errorf("the invoice is signed by %x, and the mint is %s", invoice.Payee, about.PubKey)
	}
}

func TestOnlyPlayMoney(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	for _, unit := range []string{"sat", "msat", "usd", "", "TEST"} {
		w.refused(codeUnit, "/v1/mint/quote/bolt11", mintQuoteRequest{Amount: 1, Unit: unit})
		w.refused(codeUnit, "/v1/melt/quote/bolt11", meltQuoteRequest{Request: w.quote(1).Request, Unit: unit})
	}
}

func TestKeysets(t *testing.T) {
	dir := t.TempDir()
	m, err := Open(dir, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	first := m.active.ID
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, w := start(t, dir, Options{Faucet: 10000, Fee: 500})
	if m.active.ID == first || w.keyset.ID != m.active.ID || w.keyset.Fee != 500 || w.keyset.Unit != Unit {
		t.Errorf("%+v", w.keyset)
	}
	var all keysetList
	w.get("/v1/keysets", &all)
	if len(all.Keysets) != 2 {
		t.Fatalf("%+v", all)
	}
	for _, k := range all.Keysets {
		if k.Active != (k.ID == m.active.ID) || k.Active != (k.Fee == 500) || k.Unit != Unit {
			t.Errorf("%+v", k)
		}
		var one keyList
		w.get("/v1/keys/"+k.ID, &one)
		if err := one.Keysets[0].Check(); err != nil || one.Keysets[0].ID != k.ID {
			t.Errorf("%+v, %v", one, err)
		}
	}
	if r, ok := w.do("GET", "/v1/keys/00ffffffffffffff", nil, nil).(refusal); !ok || r.Code != codeKeyset {
		t.Error("an unknown keyset")
	}
	b := w.blind(1)
	b.outputs[0].Keyset = first
	w.refused(codeInactive, "/v1/mint/bolt11", mintRequest{Quote: w.quote(1).Quote, Outputs: b.outputs})
}

func TestEcashOutlivesItsKeyset(t *testing.T) {
	dir := t.TempDir()
	var old []cashu.Proof
	t.Run("before", func(t *testing.T) {
		_, w := start(t, dir, faucet)
		old = w.fund(8, 2)
	})
	_, w := start(t, dir, Options{Faucet: 10000, Fee: 1000})
	b := w.blind(8, 2)
	var s signatures
	w.post("/v1/swap", swapRequest{old, b.outputs}, &s) // the fee is that of the inputs' keyset
	if got, err := cashu.Worth(w.unblind(b, s.Signatures)); got != 10 || err != nil {
		t.Error(got, err)
	}
}

func TestLostKeysAreNoticed(t *testing.T) {
	dir := t.TempDir()
	m, err := Open(dir, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	err = m.store.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keySeed, make([]byte, 32)) })
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	if m, err := Open(dir, Options{Now: time.Now}); err == nil {
		t.Error("a mint with another seed is opened", m.Close())
	}
}

func TestOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mint")
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("a mint without a clock")
	}
	if _, err := Open(dir, Options{Now: time.Now, Fee: maxFee + 1}); err == nil {
		t.Error("a fee that takes all")
	}
	m, err := Open(dir, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if f, err := os.Stat(filepath.Join(dir, "mint.db")); err != nil || f.Mode().Perm() != 0o600 {
		t.Error(f, err)
	}
	if _, err := Open(dir, Options{Now: time.Now}); err == nil {
		t.Error("the mint is open twice")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestSwap(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	inputs := w.fund(8, 4)
	b := w.blind(1, 1, 2, 8)
	var s signatures
	w.post("/v1/swap", swapRequest{inputs, b.outputs}, &s)
	outputs := w.unblind(b, s.Signatures)
	if got, err := cashu.Worth(outputs); got != 12 || err != nil {
		t.Error(got, err)
	}
	if got := w.spent(append(inputs, outputs...)...); !slices.Equal(got, []bool{true, true, false, false, false, false}) {
		t.Error(got)
	}
	w.refused(codeSpent, "/v1/swap", swapRequest{inputs, w.blind(4, 8).outputs})
	w.refused(codeSpent, "/v1/swap", swapRequest{inputs, b.outputs})
	w.refused(codeSigned, "/v1/swap", swapRequest{outputs, b.outputs})
	if got := w.spent(outputs...); slices.Contains(got, true) {
		t.Error("a refused swap spends", got)
	}
}

func TestRefusedSwaps(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	in, other := w.fund(8)[0], w.fund(8)[0]
	forged := func(change func(*cashu.Proof)) []cashu.Proof {
		p := in
		change(&p)
		return []cashu.Proof{p}
	}
	outputs := func(amounts ...uint64) []cashu.Output { return w.blind(amounts...).outputs }
	with := func(change func(*cashu.Output)) []cashu.Output {
		all := outputs(8)
		change(&all[0])
		return all
	}
	twice := outputs(4)
	for name, c := range map[string]struct {
		code    int
		inputs  []cashu.Proof
		outputs []cashu.Output
	}{
		"nothing":                     {codeBalance, nil, nil},
		"no inputs":                   {codeBalance, nil, outputs(8)},
		"no outputs":                  {codeBalance, []cashu.Proof{in}, nil},
		"too much out":                {codeBalance, []cashu.Proof{in}, outputs(8, 1)},
		"too little out":              {codeBalance, []cashu.Proof{in}, outputs(4)},
		"an input twice":              {codeTwiceIn, []cashu.Proof{in, in}, outputs(16)},
		"an output twice":             {codeTwiceOut, []cashu.Proof{in}, append(twice, twice...)},
		"a larger amount":             {codeProof, forged(func(p *cashu.Proof) { p.Amount = 16 }), outputs(16)},
		"not a power of two":          {codeProof, forged(func(p *cashu.Proof) { p.Amount = 3 }), outputs(1, 2)},
		"amount 0":                    {codeProof, forged(func(p *cashu.Proof) { p.Amount = 0 }), outputs(8)},
		"beyond the keys":             {codeProof, forged(func(p *cashu.Proof) { p.Amount = 1 << 63 }), outputs(8)},
		"another secret":              {codeProof, forged(func(p *cashu.Proof) { p.Secret = "x" }), outputs(8)},
		"another signature":           {codeProof, forged(func(p *cashu.Proof) { p.C = other.C }), outputs(8)},
		"no signature":                {codeProof, forged(func(p *cashu.Proof) { p.C = cashu.HashToCurve("x") }), outputs(8)},
		"an unknown keyset":           {codeKeyset, forged(func(p *cashu.Proof) { p.Keyset = "00ffffffffffffff" }), outputs(8)},
		"an unknown keyset out":       {codeKeyset, []cashu.Proof{in}, with(func(o *cashu.Output) { o.Keyset = "" })},
		"not a power of two out":      {codeAmount, []cashu.Proof{in}, outputs(3, 5)},
		"amount 0 out":                {codeAmount, []cashu.Proof{in}, outputs(8, 0)},
		"an overflow out":             {codeAmount, []cashu.Proof{in}, outputs(1<<63, 1<<63, 8)},
		"a condition nobody can read": {codeProof, forged(func(p *cashu.Proof) { p.Secret = `["P2PK",{}]` }), outputs(8)},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			w.refused(c.code, "/v1/swap", swapRequest{c.inputs, c.outputs})
		})
	}
	if got := w.spent(in, other); slices.Contains(got, true) {
		t.Error("a refused swap spends", got)
	}
}

func TestConcurrentSwapsOfOneInput(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	inputs := w.fund(1)
	errs := make([]error, 16)
	var group sync.WaitGroup
	for i := range errs {
		b := w.blind(1)
		group.Go(func() { errs[i] = w.do("POST", "/v1/swap", swapRequest{inputs, b.outputs}, &signatures{}) })
	}
	group.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
			continue
		}
		if r, ok := err.(refusal); !ok || r.Code != codeSpent {
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d swaps of one input", done)
	}
}

func TestFee(t *testing.T) {
	_, w := start(t, t.TempDir(), Options{Faucet: 10000, Fee: 400})
	inputs := w.fund(4, 2, 1)
	w.refused(codeBalance, "/v1/swap", swapRequest{inputs, w.blind(4, 2, 1).outputs})
	w.refused(codeBalance, "/v1/swap", swapRequest{inputs, w.blind(4, 2).outputs})
	b := w.blind(4, 1) // 3 inputs cost 1.2, rounded up
	var s signatures
	w.post("/v1/swap", swapRequest{inputs, b.outputs}, &s)
	w.unblind(b, s.Signatures)
}

func TestLockedEcash(t *testing.T) {
	now := time.Now()
	_, w := start(t, t.TempDir(), Options{Faucet: 10000, Now: func() time.Time { return now }})
	one, two, refund := cashu.RandomScalar(), cashu.RandomScalar(), cashu.RandomScalar()
	preimage := bytes.Repeat([]byte{7}, 32)
	both := cashu.Condition{
		Kind: cashu.P2PK, Nonce: "a", Keys: []cashu.Point{one.PubKey(), two.PubKey()}, Sigs: 2,
		Locktime: now.Unix() + 60, Refund: []cashu.Point{refund.PubKey()},
	}
	past, all := both, both
	past.Nonce, past.Locktime = "b", now.Unix()-60
	all.Nonce, all.All = "c", true
	hash := cashu.Condition{Kind: cashu.HTLC, Nonce: "d", Hash: guild.Sum(preimage)}
	for name, c := range map[string]struct {
		condition cashu.Condition
		preimage  []byte
		keys      []cashu.Scalar
		works     bool
	}{
		"nobody signs":           {both, nil, nil, false},
		"one of two":             {both, nil, []cashu.Scalar{one}, false},
		"one of two twice":       {both, nil, []cashu.Scalar{one, one}, false},
		"the refund too early":   {both, nil, []cashu.Scalar{refund}, false},
		"two of two":             {both, nil, []cashu.Scalar{two, one}, true},
		"the refund in time":     {past, nil, []cashu.Scalar{refund}, true},
		"two of two, late":       {past, nil, []cashu.Scalar{one, two}, true},
		"all inputs and outputs": {all, nil, []cashu.Scalar{one, two}, true},
		"no preimage":            {hash, nil, nil, false},
		"a preimage":             {hash, preimage, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			c.condition.Nonce += name
			secret, err := c.condition.Secret()
			if err != nil {
				t.Fatal(err)
			}
			p := w.lock(secret, w.fund(4)...)
			b := w.blind(4)
			message := secret
			if c.condition.All {
				message = cashu.Message([]cashu.Proof{p}, b.outputs, "")
			}
			witness := cashu.Witness{Preimage: hex.EncodeToString(c.preimage)}
			for _, key := range c.keys {
				if err := witness.Sign(key, message); err != nil {
					t.Fatal(err)
				}
			}
			p.Witness = witness.Text()
			if c.condition.All {
				w.refused(codeProof, "/v1/swap", swapRequest{[]cashu.Proof{p}, w.blind(4).outputs})
			}
			if !c.works {
				w.refused(codeProof, "/v1/swap", swapRequest{[]cashu.Proof{p}, b.outputs})
				return
			}
			w.post("/v1/swap", swapRequest{[]cashu.Proof{p}, b.outputs}, &signatures{})
			var got states
			w.post("/v1/checkstate", stateRequest{list[cashu.Point]{cashu.HashToCurve(secret)}}, &got)
			if s := got.States[0]; s.Witness == nil || *s.Witness != p.Witness {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestMintQuotes(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	q := w.quote(5)
	if q.State != paid || q.Paid != 5 || q.Issued != 0 || q.Preimage != nil || q.Unit != Unit {
		t.Errorf("%+v", q)
	}
	w.refused(codeBalance, "/v1/mint/bolt11", mintRequest{Quote: q.Quote, Outputs: w.blind(4).outputs})
	w.refused(codeBalance, "/v1/mint/bolt11", mintRequest{Quote: q.Quote, Outputs: w.blind(4, 2).outputs})
	w.refused(codeBalance, "/v1/mint/bolt11", mintRequest{Quote: q.Quote})
	w.refused(codeRequest, "/v1/mint/bolt11", mintRequest{Quote: "x", Outputs: w.blind(4, 1).outputs})
	b := w.blind(4, 1)
	w.post("/v1/mint/bolt11", mintRequest{Quote: q.Quote, Outputs: b.outputs}, &signatures{})
	w.refused(codeIssued, "/v1/mint/bolt11", mintRequest{Quote: q.Quote, Outputs: b.outputs})
	w.refused(codeIssued, "/v1/mint/bolt11", mintRequest{Quote: q.Quote, Outputs: w.blind(4, 1).outputs})
	w.refused(codeSigned, "/v1/mint/bolt11", mintRequest{Quote: w.quote(5).Quote, Outputs: b.outputs})
	w.get("/v1/mint/quote/bolt11/"+q.Quote, &q)
	if q.State != issued || q.Issued != 5 || q.Preimage != nil {
		t.Errorf("%+v", q)
	}
	if r, ok := w.do("GET", "/v1/mint/quote/bolt11/x", nil, nil).(refusal); !ok || r.Code != codeRequest {
		t.Error(r)
	}
	large := w.quote(10001)
	if large.State != unpaid || large.Paid != 0 {
		t.Errorf("%+v", large)
	}
	w.refused(codeUnpaid, "/v1/mint/bolt11", mintRequest{Quote: large.Quote, Outputs: w.blind(cashu.Split(10001)...).outputs})
	for _, amount := range []uint64{0, maxQuote + 1, 1 << 63} {
		w.refused(codeAmount, "/v1/mint/quote/bolt11", mintQuoteRequest{Amount: amount, Unit: Unit})
	}
	w.quote(maxQuote)
	w.refused(codeRequest, "/v1/mint/quote/bolt11", mintQuoteRequest{Amount: 1, Unit: Unit, Description: strings.Repeat("x", 501)})
	w.refused(codeQuoteKey, "/v1/mint/quote/bolt11", mintQuoteRequest{Amount: 1, Unit: Unit, PubKey: "02"})
}

func TestSignedQuotes(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	key := cashu.RandomScalar()
	var q mintQuote
	w.post("/v1/mint/quote/bolt11", mintQuoteRequest{Amount: 4, Unit: Unit, PubKey: key.PubKey().String()}, &q)
	if q.PubKey == nil || *q.PubKey != key.PubKey() {
		t.Fatalf("%+v", q)
	}
	b := w.blind(4)
	r := mintRequest{Quote: q.Quote, Outputs: b.outputs}
	w.refused(codeQuoteUnsigned, "/v1/mint/bolt11", r)
	var others cashu.Witness
	if err := others.Sign(cashu.RandomScalar(), cashu.QuoteMessage(q.Quote, r.Outputs)); err != nil {
		t.Fatal(err)
	}
	r.Signature = others.Signatures[0]
	w.refused(codeQuoteUnsigned, "/v1/mint/bolt11", r)
	var own cashu.Witness
	if err := own.Sign(key, cashu.QuoteMessage(q.Quote, r.Outputs)); err != nil {
		t.Fatal(err)
	}
	r.Signature = own.Signatures[0]
	w.post("/v1/mint/bolt11", r, &signatures{})
}

// melting asks for a melt quote.
func melting(w *wallet, request string) (q meltQuote) {
	w.t.Helper()
	w.post("/v1/melt/quote/bolt11", meltQuoteRequest{Request: request, Unit: Unit}, &q)
	return q
}

func TestMelt(t *testing.T) {
	_, w := start(t, t.TempDir(), Options{Faucet: 1 << 14, Fee: 100})
	goal := w.quote(20000)
	q := melting(w, strings.ToUpper(goal.Request))
	if q.Amount != 20000 || q.FeeReserve != 0 || q.State != unpaid || q.Target != "" || q.Request != goal.Request {
		t.Errorf("%+v", q)
	}
	second := melting(w, goal.Request)
	inputs := append(w.fund(1<<14), w.fund(1<<12)...)
	w.refused(codeBalance, "/v1/melt/bolt11", meltRequest{Quote: q.Quote, Inputs: inputs[:1]})
	w.refused(codeBalance, "/v1/melt/bolt11", meltRequest{Quote: q.Quote, Inputs: inputs}) // no output for the change
	w.refused(codeRequest, "/v1/melt/bolt11", meltRequest{Quote: "x", Inputs: inputs})
	change := uint64(1<<14 + 1<<12 - 20000 - 1)
	b := w.blind(slices.Repeat([]uint64{1}, 12)...)
	var got meltQuote
	w.post("/v1/melt/bolt11", meltRequest{Quote: q.Quote, Inputs: inputs, Outputs: b.outputs}, &got)
	preimage, err := hex.DecodeString(*got.Preimage)
	invoice, failed := bolt11.Decode(goal.Request)
	if err != nil || failed != nil || guild.Sum(preimage) != invoice.PaymentHash || got.State != paid {
		t.Errorf("%+v, %v, %v", got, err, failed)
	}
	if sum, err := cashu.Worth(w.unblind(b, got.Change)); sum != change || err != nil {
		t.Errorf("change %d, want %d, %v", sum, change, err)
	}
	var later meltQuote
	w.get("/v1/melt/quote/bolt11/"+q.Quote, &later)
	if !bytes.Equal(encode(later), encode(got)) {
		t.Errorf("%+v, want %+v", later, got)
	}
	more := w.fund(1 << 14)
	w.refused(codePaid, "/v1/melt/bolt11", meltRequest{Quote: q.Quote, Inputs: inputs, Outputs: b.outputs})
	w.refused(codePaid, "/v1/melt/bolt11", meltRequest{Quote: second.Quote, Inputs: append(more, w.fund(1<<12)...), Outputs: w.blind(b.amounts()...).outputs})
	w.refused(codePaid, "/v1/melt/quote/bolt11", meltQuoteRequest{Request: goal.Request, Unit: Unit})
	if w.spent(more...)[0] {
		t.Error("a refused melt spends")
	}
	w.post("/v1/mint/bolt11", mintRequest{Quote: goal.Quote, Outputs: w.blind(cashu.Split(20000)...).outputs}, &signatures{})
}

func (b blinded) amounts() (all []uint64) {
	for _, o := range b.outputs {
		all = append(all, o.Amount)
	}
	return all
}

func TestMeltOfSpentEcash(t *testing.T) {
	_, w := start(t, t.TempDir(), Options{Faucet: 8})
	goal := w.quote(16)
	q := melting(w, goal.Request)
	one, two := w.fund(8)[0], w.fund(8)[0]
	w.post("/v1/swap", swapRequest{[]cashu.Proof{two}, w.blind(8).outputs}, &signatures{})
	w.refused(codeSpent, "/v1/melt/bolt11", meltRequest{Quote: q.Quote, Inputs: []cashu.Proof{one, two}})
	w.get("/v1/mint/quote/bolt11/"+goal.Quote, &goal)
	if goal.State != unpaid || w.spent(one)[0] {
		t.Errorf("%+v", goal)
	}
}

func TestForeignInvoicesAreNotPaid(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	_, other := start(t, t.TempDir(), faucet)
	for code, request := range map[int]string{
		codePayment: other.quote(20000).Request,
		codePaid:    w.quote(5).Request,
		codeRequest: "lnbc1",
	} {
		w.refused(code, "/v1/melt/quote/bolt11", meltQuoteRequest{Request: request, Unit: Unit})
	}
	// The same payment hash, by another payee and for less.
	m, w := start(t, t.TempDir(), faucet)
	q := w.quote(20000)
	invoice, err := bolt11.Decode(q.Request)
	if err != nil {
		t.Fatal(err)
	}
	invoice.Amount = 1000
	forged, err := invoice.Sign(m.node)
	if err != nil {
		t.Fatal(err)
	}
	w.refused(codePayment, "/v1/melt/quote/bolt11", meltQuoteRequest{Request: forged, Unit: Unit})
	w.refused(codeAmountless, "/v1/melt/quote/bolt11", map[string]any{
		"request": q.Request, "unit": Unit, "options": map[string]any{"mpp": map[string]any{"amount": 1}},
	})
}

func TestExpiredInvoicesAreNotPaid(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	_, w := start(t, t.TempDir(), Options{Faucet: 16, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	q := melting(w, w.quote(32).Request)
	late := w.quote(16) // the faucet's
	inputs := append(w.fund(16), w.fund(16)...)
	mu.Lock()
	now = now.Add(validity + time.Minute)
	mu.Unlock()
	w.refused(codeExpired, "/v1/melt/bolt11", meltRequest{Quote: q.Quote, Inputs: inputs})
	w.refused(codeExpired, "/v1/melt/quote/bolt11", meltQuoteRequest{Request: q.Request, Unit: Unit})
	w.post("/v1/mint/bolt11", mintRequest{Quote: late.Quote, Outputs: w.blind(16).outputs}, &signatures{})
}

func TestRestore(t *testing.T) {
	dir := t.TempDir()
	var b blinded
	var before []cashu.Signature
	t.Run("before", func(t *testing.T) {
		_, w := start(t, dir, faucet)
		b = w.blind(1, 2, 4)
		var s signatures
		w.post("/v1/mint/bolt11", mintRequest{Quote: w.quote(7).Quote, Outputs: b.outputs}, &s)
		before = s.Signatures
	})
	_, w := start(t, dir, faucet)
	unknown := w.blind(8)
	asked := []cashu.Output{b.outputs[2], unknown.outputs[0], b.outputs[0]}
	asked[2].Amount = 99 // a wallet that restores does not know it
	var got restored
	w.post("/v1/restore", restoreRequest{asked}, &got)
	want := restored{[]cashu.Output{asked[0], asked[2]}, []cashu.Signature{before[2], before[0]}}
	if !bytes.Equal(encode(got), encode(want)) {
		t.Errorf("%s, want %s", encode(got), encode(want))
	}
	w.post("/v1/restore", restoreRequest{}, &got)
	if len(got.Outputs) != 0 || got.Signatures == nil {
		t.Errorf("%+v", got)
	}
}

func TestClosedMintFails(t *testing.T) {
	m, w := start(t, t.TempDir(), Options{Faucet: 8, Log: slog.New(slog.DiscardHandler)})
	inputs := w.fund(8)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	err := w.do("POST", "/v1/swap", swapRequest{inputs, w.blind(8).outputs}, &signatures{})
	if r, ok := err.(refusal); !ok || r.Code != codeInternal || r.Detail != "internal error" {
		t.Error(err)
	}
	if resp, err := http.Get(w.url + "/v1/keys"); err != nil || resp.StatusCode != http.StatusOK {
		t.Error(err)
	}
}
