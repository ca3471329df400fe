package jobs

import (
	"testing"

	"guild/internal/market/route"
)

func TestReasons(t *testing.T) {
	of := func(text string) func() string { return func() string { return text } }
	var r reasons
	r.add(byPrice, 1, of("bob asks 9 sat, the bid is 2 sat"))
	if got, want := r.String(), "bob asks 9 sat, the bid is 2 sat (hire --bid)"; got != want {
		t.Errorf("one: %s", got)
	}
	r.add(route.ByUnconfirmed, 4, of("noe has passed no benchmark"))
	r.add(byQuarantine, 1, of("eve is unresponsive until noon"))
	r.add(byQuarantine, 1, func() string { t.Error("explained twice"); return "" })
	want := "4 are unconfirmed: no benchmark passed, and the announcement does not confirm the kind (guild market bench NAME), " +
		"for example noe has passed no benchmark; 2 are in quarantine (guild market show NAME says until when), " +
		"for example eve is unresponsive until noon; bob asks 9 sat, the bid is 2 sat (hire --bid)"
	if got := r.String(); got != want {
		t.Errorf("several: %s", got)
	}
}

// Every word that excludes a service has words for several of them.
func TestEveryReasonHasWords(t *testing.T) {
	for _, rule := range rules {
		if remedies[rule.by].many == "" {
			t.Errorf("no words for %q", rule.by)
		}
	}
	for _, by := range []string{byCapacity, route.ByState, route.ByTrust, route.ByAgain, route.ByUnconfirmed, route.ByCriticality} {
		if remedies[by].many == "" {
			t.Errorf("no words for %q", by)
		}
	}
}
