package session

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
	"guild/replay"
)

// MaxReceipt limits the size of a session receipt that is read, in bytes.
const MaxReceipt = 16 << 20

// Receipt is RECEIPT.json: the summary of a session, with the hashes by which its trajectory can be checked. Unknown
// members are kept.
type Receipt struct {
	SessionID      string         `json:"session_id"`
	StartedAt      string         `json:"started_at"`   // ISO 8601
	CompletedAt    string         `json:"completed_at"` // ISO 8601
	IssueNumber    *int64         `json:"issue_number"` // null without an issue
	PlanHash       guild.Hash     `json:"plan_hash"`    // "" without a plan; with several plans, of the last one
	ToolCalls      []Call         `json:"tool_calls"`
	Verification   Verified       `json:"verification"`
	Confidence     replay.Float   `json:"final_confidence"` // 0 to 1; 0 if unknown
	PolicyBundleID string         `json:"policy_bundle_id"`
	BehaviourID    string         `json:"behaviour_id,omitzero"` // as in the trajectory
	Signature      *string        `json:"signature"`             // null, or the id of a Nostr event whose content is Unsigned
	TrajectoryHash guild.Hash     `json:"trajectory_hash,omitzero"`
	Provenance     *Provenance    `json:"provenance,omitzero"`
	Trace          *Report        `json:"trace,omitzero"`
	Extra          jsontext.Value `json:",embed"`
}

// Call is one call of a tool in a receipt.
type Call struct {
	ID          string           `json:"id"`
	Tool        string           `json:"tool"`
	ParamsHash  guild.Hash       `json:"params_hash"`
	OutputHash  guild.Hash       `json:"output_hash"`  // "" without a result
	StepUtility replay.Float     `json:"step_utility"` // -1 to 1
	LatencyMs   int64            `json:"latency_ms"`
	SideEffects []jsontext.Value `json:"side_effects"` // strings such as "file:src/main.go" in our receipts; others can have objects
	Extra       jsontext.Value   `json:",embed"`
}

// Verified combines all checks that were made during the session.
type Verified struct {
	Commands  []string       `json:"commands_run"`
	ExitCodes []int          `json:"exit_codes"` // one for each command
	Delta     int            `json:"verification_delta"`
	Extra     jsontext.Value `json:",embed"`
}

// NewReceipt makes the receipt of a trajectory, which can come from any program. trajectory is its hash. The error is
// about an event or the first reason why the receipt is invalid.
func NewReceipt(events []replay.Event, trajectory guild.Hash, effects Effects) (Receipt, error) {
	r := Receipt{TrajectoryHash: trajectory, ToolCalls: []Call{}, Verification: Verified{Commands: []string{}, ExitCodes: []int{}}}
	places := map[string]int{}
	for _, e := range events {
		if err := r.take(e, places, effects); err != nil {
			return Receipt{}, fmt.Errorf("session receipt: %s: %w", e.EventName(), err)
		}
	}
	return r, r.Validate()
}

// take adds one event. places has the index of each call by its id.
func (r *Receipt) take(e replay.Event, places map[string]int, effects Effects) (err error) {
	switch e := e.(type) {
	case replay.SessionStart:
		r.SessionID, r.StartedAt, r.IssueNumber = e.SessionID, e.T, e.IssueNumber
		r.PolicyBundleID, r.BehaviourID = e.PolicyBundleID, e.BehaviourID
	case replay.PlanStart:
		r.PlanHash, err = guild.ParseHash(e.PlanHash)
	case replay.ToolCall:
		c := Call{ID: e.ID, Tool: e.Tool, SideEffects: []jsontext.Value{}}
		for _, effect := range effects[e.ID] {
			text, err := jsontext.AppendQuote(nil, effect)
			if err != nil {
				return err
			}
			c.SideEffects = append(c.SideEffects, text)
		}
		places[e.ID] = len(r.ToolCalls)
		switch {
		case e.ParamsHash != "":
			c.ParamsHash, err = guild.ParseHash(e.ParamsHash)
		case len(e.Params) == 0:
			c.ParamsHash = guild.Sum([]byte("{}"))
		default:
			c.ParamsHash, err = canon.Hash(e.Params)
		}
		r.ToolCalls = append(r.ToolCalls, c)
	case replay.ToolResult:
		i, ok := places[e.ID]
		if !ok {
			return fmt.Errorf("result of %.40q, which is not a call: %w", e.ID, ErrInvalid)
		}
		c := &r.ToolCalls[i]
		c.StepUtility, c.LatencyMs = e.StepUtility, e.LatencyMs
		c.OutputHash, err = guild.ParseHash(e.OutputHash)
	case replay.Verification:
		v := &r.Verification
		v.Commands, v.ExitCodes = append(v.Commands, e.Commands...), append(v.ExitCodes, e.ExitCodes...)
		v.Delta += e.Delta
	case replay.SessionEnd:
		r.CompletedAt, r.Confidence = e.T, e.Confidence
	}
	return err
}

