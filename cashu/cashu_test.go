package cashu

import (
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// vectors are the test vectors of the NUTs that this package implements.
var vectors = func() (v struct {
	HashToCurve []struct {
		Message string `json:"message_hex"`
		Point   Point  `json:"point"`
	} `json:"hash_to_curve"`
	Blind []struct {
		X, R string
		B    Point `json:"B_"`
	} `json:"blind"`
	Sign []struct {
		K Scalar `json:"k"`
		B Point  `json:"B_"`
		C Point  `json:"C_"`
	} `json:"sign"`
	KeysInvalid []jsontext.Value `json:"keys_invalid"`
	KeysValid   []Keys           `json:"keys_valid"`
	Keysets     []Keyset         `json:"keyset_id_v1"`
	KeysetsV2   []Keyset         `json:"keyset_id_v2"`
	Conditions  []struct {
		Desc  string
		Value jsontext.Value
	} `json:"p2pk_htlc"`
	Deterministic struct {
		Key       Scalar `json:"a"`
		PubKey    Point  `json:"A"`
		B         Point  `json:"B_"`
		C         Point  `json:"C_"`
		Challenge Scalar `json:"e"`
		Response  Scalar `json:"s"`
	} `json:"dleq_deterministic"`
	BlindSignature struct {
		Key       Point     `json:"A"`
		B         Point     `json:"B_"`
		Signature Signature `json:"sig"`
	} `json:"dleq_blindsig"`
	Proof struct {
		Key   Point `json:"A"`
		Proof Proof `json:"proof"`
	} `json:"dleq_proof"`
	Legacy seeded `json:"nut13_v1"`
	Seeded seeded `json:"nut13_v2"`
}) {
	b, err := os.ReadFile("testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(b, &v, json.MatchCaseInsensitiveNames(true))
	}
	if err != nil {
		panic(err)
	}
	return v
}()

type seeded struct {
	Mnemonic string
	Secrets  []string
	R        []Scalar
}

func ok(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func scalar(t testing.TB, s string) (n Scalar) {
	t.Helper()
	ok(t, n.UnmarshalText([]byte(s)))
	return n
}

func TestSecretsBecomePoints(t *testing.T) {
	for _, v := range vectors.HashToCurve {
		message, err := hex.DecodeString(v.Message)
		ok(t, err)
		if p := HashToCurve(string(message)); p != v.Point {
			t.Errorf("%s is %s, want %s", v.Message, p, v.Point)
		}
	}
}

func TestBlindAndSign(t *testing.T) {
	for _, v := range vectors.Blind {
		x, err := hex.DecodeString(v.X)
		ok(t, err)
		if b, err := Blind(string(x), scalar(t, v.R)); err != nil || b != v.B {
			t.Errorf("%s: %s, %v; want %s", v.X, b, err, v.B)
		}
	}
	for _, v := range vectors.Sign {
		if c, err := v.K.Sign(v.B); err != nil || c != v.C {
			t.Errorf("%s: %s, %v; want %s", v.B, c, err, v.C)
		}
	}
}

func TestMintSignsUnseen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret, key, r := rapid.String().Draw(t, "secret"), RandomScalar(), RandomScalar()
		b, err := Blind(secret, r)
		ok(t, err)
		signed, err := key.Sign(b)
		ok(t, err)
		proof, err := key.Prove(b, signed)
		ok(t, err)
		ok(t, proof.CheckBlind(key.PubKey(), b, signed))
		c, err := Unblind(signed, r, key.PubKey())
		ok(t, err)
		if !key.Signed(secret, c) || key.Signed(secret+"x", c) || RandomScalar().Signed(secret, c) {
			t.Error("the signature is not that of this key on this secret alone")
		}
		proof.R = &r
		ok(t, proof.Check(key.PubKey(), secret, c))
		other := RandomScalar()
		for _, err := range []error{
			proof.Check(other.PubKey(), secret, c), proof.Check(key.PubKey(), secret+"x", c), proof.Check(key.PubKey(), secret, signed),
			DLEQ{E: other, S: proof.S, R: &r}.Check(key.PubKey(), secret, c), DLEQ{E: proof.E, S: other, R: &r}.Check(key.PubKey(), secret, c),
			DLEQ{E: proof.E, S: proof.S, R: &other}.Check(key.PubKey(), secret, c),
		} {
			if !errors.Is(err, errNotSigned) {
				t.Errorf("a changed proof: %v", err)
			}
		}
		if (DLEQ{E: proof.E, S: proof.S}).Check(key.PubKey(), secret, c) == nil {
			t.Error("a proof without its blinding factor was checked")
		}
	})
}

func TestProofsOfMints(t *testing.T) {
	d := vectors.Deterministic
	got, err := d.Key.Prove(d.B, d.C)
	if err != nil || got.E != d.Challenge || got.S != d.Response || d.Key.PubKey() != d.PubKey {
		t.Errorf("%x %x, %v", got.E, got.S, err)
	}
	ok(t, got.CheckBlind(d.PubKey, d.B, d.C))
	b := vectors.BlindSignature
	ok(t, b.Signature.DLEQ.CheckBlind(b.Key, b.B, b.Signature.C))
	p := vectors.Proof
	ok(t, p.Proof.DLEQ.Check(p.Key, p.Proof.Secret, p.Proof.C))
}

