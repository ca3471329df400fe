package mint

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"guild"
	"guild/bolt11"
	"guild/cashu"
)

// honest is a mint that keeps to the NUTs as far as these tests need it. Its invoices count as paid when a test says so.
type honest struct {
	private map[string]map[uint64]cashu.Scalar // by keyset and amount
	keysets []Keyset                           // in the order of its list

	// change makes the mint hostile: it may change an answer before it is sent.
	change func(path string, answer map[string]any)

	mu     sync.Mutex
	signed map[cashu.Point]cashu.Signature   // by B
	spent  map[cashu.Point]cashu.WitnessText // by Y
	quotes map[string]*quoteAnswer
	melts  map[string]*meltAnswer
	bodies []string // of requests
}

// refused is an answer with an error.
type refused struct {
	code   int
	detail string
}

func newHonest() *honest {
	h := &honest{
		private: map[string]map[uint64]cashu.Scalar{}, signed: map[cashu.Point]cashu.Signature{},
		spent: map[cashu.Point]cashu.WitnessText{}, quotes: map[string]*quoteAnswer{}, melts: map[string]*meltAnswer{},
	}
	h.add("00", "sat", 100, true)
	return h
}

// add adds a keyset of a version, with keys for 1 to 128.
func (h *honest) add(version, unit string, fee uint64, active bool) Keyset {
	private, public := map[uint64]cashu.Scalar{}, cashu.Keys{}
	for amount := uint64(1); amount <= 128; amount *= 2 {
		private[amount] = cashu.RandomScalar()
		public[amount] = private[amount].PubKey()
	}
	k := Keyset{cashu.Keyset{ID: version, Unit: unit, Keys: public, Fee: fee}, active}
	k.ID, _ = k.Derive()
	h.private[k.ID] = private
	h.keysets = append(h.keysets, k)
	return k
}

// serve returns a client of the mint.
func (h *honest) serve(t *testing.T) *Mint {
	t.Helper()
	return clientOf(t, http.HandlerFunc(h.answer))
}

