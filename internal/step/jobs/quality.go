package jobs

import (
	"cmp"
	"encoding/json"

	"guild"
	"guild/internal/journal/fact"
	"guild/nutshell"
)

// QualityOf returns a request bundle's acceptance criteria in numbers: all tests must pass, each run within its time. It
// is nil for a bundle without criteria.
func QualityOf(b *nutshell.Bundle) *fact.Quality {
	raw, err := b.ReadFile(cmp.Or(b.Manifest().Acceptance().CriteriaFile, nutshell.CriteriaFile))
	if err != nil {
		return nil
	}
	q := &fact.Quality{Accuracy: guild.Micro}
	var said struct {
		Limit int `json:"time_limit_seconds"`
	}
	if json.Unmarshal(raw, &said) == nil && said.Limit > 0 {
		q.Limit = said.Limit
	}
	return q
}
