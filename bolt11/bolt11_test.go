package bolt11_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"guild"
	"guild/bolt11"
)

// vectors are the examples of BOLT 11 (see testdata/README.md). Amounts are as in the invoice; null means that the
// example does not state the value.
type vectors struct {
	Valid, Invalid []struct {
		Label       string  `json:"label"`
		Invoice     string  `json:"invoice"`
		PaymentHash *string `json:"payment_hash"`
		Amount      *string `json:"amount"`
	}
}

func readVectors(tb testing.TB) (v vectors) {
	tb.Helper()
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil || len(v.Valid) == 0 || len(v.Invalid) == 0 {
		tb.Fatalf("%d valid, %d invalid: %v", len(v.Valid), len(v.Invalid), err)
	}
	return v
}

// Values that the examples have in common.
const (
	exampleHash  = "0001020304050607080900010203040506070809000102030405060708090102"
	examplePayee = "03e7156ae33b0a208d0744199163177e909e80176e55d97a2f221ede0f934dd9ad"
)

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// amounts has the amounts of the examples in millisatoshis.
var amounts = map[string]guild.Msat{
	"2500u": 250_000_000, "20m": 2_000_000_000, "25m": 2_500_000_000, "10m": 1_000_000_000, "9678785340p": 967_878_534,
}

func TestSpecificationExamples(t *testing.T) {
	for _, v := range readVectors(t).Valid {
		inv, err := bolt11.Decode(v.Invoice)
		if err != nil {
			t.Errorf("%s: %v", v.Label, err)
			continue
		}
		hash := exampleHash
		if v.PaymentHash != nil {
			hash = *v.PaymentHash
		}
		if inv.PaymentHash.Hex() != hash {
			t.Errorf("%s: payment hash %s", v.Label, inv.PaymentHash)
		}
		if v.Amount != nil && (inv.Amount != amounts[*v.Amount] || inv.Amount == 0) {
			t.Errorf("%s: amount %s, want %s", v.Label, inv.Amount, amounts[*v.Amount])
		}
		payee := examplePayee
		if strings.Contains(v.Label, "high-S") { // a signature with high S recovers another key
			payee = "02d0139ce7427d6dfffd26a326c18be754ef1e64672b42694ba5b23ef6e6e7803d"
		}
		if got := hex.EncodeToString(inv.Payee[:]); got != payee {
			t.Errorf("%s: payee %s", v.Label, got)
		}
		if inv.Secret != [32]byte(unhex(t, strings.Repeat("11", 32))) {
			t.Errorf("%s: secret %x", v.Label, inv.Secret)
		}
	}
}

