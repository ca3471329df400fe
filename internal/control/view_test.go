package control

import (
	"slices"
	"testing"
	"time"

	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/internal/step/jobs"
	"guild/internal/step/partner"
)

// A new fact about jobs is listed here, or gets a line for people who follow a job.
func TestToldFacts(t *testing.T) {
	untold := []string{
		"attempt.disputed",                                     // guild job disputes lists it; the verdict that follows is told
		"attempt.quoted",                                       // refused in the same entry, which is told
		"attempt.told",                                         // of the provider
		"attempt.held", "attempt.released", "attempt.refunded", // the ending says what became of the money
		"bid.freed",         // of budgets
		"bid.reserved",      // of budgets
		"receipt.published", // the receipt itself is told
	}
	met := partner.NewFold(policy.Specification())
	j := journaltest.Open(t, met)
	r, err := registry.Open(t.Context(), registry.Config{Journal: j, Now: time.Now}, met)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{c: ServerConfig{Journal: j, Parts: Parts{Registry: r, Fold: jobs.NewFold(), Providers: met}}}
	for _, f := range fact.All("job", "attempt", "bid", "receipt") {
		_, told := s.tell(f, &jobs.Job{})
		if listed := slices.Contains(untold, f.Type()); told == listed {
			t.Errorf("%s is told: %v, listed as untold: %v: add it to tell in view.go or to the list in this test", f.Type(), told, listed)
		}
	}
	if _, told := s.tell(fact.TrustChanged{}, &jobs.Job{}); !told {
		t.Error("trust.changed is not told")
	}
}