// Validate returns the first reason why the receipt is invalid.
func (r Receipt) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("session receipt: "+format+": %w", append(args, ErrInvalid)...)
	}
	started, err := time.Parse(time.RFC3339Nano, r.StartedAt)
	if err != nil {
		return bad("started_at %.40q", r.StartedAt)
	}
	completed, err := time.Parse(time.RFC3339Nano, r.CompletedAt)
	v := r.Verification
	switch {
	case r.SessionID == "":
		return bad("session_id is empty")
	case err != nil || completed.Before(started):
		return bad("completed_at %.40q after %.40q", r.CompletedAt, r.StartedAt)
	case r.Confidence < 0 || r.Confidence > 1:
		return bad("final_confidence %v is not in 0..1", float64(r.Confidence))
	case len(v.Commands) != len(v.ExitCodes):
		return bad("verification: %d exit codes for %d commands", len(v.ExitCodes), len(v.Commands))
	case r.Signature != nil && !isEventID(*r.Signature):
		return bad("signature %.80q is not null and no id of an event", *r.Signature)
	}
	ids := map[string]bool{}
	for _, c := range r.ToolCalls {
		switch {
		case c.ID == "" || ids[c.ID]:
			return bad("tool_calls: empty or duplicate id %.40q", c.ID)
		case c.Tool == "" || c.ParamsHash.IsZero():
			return bad("tool_calls: %.40q without a tool or a params_hash", c.ID)
		case c.StepUtility < -1 || c.StepUtility > 1 || c.LatencyMs < 0:
			return bad("tool_calls: %.40q with utility %v and latency %d", c.ID, float64(c.StepUtility), c.LatencyMs)
		}
		ids[c.ID] = true
	}
	return nil
}

func isEventID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && !slices.ContainsFunc([]byte(s), func(c byte) bool { return 'A' <= c && c <= 'F' })
}

// Encode returns the receipt as canonical JSON. It does not validate.
func (r Receipt) Encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err == nil {
		b, err = canon.Canonical(b)
	}
	if err != nil {
		return nil, fmt.Errorf("session receipt: %w", err)
	}
	return b, nil
}

// Unsigned returns the hash of the receipt with a null signature, which the signing event has as its content.
func (r Receipt) Unsigned() (guild.Hash, error) {
	r.Signature = nil
	b, err := r.Encode()
	return guild.Sum(b), err
}

// DecodeReceipt parses a session receipt in any JSON form. It does not validate.
func DecodeReceipt(b []byte) (Receipt, error) {
	if len(b) > MaxReceipt {
		return Receipt{}, fmt.Errorf("session receipt of %d bytes is over %d: %w", len(b), MaxReceipt, ErrInvalid)
	}
	canonical, err := canon.Canonical(b) // refuses JSON that two parsers could read differently
	if err != nil {
		return Receipt{}, fmt.Errorf("session receipt: %w", err)
	}
	if canonical[0] != '{' {
		return Receipt{}, fmt.Errorf("session receipt: not an object: %w", ErrInvalid)
	}
	var r Receipt
	if err := json.Unmarshal(canonical, &r); err != nil {
		return Receipt{}, fmt.Errorf("session receipt: %w", err)
	}
	return r, nil
}
