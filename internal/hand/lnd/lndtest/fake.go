package lndtest

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"guild"
	"guild/bolt11"
)

// Fakes is two nodes in this process.
type Fakes struct {
	Payer, Payee *Node

	// Answer answers a request in place of the node if it returns true. It is set before the first request.
	Answer func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	invoices map[guild.Hash]*made
	tries    map[guild.Hash]int // of payments
}

// made is an invoice of a node's.
type made struct {
	by       *fake
	payer    *fake // who has the payment under way
	text     string
	amount   guild.Msat
	preimage []byte // nil while it is held
	held     bool
	state    string
}

// fake is one node.
type fake struct {
	*Fakes
	key       *btcec.PrivateKey
	balance   guild.Msat
	macaroons map[string][]string // permissions by macaroon
	payments  map[guild.Hash]*paid
}

// paid is a payment of a node's.
type paid struct {
	invoice  string
	amount   guild.Msat
	status   string
	failure  string
	preimage []byte
	ended    chan struct{}
}

// NewFakes starts two nodes.
func NewFakes(t *testing.T) *Fakes {
	t.Helper()
	f := &Fakes{invoices: map[guild.Hash]*made{}, tries: map[guild.Hash]int{}}
	f.Payer, f.Payee = f.start(t, 1), f.start(t, 2)
	return f
}

// Tries returns how many times a payment hash was tried to be paid.
func (f *Fakes) Tries(hash guild.Hash) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tries[hash]
}

func (f *Fakes) start(t *testing.T, key byte) *Node {
	private, _ := btcec.PrivKeyFromBytes([]byte{31: key})
	one := &fake{
		Fakes: f, key: private, balance: 1_000_000_000, macaroons: map[string][]string{"0201": nil}, payments: map[guild.Hash]*paid{},
	}
	mux := http.NewServeMux()
	for pattern, h := range map[string]struct {
		needs  string
		handle func(http.ResponseWriter, *http.Request)
	}{
		"POST /v1/macaroon":              {"macaroon:generate", one.bake},
		"GET /v1/getinfo":                {"info:read", one.getInfo},
		"GET /v1/balance/channels":       {"offchain:read", one.getBalance},
		"POST /v1/invoices":              {"invoices:write", one.makeInvoice},
		"POST /v2/invoices/hodl":         {"invoices:write", one.makeInvoice},
		"POST /v2/invoices/settle":       {"invoices:write", one.settle},
		"POST /v2/invoices/cancel":       {"invoices:write", one.cancel},
		"GET /v1/invoice/{hash}":         {"invoices:read", one.getInvoice},
		"POST /v2/router/send":           {"offchain:write", one.send},
		"GET /v2/router/track/{hash...}": {"offchain:read", one.track},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if f.Answer != nil && f.Answer(w, r) {
				return
			}
			if one.allows(w, r, h.needs) {
				h.handle(w, r)
			}
		})
	}
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	n := newNode(strings.TrimPrefix(server.URL, "https://"), server.Certificate(), "0201")
	n.Key = hex.EncodeToString(private.PubKey().SerializeCompressed())
	return n
}

// allows checks the macaroon, and answers if it does not allow a request.
func (n *fake) allows(w http.ResponseWriter, r *http.Request, needs string) bool {
	n.mu.Lock()
	permissions, known := n.macaroons[r.Header.Get("Grpc-Metadata-macaroon")]
	n.mu.Unlock()
	switch {
	case !known:
		fail(w, 2, "verification failed: signature mismatch after caveat verification")
	case permissions != nil && !slices.Contains(permissions, needs):
		fail(w, 2, "permission denied")
	default:
		return true
	}
	return false
}

// write answers with an object. fail answers with an error of gRPC.
func write(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

type object = map[string]any

func fail(w http.ResponseWriter, code int, message string) {
	write(w, statusOf(code), object{"code": code, "message": message, "details": []any{}})
}

// failStream answers with an error before the first message of a stream.
func failStream(w http.ResponseWriter, code int, message string) {
	write(w, statusOf(code), object{"error": object{"code": code, "message": message, "details": []any{}}})
}

func statusOf(code int) int {
	switch code {
	case 5:
		return http.StatusNotFound
	case 6:
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

func (n *fake) bake(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Permissions []struct{ Entity, Action string }
	}
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		fail(w, 3, err.Error())
		return
	}
	permissions := []string{}
	for _, p := range wanted.Permissions {
		permissions = append(permissions, p.Entity+":"+p.Action)
	}
	macaroon := append([]byte{2}, rand.Text()...)
	n.mu.Lock()
	n.macaroons[hex.EncodeToString(macaroon)] = permissions
	n.mu.Unlock()
	write(w, http.StatusOK, object{"macaroon": hex.EncodeToString(macaroon)})
}

func (n *fake) getInfo(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, object{
		"version": "0.20.1-beta", "identity_pubkey": hex.EncodeToString(n.key.PubKey().SerializeCompressed()), "alias": "fake",
		"chains": []object{{"chain": "bitcoin", "network": "regtest"}}, "block_height": 400, "best_header_timestamp": "1700000000",
	})
}

