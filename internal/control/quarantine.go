package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"guild"
	"guild/internal/fact"
	"guild/internal/journal"
)

// Releasing is what POST /v1/journal/release takes: guards in quarantine, or the beginnings of their names, or all of them.
type Releasing struct {
	Guards []string `json:"guards,omitempty"`
	All    bool     `json:"all,omitempty"`
}

// Released is a guard that goes on.
type Released struct {
	Guard string `json:"guard"`
	Job   *Job   `json:"job,omitempty"` // as what is left of its entries has it, if the guard is a job's
}

// releaseGuards lets guards go on that a repair has put into quarantine.
func (s *Server) releaseGuards(w http.ResponseWriter, r *http.Request) {
	var ask Releasing
	if !decode(w, r, maxWords, &ask) {
		return
	}
	if ask.All == (len(ask.Guards) > 0) {
		refuse(w, http.StatusBadRequest, "usage", whatIsHeld(s.c.Journal.Quarantined()), errors.New("name guards, or all of them"))
		return
	}
	held := s.c.Journal.Quarantined()
	guards := held
	if !ask.All {
		guards = nil
		for _, begin := range ask.Guards {
			guard, err := inQuarantine(held, begin)
			if err != nil {
				fail(w, err)
				return
			}
			guards = append(guards, guard)
		}
	}
	guards = slices.Compact(slices.Sorted(slices.Values(guards)))
	if err := s.c.Journal.Release(r.Context(), guards...); err != nil {
		fail(w, err)
		return
	}
	released := []Released{}
	for _, guard := range guards {
		released = append(released, Released{Guard: string(guard), Job: s.jobUnder(guard)})
	}
	answer(w, released)
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
		return "", &refusal{http.StatusNotFound, "missing", whatIsHeld(held), fmt.Sprintf("%.80q is %v", begin, journal.ErrNotQuarantined)}
	}
	return "", &refusal{http.StatusConflict, "ambiguous", whatIsHeld(found), fmt.Sprintf("%d guards in quarantine begin with %.80q", len(found), begin)}
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

// jobUnder is the job of a guard, nil if it is not one that is known.
func (s *Server) jobUnder(guard fact.Subject) *Job {
	id, err := guild.ParseJobID(strings.TrimPrefix(string(guard), "job."))
	if err != nil {
		return nil
	}
	j, ok := s.c.Fold.Job(id)
	if !ok {
		return nil
	}
	view := s.job(j)
	return &view
}

// ReleaseGuards is POST /v1/journal/release: lets guards go on that a repair has put into quarantine.
func (c *Client) ReleaseGuards(ctx context.Context, how Releasing) ([]Released, error) {
	return post[[]Released](ctx, c, "/v1/journal/release", how)
}
