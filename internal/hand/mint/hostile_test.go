package mint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"guild"
	"guild/cashu"
)

// at returns an element of a list in an answer.
func at(answer map[string]any, list string, i int) map[string]any {
	return answer[list].([]any)[i].(map[string]any)
}

func TestFalseAnswers(t *testing.T) {
	const malformed = "malformed" // a part of the error of an answer that is no lie
	otherKey := cashu.RandomScalar().PubKey().String()
	swap, restore, states := "swap", "restore", "checkstate"
	for _, c := range []struct {
		name   string
		path   string // of the answer that is changed
		change func(answer map[string]any)
		want   string // part of the error; a lie unless it is malformed
	}{
		{"no signatures", swap, func(a map[string]any) { delete(a, "signatures") }, "0 signatures for 2"},
		{"one signature less", swap, func(a map[string]any) { a["signatures"] = a["signatures"].([]any)[:1] }, "1 signatures for 2"},
		{"one signature more", swap, func(a map[string]any) { a["signatures"] = append(a["signatures"].([]any), at(a, "signatures", 0)) }, "3 signatures for 2"},
		{"signatures in another order", swap, func(a map[string]any) {
			l := a["signatures"].([]any)
			l[0], l[1] = l[1], l[0]
		}, "for 8 instead of 4"},
		{"another amount", swap, func(a map[string]any) { at(a, "signatures", 0)["amount"] = 2 }, "for 2 instead of 4"},
		{"an amount without a key", swap, func(a map[string]any) { at(a, "signatures", 0)["amount"] = 3 }, "for 3 instead of 4"},
		{"a negative amount", swap, func(a map[string]any) { at(a, "signatures", 0)["amount"] = -4 }, malformed},
		{"an amount that is not whole", swap, func(a map[string]any) { at(a, "signatures", 0)["amount"] = 4.5 }, malformed},
		{"an amount that overflows", swap, func(a map[string]any) { at(a, "signatures", 0)["amount"] = json.Number("18446744073709551620") }, malformed},
		{"another keyset", swap, func(a map[string]any) { at(a, "signatures", 0)["id"] = "00ffffffffffffff" }, "of keyset"},
		{"a signature by another key", swap, func(a map[string]any) { at(a, "signatures", 0)["C_"] = otherKey }, "did not sign"},
		{"no signature", swap, func(a map[string]any) { at(a, "signatures", 0)["C_"] = nil }, "did not sign"},
		{"a signature that is not a point", swap, func(a map[string]any) { at(a, "signatures", 0)["C_"] = "05" + otherKey[2:] }, malformed},
		{"no DLEQ", swap, func(a map[string]any) { delete(at(a, "signatures", 0), "dleq") }, "no DLEQ"},
		{"an empty DLEQ", swap, func(a map[string]any) { at(a, "signatures", 0)["dleq"] = map[string]any{} }, "did not sign"},
		{"the DLEQ of another", swap, func(a map[string]any) { at(a, "signatures", 0)["dleq"] = at(a, "signatures", 1)["dleq"] }, "did not sign"},
		{"too many signatures", swap, func(a map[string]any) { a["signatures"] = make([]map[string]any, cashu.MaxProofs+1) }, malformed},
		{"signatures that are no array", swap, func(a map[string]any) { a["signatures"] = map[string]any{} }, malformed},

		{"less outputs than signatures", restore, func(a map[string]any) { a["outputs"] = a["outputs"].([]any)[:1] }, "2 signatures for 1"},
		{"an output twice", restore, func(a map[string]any) {
			a["outputs"].([]any)[1] = at(a, "outputs", 0)
			a["signatures"].([]any)[1] = at(a, "signatures", 0)
		}, "there twice"},
		{"an output that was not asked for", restore, func(a map[string]any) { at(a, "outputs", 0)["B_"] = otherKey }, "not asked for"},
		{"the signature of another", restore, func(a map[string]any) { at(a, "signatures", 0)["C_"] = at(a, "signatures", 1)["C_"] }, "did not sign"},
		{"restored without DLEQ", restore, func(a map[string]any) { at(a, "signatures", 0)["dleq"] = nil }, "no DLEQ"},
		{"restored for another amount", restore, func(a map[string]any) { at(a, "signatures", 0)["amount"] = 1 }, "for 1 instead of 4"},

		{"a state less", states, func(a map[string]any) { a["states"] = a["states"].([]any)[:1] }, "1 states of 2"},
		{"a state twice", states, func(a map[string]any) { a["states"].([]any)[1] = at(a, "states", 0) }, "state 1 is that of another"},
		{"a state too much", states, func(a map[string]any) { a["states"] = append(a["states"].([]any), at(a, "states", 0)) }, "3 states of 2"},
		{"states in another order", states, func(a map[string]any) {
			l := a["states"].([]any)
			l[0], l[1] = l[1], l[0]
		}, "state 0 is that of another"},

		{"a keyset listed twice", "keysets", func(a map[string]any) { a["keysets"] = append(a["keysets"].([]any), at(a, "keysets", 0)) }, "listed twice"},
		{"a keyset of another unit than before", "keysets", func(a map[string]any) { at(a, "keysets", 0)["unit"] = "usd" }, "was of the unit sat"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHonest()
			m, ctx, k := h.serve(t), context.Background(), h.keysets[0]
			outputs := []cashu.Output{newCoin(k, "a", 4).Output, newCoin(k, "b", 8).Output}
			if _, err := m.Keysets(ctx); err != nil {
				t.Fatal(err)
			}
			h.sign(outputs, nil)
			h.change = func(path string, answer map[string]any) {
				if path == c.path {
					c.change(answer)
				}
			}
			var err error
			switch c.path {
			case swap:
				h.signed = map[cashu.Point]cashu.Signature{}
				_, err = m.Swap(ctx, []cashu.Proof{h.mintCoin(t, "x", 8), h.mintCoin(t, "y", 4)}, outputs)
			case restore:
				_, err = m.Restore(ctx, outputs)
			case states:
				_, err = m.States(ctx, []cashu.Point{cashu.HashToCurve("x"), cashu.HashToCurve("y")})
			default:
				_, err = m.Keysets(ctx)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || isLie(err) != (c.want != malformed) {
				t.Error(err)
			}
		})
	}
}

