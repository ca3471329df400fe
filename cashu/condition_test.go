package cashu

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

var (
	provider, customer, arbiter, stranger = RandomScalar(), RandomScalar(), RandomScalar(), RandomScalar()

	locktime = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	before   = locktime.Add(-time.Hour)
	after    = locktime.Add(time.Hour)
)

// secret returns a condition as a secret.
func secret(t *testing.T, c Condition) string {
	t.Helper()
	text, err := c.Secret()
	ok(t, err)
	return text
}

// witness signs a proof with each key.
func witness(t *testing.T, p Proof, keys ...Scalar) Proof {
	t.Helper()
	var w Witness
	for _, k := range keys {
		ok(t, w.Sign(k, p.Secret))
	}
	p.Witness = w.Text()
	return p
}

func TestEscrow(t *testing.T) {
	escrow := Condition{
		Kind: P2PK, Nonce: "n", Keys: []Point{provider.PubKey(), customer.PubKey()}, Sigs: 2,
		Locktime: locktime.Unix(), Refund: []Point{customer.PubKey()}, RefundSigs: 1,
	}
	p := Proof{Secret: secret(t, escrow), C: stranger.PubKey()}
	for name, c := range map[string]struct {
		keys []Scalar
		at   time.Time
		ok   bool
	}{
		"both, in time":               {[]Scalar{provider, customer}, before, true},
		"both, in the other order":    {[]Scalar{customer, provider}, before, true},
		"the provider alone":          {[]Scalar{provider}, before, false},
		"the provider twice":          {[]Scalar{provider, provider}, before, false},
		"the customer before the end": {[]Scalar{customer}, before, false},
		"a stranger beside one":       {[]Scalar{provider, stranger}, before, false},
		"nobody":                      {nil, before, false},
		"the customer afterwards":     {[]Scalar{customer}, after, true},
		"both afterwards":             {[]Scalar{provider, customer}, after, true},
		"the provider afterwards":     {[]Scalar{provider}, after, false},
		"the customer at the second":  {[]Scalar{customer}, locktime, false},
	} {
		err := CheckInputs([]Proof{witness(t, p, c.keys...)}, nil, "", c.at)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTwoOfThree(t *testing.T) {
	c := Condition{Kind: P2PK, Nonce: "n", Keys: []Point{provider.PubKey(), customer.PubKey(), arbiter.PubKey()}, Sigs: 2}
	p := Proof{Secret: secret(t, c), C: stranger.PubKey()}
	ok(t, CheckInputs([]Proof{witness(t, p, provider, arbiter)}, nil, "", before))
	ok(t, CheckInputs([]Proof{witness(t, p, customer, arbiter)}, nil, "", before))
	if CheckInputs([]Proof{witness(t, p, arbiter)}, nil, "", before) == nil {
		t.Error("the arbiter alone spent it")
	}
}

func TestHashLock(t *testing.T) {
	preimage := [32]byte{1, 2, 3}
	c := Condition{Kind: HTLC, Nonce: "n", Hash: sha256.Sum256(preimage[:]), Keys: []Point{provider.PubKey()}, Sigs: 1,
		Locktime: locktime.Unix(), Refund: []Point{customer.PubKey()}, RefundSigs: 1}
	p := Proof{Secret: secret(t, c), C: stranger.PubKey()}
	spend := func(preimage string, key Scalar, at time.Time) error {
		w := Witness{Preimage: preimage}
		ok(t, w.Sign(key, p.Secret))
		p.Witness = w.Text()
		return CheckInputs([]Proof{p}, nil, "", at)
	}
	right := hex.EncodeToString(preimage[:])
	ok(t, spend(right, provider, before))
	ok(t, spend("", customer, after))
	for name, err := range map[string]error{
		"without the preimage":       spend("", provider, before),
		"another preimage":           spend(strings.Repeat("0", 64), provider, before),
		"a longer preimage":          spend(right+"00", provider, before),
		"the preimage and no key":    spend(right, stranger, before),
		"the refund before its time": spend(right, customer, before),
	} {
		if err == nil {
			t.Errorf("%s opened it", name)
		}
	}
}

func TestMalformedConditions(t *testing.T) {
	key := provider.PubKey().String()
	same := "03" + key[2:]
	if key[:2] == "03" {
		same = "02" + key[2:]
	}
	for name, text := range map[string]string{
		"an unknown kind":            `["P2SH",{"nonce":"","data":"` + key + `"}]`,
		"no key":                     `["P2PK",{"nonce":"","data":""}]`,
		"no hash":                    `["HTLC",{"nonce":"","data":"00"}]`,
		"a member twice":             `["P2PK",{"nonce":"","data":"` + stranger.PubKey().String() + `","data":"` + key + `"}]`,
		"a tag twice":                `["P2PK",{"nonce":"","data":"` + key + `","tags":[["n_sigs","1"],["n_sigs","1"]]}]`,
		"an empty tag":               `["P2PK",{"nonce":"","data":"` + key + `","tags":[[]]}]`,
		"more signatures than keys":  `["P2PK",{"nonce":"","data":"` + key + `","tags":[["n_sigs","2"]]}]`,
		"one key in two forms":       `["P2PK",{"nonce":"","data":"` + key + `","tags":[["pubkeys","` + same + `"],["n_sigs","2"]]}]`,
		"no signature at all":        `["P2PK",{"nonce":"","data":"` + key + `","tags":[["n_sigs","0"]]}]`,
		"a refund key too short":     `["P2PK",{"nonce":"","data":"` + key + `","tags":[["refund","02"]]}]`,
		"refunds by nobody":          `["P2PK",{"nonce":"","data":"` + key + `","tags":[["n_sigs_refund","1"]]}]`,
		"an unknown signature flag":  `["P2PK",{"nonce":"","data":"` + key + `","tags":[["sigflag","SIG_NONE"]]}]`,
		"a time in another form":     `["P2PK",{"nonce":"","data":"` + key + `","tags":[["locktime"," 5 "]]}]`,
		"no time":                    `["P2PK",{"nonce":"","data":"` + key + `","tags":[["locktime"]]}]`,
		"what only Python reads":     `["P2PK",{"nonce":"","data":"` + key + `","x":NaN}]`,
		"too long":                   `["P2PK",{"nonce":"` + strings.Repeat("n", maxSecret) + `","data":"` + key + `"}]`,
		"something else than a list": `["P2PK",{"nonce":"","data":"` + key + `","tags":{}}]`,
	} {
		if _, locked, err := ParseCondition(text); !locked || err == nil {
			t.Errorf("%s: locked %t, %v", name, locked, err)
		}
		if CheckInputs([]Proof{witness(t, Proof{Secret: text}, provider, stranger)}, nil, "", before) == nil {
			t.Errorf("%s was spent", name)
		}
	}
	for _, text := range []string{"", "abc", "[]", `["P2PK"]`, `[1,{}]`, `{"P2PK":1}`, strings.Repeat("0", 64)} {
		if _, locked, err := ParseCondition(text); locked || err != nil {
			t.Errorf("%q: locked %t, %v", text, locked, err)
		}
	}
}

func TestUnspendableConditions(t *testing.T) {
	key := []Point{provider.PubKey()}
	for name, c := range map[string]Condition{
		"nothing":                   {},
		"no keys":                   {Kind: P2PK},
		"more signatures than keys": {Kind: P2PK, Keys: key, Sigs: 2},
		"refunds by nobody":         {Kind: P2PK, Keys: key, Sigs: 1, RefundSigs: 2},
		"a nonce that is no text":   {Kind: P2PK, Nonce: "\xff", Keys: key, Sigs: 1},
	} {
		if text, err := c.Secret(); err == nil {
			t.Errorf("%s: %s", name, text)
		}
		if err := c.Check("", Witness{}, after); err == nil {
			t.Errorf("%s was opened without a signature", name)
		}
	}
	if (Condition{Kind: P2PK, Keys: key}).Check("", Witness{}, before) == nil {
		t.Error("keys without a number of signatures were opened by nobody")
	}
	c := Condition{Kind: P2PK, Keys: key, Locktime: locktime.Unix(), Refund: []Point{customer.PubKey()}}
	if c.Check("", Witness{}, after) == nil {
		t.Error("a refund without a number of signatures was taken by nobody")
	}
}

func TestInputTwice(t *testing.T) {
	if CheckInputs([]Proof{{Secret: "a"}, {Secret: "a"}}, nil, "", before) == nil {
		t.Error("one proof was spent twice")
	}
}

func TestWholeTransactionIsSigned(t *testing.T) {
	locked := func(nonce string) Proof {
		c := Condition{Kind: P2PK, Nonce: nonce, Keys: []Point{provider.PubKey()}, Sigs: 1, All: true}
		return Proof{Amount: 1, Secret: secret(t, c), C: stranger.PubKey()}
	}
	in, out := []Proof{locked("a"), locked("b")}, []Output{{Amount: 2, B: arbiter.PubKey()}}
	var w Witness
	ok(t, w.Sign(provider, Message(in, out, "")))
	in[0].Witness = w.Text()
	ok(t, CheckInputs(in, out, "", before))
	for name, err := range map[string]error{
		"another output":         CheckInputs(in, []Output{{Amount: 2, B: stranger.PubKey()}}, "", before),
		"another amount":         CheckInputs(in, []Output{{Amount: 3, B: arbiter.PubKey()}}, "", before),
		"one input":              CheckInputs(in[:1], out, "", before),
		"the inputs turned":      CheckInputs([]Proof{in[1], in[0]}, out, "", before),
		"a melt":                 CheckInputs(in, out, "quote", before),
		"beside a free input":    CheckInputs(append(in[:2:2], Proof{Secret: "free"}), out, "", before),
		"after a free input":     CheckInputs([]Proof{{Secret: "free"}, in[0]}, out, "", before),
		"each signed for itself": CheckInputs([]Proof{witness(t, locked("a"), provider)}, out, "", before),
	} {
		if err == nil {
			t.Errorf("%s was spent", name)
		}
	}
}

func TestSignedQuotes(t *testing.T) {
	outputs := []Output{{Amount: 0, B: arbiter.PubKey()}, {Amount: 256, B: stranger.PubKey()}}
	var w Witness
	ok(t, w.Sign(customer, QuoteMessage("q", outputs)))
	if !QuoteSigned(customer.PubKey(), "q", outputs, w.Signatures[0]) {
		t.Error("the quote is not signed")
	}
	if QuoteSigned(customer.PubKey(), "r", outputs, w.Signatures[0]) || QuoteSigned(customer.PubKey(), "q", outputs[:1], w.Signatures[0]) ||
		QuoteSigned(provider.PubKey(), "q", outputs, w.Signatures[0]) || QuoteSigned(customer.PubKey(), "q", outputs, "00") {
		t.Error("another quote is signed, too")
	}
}

func TestWitnessAsObject(t *testing.T) {
	var p Proof
	ok(t, json.Unmarshal([]byte(`{"amount":1,"id":"00","secret":"s","C":"`+provider.PubKey().String()+`","witness":{"signatures":["ab"]}}`), &p))
	if w, err := ParseWitness(p.Witness); err != nil || len(w.Signatures) != 1 {
		t.Errorf("%+v, %v", w, err)
	}
}

func FuzzCondition(f *testing.F) {
	for _, v := range vectors.Conditions {
		var in inputs
		if json.Unmarshal(v.Value, &in, json.MatchCaseInsensitiveNames(true)) != nil {
			continue
		}
		for _, p := range append(in.Inputs, in.Proof) {
			f.Add(p.Secret, string(p.Witness))
		}
	}
	f.Fuzz(func(t *testing.T, secret, witness string) {
		c, locked, err := ParseCondition(secret)
		spent := CheckInputs([]Proof{{Secret: secret, Witness: WitnessText(witness)}}, nil, "", before) == nil
		if err != nil && spent {
			t.Errorf("%q was spent: %v", secret, err)
		}
		if err != nil || !locked {
			return
		}
		text, err := c.Secret()
		ok(t, err)
		again, locked, err := ParseCondition(text)
		if err != nil || !locked || !reflect.DeepEqual(again, c) {
			t.Errorf("%q is %+v, and %q is %+v, %v", secret, c, text, again, err)
		}
	})
}
