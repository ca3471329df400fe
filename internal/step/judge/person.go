package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// PersonNeeded is returned if a person must decide: the criteria ask for one, or no program can verify one of them. The
// verdict that is returned with it contains the results of the programs.
type PersonNeeded struct{ Reason string }

func (e *PersonNeeded) Error() string { return "a person must decide: " + e.Reason }

// ErrNotHeld is returned for a ruling on a delivery that does not wait for one.
var ErrNotHeld = errors.New("it is not waiting for a ruling")

// Ruled is a person's ruling on a delivery.
type Ruled struct {
	Outcome guild.Outcome // SUCCESS, PARTIAL or FAILURE
	Ruling  guild.Ruling
}

// Check returns an error for an outcome that a person cannot give.
func (r Ruled) Check() error {
	switch r.Outcome {
	case guild.Success, guild.Partial, guild.Failure:
		return nil
	default:
		return fmt.Errorf("outcome %q: want %s, %s or %s", r.Outcome, guild.Success, guild.Partial, guild.Failure)
	}
}

// Rule records a person's ruling as the verdict on an attempt that waits for one. The verdict keeps the results of the
// programs.
func (s *Step) Rule(ctx context.Context, j *journal.Journal, attempt nostr.ID, r Ruled) error {
	if err := r.Check(); err != nil {
		return err
	}
	held, ok := s.fold.held(attempt)
	if !ok {
		return fmt.Errorf("attempt %.8s: %w", attempt.Hex(), ErrNotHeld)
	}
	v, err := s.provisional(held)
	if err != nil {
		return fmt.Errorf("rule on attempt %.8s: %w", attempt.Hex(), err)
	}
	kept, err := s.keep(ctx, attempt, judged{r.apply(v), held.Whole})
	if err != nil {
		return fmt.Errorf("rule on attempt %.8s: %w", attempt.Hex(), err)
	}
	return j.Do(ctx, fact.JobSubject(held.Job), "rule "+attempt.Hex(), func(tx *journal.Tx) error {
		if _, still := s.fold.held(attempt); !still {
			return fmt.Errorf("attempt %.8s: %w", attempt.Hex(), ErrNotHeld)
		}
		tx.Append(kept)
		return nil
	})
}

// apply returns the verdict with the outcome of the ruling.
func (r Ruled) apply(v guild.Verdict) guild.Verdict {
	v.Outcome, v.Cause = r.Outcome, ""
	if r.Outcome != guild.Success {
		v.Cause = guild.Cut("ruled by a person: "+r.Ruling.Note, maxCause)
	}
	ruling := r.Ruling
	v.Ruling = &ruling
	return rescored(v)
}

// provisional reads the verdict so far of a delivery that waits for a ruling.
func (s *Step) provisional(c pending) (guild.Verdict, error) {
	var v guild.Verdict
	raw, err := s.c.Blobs.ReadAll(c.Held, maxBundle)
	if err != nil {
		return v, err
	}
	return v, json.NewDecoder(bytes.NewReader(raw)).Decode(&v)
}