func TestFalseKeysets(t *testing.T) {
	other := newHonest().keysets[0]
	for name, change := range map[string]func(answer map[string]any){
		"keys that are not its own":   func(a map[string]any) { at(a, "keysets", 0)["keys"] = other.Keys },
		"another keyset":              func(a map[string]any) { at(a, "keysets", 0)["id"] = other.ID },
		"another unit":                func(a map[string]any) { at(a, "keysets", 0)["unit"] = "usd" },
		"a key less":                  func(a map[string]any) { delete(at(a, "keysets", 0)["keys"].(map[string]any), "1") },
		"two keysets":                 func(a map[string]any) { a["keysets"] = append(a["keysets"].([]any), at(a, "keysets", 0)) },
		"none":                        func(a map[string]any) { a["keysets"] = nil },
		"another amount for the last": swapAmount,
	} {
		h := newHonest()
		h.keysets = nil
		k := h.add("01", "sat", 100, true)
		m := h.serve(t)
		h.change = func(path string, answer map[string]any) {
			if path != "keysets" {
				change(answer)
			}
		}
		if _, err := m.Keyset(context.Background(), k.ID); !isLie(err) {
			t.Errorf("%s: %v", name, err)
		}
		h.change = func(path string, answer map[string]any) {
			if path == "keysets" {
				at(answer, "keysets", 0)["input_fee_ppk"] = 0
			}
		}
		if _, err := m.Keyset(context.Background(), k.ID); !isLie(err) {
			t.Errorf("a lower fee than in the id: %v", err)
		}
	}
}