func (n *fake) getBalance(w http.ResponseWriter, _ *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	write(w, http.StatusOK, object{"balance": "0", "local_balance": object{"sat": fmt.Sprint(n.balance / 1000), "msat": fmt.Sprint(int64(n.balance))}})
}

// makeInvoice makes an ordinary invoice, or one to be held for a hash that is given.
func (n *fake) makeInvoice(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Memo   string     `json:"memo"`
		Value  guild.Msat `json:"value,string"`
		Amount guild.Msat `json:"value_msat,string"`
		Expiry int64      `json:"expiry,string"`
		Hash   []byte     `json:"hash"`
		Blocks uint64     `json:"cltv_expiry,string"`
	}
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		fail(w, 3, err.Error())
		return
	}
	if wanted.Value != 0 && wanted.Amount != 0 {
		fail(w, 2, "sat and msat arguments are mutually exclusive")
		return
	}
	one := &made{by: n, amount: wanted.Amount, state: "OPEN", held: wanted.Hash != nil}
	var hash guild.Hash
	copy(hash[:], wanted.Hash)
	if !one.held {
		one.preimage = make([]byte, 32)
		_, _ = rand.Read(one.preimage)
		hash = sha256.Sum256(one.preimage)
	}
	var err error
	one.text, err = bolt11.Invoice{
		Network: bolt11.Regtest, Amount: one.amount, Created: time.Now().Truncate(time.Second).UTC(), PaymentHash: hash, Description: wanted.Memo,
		Expiry: time.Duration(wanted.Expiry) * time.Second, Secret: [32]byte{1}, Features: []int{8, 14, 17, 25, 263},
		MinFinalCLTV: cmp.Or(wanted.Blocks, 80),
	}.Sign(n.key)
	if err != nil {
		fail(w, 2, err.Error())
		return
	}
	n.mu.Lock()
	known := n.invoices[hash]
	if known == nil {
		n.invoices[hash] = one
	}
	n.mu.Unlock()
	if known != nil {
		fail(w, 2, "invoice with payment hash already exists")
		return
	}
	write(w, http.StatusOK, object{"r_hash": hash[:], "payment_request": one.text, "add_index": "1", "payment_addr": ""})
}

