package backup

import (
	"strings"
	"testing"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

func TestCauseText(t *testing.T) {
	s := service(1)
	short := nip19.EncodeNpub(s.PubKey)[:10] + "…"
	for _, c := range []struct {
		f    fact.Fact
		want string
	}{
		{trusted(1, 500_000, 600_000), "trust in " + short + " (" + s.D + ") with python is now 0.60, was 0.50"},
		{moved(1, guild.Active, guild.Suspended), short + " (" + s.D + ") is now suspended, was active"},
		{fact.VariableChanged{Name: fact.Parallelism, Key: s.PubKey.Hex()}, "how many requests are made at once of " + short},
		{fact.VariableChanged{Name: fact.Parallelism}, "how many requests are made at once"},
		{fact.VariableChanged{Name: fact.CostBudget, Key: "python"}, "the month's budget of python"},
		{fact.VariableChanged{Name: fact.TimeoutConfig, Key: "python"}, "how long is waited for python"},
		{fact.VariableChanged{Name: fact.ModelPreference, Key: "code"}, "which models are preferred for code"},
		{fact.VariableChanged{Name: "OTHER"}, "the variable OTHER"},
	} {
		f := NewFold(policy.Specification().Backup)
		f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{c.f}})
		if got := f.view().Cause; got != c.want || strings.Contains(got, s.PubKey.Hex()[:8]) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