// swapAmount says that the key for 128 is for 256.
func swapAmount(answer map[string]any) {
	keys := at(answer, "keysets", 0)["keys"].(map[string]any)
	keys["256"] = keys["128"]
	delete(keys, "128")
}

func TestFalseQuotes(t *testing.T) {
	key := cashu.RandomScalar().PubKey()
	for name, change := range map[string]func(answer map[string]any){
		"another amount":       func(a map[string]any) { a["amount"] = 13 },
		"another unit":         func(a map[string]any) { a["unit"] = "msat" },
		"another key":          func(a map[string]any) { a["pubkey"] = cashu.RandomScalar().PubKey() },
		"no key":               func(a map[string]any) { delete(a, "pubkey") },
		"no id":                func(a map[string]any) { delete(a, "quote") },
		"an id with a path":    func(a map[string]any) { a["quote"] = "../../v1/keys" },
		"a long id":            func(a map[string]any) { a["quote"] = strings.Repeat("a", 300) },
		"no invoice":           func(a map[string]any) { delete(a, "request") },
		"an invoice for more":  func(a map[string]any) { a["request"] = invoice(12_001, guild.Hash{1}) },
		"an invoice for less":  func(a map[string]any) { a["request"] = invoice(11_999, guild.Hash{1}) },
		"an open invoice":      func(a map[string]any) { a["request"] = invoice(0, guild.Hash{1}) },
		"an unknown state":     func(a map[string]any) { a["state"] = "SOON" },
		"no state":             func(a map[string]any) { delete(a, "state") },
		"a state of proofs":    func(a map[string]any) { a["state"] = "SPENT" },
		"an expiry in letters": func(a map[string]any) { a["expiry"] = "tomorrow" },
	} {
		h := newHonest()
		m := h.serve(t)
		h.change = func(_ string, answer map[string]any) { change(answer) }
		if q, err := m.Quote(context.Background(), 12, "sat", key); err == nil {
			t.Errorf("%s: %v", name, q)
		}
	}
}

