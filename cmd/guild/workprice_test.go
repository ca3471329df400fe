package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"guild/internal/config"
	"guild/nip90"
)

func TestPriceFlags(t *testing.T) {
	configured := config.Work{Price: 5000, Per1kTokens: 1000, Most: 9000, PriceUnit: "test"}
	for flags, want := range map[string]struct {
		most  int64
		unit  string
		rates *nip90.Rates
		err   string // part of it, "" for none
	}{
		"":              {9000, "test", &nip90.Rates{Price: 5000, Per1kTokens: 1000}, ""},
		"--price 21000": {21_000, "", nil, ""},
		"--price 7test": {7000, "test", nil, ""},
		"--price 300test --per-1k-tokens 2test --per-minute 5test --at-most 800test": {
			800_000, "test", &nip90.Rates{Price: 300_000, Per1kTokens: 2000, PerMinute: 5000}, "",
		},
		"--per-1k-tokens 500msat --at-most 80sat":                {80_000, "", &nip90.Rates{Per1kTokens: 500}, ""},
		"--price 3test --per-minute 1test --at-most 3test":       {3000, "test", &nip90.Rates{Price: 3000, PerMinute: 1000}, ""},
		"--price 300test --per-1k-tokens 2sat --at-most 800test": {err: "--price is in test and --per-1k-tokens in sat"},
		"--price 300sat --per-minute 2 --at-most 800test":        {err: "--price is in sat and --at-most in test"},
		"--price 300test --per-minute 5test":                     {err: "--at-most is missing"},
		"--price 300test --at-most 800test":                      {err: "--at-most is for a price by usage"},
		"--price 300test --per-minute 5test --at-most 299test":   {err: "--at-most 299test is below the fixed part, --price 300test"},
		"--per-minute 1test --at-most 9007199254740992test":      {err: "more than there is"},
		"--per-minute 1test --at-most 9007199254740993test":      {err: "more than there is"},
	} {
		var s service
		set := pflag.NewFlagSet("work", pflag.ContinueOnError)
		s.priced.flags(set)
		err := set.Parse(strings.Fields(flags))
		if err == nil {
			err = s.setPrice(configured)
		}
		switch {
		case (err == nil) != (want.err == ""), err != nil && !strings.Contains(err.Error(), want.err):
			t.Errorf("%s: %v, want %q", flags, err, want.err)
		case err != nil:
		case s.PriceMsat != want.most, s.Unit != want.unit, (s.Rates == nil) != (want.rates == nil), s.Rates != nil && *s.Rates != *want.rates:
			t.Errorf("%s: at most %d %s, %+v", flags, s.PriceMsat, s.Unit, s.Rates)
		}
	}
}

func TestClaimInWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 12_400: "12,400", 9_007_199_254_740_991: "9,007,199,254,740,991"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}
