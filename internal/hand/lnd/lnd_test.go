package lnd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
	"guild/internal/hand/lightning/lightningtest"
	"guild/internal/hand/lnd/lndtest"
	"guild/internal/hand/nwc/nwctest"
)

// connect returns the wallet of a node's, with some permissions.
func connect(t *testing.T, n *lndtest.Node, permissions ...string) *Wallet {
	t.Helper()
	c, err := Parse(n.Connection(t, permissions...))
	if err != nil {
		t.Fatal(err)
	}
	w := New(Config{Connection: c, Now: time.Now})
	t.Cleanup(w.Close)
	return w
}

// rig returns what the conformance suite needs of two nodes.
func rig(t *testing.T, payer, payee *lndtest.Node) lightningtest.Rig {
	preimage := [32]byte{7}
	return lightningtest.Rig{
		Payer: connect(t, payer, lndtest.Enough...), Payee: connect(t, payee, lndtest.Enough...), Network: bolt11.Regtest,
		Fails: unroutable(t, guild.Hash{9}), Stuck: payee.Hold(t, preimage, 8000), Free: func() { payee.Settle(t, preimage) },
		Patience: 2 * time.Second,
	}
}

// unroutable returns an invoice of a node that nobody knows.
func unroutable(t *testing.T, hash guild.Hash) string {
	return nwctest.Sign(t, bolt11.Invoice{
		Network: bolt11.Regtest, Amount: 7000, Created: time.Now().Truncate(time.Second).UTC(), PaymentHash: hash, Description: "work",
	})
}

func TestConformance(t *testing.T) {
	nodes := lndtest.NewFakes(t)
	r := rig(t, nodes.Payer, nodes.Payee)
	r.Orders = func(invoice string) int {
		inv, err := bolt11.Decode(invoice)
		if err != nil {
			t.Fatal(err)
		}
		return nodes.Tries(inv.PaymentHash)
	}
	lightningtest.Test(t, r)
	lightningtest.TestHold(t, r)
}

// TestRealConformance tests two nodes of lnd's on a chain of their own.
func TestRealConformance(t *testing.T) {
	if !lndtest.Available() {
		t.Skip("make stand PART=lnd builds lnd and btcd")
	}
	payer, payee := lndtest.Real(t)
	r := rig(t, payer, payee)
	lightningtest.Test(t, r)
	lightningtest.TestHold(t, r)
	t.Run("permissions", func(t *testing.T) { permissions(t, payer) })
	t.Run("own invoices", func(t *testing.T) { ownInvoices(t, connect(t, payer, lndtest.Enough...)) })
	t.Run("paid by another order", func(t *testing.T) {
		otherOrders(t, connect(t, payer, lndtest.Enough...), connect(t, payee, lndtest.Enough...))
	})
}

