package token

import (
	"reflect"
	"strings"
	"testing"

	"guild/cashu"
)

func aPayment() Payment {
	c := cashu.HashToCurve("c")
	return Payment{ID: "7", Memo: "m", Mint: "https://mint.example", Unit: "sat", Proofs: []cashu.Proof{
		{Amount: 1, Keyset: "00ad268c4d1f5826", Secret: "one", C: c}, {Amount: 4, Keyset: "00ad268c4d1f5826", Secret: "two", C: c},
	}}
}

func TestPayment(t *testing.T) {
	whole := aPayment()
	if back, err := ParsePayment(whole.String()); err != nil || !reflect.DeepEqual(back, whole) {
		t.Errorf("%+v, %v", back, err)
	}
	for name, spoil := range map[string]func(p *Payment){
		"no mint":       func(p *Payment) { p.Mint = "" },
		"no unit":       func(p *Payment) { p.Unit = "" },
		"no proofs":     func(p *Payment) { p.Proofs = nil },
		"no secret":     func(p *Payment) { p.Proofs[1].Secret = "" },
		"a large sum":   func(p *Payment) { p.Proofs[0].Amount, p.Proofs[1].Amount = 1<<53-1, 1 },
		"a sum beyond":  func(p *Payment) { p.Proofs[0].Amount, p.Proofs[1].Amount = 1<<63, 1<<63 },
		"too many text": func(p *Payment) { p.Memo = strings.Repeat("m", MaxPayment) },
	} {
		p := aPayment()
		spoil(&p)
		if _, err := ParsePayment(p.String()); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
	text := whole.String()
	for _, bad := range []string{"", "null", "[]", text[1:], text + text, strings.Replace(text, `"amount":1`, `"amount":-1`, 1),
		strings.Replace(text, `"amount":1`, `"amount":1.5`, 1), strings.Replace(text, `"unit"`, `"mint"`, 1), strings.Replace(text, `"C":"0`, `"C":"9`, 1)} {
		if _, err := ParsePayment(bad); err == nil {
			t.Errorf("%.60q is read", bad)
		}
	}
}

func FuzzPayment(f *testing.F) {
	f.Add(aPayment().String())
	f.Add(`{"mint":"m","unit":"u","proofs":[{}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePayment(s)
		if err != nil {
			return
		}
		if _, err := cashu.Worth(p.Proofs); err != nil {
			t.Error(err)
		}
		text := p.String()
		if len(text) > MaxPayment {
			return // escapes are longer
		}
		if again, err := ParsePayment(text); err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q is %q, which is %+v, %v", s, text, again, err)
		}
	})
}
