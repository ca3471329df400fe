package nip90_test

import (
	"testing"

	"guild/nip90"
)

func TestPayoutComesBackInClearAndSealed(t *testing.T) {
	for _, want := range []nip90.Payout{{How: nip90.Escrow, Mixed: 40, Partial: 25, Weak: 500_000}, {How: nip90.Postpaid}} {
		r := nip90.Request{Kind: 5050, Provider: &provider.pub}
		r.SetPayout(want)
		clear, err := r.Event()
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := r.Sealed(asIs)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []struct {
			name string
			got  func() (nip90.Request, error)
		}{
			{"clear", func() (nip90.Request, error) { return nip90.ParseRequest(clear, nil) }},
			{"sealed", func() (nip90.Request, error) { return nip90.ParseRequest(sealed, unopened) }},
		} {
			r, err := e.got()
			if p := r.Payout(); err != nil || p == nil || *p != want {
				t.Errorf("%s: %+v, %v", e.name, p, err)
			}
			if r.Get(nip90.ParamSettle) != want.How { // which is all that earlier versions read
				t.Errorf("%s: %q", e.name, r.Params)
			}
		}
	}
}

func TestRequestWithoutAPayout(t *testing.T) {
	for name, values := range map[string][]string{
		"none":            nil,
		"of before":       {"prepaid"},
		"another way":     {"onchain", "40", "25", "500"},
		"no way":          {"", "40", "25", "500"},
		"too few":         {"escrow", "40", "25"},
		"too many":        {"escrow", "40", "25", "500", "1"},
		"over a hundred":  {"escrow", "101", "25", "500"},
		"a fraction":      {"escrow", "40", "2.5", "500"},
		"negative":        {"escrow", "40", "25", "-1"},
		"not a number":    {"escrow", "40", "25", "all"},
		"a large number":  {"escrow", "40", "25", "9007199254740992"},
		"a leading zero":  {"escrow", "040", "25", "500"},
		"a larger number": {"escrow", "40", "99999999999999999999", "500"},
	} {
		r := nip90.Request{Kind: 5050}
		if values != nil {
			r.Set(nip90.ParamSettle, values...)
		}
		if p := r.Payout(); p != nil {
			t.Errorf("%s: %+v", name, *p)
		}
	}
}