func TestPointsAndScalars(t *testing.T) {
	infinity := strings.Repeat("0", 66)
	for _, s := range []string{"", "02", infinity, "05" + strings.Repeat("1", 64), "02" + strings.Repeat("f", 64), "x" + strings.Repeat("0", 65)} {
		if p, err := ParsePoint(s); err == nil {
			t.Errorf("%q is %s", s, p)
		}
	}
	order := "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	for _, s := range []string{"", strings.Repeat("0", 64), order, strings.Repeat("f", 64), "01"} {
		if err := new(Scalar).UnmarshalText([]byte(s)); err == nil {
			t.Errorf("%q is a scalar", s)
		}
	}
	one := scalar(t, strings.Repeat("0", 63)+"1")
	if _, err := one.Sign(Point{}); err == nil {
		t.Error("no point was signed")
	}
	r := RandomScalar()
	b, err := Blind("a", r)
	ok(t, err)
	if _, err := Unblind(r.PubKey(), r, one.PubKey()); !errors.Is(err, errInfinity) {
		t.Errorf("a mint that answers r·G: %v (%s)", err, b)
	}
}

func TestKeysets(t *testing.T) {
	for i, b := range vectors.KeysInvalid {
		if err := json.Unmarshal(b, new(Keys)); err == nil {
			t.Errorf("invalid keys %d were taken", i)
		}
	}
	if len(vectors.KeysValid) == 0 || len(vectors.Keysets) == 0 || len(vectors.KeysetsV2) == 0 {
		t.Error("there are no vectors")
	}
	for _, k := range slices.Concat(vectors.Keysets, vectors.KeysetsV2) {
		ok(t, k.Check())
		k.Keys[3] = k.Keys[1]
		if k.Check() == nil {
			t.Errorf("keyset %s has a key more, and the same id", k.ID)
		}
	}
	for name, text := range map[string]string{
		"an amount in another form": `{"01":"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"}`,
		"an amount twice": `{"1":"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
			"1":"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"}`,
		"no key": `{"1":""}`,
	} {
		if err := json.Unmarshal([]byte(text), new(Keys)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	k := Keyset{ID: "01", Unit: "test", Fee: 100, Keys: vectors.KeysValid[0]}
	id, err := k.Derive()
	ok(t, err)
	k.ID = id
	ok(t, k.Check())
	if (Keyset{ID: "02" + k.ID[2:], Keys: k.Keys}).Check() == nil {
		t.Error("a keyset of another curve was checked")
	}
}

func TestSecretsFromSeed(t *testing.T) {
	for keyset, v := range map[string]seeded{
		"009a1f293253e41e": vectors.Legacy,
		"015ba18a8adcd02e715a58358eb618da4a4b3791151a4bee5e968bb88406ccf76a": vectors.Seeded,
	} {
		seed, err := Seed(v.Mnemonic)
		ok(t, err)
		for i, want := range v.Secrets {
			if secret, r, err := Derive(seed, keyset, uint32(i)); err != nil || secret != want || r != v.R[i] {
				t.Errorf("%s %d: %s %x, %v", keyset, i, secret, r, err)
			}
		}
	}
	if _, _, err := Derive(nil, "02"+strings.Repeat("0", 64), 0); err == nil {
		t.Error("a secret for a keyset of another curve")
	}
}

func TestAmounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Uint64Max(maxSum).Draw(t, "amount")
		if sum, err := Sum(Split(amount)...); err != nil || sum != amount {
			t.Errorf("%d is split into %d, %v", amount, sum, err)
		}
	})
	for _, amounts := range [][]uint64{{maxSum, 1}, {1 << 63, 1 << 63}, {1<<64 - 1}, {1<<64 - 1, 1}} {
		if sum, err := Sum(amounts...); !errors.Is(err, ErrOverflow) {
			t.Errorf("%d: %d, %v", amounts, sum, err)
		}
	}
	fee := func(keyset string) (uint64, bool) { return 400, keyset == "a" }
	for proofs, want := range map[int]uint64{0: 0, 1: 1, 2: 1, 3: 2, 5: 2, 6: 3} {
		if got, err := Fee(slices.Repeat([]Proof{{Keyset: "a"}}, proofs), fee); err != nil || got != want {
			t.Errorf("%d proofs cost %d, %v; want %d", proofs, got, err, want)
		}
	}
	if _, err := Fee([]Proof{{Keyset: "b"}}, fee); err == nil {
		t.Error("an unknown keyset has a fee")
	}
}

// inputs is a swap or a melt in the vectors, or a single proof.
type inputs struct {
	Proof
	Inputs  []Proof
	Outputs []Output
	Quote   string
}

func TestConditions(t *testing.T) {
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	checked := 0
	for i, v := range vectors.Conditions {
		var in inputs
		if v.Value.Kind() != '{' {
			continue // a message that is signed: see TestMessage
		}
		ok(t, json.Unmarshal(v.Value, &in, json.MatchCaseInsensitiveNames(true)))
		if in.Inputs == nil {
			in.Inputs = []Proof{in.Proof}
		}
		bad := slices.ContainsFunc([]string{"invalid", "failing", "**not** spendable"}, func(s string) bool { return strings.Contains(v.Desc, s) })
		if in.Inputs[0].Witness == "" {
			bad = true // the proof alone, before the vectors that spend it
		}
		err := CheckInputs(in.Inputs, in.Outputs, in.Quote, now)
		if (err != nil) != bad {
			t.Errorf("%d, %s: %v", i, v.Desc, err)
		}
		checked++
	}
	if checked < 18 {
		t.Errorf("%d vectors were checked", checked)
	}
}

func TestMessage(t *testing.T) {
	compared := 0
	for i, v := range vectors.Conditions {
		var want string
		if v.Value.Kind() != '"' {
			continue
		}
		ok(t, json.Unmarshal(v.Value, &want))
		var in inputs
		ok(t, json.Unmarshal(vectors.Conditions[i-1].Value, &in, json.MatchCaseInsensitiveNames(true)))
		if got := Message(in.Inputs, in.Outputs, in.Quote); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		compared++
	}
	if compared != 2 {
		t.Errorf("%d messages", compared)
	}
}
