package nook

import (
	"fmt"
	"slices"
	"strings"
)

// Has reports whether the account has an event with this id that an event with the same id would duplicate.
func (a *Account) Has(id string) bool {
	at, ok := a.known[id]
	return ok && at >= a.clock-day
}

// IsEmpty reports whether a history can still be imported: the account has no events and no heritage.
func (a *Account) IsEmpty() bool { return len(a.agents) == 0 && a.heritage == nil && a.imported == nil }

// MayEvolve returns the error that Evolve would return.
func (a *Account) MayEvolve(choice string) error {
	e := a.Evolution()
	switch {
	case e.Options == nil:
		return fmt.Errorf("evolve to %.40s: stage %d is the last", choice, e.Stage)
	case e.Missing > 0:
		return fmt.Errorf("evolve to %.40s: %s sparks missing for stage %d", choice, e.Missing, e.Stage+1)
	case !slices.Contains(e.Options, choice):
		return fmt.Errorf("evolve to %.40s: choose one of %s", choice, strings.Join(e.Options, ", "))
	}
	return nil
}
