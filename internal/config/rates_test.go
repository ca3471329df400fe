package config_test

import (
	"testing"

	"guild/nip90"
)

func TestServiceHasItsOwnRates(t *testing.T) {
	c, err := load(t, `
[work]
price_msat = 300000
price_unit = "test"
per_1k_tokens_msat = 2000
most_msat = 800000
[services.python]
exec = "./solve.sh"
[services.go]
exec = "./solve.sh"
per_1k_tokens_msat = 0
per_work_minute_msat = 5000
most_msat = 400000
[services.rust]
exec = "./solve.sh"
per_1k_tokens_msat = 0
most_msat = 0
`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		rates *nip90.Rates
		most  int64
	}{
		"python": {&nip90.Rates{Price: 300_000, Per1kTokens: 2000}, 800_000},
		"go":     {&nip90.Rates{Price: 300_000, PerMinute: 5000}, 400_000},
		"rust":   {nil, 300_000},
	} {
		rates, most := c.Services[name].Under(c.Work).Rates()
		if int64(most) != want.most || (rates == nil) != (want.rates == nil) || rates != nil && *rates != *want.rates {
			t.Errorf("%s: %+v, at most %d", name, rates, most)
		}
	}
}
