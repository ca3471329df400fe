// Package opinion compares results that no test can decide: several results of a subjective job, by majority, by a
// command, or by a model. It defines how opinions are asked and combined, but not what they are worth.
//
// Results are written by strangers who know that they are judged. They are treated as data everywhere: quoted, limited,
// never part of an instruction; and the only answers are A, B and tie. Every pair is asked in both orders, and an
// answer that depends on the order is discarded.
package opinion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"guild"
	"guild/oa"
)

// Limits of a question.
const (
	maxResults = 10
	maxResult  = 64 << 10  // bytes
	maxRequest = 256 << 10 // bytes
	maxReason  = 300       // bytes
)

// Question asks which of several results of one job is best.
type Question struct {
	Task    string            // the job's type, as "oa.retrieval_rerank.v1"
	Request json.RawMessage   // what was asked for
	Results []json.RawMessage // the results; hostile
	Model   string            // the model that the request asks for; ignored if it cannot be chosen
}

// Check rejects a question that is too large or not JSON.
func (q Question) Check() error {
	switch {
	case len(q.Results) == 0:
		return errors.New("opinion: no results")
	case len(q.Results) > maxResults:
		return fmt.Errorf("opinion: %d results, at most %d are compared", len(q.Results), maxResults)
	case len(q.Request) > maxRequest || len(q.Request) > 0 && !json.Valid(q.Request):
		return fmt.Errorf("opinion: the request is not JSON of at most %d bytes", maxRequest)
	}
	for i, r := range q.Results {
		if len(r) > maxResult || !json.Valid(r) {
			return fmt.Errorf("opinion: result %d is not JSON of at most %d bytes", i, maxResult)
		}
	}
	return nil
}

// Choice is an answer to a Question.
type Choice struct {
	Best     []int    // indexes of the best results, or of those that agree, ascending; empty if undecided
	Voters   int      // results that voted, or answers that were requested
	Agreeing int      // of those, the number that agree with the choice
	Models   []string // models that answered
	Reason   string   // short; a stranger may have written it
}

// Opinion chooses among results. Its methods may be called concurrently.
type Opinion interface {
	// Best chooses. An error means that there was no readable answer; the same question may be asked again. An undecided
	// Choice is not an error.
	Best(ctx context.Context, q Question) (Choice, error)
}

// Side names the better of two results.
type Side string

// The sides.
const (
	A   Side = "A"
	B   Side = "B"
	Tie Side = "tie"
)

// other returns the same answer for the two results in the opposite order.
func (s Side) other() Side {
	switch s {
	case A:
		return B
	case B:
		return A
	default:
		return s
	}
}

// answer is everything that a judge of two results may write.
type answer struct {
	Choice Side   `json:"choice"`
	Reason string `json:"reason"`
}

// readAnswer parses an answer, and rejects any text around it.
func readAnswer(raw []byte) (answer, error) {
	var a answer
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return answer{}, errors.New("the answer is not the JSON that was asked for")
	}
	if d.More() || len(bytes.TrimSpace(raw[d.InputOffset():])) > 0 {
		return answer{}, errors.New("text after the answer")
	}
	if !slices.Contains([]Side{A, B, Tie}, a.Choice) {
		return answer{}, errors.New("the answer is not A, B or tie")
	}
	a.Reason = brief(a.Reason)
	return a, nil
}

// brief shortens and cleans a reason that strangers may have written.
func brief(s string) string { return guild.Cut(guild.Clean(s), maxReason) }

// Record returns the choice in the form of a verdict.
func (c Choice) Record(adjudication oa.Adjudication) *guild.Opinion {
	return &guild.Opinion{
		Adjudication: string(adjudication), Voters: c.Voters, Agreeing: c.Agreeing, Models: c.Models, Reason: brief(c.Reason),
	}
}