func TestQuoteThatChanges(t *testing.T) {
	for name, change := range map[string]func(answer map[string]any){
		"another id":      func(a map[string]any) { a["quote"] = "quote-1" },
		"another invoice": func(a map[string]any) { a["request"] = invoice(12_000, guild.Hash{2}) },
		"another amount":  func(a map[string]any) { a["amount"] = 13 },
		"a lock":          func(a map[string]any) { a["pubkey"] = cashu.RandomScalar().PubKey() },
		"unpaid again":    func(a map[string]any) { a["state"] = "UNPAID" },
		"paid again":      func(a map[string]any) { a["state"] = nil; a["amount_paid"] = 12; a["amount_issued"] = 0 },
	} {
		h := newHonest()
		m, ctx := h.serve(t), context.Background()
		q, err := m.Quote(ctx, 12, "sat", cashu.Point{})
		if err != nil {
			t.Fatal(err)
		}
		h.change = func(_ string, answer map[string]any) {
			answer["state"], answer["amount_paid"], answer["amount_issued"] = nil, 12, 12
		}
		if q, err = m.QuoteState(ctx, q); err != nil || q.State != Issued {
			t.Fatal(q, err)
		}
		h.change = func(_ string, answer map[string]any) {
			answer["state"] = "ISSUED"
			change(answer)
		}
		if _, err := m.QuoteState(ctx, q); !isLie(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFalseMelts(t *testing.T) {
	bill := invoice(60_500, guild.Hash{1})
	for name, change := range map[string]func(answer map[string]any){
		"a lower amount":          func(a map[string]any) { a["amount"] = 59 },
		"a higher amount":         func(a map[string]any) { a["amount"] = 62 },
		"a reserve that is huge":  func(a map[string]any) { a["fee_reserve"] = uint64(1) << 62 },
		"a negative reserve":      func(a map[string]any) { a["fee_reserve"] = -4 },
		"another invoice":         func(a map[string]any) { a["request"] = invoice(60_500, guild.Hash{2}) },
		"another unit":            func(a map[string]any) { a["unit"] = "usd" },
		"a state of mint quotes":  func(a map[string]any) { a["state"] = "ISSUED" },
		"an id that is no string": func(a map[string]any) { a["quote"] = 5 },
	} {
		h := newHonest()
		m := h.serve(t)
		h.change = func(_ string, answer map[string]any) { change(answer) }
		if q, err := m.MeltQuote(context.Background(), bill, "sat"); err == nil {
			t.Errorf("%s: %v", name, q)
		}
	}
	for name, change := range map[string]func(answer map[string]any){
		"another quote":         func(a map[string]any) { a["quote"] = "melt-9" },
		"another reserve":       func(a map[string]any) { a["fee_reserve"] = 5 },
		"change without DLEQ":   func(a map[string]any) { at(a, "change", 0)["dleq"] = nil },
		"change of other worth": func(a map[string]any) { at(a, "change", 0)["amount"] = 2 },
		"too much change":       func(a map[string]any) { a["change"] = append(a["change"].([]any), at(a, "change", 0)) },
	} {
		h := newHonest()
		m, ctx := h.serve(t), context.Background()
		q, err := m.MeltQuote(ctx, bill, "sat")
		if err != nil {
			t.Fatal(err)
		}
		h.change = func(_ string, answer map[string]any) {
			if answer["change"] != nil {
				change(answer)
			}
		}
		if _, _, err := m.Melt(ctx, q, []cashu.Proof{h.mintCoin(t, "z", 64)}, []cashu.Output{newCoin(h.keysets[0], "x", 0).Output}); !isLie(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := newHonest().serve(t)
	if _, err := m.MeltQuote(context.Background(), invoice(0, guild.Hash{1}), "sat"); err == nil {
		t.Error("an invoice without an amount")
	}
}

func TestWrongRequestsAreNotSent(t *testing.T) {
	h := newHonest()
	m, ctx, k := h.serve(t), context.Background(), h.keysets[0]
	inputs, good := []cashu.Proof{h.mintCoin(t, "a", 8)}, newCoin(k, "b", 8).Output
	other := good
	other.Keyset = "00ffffffffffffff"
	for name, outputs := range map[string][]cashu.Output{
		"none": nil, "too many": make([]cashu.Output, cashu.MaxProofs+1), "an unknown keyset": {other},
		"an amount without a key": {newCoin(k, "c", 3).Output}, "no amount": {newCoin(k, "d", 0).Output},
	} {
		if _, err := m.Swap(ctx, inputs, outputs); err == nil {
			t.Error(name)
		}
	}
	if _, err := m.Swap(ctx, nil, []cashu.Output{good}); err == nil {
		t.Error("no inputs")
	}
	if _, err := m.QuoteState(ctx, Quote{ID: "a/b"}); err == nil {
		t.Error("an id with a path")
	}
	if len(h.bodies) > 0 {
		t.Error("sent:", h.bodies)
	}
}

func TestHostileServers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Error("it follows the redirect: ", r.Method, r.URL)
	}))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		want    string
		handler http.HandlerFunc
	}{
		"huge": {"more than", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte{' '}, maxAnswer+1))
		}},
		"endless": {"more than", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"keysets":[`)
			for err := error(nil); err == nil; {
				_, err = io.WriteString(w, `{"id":"00ffffffffffffff"},`)
			}
		}},
		"cut": {"unexpected EOF", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"keysets":[]}`)
		}},
		"not JSON":     {"malformed", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }},
		"a name twice": {"malformed", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"keysets":[],"keysets":[]}`) }},
		"a long name twice": {"malformed", func(w http.ResponseWriter, _ *http.Request) {
			name := strings.Repeat(`\u001b`, 1<<17)
			fmt.Fprintf(w, `{"%s":1,"%s":1}`, name, name)
		}},
		"empty":         {"malformed", func(http.ResponseWriter, *http.Request) {}},
		"redirect":      {"redirects", http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP},
		"redirect here": {"redirects", http.RedirectHandler("/v1/other", http.StatusFound).ServeHTTP},
		"gateway":       {"HTTP status 502", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }},
		"refusal": {"refused: no no (code 11002)", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"detail":"no\n\u001b\u202eno","code":11002}`, http.StatusBadRequest)
		}},
		"refusal with an object": {`HTTP status 422: [{"msg":"bad"}]`, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"detail":[{"msg":"bad"}]}`, http.StatusUnprocessableEntity)
		}},
		"long refusal": {"aaa (code 1)", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"code":1,"detail":"`+strings.Repeat("a", 1<<20)+`"}`, http.StatusBadRequest)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := clientOf(t, c.handler)
			_, err := m.Keysets(context.Background())
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 600 {
				t.Fatalf("%.1000v", err)
			}
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", err)
			}
		})
	}
}

