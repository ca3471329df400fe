package control

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// Releasing is the body of POST /v1/journal/release: guards in quarantine, or the beginnings of their names, or all of them.
type Releasing struct {
	Guards []string `json:"guards,omitempty"`
	All    bool     `json:"all,omitempty"`
}

// Released is a guard that goes on.
type Released struct {
	Guard string `json:"guard"`
	Job   *Job   `json:"job,omitempty"` // by its remaining entries, if the guard is a job's
}

// releaseGuards ends the quarantine of guards.
func (s *Server) releaseGuards(r *http.Request, ask Releasing) ([]Released, error) {
	held := s.c.Journal.Quarantined()
	if ask.All == (len(ask.Guards) > 0) {
		return nil, wrongUsage(whatIsHeld(held), errors.New("name guards, or all of them"))
	}
	guards := held
	if !ask.All {
		guards = nil
		for _, begin := range ask.Guards {
			guard, err := inQuarantine(held, begin)
			if err != nil {
				return nil, err
			}
			guards = append(guards, guard)
		}
	}
	guards = slices.Compact(slices.Sorted(slices.Values(guards)))
	if err := s.c.Journal.Release(r.Context(), guards...); err != nil {
		return nil, err
	}
	released := []Released{}
	for _, guard := range guards {
		one := Released{Guard: string(guard)}
		if id, err := guild.ParseJobID(strings.TrimPrefix(string(guard), "job.")); err == nil {
			if j, ok := s.c.Fold.Job(id); ok {
				view := s.job(j)
				one.Job = &view
			}
		}
		released = append(released, one)
	}
	return released, nil
}

// inQuarantine finds the guard with a name, or the only one whose name begins so.
func inQuarantine(held []fact.Subject, begin string) (fact.Subject, error) {
	if slices.Contains(held, fact.Subject(begin)) {
		return fact.Subject(begin), nil
	}
	var found []fact.Subject
	for _, guard := range held {
		if strings.HasPrefix(string(guard), begin) {
			found = append(found, guard)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", missing(whatIsHeld(held), fmt.Errorf("%.80q is %w", begin, journal.ErrNotQuarantined))
	}
	return "", ambiguous(whatIsHeld(found), fmt.Errorf("%d guards in quarantine begin with %.80q", len(found), begin))
}

// whatIsHeld names some guards in quarantine.
func whatIsHeld(guards []fact.Subject) string {
	const few = 5
	var names []string
	for _, guard := range guards[:min(len(guards), few)] {
		names = append(names, string(guard))
	}
	if len(guards) == 0 {
		return "nothing is in quarantine"
	}
	list := "in quarantine: " + strings.Join(names, ", ")
	if len(guards) > few {
		list += fmt.Sprintf(" and %d more", len(guards)-few)
	}
	return list
}