func (n *fake) getInvoice(w http.ResponseWriter, r *http.Request) {
	hash, err := guild.ParseHash(r.PathValue("hash"))
	if err != nil {
		fail(w, 2, err.Error())
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	one := n.invoices[hash]
	if one == nil || one.by != n {
		for _, other := range n.invoices {
			if other.by == n {
				fail(w, 5, "unable to locate invoice")
				return
			}
		}
		fail(w, 2, "there are no existing invoices")
		return
	}
	write(w, http.StatusOK, object{
		"memo": "work", "r_preimage": one.preimage, "r_hash": hash[:], "value": fmt.Sprint(one.amount / 1000), "value_msat": fmt.Sprint(int64(one.amount)),
		"settled": one.state == "SETTLED", "state": one.state, "payment_request": one.text, "htlcs": []any{},
	})
}

func (n *fake) settle(w http.ResponseWriter, r *http.Request) {
	var given struct {
		Preimage []byte `json:"preimage"`
	}
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
		fail(w, 3, err.Error())
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	hash := guild.Hash(sha256.Sum256(given.Preimage))
	one := n.invoices[hash]
	if one == nil || one.by != n {
		fail(w, 2, "unable to locate invoice")
		return
	}
	if one.state != "ACCEPTED" {
		fail(w, 2, map[string]string{"OPEN": "invoice still open", "SETTLED": "invoice already settled", "CANCELED": "invoice already canceled"}[one.state])
		return
	}
	one.preimage = given.Preimage
	one.payer.finish(one, one.payer.payments[hash])
	write(w, http.StatusOK, object{})
}

// cancel gives back what is held. As lnd does, it takes a second time for the first.
func (n *fake) cancel(w http.ResponseWriter, r *http.Request) {
	var given struct {
		Hash []byte `json:"payment_hash"`
	}
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil || len(given.Hash) != 32 {
		fail(w, 3, "no payment hash")
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	hash := guild.Hash(given.Hash)
	one := n.invoices[hash]
	switch {
	case one == nil || one.by != n:
		fail(w, 2, "unable to locate invoice")
		return
	case one.state == "SETTLED":
		fail(w, 2, "invoice already settled")
		return
	case one.state == "ACCEPTED":
		p := one.payer.payments[hash]
		p.status, p.failure = "FAILED", "FAILURE_REASON_INCORRECT_PAYMENT_DETAILS"
		close(p.ended)
	}
	one.state = "CANCELED"
	write(w, http.StatusOK, object{})
}

// finish ends a payment that has arrived at the payee. The lock is held.
func (n *fake) finish(one *made, p *paid) {
	one.state, p.status, p.preimage = "SETTLED", "SUCCEEDED", one.preimage
	n.balance -= one.amount
	one.by.balance += one.amount
	close(p.ended)
}

// send tries a payment as lnd does: a second time only if the first has failed. The answer comes at its end.
func (n *fake) send(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Invoice string     `json:"payment_request"`
		Timeout int        `json:"timeout_seconds"`
		Fees    guild.Msat `json:"fee_limit_msat,string"`
		Last    bool       `json:"no_inflight_updates"`
	}
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		fail(w, 3, err.Error())
		return
	}
	inv, err := bolt11.Decode(wanted.Invoice)
	switch {
	case err != nil:
		failStream(w, 2, "invalid payment request")
		return
	case wanted.Timeout <= 0 || wanted.Fees <= 0 || !wanted.Last:
		failStream(w, 2, "timeout_seconds must be specified")
		return
	case hex.EncodeToString(inv.Payee[:]) == hex.EncodeToString(n.key.PubKey().SerializeCompressed()):
		failStream(w, 2, "self-payments not allowed")
		return
	}
	p, refusal := n.begin(inv, wanted.Invoice)
	if refusal != "" {
		failStream(w, 6, refusal)
		return
	}
	select {
	case <-p.ended:
	case <-r.Context().Done():
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	write(w, http.StatusOK, object{"result": p.shown(inv.PaymentHash)})
}

// begin begins a payment, or says why not.
func (n *fake) begin(inv bolt11.Invoice, text string) (_ *paid, refusal string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.payments[inv.PaymentHash]; known != nil {
		switch known.status {
		case "SUCCEEDED":
			return nil, "invoice is already paid"
		case "IN_FLIGHT":
			return nil, "payment is in transition"
		}
	}
	p := &paid{invoice: text, amount: inv.Amount, status: "IN_FLIGHT", ended: make(chan struct{})}
	n.payments[inv.PaymentHash] = p
	n.tries[inv.PaymentHash]++
	one := n.invoices[inv.PaymentHash]
	switch {
	case one == nil || one.text != text || one.state != "OPEN":
		p.status, p.failure = "FAILED", "FAILURE_REASON_NO_ROUTE"
		close(p.ended)
	case inv.Amount > n.balance:
		p.status, p.failure = "FAILED", "FAILURE_REASON_INSUFFICIENT_BALANCE"
		close(p.ended)
	case one.held:
		one.payer, one.state = n, "ACCEPTED"
	default:
		n.finish(one, p)
	}
	return p, ""
}

// shown returns a payment as lnd does. The lock is held.
func (p *paid) shown(hash guild.Hash) object {
	preimage := p.preimage
	if preimage == nil {
		preimage = make([]byte, 32)
	}
	failure := p.failure
	if failure == "" {
		failure = "FAILURE_REASON_NONE"
	}
	return object{
		"payment_hash": hash.Hex(), "payment_preimage": hex.EncodeToString(preimage), "payment_request": p.invoice, "status": p.status,
		"value_msat": fmt.Sprint(int64(p.amount)), "fee_msat": "0", "failure_reason": failure, "htlcs": []any{},
	}
}

// track answers with the state of a payment, and keeps the stream open as long as the payment is under way.
func (n *fake) track(w http.ResponseWriter, r *http.Request) {
	raw, err := base64.URLEncoding.DecodeString(r.PathValue("hash"))
	if err != nil || len(raw) != 32 {
		failStream(w, 2, "invalid hash")
		return
	}
	hash := guild.Hash(raw)
	n.mu.Lock()
	p := n.payments[hash]
	if p == nil {
		n.mu.Unlock()
		failStream(w, 5, "payment isn't initiated")
		return
	}
	write(w, http.StatusOK, object{"result": p.shown(hash)})
	under := p.status == "IN_FLIGHT"
	n.mu.Unlock()
	if !under || r.URL.Query().Get("no_inflight_updates") == "true" {
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	select {
	case <-p.ended:
		n.mu.Lock()
		defer n.mu.Unlock()
		_ = json.NewEncoder(w).Encode(object{"result": p.shown(hash)})
	case <-r.Context().Done():
	}
}
