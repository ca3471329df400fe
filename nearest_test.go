package guild_test

import (
	"testing"

	"guild"
)

func TestNearestWord(t *testing.T) {
	known := []string{"demo", "hire", "help", "status", "market", "oa", "up"}
	for word, want := range map[string]string{
		"hier": "hire", "hlep": "help", "stats": "status", "markt": "market", "mar": "market", "st": "status", "pu": "up",
		"man": "", "bogus": "", "s": "", "": "", "frobnicate": "",
	} {
		if got := guild.Nearest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
