package bolt11

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
)

var (
	payee, _    = btcec.PrivKeyFromBytes([]byte{31: 1})
	somebody, _ = btcec.PrivKeyFromBytes([]byte{31: 2})
)

// field returns a tagged field with these groups.
func field(kind byte, groups ...byte) []byte {
	return append([]byte{kind, byte(len(groups) >> 5), byte(len(groups) & 31)}, groups...)
}

// hashField returns a field of 32 bytes.
func hashField(kind byte) []byte {
	return field(kind, regroup(bytes.Repeat([]byte{0x11}, 32), 8, 5)...)
}

func payeeField(key *btcec.PrivateKey) []byte {
	return field(fieldPayee, regroup(key.PubKey().SerializeCompressed(), 8, 5)...)
}

// needed returns the fields that every invoice has.
func needed() []byte {
	return slices.Concat(hashField(fieldPaymentHash), hashField(fieldSecret), field(fieldDescription))
}

// written returns an invoice with exactly these fields, signed by payee.
func written(t *testing.T, prefix string, fields []byte, change func(signature []byte)) string {
	t.Helper()
	data := append(groupsOf(1_760_000_000, timestampGroups), fields...)
	sum := digest(prefix, data)
	compact := ecdsa.SignCompact(payee, sum[:], true)
	signature := append(compact[1:], compact[0]-compactCompressed)
	if change != nil {
		change(signature)
	}
	s, err := encodeBech32(prefix, append(data, regroup(signature, 8, 5)...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mirror changes a signature to its other form, which ECDSA also accepts.
func mirror(signature []byte) {
	var s btcec.ModNScalar
	s.SetByteSlice(signature[32:64])
	b := s.Negate().Bytes()
	copy(signature[32:64], b[:])
	signature[64] ^= 1
}

func TestNamedPayeeSigned(t *testing.T) {
	named := slices.Concat(needed(), payeeField(payee))
	inv, err := Decode(written(t, "lnbc", named, nil))
	if err != nil || inv.Payee != PubKey(payee.PubKey().SerializeCompressed()) {
		t.Errorf("%x: %v", inv.Payee, err)
	}
	if again, err := Decode(written(t, "lnbc", needed(), nil)); err != nil || again.Payee != inv.Payee {
		t.Errorf("found as %x: %v", again.Payee, err)
	}
	if again, err := Decode(written(t, "lnbc", needed(), mirror)); err != nil || again.Payee != inv.Payee {
		t.Errorf("found by the other form as %x: %v", again.Payee, err)
	}
	for name, c := range map[string]struct {
		fields []byte
		change func([]byte)
		words  string
	}{
		"another key":     {slices.Concat(needed(), payeeField(somebody)), nil, "not by the payee"},
		"the other form":  {named, mirror, "not in its one form"},
		"no key":          {slices.Concat(needed(), field(fieldPayee, make([]byte, 53)...)), nil, "no key"},
		"no point":        {slices.Concat(needed(), field(fieldPayee, append([]byte{3}, make([]byte, 52)...)...)), nil, "payee"},
		"recovery id 4":   {named, func(b []byte) { b[64] = 4 }, "no recovery id 4"},
		"r beyond":        {named, func(b []byte) { copy(b, bytes.Repeat([]byte{255}, 32)) }, "not in its one form"},
		"r beyond, found": {needed(), func(b []byte) { copy(b, bytes.Repeat([]byte{255}, 32)) }, "no payee"},
	} {
		_, err := Decode(written(t, "lnbc", c.fields, c.change))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAmbiguousInvoices(t *testing.T) {
	padded := regroup(bytes.Repeat([]byte{0x11}, 32), 8, 5)
	padded[51] |= 1
	for name, c := range map[string]struct {
		fields []byte
		words  string
	}{
		"no hash":            {slices.Concat(hashField(fieldSecret), field(fieldDescription)), "no payment hash"},
		"no secret":          {slices.Concat(hashField(fieldPaymentHash), field(fieldDescription)), "no payment secret"},
		"no description":     {slices.Concat(hashField(fieldPaymentHash), hashField(fieldSecret)), "not exactly one"},
		"two descriptions":   {slices.Concat(needed(), hashField(fieldDescriptionHash)), "not exactly one"},
		"two hashes":         {slices.Concat(needed(), hashField(fieldPaymentHash)), "duplicate field"},
		"bits after a hash":  {slices.Concat(hashField(fieldSecret), field(fieldPaymentHash, padded...), field(fieldDescription)), "does not end"},
		"a group too many":   {slices.Concat(needed(), field(fieldMetadata, 1, 2, 0)), "does not end"},
		"not UTF-8":          {slices.Concat(hashField(fieldPaymentHash), hashField(fieldSecret), field(fieldDescription, 31, 28)), "not UTF-8"},
		"no time at all":     {slices.Concat(needed(), field(fieldExpiry, 0)), "too large"},
		"a time too long":    {slices.Concat(needed(), field(fieldExpiry, 31, 31, 31, 31, 31, 31, 31, 31)), "too large"},
		"a number too long":  {slices.Concat(needed(), field(fieldMinFinalCLTV, slices.Repeat([]byte{31}, 13)...)), "too large"},
		"half a hop":         {slices.Concat(needed(), field(fieldRoute, make([]byte, 8)...)), "not a list of hops"},
		"a feature":          {slices.Concat(needed(), field(fieldFeatures, 1)), "feature 0 is demanded"},
		"a feature alone":    {slices.Concat(needed(), field(fieldFeatures, 4, 0, 0, 0)), "requires feature 14"},
		"a length too short": {slices.Concat(needed(), []byte{fieldMetadata, 0}), "has no length"},
		"a length too long":  {slices.Concat(needed(), []byte{fieldMetadata, 0, 1}), "longer than the invoice"},
	} {
		_, err := Decode(written(t, "lnbc", c.fields, nil))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidAmounts(t *testing.T) {
	for prefix, words := range map[string]string{
		"lnbc0": "nothing", "lnbc00p": "nothing", "lnbc01m": "nothing", "lnbc1x": "no number", "lnbc1mm": "no number", "lnbcm": "no network",
		"lnbc11p": "no number", "lnbc21000001": "all there is", "lnbc21000000000000000010p": "all there is", "lnbc99999999999999999999": "all there is",
		"lnltc1": "no network", "ln1": "no network", "xnbc1": "no network", "lnbc1é": "not printable",
	} {
		_, err := Decode(written(t, prefix, needed(), nil))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", prefix, err)
		}
	}
}

func TestBech32Lookalikes(t *testing.T) {
	s := strings.ToUpper(written(t, "lnbc", needed(), nil))
	kelvin := strings.ReplaceAll(s, "K", "\u212a") // lower case is k
	if _, err := Decode(s); err != nil || kelvin == s {
		t.Fatal(s, err)
	}
	if _, err := Decode(kelvin); !errors.Is(err, ErrInvalid) {
		t.Errorf("%s: %v", kelvin, err)
	}
}

func TestInvalidBech32(t *testing.T) {
	for s, words := range map[string]string{
		"": "no prefix", "1qqqqqq": "no prefix", "lnbc1qqqqq": "no prefix", "lnbc1bqqqqqq": "not of bech32",
		strings.Repeat("q", MaxSize+1): "more than 7089",
	} {
		if _, err := Decode(s); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%.20s: %v", s, err)
		}
	}
}
