package guild_test

import (
	"testing"

	"guild"
)

func TestAmountsHaveUnits(t *testing.T) {
	for text, want := range map[string]struct {
		amount uint64
		unit   string
	}{"1000sat": {1000, "sat"}, "500 test": {500, "test"}, " 7 ": {7, ""}, "9223372036854775807msat": {1<<63 - 1, "msat"}} {
		if amount, unit, err := guild.ParseAmount(text); err != nil || amount != want.amount || unit != want.unit {
			t.Errorf("%q: %d %q, %v", text, amount, unit, err)
		}
	}
	for _, text := range []string{"", "sat", "-1sat", "1.5sat", "9223372036854775808sat", "1SAT", "1s@t", "1 000sat", "1aaaaaaaaaaaaaaaaaaaaaaaa"} {
		if amount, unit, err := guild.ParseAmount(text); err == nil {
			t.Errorf("%q: %d %q", text, amount, unit)
		}
	}
}