func clientOf(t *testing.T, handler http.Handler) *Mint {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	m, err := New(server.URL+"/", server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (h *honest) answer(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if len(body) > 0 {
		h.bodies = append(h.bodies, string(body))
	}
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	var result any
	switch dir, last := path[:strings.LastIndex(path, "/")+1], path[strings.LastIndex(path, "/")+1:]; {
	case path == "keysets":
		result = h.list()
	case dir == "keys/":
		result = h.keys(last)
	case path == "swap":
		result = h.swap(body)
	case path == "restore":
		result = h.restore(body)
	case path == "checkstate":
		result = h.states(body)
	case path == "mint/quote/bolt11":
		result = h.quote(body)
	case dir == "mint/quote/bolt11/":
		result = h.quotes[last]
	case path == "mint/bolt11":
		result = h.issue(body)
	case path == "melt/quote/bolt11":
		result = h.meltQuote(body)
	case dir == "melt/quote/bolt11/":
		result = h.melts[last]
	case path == "melt/bolt11":
		result = h.melt(body)
	}
	if no, ok := result.(refused); ok {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"detail":%q,"code":%d}`, no.detail, no.code)
		return
	}
	var wire map[string]any
	b, _ := json.Marshal(result)
	_ = json.Unmarshal(b, &wire)
	if h.change != nil {
		h.change(path, wire)
	}
	_ = json.NewEncoder(w).Encode(wire)
}

func (h *honest) list() any {
	var list []described
	for _, k := range h.keysets {
		list = append(list, described{ID: k.ID, Unit: k.Unit, Active: k.Active, Fee: k.Fee, Expiry: k.Expiry})
	}
	return map[string]any{"keysets": list}
}

func (h *honest) keys(id string) any {
	for _, k := range h.keysets {
		if k.ID == id {
			return map[string]any{"keysets": []any{keysOf{k.ID, k.Unit, k.Keys}}}
		}
	}
	return refused{12001, "Keyset is not known"}
}

// sign signs the outputs of which none is signed, with amounts instead of theirs if there are any.
func (h *honest) sign(outputs []cashu.Output, amounts []uint64) any {
	signatures := []cashu.Signature{}
	for i, o := range outputs {
		if _, ok := h.signed[o.B]; ok {
			return refused{11003, "Outputs already signed"}
		}
		amount := o.Amount
		if amounts != nil {
			amount = amounts[i]
		}
		key := h.private[o.Keyset][amount]
		c, _ := key.Sign(o.B)
		proof, _ := key.Prove(o.B, c)
		signatures = append(signatures, cashu.Signature{Amount: amount, Keyset: o.Keyset, C: c, DLEQ: &proof})
	}
	for i, o := range outputs {
		h.signed[o.B] = signatures[i]
	}
	return map[string]any{"signatures": signatures}
}

// spend marks inputs as spent.
func (h *honest) spend(inputs []cashu.Proof) any {
	for _, p := range inputs {
		if _, ok := h.spent[cashu.HashToCurve(p.Secret)]; ok {
			return refused{11001, "Proofs already spent"}
		}
		if !h.private[p.Keyset][p.Amount].Signed(p.Secret, p.C) {
			return refused{10001, "Proof verification failed"}
		}
	}
	for _, p := range inputs {
		h.spent[cashu.HashToCurve(p.Secret)] = p.Witness
	}
	return nil
}

func (h *honest) swap(body []byte) any {
	var r struct {
		Inputs  []cashu.Proof
		Outputs []cashu.Output
	}
	_ = json.Unmarshal(body, &r)
	if no := h.spend(r.Inputs); no != nil {
		return no
	}
	return h.sign(r.Outputs, nil)
}

func (h *honest) restore(body []byte) any {
	var r struct{ Outputs []cashu.Output }
	_ = json.Unmarshal(body, &r)
	outputs, signatures := []cashu.Output{}, []cashu.Signature{}
	for _, o := range r.Outputs {
		if s, ok := h.signed[o.B]; ok {
			outputs, signatures = append(outputs, o), append(signatures, s)
		}
	}
	return map[string]any{"outputs": outputs, "signatures": signatures}
}

func (h *honest) states(body []byte) any {
	var r struct{ Ys []cashu.Point }
	_ = json.Unmarshal(body, &r)
	states := []map[string]any{}
	for _, y := range r.Ys {
		state := map[string]any{"Y": y, "state": Unspent, "witness": nil}
		if witness, ok := h.spent[y]; ok {
			state["state"], state["witness"] = Spent, witness
		}
		states = append(states, state)
	}
	return map[string]any{"states": states}
}

func (h *honest) quote(body []byte) any {
	var r quoteAnswer
	_ = json.Unmarshal(body, &r)
	r.Quote, r.State, r.Request = fmt.Sprintf("quote-%d", len(h.quotes)), Unpaid, invoice(guild.Msat(*r.Amount*1000), guild.Hash{1})
	h.quotes[r.Quote] = &r
	return r
}

func (h *honest) issue(body []byte) any {
	var r struct {
		Quote, Signature string
		Outputs          []cashu.Output
	}
	_ = json.Unmarshal(body, &r)
	q := h.quotes[r.Quote]
	switch {
	case q.State == Unpaid:
		return refused{20001, "Quote request is not paid"}
	case q.State == Issued:
		return refused{20002, "Quote has already been issued"}
	case q.Key != nil && !cashu.QuoteSigned(*q.Key, r.Quote, r.Outputs, r.Signature):
		return refused{20008, "Signature for mint request invalid"}
	}
	q.State = Issued
	return h.sign(r.Outputs, nil)
}

func (h *honest) meltQuote(body []byte) any {
	var r meltAnswer
	_ = json.Unmarshal(body, &r)
	inv, _ := bolt11.Decode(r.Request)
	r.Quote, r.State, r.Amount, r.Reserve = fmt.Sprintf("melt-%d", len(h.melts)), Unpaid, uint64(inv.Amount)/1000, 4
	h.melts[r.Quote] = &r
	return r
}

// melt pays without fees, so that the reserve of 4 is returned.
func (h *honest) melt(body []byte) any {
	var r struct {
		Quote   string
		Inputs  []cashu.Proof
		Outputs []cashu.Output
	}
	_ = json.Unmarshal(body, &r)
	if no := h.spend(r.Inputs); no != nil {
		return no
	}
	q := h.melts[r.Quote]
	q.State, q.Preimage = Paid, fmt.Sprintf("%064x", 7)
	result := *q
	if len(r.Outputs) > 0 {
		h.sign(r.Outputs[:1], []uint64{q.Reserve})
		result.Change = []cashu.Signature{h.signed[r.Outputs[0].B]}
	}
	return result
}

// invoice returns an invoice of a node that nobody has.
func invoice(amount guild.Msat, hash guild.Hash) string {
	return invoiceAt(time.Unix(1700000000, 0), amount, hash)
}

func invoiceAt(created time.Time, amount guild.Msat, hash guild.Hash) string {
	key, _ := btcec.PrivKeyFromBytes([]byte{31: 9})
	s, err := bolt11.Invoice{
		Network: bolt11.Regtest, Amount: amount, Created: created, PaymentHash: hash, Secret: [32]byte{1},
		Features: []int{8, 14}, Description: "ecash",
	}.Sign(key)
	if err != nil {
		panic(err)
	}
	return s
}

// coin is an output with what its owner knows of it.
type coin struct {
	cashu.Output
	secret string
	r      cashu.Scalar
}

func newCoin(k Keyset, secret string, amount uint64) coin {
	r := cashu.RandomScalar()
	b, err := cashu.Blind(secret, r)
	if err != nil {
		panic(err)
	}
	return coin{cashu.Output{Amount: amount, Keyset: k.ID, B: b}, secret, r}
}

// proof makes the proof of a signature, with the DLEQ for others.
func (c coin) proof(t *testing.T, k Keyset, s cashu.Signature) cashu.Proof {
	t.Helper()
	signature, err := cashu.Unblind(s.C, c.r, k.Keys[s.Amount])
	if err != nil {
		t.Fatal(err)
	}
	return cashu.Proof{Amount: s.Amount, Keyset: k.ID, Secret: c.secret, C: signature, DLEQ: &cashu.DLEQ{E: s.DLEQ.E, S: s.DLEQ.S, R: &c.r}}
}

// mintCoin returns a proof that the mint signed.
func (h *honest) mintCoin(t *testing.T, secret string, amount uint64) cashu.Proof {
	t.Helper()
	k := h.keysets[0]
	key := h.private[k.ID][amount]
	c := newCoin(k, secret, amount)
	signature, _ := key.Sign(c.B)
	proof, _ := key.Prove(c.B, signature)
	return c.proof(t, k, cashu.Signature{Amount: amount, Keyset: k.ID, C: signature, DLEQ: &proof})
}
