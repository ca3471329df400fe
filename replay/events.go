package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"guild/canon"
)

// Event is one line of a trajectory. Only the types of this package implement it.
type Event interface {
	EventName() string // the value of the event field
	check() error      // returns why the event may not be written
}

// Times are ISO 8601 (see Time) and hashes are "sha256:<hex>". Both are strings, because the published examples have
// valid values of neither. Writer checks them.

// ReplayHeader is the first line of a file.
type ReplayHeader struct {
	Version   int    `json:"replay_version"` // 1; 0 means 1
	Producer  string `json:"producer"`       // name@version
	CreatedAt string `json:"created_at"`
}

// SessionStart is the second line.
type SessionStart struct {
	SessionID      string `json:"session_id"`
	IssueNumber    *int64 `json:"issue_number"` // null without an issue
	PolicyBundleID string `json:"policy_bundle_id"`
	BehaviourID    string `json:"behaviour_id,omitempty"` // hash of the agent's behaviour that did the work; ours, beside the published fields
	T              string `json:"t"`
}

// PlanStart names the plan that follows.
type PlanStart struct {
	PlanHash  string `json:"plan_hash"` // canonical hash of the plan
	StepCount int    `json:"step_count"`
	T         string `json:"t"`
}

// ToolCall is one call of a tool.
type ToolCall struct {
	ID         string          `json:"id"`
	Tool       string          `json:"tool"`
	Params     json.RawMessage `json:"params"`      // an object
	ParamsHash string          `json:"params_hash"` // canonical hash of Params; computed if empty
	StepID     string          `json:"step_id"`
	T          string          `json:"t"`
}

// ToolResult is the result of a ToolCall.
type ToolResult struct {
	ID          string `json:"id"`                       // of the call
	OutputHash  string `json:"output_hash"`              // of the whole output
	Preview     string `json:"output_preview,omitempty"` // the output's beginning, cut by Preview
	ExitCode    *int   `json:"exit_code,omitempty"`
	StepUtility Float  `json:"step_utility"` // -1 to 1
	LatencyMs   int64  `json:"latency_ms"`
	T           string `json:"t"`
}

// StepComplete ends a step.
type StepComplete struct {
	StepID     string `json:"step_id"`
	Status     Status `json:"status"` // Success, Failed, Skipped or MaxIterationsReached
	Iterations int    `json:"iterations"`
	T          string `json:"t"`
}

// Verification is one check of the work.
type Verification struct {
	Commands  []string `json:"commands"`
	ExitCodes []int    `json:"exit_codes"` // one for each command
	Delta     int      `json:"verification_delta"`
	T         string   `json:"t"`
}

// SessionEnd is the last line.
type SessionEnd struct {
	Status         Status `json:"status"`     // Success, Failed, Cancelled or Timeout
	Confidence     Float  `json:"confidence"` // 0 to 1
	TotalToolCalls int    `json:"total_tool_calls"`
	TotalLatencyMs int64  `json:"total_latency_ms"`
	T              string `json:"t"`
}

// Unknown is an event of a type that this package does not know. It is kept unchanged and can be written again.
type Unknown struct {
	Name string          `json:"-"` // the value of its event field
	Raw  json.RawMessage `json:"-"` // the whole object, canonical as Read returns it
}

// EventName returns the value of the event field.
func (ReplayHeader) EventName() string { return "ReplayHeader" }

// EventName returns the value of the event field.
func (SessionStart) EventName() string { return "SessionStart" }

// EventName returns the value of the event field.
func (PlanStart) EventName() string { return "PlanStart" }

// EventName returns the value of the event field.
func (ToolCall) EventName() string { return "ToolCall" }

// EventName returns the value of the event field.
func (ToolResult) EventName() string { return "ToolResult" }

// EventName returns the value of the event field.
func (StepComplete) EventName() string { return "StepComplete" }

// EventName returns the value of the event field.
func (Verification) EventName() string { return "Verification" }

// EventName returns the value of the event field.
func (SessionEnd) EventName() string { return "SessionEnd" }

// EventName returns the value of the event field.
func (u Unknown) EventName() string { return u.Name }

// Float is a number that the format requires as a fraction: 1 is written as 1.0.
type Float float64

// MarshalJSON writes the canonical spelling.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return nil, fmt.Errorf("%v: %w", float64(f), ErrValue)
	}
	return canon.AppendFloat(nil, float64(f)), nil
}

// Status is the outcome of a step or a session.
type Status string

// The statuses.
const (
	Success              Status = "Success"
	Failed               Status = "Failed"
	Skipped              Status = "Skipped"              // steps only
	MaxIterationsReached Status = "MaxIterationsReached" // steps only
	Cancelled            Status = "Cancelled"            // sessions only
	Timeout              Status = "Timeout"              // sessions only
)

// UnmarshalText reads a status in any case, also as max_iterations_reached. Other texts are kept unchanged.
func (s *Status) UnmarshalText(b []byte) error {
	word := strings.ReplaceAll(string(b), "_", "")
	for _, known := range []Status{Success, Failed, Skipped, MaxIterationsReached, Cancelled, Timeout} {
		if strings.EqualFold(word, string(known)) {
			*s = known
			return nil
		}
	}
	*s = Status(b)
	return nil
}

// Time formats a time as the format requires: ISO 8601 in UTC.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Preview cuts s to at most 2,000 characters, always between two characters. It replaces invalid UTF-8.
func Preview(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= MaxPreview {
		return s
	}
	count := 0
	for i := range s {
		if count == MaxPreview {
			return s[:i]
		}
		count++
	}
	return s
}

func (e ReplayHeader) check() error {
	if e.Version != 1 {
		return fmt.Errorf("replay_version %d: %w", e.Version, ErrValue)
	}
	return checkTime(e.CreatedAt)
}

func (e SessionStart) check() error { return checkTime(e.T) }

func (e PlanStart) check() error { return both(checkHash(e.PlanHash), checkTime(e.T)) }

func (e ToolCall) check() error { return both(checkHash(e.ParamsHash), checkTime(e.T)) }

func (e ToolResult) check() error {
	return both(checkMs(e.LatencyMs), both(checkHash(e.OutputHash), checkTime(e.T)))
}

func (e StepComplete) check() error {
	return both(e.Status.check(Success, Failed, Skipped, MaxIterationsReached), checkTime(e.T))
}

func (e Verification) check() error {
	if len(e.Commands) != len(e.ExitCodes) {
		return fmt.Errorf("%d exit codes for %d commands: %w", len(e.ExitCodes), len(e.Commands), ErrValue)
	}
	if e.Delta < -MaxDelta || e.Delta > MaxDelta {
		return fmt.Errorf("verification_delta %d: %w", e.Delta, ErrValue)
	}
	return checkTime(e.T)
}

func (e SessionEnd) check() error {
	if err := checkMs(e.TotalLatencyMs); err != nil {
		return err
	}
	return both(e.Status.check(Success, Failed, Cancelled, Timeout), checkTime(e.T))
}

// check refuses an event that Read would return as another one: its event field differs from Name, or names a known
// type.
func (u Unknown) check() error {
	e, _, err := decode(u.Raw)
	if err != nil {
		return err
	}
	if read, ok := e.(Unknown); !ok || read.Name != u.Name {
		return fmt.Errorf("reads as %.40q: %w", e.EventName(), ErrValue)
	}
	return nil
}

func (s Status) check(allowed ...Status) error {
	if !slices.Contains(allowed, s) {
		return fmt.Errorf("status %.40q: %w", s, ErrValue)
	}
	return nil
}