func TestOrders(t *testing.T) {
	nodes := lndtest.NewFakes(t)
	payer, payee := connect(t, nodes.Payer, lndtest.Enough...), connect(t, nodes.Payee, lndtest.Enough...)
	t.Run("permissions", func(t *testing.T) { permissions(t, nodes.Payer) })
	t.Run("no permission to hold", func(t *testing.T) {
		reader := connect(t, nodes.Payee, "invoices:read", "offchain:read", "info:read")
		_, _, made := reader.MakeHold(t.Context(), lightning.Hold{Amount: 5000, Blocks: 300})
		for what, err := range map[string]error{
			"make": made, "settle": reader.Settle(t.Context(), [32]byte{1}), "cancel": reader.Cancel(t.Context(), guild.Hash{1}),
		} {
			if !lightning.IsRefused(err, lightning.Unable...) {
				t.Error(what, err)
			}
		}
	})
	t.Run("own invoices", func(t *testing.T) { ownInvoices(t, payer) })
	t.Run("paid by another order", func(t *testing.T) { otherOrders(t, payer, payee) })
	t.Run("expired", func(t *testing.T) {
		text, inv, err := payee.MakeInvoice(t.Context(), 5000, "work", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		o, err := payer.Prepare(t.Context(), text, time.Now().Add(-time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := payer.Pay(t.Context(), o); err == nil || nodes.Tries(inv.PaymentHash) != 0 {
			t.Error(p, err)
		}
	})
	t.Run("too much", func(t *testing.T) {
		text, _, err := payee.MakeInvoice(t.Context(), 100_000_000_000, "work", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		o, err := payer.Prepare(t.Context(), text, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if p, err := payer.Pay(t.Context(), o); !lightning.IsRefused(err, lightning.InsufficientBalance) {
				t.Error(p, err)
			}
		}
	})
	t.Run("malformed", func(t *testing.T) {
		for _, content := range []string{``, `{}`, `{"node":"02","invoice":"lnbcrt1"}`, `{"kind":23194,"pubkey":"00"}`} {
			o := lightning.Order{Content: []byte(content)}
			if made, err := payer.Made(t.Context(), o); made || err != nil {
				t.Error(content, made, err)
			}
			if p, err := payer.Pay(t.Context(), o); err == nil {
				t.Error(content, p)
			}
		}
	})
}

// permissions checks that a macaroon that allows too little is refused when it is given.
func permissions(t *testing.T, n *lndtest.Node) {
	for i, missing := range lndtest.Enough {
		some := append(append([]string{}, lndtest.Enough[:i]...), lndtest.Enough[i+1:]...)
		if err := connect(t, n, some...).Check(t.Context()); !lightning.IsRefused(err, lightning.Restricted) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
	if err := connect(t, n, lndtest.Enough...).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// ownInvoices checks that a node is not made to pay itself.
func ownInvoices(t *testing.T, w *Wallet) {
	text, inv, err := w.MakeInvoice(t.Context(), 5000, "work", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	o, err := w.Prepare(t.Context(), text, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := w.Pay(t.Context(), o); !lightning.IsRefused(err, lightning.Restricted) {
		t.Error(p, err)
	}
	if seen, err := w.Lookup(t.Context(), inv.PaymentHash); err != nil || seen.Outgoing || seen.Settled {
		t.Error(seen, err)
	}
}

// otherOrders checks that lnd itself pays a hash once: send does not look before.
func otherOrders(t *testing.T, payer, payee *Wallet) {
	text, inv, err := payee.MakeInvoice(t.Context(), 5000, "work", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := payer.send(t.Context(), text, inv); err != nil || p.Status != "SUCCEEDED" {
		t.Fatal(p, err)
	}
	if p, err := payer.send(t.Context(), text, inv); !lightning.IsRefused(err, existing) {
		t.Error(p, err)
	}
	o, err := payer.Prepare(t.Context(), text, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := payer.Pay(t.Context(), o); err != nil || guild.Hash(sha256.Sum256(p.Preimage[:])) != inv.PaymentHash {
		t.Error(p, err)
	}
}

// TestPaidMeanwhile answers that there is no payment, and that it exists, as if somebody had ordered it in between.
func TestPaidMeanwhile(t *testing.T) {
	nodes := lndtest.NewFakes(t)
	payer, payee := connect(t, nodes.Payer, lndtest.Enough...), connect(t, nodes.Payee, lndtest.Enough...)
	text, inv, err := payee.MakeInvoice(t.Context(), 5000, "work", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := payer.send(t.Context(), text, inv); err != nil {
		t.Fatal(err)
	}
	o, err := payer.Prepare(t.Context(), text, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	nodes.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, pathTrack) {
			return false
		}
		if asked++; asked > 1 {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"code":5,"message":"payment isn't initiated","details":[]}}`)
		return true
	}
	if p, err := payer.Pay(t.Context(), o); err != nil || guild.Hash(sha256.Sum256(p.Preimage[:])) != inv.PaymentHash || nodes.Tries(inv.PaymentHash) != 1 {
		t.Error(p, err, nodes.Tries(inv.PaymentHash))
	}
}

const (
	preimage = "0101010101010101010101010101010101010101010101010101010101010101"
	zeros    = "0000000000000000000000000000000000000000000000000000000000000000"
)

// hash is the payment hash of preimage.
var hash = guild.Hash(sha256.Sum256([]byte(strings.Repeat("\x01", 32))))

// update returns a state of the payment with hash, in JSON.
func update(status, preimage string) string {
	return fmt.Sprintf(`{"result":{"payment_hash":%q,"payment_preimage":%q,"status":%q,"failure_reason":"FAILURE_REASON_NONE","value_msat":"7","fee_msat":"1","htlcs":[]}}`,
		hash.Hex(), preimage, status)
}

// TestAnswers reads payments as honest and false nodes describe them.
func TestAnswers(t *testing.T) {
	paid := lightning.Transaction{Outgoing: true, Settled: true, Amount: 7, Fees: 1, Preimage: [32]byte([]byte(strings.Repeat("\x01", 32)))}
	good := update("SUCCEEDED", preimage)
	for name, c := range map[string]struct {
		status int
		body   string
		want   lightning.Transaction
		err    string // "" for none
		pays   string // the error of Pay
	}{
		"paid":                {200, good + "\n", paid, "", ""},
		"paid, more follows":  {200, good + "\n" + update("FAILED", zeros), paid, "", ""},
		"false preimage":      {200, update("SUCCEEDED", zeros), lightning.Transaction{Outgoing: true, Settled: true, Amount: 7, Fees: 1}, "", lightning.ErrUnproven.Error()},
		"short preimage":      {200, update("SUCCEEDED", "0101"), lightning.Transaction{Outgoing: true, Settled: true, Amount: 7, Fees: 1}, "", lightning.ErrUnproven.Error()},
		"failed":              {200, update("FAILED", zeros), lightning.Transaction{Outgoing: true, Failed: true, Amount: 7, Fees: 1}, "", "PAYMENT_FAILED"},
		"failed, preimage":    {200, update("FAILED", preimage), lightning.Transaction{Outgoing: true, Failed: true, Amount: 7, Fees: 1}, "", "PAYMENT_FAILED"},
		"under way":           {200, update("IN_FLIGHT", zeros), lightning.Transaction{Outgoing: true, Amount: 7, Fees: 1}, "", "under way"},
		"under way, preimage": {200, update("INITIATED", preimage), lightning.Transaction{Outgoing: true, Amount: 7, Fees: 1}, "", "under way"},
		"unknown status":      {200, update("UNKNOWN", preimage), lightning.Transaction{}, `"UNKNOWN" is not known`, `"UNKNOWN" is not known`},
		"other hash":          {200, strings.Replace(good, hash.Hex(), zeros, 1), lightning.Transaction{}, "another payment hash", "another payment hash"},
		"negative amount":     {200, strings.Replace(good, `"7"`, `"-7"`, 1), lightning.Transaction{}, "-7 msat", "-7 msat"},
		"a number":            {200, strings.Replace(good, `"7"`, `7`, 1), lightning.Transaction{}, "malformed", "malformed"},
		"overflow":            {200, strings.Replace(good, `"7"`, `"9223372036854775808"`, 1), lightning.Transaction{}, "malformed", "malformed"},
		"duplicate member":    {200, strings.Replace(good, `"status"`, `"payment_hash":"","status"`, 1), lightning.Transaction{}, "malformed", "malformed"},
		"no result":           {200, `{}`, lightning.Transaction{}, "neither a result", "neither a result"},
		"nothing":             {200, ``, lightning.Transaction{}, "has not answered", "has not answered"},
		"cut":                 {200, good[:100], lightning.Transaction{}, "malformed", "malformed"},
		"endless":             {200, `{"result":{"payment_hash":"` + strings.Repeat("0", maxAnswer), lightning.Transaction{}, "malformed", "malformed"},
		"late error":          {200, `{"error":{"code":2,"message":"no\u001b way"}}`, lightning.Transaction{}, `"no way"`, `"no way"`},
		"locked":              {500, `{"code":2,"message":"wallet locked","details":[]}`, lightning.Transaction{}, `"wallet locked"`, `"wallet locked"`},
		"no macaroon":         {500, `{"error":{"code":2,"message":"permission denied"}}`, lightning.Transaction{}, "RESTRICTED", "RESTRICTED"},
		"gRPC":                {415, "invalid gRPC request content-type", lightning.Transaction{}, "usually 8080", "usually 8080"},
		"a redirect":          {302, "", lightning.Transaction{}, "usually 8080", "usually 8080"},
		"error that is text":  {404, `{"error":"Not Found","code":5,"message":"Not Found"}`, lightning.Transaction{}, "NOT_IMPLEMENTED", "NOT_IMPLEMENTED"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := lndtest.NewFakes(t)
			w := connect(t, nodes.Payer, lndtest.Enough...)
			o, err := w.Prepare(t.Context(), unroutable(t, hash), time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			nodes.Answer = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, pathTrack) {
					return false
				}
				w.Header().Set("Location", "https://192.0.2.1/")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
				return true
			}
			if got, err := w.Lookup(t.Context(), hash); got != c.want || !says(err, c.err) {
				t.Errorf("%+v, %.200v", got, err)
			}
			p, err := w.Pay(t.Context(), o)
			if !says(err, c.pays) || (p.Preimage != [32]byte{}) != (err == nil) {
				t.Errorf("%+v, %.200v", p, err)
			}
		})
	}
}

// says reports whether an error has a text, or is nil if that is empty.
func says(err error, text string) bool {
	if text == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), text)
}

func TestFalseInvoices(t *testing.T) {
	sum := base64.StdEncoding.EncodeToString(hash[:])
	good := `{"r_hash":"` + sum + `","r_preimage":"` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x01", 32))) + `","value_msat":"7","state":"SETTLED","payment_request":""}`
	none := lightning.Transaction{}
	for name, c := range map[string]struct {
		body string
		want lightning.Transaction
		good bool
	}{
		"settled":         {good, lightning.Transaction{Settled: true, Amount: 7, Preimage: [32]byte([]byte(strings.Repeat("\x01", 32)))}, true},
		"open":            {strings.Replace(good, "SETTLED", "OPEN", 1), lightning.Transaction{Amount: 7}, true},
		"cancelled":       {strings.Replace(good, "SETTLED", "CANCELED", 1), lightning.Transaction{Failed: true, Amount: 7}, true},
		"false preimage":  {strings.Replace(good, "AQEB", "AQEC", 1), lightning.Transaction{Settled: true, Amount: 7}, true},
		"unknown state":   {strings.Replace(good, "SETTLED", "PAID", 1), none, false},
		"other hash":      {strings.Replace(good, sum, base64.StdEncoding.EncodeToString(make([]byte, 32)), 1), none, false},
		"no hash":         {`{"state":"SETTLED","value_msat":"7"}`, none, false},
		"other invoice":   {strings.Replace(good, `"payment_request":""`, `"payment_request":"`+unroutable(t, guild.Hash{1})+`"`, 1), none, false},
		"negative amount": {strings.Replace(good, `"7"`, `"-7"`, 1), none, false},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := lndtest.NewFakes(t)
			w := connect(t, nodes.Payer, lndtest.Enough...)
			nodes.Answer = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, pathInvoice+"/") {
					_, _ = io.WriteString(w, c.body)
				}
				return strings.HasPrefix(r.URL.Path, pathInvoice+"/")
			}
			if got, err := w.Lookup(t.Context(), hash); got != c.want || (err == nil) != c.good {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestReads(t *testing.T) {
	for name, c := range map[string]struct{ path, body string }{
		"no key":               {pathInfo, `{"identity_pubkey":"02","chains":[{"network":"regtest"}]}`},
		"no network":           {pathInfo, `{"identity_pubkey":"02` + zeros + `","chains":[]}`},
		"two networks":         {pathInfo, `{"identity_pubkey":"02` + zeros + `","chains":[{"network":"regtest"},{"network":"mainnet"}]}`},
		"unknown network":      {pathInfo, `{"identity_pubkey":"02` + zeros + `","chains":[{"network":"simnet"}]}`},
		"less than nothing":    {pathBalance, `{"local_balance":{"msat":"-1"}}`},
		"more than all":        {pathBalance, `{"local_balance":{"msat":"9000000000000000000"}}`},
		"a balance in numbers": {pathBalance, `{"local_balance":{"msat":1}}`},
		"not JSON":             {pathBalance, `<html>`},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := lndtest.NewFakes(t)
			w := connect(t, nodes.Payer, lndtest.Enough...)
			nodes.Answer = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == c.path {
					_, _ = io.WriteString(w, c.body)
				}
				return r.URL.Path == c.path
			}
			if err := w.Check(t.Context()); err == nil {
				t.Error("it was taken")
			}
		})
	}
	nodes := lndtest.NewFakes(t)
	w := connect(t, nodes.Payer, lndtest.Enough...)
	other := unroutable(t, hash)
	nodes.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == pathInvoices {
			_, _ = io.WriteString(w, `{"payment_request":"`+other+`"}`)
		}
		return r.URL.Path == pathInvoices
	}
	if _, inv, err := w.MakeInvoice(t.Context(), 7001, "work", time.Hour); err == nil {
		t.Error("an invoice for another amount:", inv)
	}
}

// TestSilentNode asks a node that does not answer, and one that begins to.
func TestSilentNode(t *testing.T) {
	for _, begins := range []string{"", `{"result":`} {
		nodes := lndtest.NewFakes(t)
		w := connect(t, nodes.Payer, lndtest.Enough...)
		nodes.Answer = func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = io.WriteString(w, begins)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}
		w.config.Timeout = 50 * time.Millisecond
		if _, err := w.Balance(t.Context()); !errors.Is(err, lightning.ErrNoAnswer) {
			t.Error(err)
		}
		if _, err := w.Lookup(t.Context(), hash); !errors.Is(err, lightning.ErrNoAnswer) {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Balance(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestPinnedCertificate gives the certificate of another node.
func TestPinnedCertificate(t *testing.T) {
	nodes := lndtest.NewFakes(t)
	c, err := Parse(nodes.Payer.Connection(t, lndtest.Enough...))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Connection){
		"the system's":   func(c *Connection) { c.Certificate = nil },
		"another's":      func(c *Connection) { c.Certificate = otherCertificate(t) },
		"for other host": func(c *Connection) { c.Address = strings.Replace(c.Address, "127.0.0.1", "localhost", 1) },
	} {
		changed := c
		change(&changed)
		w := New(Config{Connection: changed, Now: time.Now})
		if _, err := w.Info(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
		w.Close()
	}
}

func TestSecretNotPrinted(t *testing.T) {
	c, err := Parse("lndconnect://127.0.0.1?macaroon=0201feedbeef")
	if err != nil {
		t.Fatal(err)
	}
	w := New(Config{Connection: c, Now: time.Now})
	raw, _ := json.Marshal(c)
	for _, said := range []string{fmt.Sprintf("%v %+v %#v", c, c, c), fmt.Sprintf("%v %+v %#v", w, w, w), string(raw)} {
		if strings.Contains(said, "feedbeef") {
			t.Error(said)
		}
	}
}

func TestConnectionStrings(t *testing.T) {
	cert := otherCertificate(t)
	der := base64.RawURLEncoding.EncodeToString(cert.Raw)
	file := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	bytes := append([]byte{2, 1}, strings.Repeat("\xfb\xff", 20)...)
	macaroon, inHex := base64.RawURLEncoding.EncodeToString(bytes), hex.EncodeToString(bytes)
	for text, want := range map[string]string{ // the address, or ""
		"lndconnect://node.example:8443?cert=" + der + "&macaroon=" + macaroon:                               "node.example:8443",
		" lndconnect://node.example?cert=" + der + "&macaroon=" + macaroon + "\n":                            "node.example:8080",
		"lndconnect://[::1]:1/?macaroon=" + inHex:                                                            "[::1]:1",
		"lndconnect://a.b:1?macaroon=" + strings.ToUpper(inHex):                                              "a.b:1",
		"lndconnect://a.b:1?macaroon=" + base64.StdEncoding.EncodeToString(bytes):                            "a.b:1",
		"lndconnect://a.b:1?cert=" + base64.StdEncoding.EncodeToString(file) + "&macaroon=" + inHex:          "a.b:1",
		"lndconnect://a.b:1?cert=&macaroon=" + inHex:                                                         "a.b:1",
		"lndconnect://a.b:1?cert=" + der:                                                                     "",
		"lndconnect://a.b:1?cert=" + der + "&cert=" + der + "&macaroon=" + inHex:                             "",
		"lndconnect://a.b:1?cert=" + der[:40] + "&macaroon=" + inHex:                                         "",
		"lndconnect://a.b:1?cert=%zz&macaroon=" + inHex:                                                      "",
		"lndconnect://a.b:1?macaroon=" + inHex + "&macaroon=" + inHex:                                        "",
		"lndconnect://a.b:1?macaroon=":                                                                       "",
		"lndconnect://a.b:1?macaroon=01" + inHex:                                                             "",
		"lndconnect://a.b:1?macaroon=" + inHex[:5]:                                                           "",
		"lndconnect://a.b:1?macaroon=" + strings.Repeat(inHex, 200):                                          "",
		"lndconnect://a.b:1?macaroon=" + strings.Repeat(inHex, 1000):                                         "",
		"lndconnect://?macaroon=" + inHex:                                                                    "",
		"lndconnect://:8080?macaroon=" + inHex:                                                               "",
		"lndconnect://a.b:0?macaroon=" + inHex:                                                               "",
		"lndconnect://a.b:99999?macaroon=" + inHex:                                                           "",
		"lndconnect://u:p@a.b:1?macaroon=" + inHex:                                                           "",
		"lndconnect://a.b:1/x?macaroon=" + inHex:                                                             "",
		"lndconnect://abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrstuvwx.onion:8080?macaroon=" + inHex: "",
		"https://a.b:1?macaroon=" + inHex:                                                                    "",
		"lndconnect:a.b:1?macaroon=" + inHex:                                                                 "",
		"lndconnect://a.b:1?macaroon=" + inHex + "\x00":                                                      "",
	} {
		c, err := Parse(text)
		if c.Address != want || (err == nil) != (want != "") {
			t.Errorf("%.100q: %+v, %v", text, c, err)
		}
		if err == nil && (c.macaroon() != inHex || strings.Contains(text, "cert=M") && !c.Certificate.Equal(cert)) {
			t.Errorf("%.100q: %+v", text, c)
		}
		if err != nil && strings.Contains(err.Error(), inHex[:8]) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("lndconnect://127.0.0.1:8080?cert=MIIB&macaroon=AgEDbG5k")
	f.Add("lndconnect://[::1]?macaroon=0201")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err == nil && (c.Address == "" || c.macaroon() == "" || len(c.macaroon()) > 2*maxMacaroon || len(text) > maxConnection) {
			t.Errorf("%+v", c)
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(update("SUCCEEDED", preimage)), 200)
	f.Add([]byte(`{"error":{"code":5,"message":"payment isn't initiated","details":[]}}`), 404)
	f.Add([]byte(`{"r_hash":"`+base64.StdEncoding.EncodeToString(hash[:])+`","state":"OPEN","value_msat":"7"}`), 200)
	f.Add([]byte(`{"identity_pubkey":"02`+zeros+`","alias":"a","chains":[{"network":"regtest"}]}`), 200)
	f.Add([]byte(`{"local_balance":{"msat":"7"}}`), 200)
	f.Add([]byte(`{"node":"02","invoice":"lnbcrt1"}`), 200)
	f.Fuzz(func(t *testing.T, b []byte, status int) {
		if p, err := parseUpdate(strings.NewReader(string(b)), hash); err == nil {
			got := p.transaction(hash)
			if lightning.CheckAmount(got.Amount) != nil || got.Settled && got.Failed || got.Preimage != [32]byte{} && !got.Settled {
				t.Errorf("%+v", got)
			}
			if paid, err := p.payment(hash); err == nil && guild.Hash(sha256.Sum256(paid.Preimage[:])) != hash {
				t.Errorf("%+v", paid)
			}
		}
		if parseFailure(b, status) == nil {
			t.Error("no error")
		}
		var i invoice
		if json.Unmarshal(b, &i) == nil {
			if got, err := i.transaction(hash); err == nil && (got.Outgoing || lightning.CheckAmount(got.Amount) != nil || got.Settled && got.Failed) {
				t.Errorf("%+v", got)
			}
		}
		var self info
		if json.Unmarshal(b, &self) == nil && self.check() == nil && self.network() == "" {
			t.Errorf("%+v", self)
		}
		if o, inv, err := parseOrder(b); err == nil && (o.Invoice == "" || inv.Amount == 0) {
			t.Errorf("%+v", o)
		}
	})
}

// otherCertificate returns a certificate of nobody's.
func otherCertificate(t *testing.T) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	one := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}}}
	der, err := x509.CreateCertificate(rand.Reader, one, one, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestUncancelled checks that an answer of NOT_FOUND cancels nothing that the node has, and that a node without the request is unable.
func TestUncancelled(t *testing.T) {
	nodes := lndtest.NewFakes(t)
	payee := connect(t, nodes.Payee, lndtest.Enough...)
	_, inv, err := payee.MakeHold(t.Context(), lightning.Hold{Hash: hash, Amount: 5000, Expiry: time.Hour, Blocks: 300})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"code":5,"message":"unable to locate invoice","details":[]}`
	nodes.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != pathCancel {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, body)
		return true
	}
	if err := payee.Cancel(t.Context(), hash); !errors.Is(err, lightning.ErrOpen) {
		t.Error("it can still be paid:", err)
	}
	if err := payee.Cancel(t.Context(), guild.Hash{55}); err != nil {
		t.Error("of which it knows nothing:", err)
	}
	payee.config.Now = func() time.Time { return inv.Created.Add(inv.Expiry + 2*time.Minute) }
	if err := payee.Cancel(t.Context(), hash); err != nil {
		t.Error("expired:", err)
	}
	body = `{"code":5,"message":"Not Found","details":[]}`
	if err := payee.Cancel(t.Context(), guild.Hash{55}); !lightning.IsRefused(err, lightning.NotImplemented) {
		t.Error("a node without the request:", err)
	}
}