func TestExampleFields(t *testing.T) {
	all := readVectors(t).Valid
	find := func(words string) bolt11.Invoice {
		t.Helper()
		for _, v := range all {
			if strings.Contains(v.Label, words) {
				inv, err := bolt11.Decode(v.Invoice)
				if err != nil {
					t.Fatalf("%s: %v", v.Label, err)
				}
				return inv
			}
		}
		t.Fatalf("no example with %q", words)
		return bolt11.Invoice{}
	}
	if inv := find("donation"); inv.Amount != 0 || inv.Network != bolt11.Mainnet || inv.Created.Unix() != 1496314658 ||
		inv.Description != "Please consider supporting this project" || inv.Expiry != 0 {
		t.Errorf("%+v", inv)
	}
	if inv := find("$3 for a cup of coffee"); inv.Description != "1 cup coffee" || inv.Expiry != time.Minute {
		t.Errorf("%+v", inv)
	}
	if inv := find("nonsense"); inv.Description != "ナンセンス 1杯" {
		t.Errorf("%+v", inv)
	}
	long := "One piece of chocolate cake, one icecream cone, one pickle, one slice of swiss cheese, one slice of salami, " +
		"one lollypop, one piece of cherry pie, one sausage, one cupcake, and one slice of watermelon"
	if inv := find("entire list of things"); inv.Description != "" || inv.DescriptionHash != guild.Sum([]byte(long)) {
		t.Errorf("%+v", inv)
	}
	if inv := find("on testnet"); inv.Network != bolt11.Testnet || len(inv.Fallbacks) != 1 || inv.Fallbacks[0][0] != 17 {
		t.Errorf("%+v", inv)
	}
	if inv := find("extra routing info"); len(inv.Routes) != 1 || len(inv.Routes[0]) != 2*51 ||
		hex.EncodeToString(inv.Routes[0][:33]) != "029e03a901b85534ff1e92c43c74431f7ce72046060fcf7a95c37e148f78c77255" {
		t.Errorf("%+v", inv)
	}
	if inv := find("within one week"); inv.Expiry != 7*24*time.Hour || inv.MinFinalCLTV != 10 {
		t.Errorf("%+v", inv)
	}
	if inv := find("features 8, 14 and 99"); !slices.Equal(inv.Features, []int{8, 14, 99}) {
		t.Errorf("%+v", inv)
	}
	if inv := find("payment metadata"); !slices.Equal(inv.Metadata, []byte{0x01, 0xfa, 0xfa, 0xf0}) || !slices.Equal(inv.Features, []int{8, 14, 48}) {
		t.Errorf("%+v", inv)
	}
	upper, lower := find("all upper case"), find("features 8, 14 and 99")
	if !reflect.DeepEqual(upper, lower) || !reflect.DeepEqual(find("must be ignored"), lower) {
		t.Errorf("%+v\n%+v", upper, lower)
	}
}

func TestInvalidExamples(t *testing.T) {
	for _, v := range readVectors(t).Invalid {
		if inv, err := bolt11.Decode(v.Invoice); !errors.Is(err, bolt11.ErrInvalid) {
			t.Errorf("%s: %v, %+v", v.Label, err, inv)
		}
	}
}

func TestChangedCharacters(t *testing.T) {
	valid := readVectors(t).Valid[0].Invoice
	for i := range len(valid) {
		changed := []byte(valid)
		if changed[i]++; changed[i] > 'z' {
			changed[i] = 'q'
		}
		if inv, err := bolt11.Decode(string(changed)); err == nil {
			t.Errorf("character %d: %+v", i, inv)
		}
	}
}

// key signs the invoices of the tests.
var key, _ = btcec.PrivKeyFromBytes([]byte{31: 7})

// coffee returns an invoice with every field.
func coffee() bolt11.Invoice {
	return bolt11.Invoice{
		Network: bolt11.Regtest, Amount: 3_000, Created: time.Unix(1_760_000_000, 0).UTC(),
		PaymentHash: guild.Sum([]byte("preimage")), Secret: [32]byte{1, 2, 3}, Description: "a Nutshell bundle ☕",
		Payee:  bolt11.PubKey(key.PubKey().SerializeCompressed()),
		Expiry: 90 * time.Second, MinFinalCLTV: 144, Metadata: []byte{9}, Features: []int{8, 14, 17, 101},
		Fallbacks: [][]byte{{17, 1, 2, 3}, {0, 31}}, Routes: [][]byte{make([]byte, 51), make([]byte, 102)},
	}
}

func TestInvoiceRoundTrip(t *testing.T) {
	var plain bolt11.Invoice
	plain.Network, plain.Created, plain.Payee = bolt11.Mainnet, time.Unix(0, 0).UTC(), coffee().Payee
	hashed := plain
	hashed.DescriptionHash = guild.Sum([]byte("long"))
	for _, want := range []bolt11.Invoice{coffee(), plain, hashed} {
		s, err := want.Sign(key)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := bolt11.Decode(s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
		}
	}
}