// stalled is a connection to a mint that does not answer.
type stalled struct{}

func (stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestSlowMint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New("https://mint.example", &http.Client{Transport: stalled{}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = m.States(context.Background(), []cashu.Point{cashu.HashToCurve("a")})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 20*time.Second {
			t.Error(time.Since(start), err)
		}
		start = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err = m.QuoteState(ctx, Quote{ID: "secret-id"})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute || strings.Contains(err.Error(), "secret-id") {
			t.Error(time.Since(start), err)
		}
	})
}

// FuzzAnswers sends any answer to each request: the client neither fails otherwise than with an error nor believes it.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"keysets":[{"id":"00ffffffffffffff","unit":"sat","active":true,"keys":{"1":"02aa"}}]}`), 200)
	f.Add([]byte(`{"signatures":[{"id":"00ffffffffffffff","amount":1,"C_":null,"dleq":{}}],"outputs":[{"B_":null}]}`), 200)
	f.Add([]byte(`{"states":[{"Y":null,"state":"SPENT","witness":{}}],"quote":"a","state":"PAID","amount":8,"amount_paid":8}`), 200)
	f.Add([]byte(`{"detail":["x"],"code":11001}`), 400)
	k := newHonest().keysets[0]
	input := cashu.Proof{Amount: 8, Keyset: k.ID, Secret: "s", C: k.Keys[8]}
	output := newCoin(k, "a", 8).Output
	blank := newCoin(k, "b", 0).Output
	bill := invoice(8_000, guild.Hash{1})
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		m, err := New("https://mint.example", &http.Client{Transport: fixed{body, status}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if all, err := m.Keysets(ctx); err == nil {
			for _, k := range all {
				if k.Check() != nil {
					t.Error("a keyset that is not checked:", k.ID)
				}
			}
		}
		m.known[k.ID] = k
		if s, err := m.Swap(ctx, []cashu.Proof{input}, []cashu.Output{output}); err == nil {
			t.Error("a forged signature:", s)
		}
		if s, err := m.Restore(ctx, []cashu.Output{output, blank}); err == nil && len(s) > 0 {
			t.Error("a forged signature:", s)
		}
		if states, err := m.States(ctx, []cashu.Point{output.B}); err == nil && len(states) != 1 {
			t.Error(states)
		}
		if q, err := m.Quote(ctx, 8, "test", cashu.Point{}); err == nil {
			if q.Amount != 8 || q.Expiry < 0 || !isQuoteID(q.ID) {
				t.Error(q)
			}
			_, _ = m.QuoteState(ctx, q)
		}
		if q, err := m.MeltQuote(ctx, bill, "sat"); err == nil {
			if q.Amount != 8 || q.Preimage != "" {
				t.Error(q)
			}
			if _, s, err := m.Melt(ctx, q, []cashu.Proof{input}, []cashu.Output{blank}); err == nil && len(s) > 0 {
				t.Error("a forged signature:", s)
			}
		}
	})
}

// fixed answers all requests alike.
type fixed struct {
	body   []byte
	status int
}

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f.status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(f.body)), Request: r}, nil
}
