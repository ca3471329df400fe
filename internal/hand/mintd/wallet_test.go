package mintd

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"guild/cashu"
)

// wallet is a client of a mint, made of package cashu.
type wallet struct {
	t      testing.TB
	url    string
	keyset cashu.Keyset
	client *http.Client
}

// start serves a mint in a directory over loopback until the test ends.
func start(t testing.TB, dir string, o Options) (*Mint, *wallet) {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	m, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(m.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, newWallet(t, server.URL)
}

func newWallet(t testing.TB, url string) *wallet {
	t.Helper()
	w := &wallet{t: t, url: url, client: http.DefaultClient}
	var keys keyList
	w.get("/v1/keys", &keys)
	w.keyset = keys.Keysets[0].Keyset
	if err := w.keyset.Check(); err != nil {
		t.Fatal(err)
	}
	return w
}

// do sends a request. The error is a refusal, or that no answer came.
func (w *wallet) do(method, path string, body, into any) error {
	var b []byte
	if body != nil {
		b = encode(body)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(b))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var r refusal
		if err := json.Unmarshal(answer, &r); err != nil {
			return fmt.Errorf("%s: %.100q", resp.Status, answer)
		}
		return r
	}
	return json.Unmarshal(answer, into)
}

func (w *wallet) get(path string, into any) {
	w.t.Helper()
	if err := w.do("GET", path, nil, into); err != nil {
		w.t.Fatal(path, err)
	}
}

func (w *wallet) post(path string, body, into any) {
	w.t.Helper()
	if err := w.do("POST", path, body, into); err != nil {
		w.t.Fatal(path, err)
	}
}

// refused checks the code of a refusal.
func (w *wallet) refused(code int, path string, body any) {
	w.t.Helper()
	err := w.do("POST", path, body, &struct{}{})
	if r, ok := err.(refusal); !ok || r.Code != code || r.Detail == "" {
		w.t.Errorf("%s: %v, want code %d", path, err, code)
	}
}

// blinded has the secrets of outputs that a mint is asked to sign.
type blinded struct {
	outputs []cashu.Output
	secrets []string
	factors []cashu.Scalar
}

// blind makes outputs of random secrets for the amounts.
func (w *wallet) blind(amounts ...uint64) blinded {
	secrets := make([]string, len(amounts))
	for i := range secrets {
		secret := cashu.RandomScalar()
		secrets[i] = hex.EncodeToString(secret[:])
	}
	return w.blindSecrets(secrets, amounts...)
}

func (w *wallet) blindSecrets(secrets []string, amounts ...uint64) (b blinded) {
	w.t.Helper()
	for i, amount := range amounts {
		r := cashu.RandomScalar()
		message, err := cashu.Blind(secrets[i], r)
		if err != nil {
			w.t.Fatal(err)
		}
		b.outputs = append(b.outputs, cashu.Output{Amount: amount, Keyset: w.keyset.ID, B: message})
		b.secrets, b.factors = append(b.secrets, secrets[i]), append(b.factors, r)
	}
	return b
}

// unblind makes proofs of the mint's signatures, which it checks.
func (w *wallet) unblind(b blinded, all []cashu.Signature) (proofs []cashu.Proof) {
	w.t.Helper()
	for i, s := range all {
		key := w.keyset.Keys[s.Amount]
		c, err := cashu.Unblind(s.C, b.factors[i], key)
		if err != nil || s.DLEQ == nil || s.Keyset != w.keyset.ID {
			w.t.Fatalf("signature %d: %+v, %v", i, s, err)
		}
		proof := *s.DLEQ
		proof.R = &b.factors[i]
		if err := proof.Check(key, b.secrets[i], c); err != nil {
			w.t.Fatal(err)
		}
		proofs = append(proofs, cashu.Proof{Amount: s.Amount, Keyset: s.Keyset, Secret: b.secrets[i], C: c})
	}
	return proofs
}

// quote asks for a mint quote.
func (w *wallet) quote(amount uint64) (q mintQuote) {
	w.t.Helper()
	w.post("/v1/mint/quote/bolt11", mintQuoteRequest{Amount: amount, Unit: Unit}, &q)
	return q
}

// fund mints proofs from the faucet.
func (w *wallet) fund(amounts ...uint64) []cashu.Proof {
	w.t.Helper()
	sum, err := cashu.Sum(amounts...)
	if err != nil {
		w.t.Fatal(err)
	}
	b := w.blind(amounts...)
	var s signatures
	w.post("/v1/mint/bolt11", mintRequest{Quote: w.quote(sum).Quote, Outputs: b.outputs}, &s)
	return w.unblind(b, s.Signatures)
}

// lock swaps proofs for one with a secret.
func (w *wallet) lock(secret string, inputs ...cashu.Proof) cashu.Proof {
	w.t.Helper()
	sum, err := cashu.Worth(inputs)
	if err != nil {
		w.t.Fatal(err)
	}
	b := w.blindSecrets([]string{secret}, sum)
	var s signatures
	w.post("/v1/swap", swapRequest{inputs, b.outputs}, &s)
	return w.unblind(b, s.Signatures)[0]
}

// spent says of which proofs the mint says so.
func (w *wallet) spent(proofs ...cashu.Proof) (spent []bool) {
	w.t.Helper()
	for batch := range slices.Chunk(proofs, cashu.MaxProofs) {
		var r stateRequest
		for _, p := range batch {
			r.Ys = append(r.Ys, cashu.HashToCurve(p.Secret))
		}
		var all states
		w.post("/v1/checkstate", r, &all)
		for i, s := range all.States {
			if s.Y != r.Ys[i] || s.State != "SPENT" && s.State != "UNSPENT" {
				w.t.Fatalf("state %d is %+v", i, s)
			}
			spent = append(spent, s.State == "SPENT")
		}
	}
	return spent
}

// contextWith says which address a request came to, as a server does.
func contextWith(ctx context.Context, local net.Addr) context.Context {
	return context.WithValue(ctx, http.LocalAddrContextKey, local)
}