func TestShortestAmounts(t *testing.T) {
	for amount, want := range map[guild.Msat]string{
		0: "lnbcrt1", 1: "lnbcrt10p1", 100: "lnbcrt1n1", 3_000: "lnbcrt30n1", 250_000_000: "lnbcrt2500u1", 967_878_534: "lnbcrt9678785340p1",
		2_000_000_000: "lnbcrt20m1", 100_000_000_000: "lnbcrt11", 2_100_000_000_000_000_000: "lnbcrt210000001",
	} {
		inv := coffee()
		inv.Amount = amount
		s, err := inv.Sign(key)
		if err != nil || !strings.HasPrefix(s, want) {
			t.Errorf("%s: %.30s, want %s: %v", amount, s, want, err)
		}
		if got, err := bolt11.Decode(s); err != nil || got.Amount != amount {
			t.Errorf("%s: read as %s: %v", amount, got.Amount, err)
		}
	}
}

func TestSignRefusesInvalidFields(t *testing.T) {
	other, _ := btcec.PrivKeyFromBytes([]byte{31: 8})
	for name, change := range map[string]func(*bolt11.Invoice){
		"network":      func(inv *bolt11.Invoice) { inv.Network = "ltc" },
		"amount":       func(inv *bolt11.Invoice) { inv.Amount = -1 },
		"year 3058":    func(inv *bolt11.Invoice) { inv.Created = time.Unix(1<<35, 0) },
		"payee":        func(inv *bolt11.Invoice) { inv.Payee = bolt11.PubKey(other.PubKey().SerializeCompressed()) },
		"expiry":       func(inv *bolt11.Invoice) { inv.Expiry = time.Millisecond },
		"not UTF-8":    func(inv *bolt11.Invoice) { inv.Description = "\xff" },
		"both":         func(inv *bolt11.Invoice) { inv.DescriptionHash = guild.Hash{1} },
		"feature 100":  func(inv *bolt11.Invoice) { inv.Features = []int{100} },
		"feature 16":   func(inv *bolt11.Invoice) { inv.Features = []int{8, 16} },
		"feature 5115": func(inv *bolt11.Invoice) { inv.Features = []int{5115} },
		"feature -1":   func(inv *bolt11.Invoice) { inv.Features = []int{-1} },
		"fallback":     func(inv *bolt11.Invoice) { inv.Fallbacks = [][]byte{{0, 32}} },
		"route":        func(inv *bolt11.Invoice) { inv.Routes = [][]byte{{1}} },
		"longer than":  func(inv *bolt11.Invoice) { inv.Metadata = make([]byte, 640) },
		"more than":    func(inv *bolt11.Invoice) { inv.Routes = slices.Repeat([][]byte{make([]byte, 612)}, 8) },
	} {
		inv := coffee()
		change(&inv)
		if s, err := inv.Sign(key); !errors.Is(err, bolt11.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %.40s", name, err, s)
		}
	}
}

func TestExpired(t *testing.T) {
	for _, c := range []struct {
		name   string
		expiry time.Duration
		after  time.Duration
		want   bool
	}{
		{"at its last second", time.Minute, time.Minute, false},
		{"after it", time.Minute, time.Minute + time.Second, true},
		{"an hour, if it does not say", 0, time.Hour, false},
		{"more than an hour, if it does not say", 0, time.Hour + time.Second, true},
		{"before it was made", time.Minute, -time.Hour, false},
	} {
		inv := coffee()
		inv.Expiry = c.expiry
		if got := inv.Expired(inv.Created.Add(c.after)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	v := readVectors(f)
	for _, one := range slices.Concat(v.Valid, v.Invalid) {
		f.Add(one.Invoice)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, err := bolt11.Decode(s)
		if err != nil {
			return
		}
		payee := first.Payee
		first.Payee = bolt11.PubKey(key.PubKey().SerializeCompressed())
		written, err := first.Sign(key)
		if err != nil {
			t.Fatalf("%+v by %x is not written: %v", first, payee, err)
		}
		if second, err := bolt11.Decode(written); err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("%v\n%+v\nthen\n%+v", err, first, second)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	s := readVectors(b).Valid[1].Invoice
	for b.Loop() {
		if _, err := bolt11.Decode(s); err != nil {
			b.Fatal(err)
		}
	}
}
