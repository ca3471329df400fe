package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"guild"
	"guild/canon"
	"guild/replay"
)

// Limits of a plan.
const (
	MaxPlan       = 256 << 10 // bytes
	MaxSteps      = 1000
	MaxIterations = 10_000 // of a step, and retries of its verification
	maxListed     = 1000   // files, dependencies, commands
)

// Plan is a worker's plan (PlanIR). It is read only, so its hash is always that of the document as received.
type Plan struct {
	Analysis     string       `json:"analysis"`
	Steps        []Step       `json:"steps"`
	Verification Strategy     `json:"verification_strategy"`
	Complexity   string       `json:"complexity"`
	Confidence   replay.Float `json:"confidence"` // 0 to 1

	Hash guild.Hash `json:"-"` // canonical hash of the document as received, with unknown fields
}

// Step is one step of a plan.
type Step struct {
	ID            string   `json:"id"`
	Description   string   `json:"description"`
	Intent        Intent   `json:"intent"`
	TargetFiles   []string `json:"target_files"`
	DependsOn     []string `json:"depends_on"` // ids of steps
	MaxIterations int      `json:"max_iterations"`
}

// Strategy is the plan's final check of the work, after all steps.
type Strategy struct {
	Commands        []string `json:"commands"`
	SuccessCriteria Criteria `json:"success_criteria"`
	MaxRetries      int      `json:"max_retries"`
}

// Criteria is one text or several.
type Criteria []string

// UnmarshalJSON reads both forms.
func (c *Criteria) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*c = Criteria{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(c))
}

// Intent is the purpose of a step.
type Intent string

// The intents.
const (
	Investigate Intent = "Investigate"
	Modify      Intent = "Modify"
	Verify      Intent = "Verify"
	Synthesize  Intent = "Synthesize"
)

// UnmarshalText reads an intent in any case. Others are kept unchanged and make the plan invalid.
func (i *Intent) UnmarshalText(b []byte) error {
	for _, known := range []Intent{Investigate, Modify, Verify, Synthesize} {
		if strings.EqualFold(string(b), string(known)) {
			*i = known
			return nil
		}
	}
	*i = Intent(b)
	return nil
}

// DecodePlan parses a plan and computes its hash. It does not validate the plan.
func DecodePlan(b []byte) (Plan, error) {
	if len(b) > MaxPlan {
		return Plan{}, fmt.Errorf("plan of %d bytes is over %d: %w", len(b), MaxPlan, ErrInvalid)
	}
	canonical, err := canon.Canonical(b) // refuses JSON that two parsers could read differently
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	if len(canonical) == 0 || canonical[0] != '{' {
		return Plan{}, fmt.Errorf("plan: not an object: %w", ErrInvalid)
	}
	var p Plan
	if err := json.Unmarshal(canonical, &p); err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	p.Hash = guild.Sum(canonical)
	return p, nil
}

// Validate returns the first reason why the plan is invalid: a number out of bounds, a missing or duplicate step id,
// an unknown dependency, or a dependency cycle.
func (p Plan) Validate() error {
	if p.Confidence < 0 || p.Confidence > 1 {
		return fmt.Errorf("plan: confidence %v is not in 0..1: %w", float64(p.Confidence), ErrInvalid)
	}
	if len(p.Steps) > MaxSteps {
		return fmt.Errorf("plan: %d steps are over %d: %w", len(p.Steps), MaxSteps, ErrInvalid)
	}
	if v := p.Verification; v.MaxRetries < 0 || v.MaxRetries > MaxIterations || len(v.Commands) > maxListed {
		return fmt.Errorf("plan: verification_strategy: %d commands, %d retries: %w", len(v.Commands), v.MaxRetries, ErrInvalid)
	}
	places := map[string]int{}
	for i, s := range p.Steps {
		if err := s.validate(); err != nil {
			return fmt.Errorf("plan: step %d, %.40q: %w", i+1, s.ID, err)
		}
		if _, twice := places[s.ID]; twice {
			return fmt.Errorf("plan: duplicate step id %.40q: %w", s.ID, ErrInvalid)
		}
		places[s.ID] = i
	}
	return p.checkOrder(places)
}

func (s Step) validate() error {
	switch {
	case s.ID == "" || len(s.ID) > MaxID:
		return fmt.Errorf("an id has 1 to %d bytes: %w", MaxID, ErrInvalid)
	case !slices.Contains([]Intent{Investigate, Modify, Verify, Synthesize}, s.Intent):
		return fmt.Errorf("intent %.40q: %w", s.Intent, ErrInvalid)
	case s.MaxIterations < 0 || s.MaxIterations > MaxIterations:
		return fmt.Errorf("max_iterations %d is not in 0..%d: %w", s.MaxIterations, MaxIterations, ErrInvalid)
	case len(s.TargetFiles) > maxListed || len(s.DependsOn) > maxListed:
		return fmt.Errorf("%d files, %d dependencies: %w", len(s.TargetFiles), len(s.DependsOn), ErrInvalid)
	}
	return nil
}

// checkOrder finds unknown dependencies and cycles. It removes steps without open dependencies until none is left
// (Kahn's algorithm); the remaining steps form a cycle.
func (p Plan) checkOrder(places map[string]int) error {
	waits, after := make([]int, len(p.Steps)), make([][]int, len(p.Steps))
	for i, s := range p.Steps {
		for _, id := range s.DependsOn {
			at, ok := places[id]
			if !ok {
				return fmt.Errorf("plan: step %.40q depends on %.40q, which is not a step: %w", s.ID, id, ErrInvalid)
			}
			waits[i]++
			after[at] = append(after[at], i)
		}
	}
	var ready []int
	for i, n := range waits {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	for n := 0; n < len(ready); n++ {
		for _, i := range after[ready[n]] {
			waits[i]--
			if waits[i] == 0 {
				ready = append(ready, i)
			}
		}
	}
	if len(ready) < len(p.Steps) {
		stuck := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
		return fmt.Errorf("plan: step %.40q waits for itself: %w", p.Steps[stuck].ID, ErrInvalid)
	}
	return nil
}
