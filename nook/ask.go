package nook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Has reports whether the account has an event with this id that an event with the same id would duplicate.
func (a *Account) Has(id string) bool {
	return a.knows(id, a.clock-day)
}

// IsEmpty reports whether a history can still be imported: the account has no events and no heritage.
func (a *Account) IsEmpty() bool { return len(a.agents) == 0 && a.heritage == nil }

// ErrChoice means that the sprite cannot evolve so.
var ErrChoice = errors.New("the sprite cannot evolve so")

// MayEvolve returns the error that Evolve would return, which matches ErrChoice.
func (a *Account) MayEvolve(choice string) error {
	e := a.Evolution()
	switch {
	case e.Options == nil:
		return fmt.Errorf("%w: stage %d is the last", ErrChoice, e.Stage)
	case e.Missing > 0:
		return fmt.Errorf("%w yet: %s sparks are missing for stage %d", ErrChoice, e.Missing, e.Stage+1)
	case !slices.Contains(e.Options, choice):
		return fmt.Errorf("%w: %.40q is none of %s", ErrChoice, choice, strings.Join(e.Options, ", "))
	}
	return nil
}
