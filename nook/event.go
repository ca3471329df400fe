package nook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"guild/canon"
	"guild/digest"
)

// The types of events of the specification.
const (
	TypeStarted   = "agent.started"
	TypeCompleted = "agent.completed"
	TypeFailed    = "agent.failed"
	TypeIdle      = "agent.idle"
	TypeState     = "agent.state"
	TypeHeartbeat = "agent.heartbeat" // is not recorded
)

// The triggers say what a hook saw.
const (
	TriggerCommit  = "git.commit"
	TriggerBugFix  = "git.bugfix"
	TriggerPR      = "git.pr"
	TriggerRelease = "git.release"

	// TriggerBounty is a paid, accepted job as provider. Only the receiver itself knows of one: Parse refuses it.
	TriggerBounty = "guild.bounty"
)

// OwnID begins the ids of events that the receiver makes itself. No id of a report can begin so: they are ASCII.
const OwnID = "§"

// Limits of an event.
const (
	MaxEvent  = 16 << 10          // bytes of JSON
	MaxTokens = 1_000_000_000_000 // tokens of one event

	maxID     = 128                    // bytes of an id, printable ASCII
	maxAgent  = 128                    // bytes of an agent's id
	maxUnit   = 256                    // bytes of a work unit's id
	maxError  = 4096                   // bytes of an error
	maxAhead  = 60_000                 // ms that a timestamp may be ahead of the receiver's clock
	maxMillis = 253_402_300_799_999    // the last millisecond of the year 9999
	seconds   = int64(100_000_000_000) // a timestamp below this is in seconds
	hour      = int64(60 * 60 * 1000)  // in ms
	day       = 24 * hour              // in ms, the window in which an event can earn
)

// Event is one event of the Nook protocol, section 1. The zero value of a member means that it is absent.
type Event struct {
	ID         string `json:"id,omitempty"` // 1 to 128 printable ASCII bytes; Received derives it if the client gave none
	Type       string `json:"type"`
	AgentID    string `json:"agentId"`
	WorkUnitID string `json:"workUnitId,omitempty"` // agent.started and agent.completed
	Tokens     int64  `json:"tokens,omitempty"`     // agent.started and agent.completed; only those of the latter count
	State      string `json:"state,omitempty"`      // agent.state
	Success    *bool  `json:"success,omitempty"`    // agent.completed
	Error      string `json:"error,omitempty"`      // agent.failed
	Timestamp  int64  `json:"timestamp,omitempty"`  // as the client sent it; after Received Unix time in ms

	// Trigger is not in the specification: its section 7 has git triggers but no events for them. An agent.completed event
	// with a trigger says what a hook saw. It unlocks achievements, and is not work: it earns nothing, and its work unit
	// does not count.
	Trigger string `json:"trigger,omitempty"`
}

// FieldError says which member of an event is invalid. Field is "" if the whole is not a JSON object.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return "event: " + e.Problem
	}
	return "event: " + e.Field + ": " + e.Problem
}

func invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// members lists the members that events of a type have, next to id, type, agentId and timestamp.
var members = map[string][]string{
	TypeStarted: {"workUnitId", "tokens"}, TypeCompleted: {"workUnitId", "tokens", "success", "trigger"},
	TypeFailed: {"error"}, TypeState: {"state"}, TypeIdle: nil, TypeHeartbeat: nil,
}

// Parse parses one event. It refuses everything that the specification does not allow, unknown members included, with a
// *FieldError. It changes nothing: Received completes the event.
func Parse(b []byte) (Event, error) {
	e, err := parse(b)
	if err != nil {
		return e, err
	}
	switch {
	case strings.HasPrefix(e.ID, OwnID):
		return e, invalid("id", "not printable ASCII")
	case e.Trigger == TriggerBounty:
		return e, invalid("trigger", "cannot be reported")
	}
	return e, nil
}

// parse is Parse for events that the receiver may have made itself.
func parse(b []byte) (Event, error) {
	if len(b) > MaxEvent {
		return Event{}, invalid("", "%d bytes, more than %d", len(b), MaxEvent)
	}
	plain, err := canon.Canonical(b) // refuses duplicate keys and invalid UTF-8
	if err != nil {
		return Event{}, invalid("", "%v", err)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(plain, &object) != nil || object == nil {
		return Event{}, invalid("", "not a JSON object")
	}
	return parseMembers(object)
}

func parseMembers(object map[string]json.RawMessage) (Event, error) {
	var e Event
	var err error
	if e.Type, err = text(object, "type", 1, 32); err != nil {
		return Event{}, err
	}
	allowed, known := members[e.Type]
	if !known {
		return Event{}, invalid("type", "unknown type %q", e.Type)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains([]string{"id", "type", "agentId", "timestamp"}, name) && !slices.Contains(allowed, name) {
			return Event{}, invalid(name, "%s events do not have this member", e.Type)
		}
	}
	for _, m := range []struct {
		name     string
		into     *string
		min, max int
	}{
		{"agentId", &e.AgentID, 1, maxAgent}, {"id", &e.ID, 0, maxID}, {"workUnitId", &e.WorkUnitID, 0, maxUnit},
		{"error", &e.Error, 0, maxError}, {"state", &e.State, 0, 32}, {"trigger", &e.Trigger, 0, 32},
	} {
		if *m.into, err = text(object, m.name, m.min, m.max); err != nil {
			return Event{}, err
		}
	}
	if e.Tokens, err = integer(object, "tokens", 0, MaxTokens); err != nil {
		return Event{}, err
	}
	if e.Timestamp, err = integer(object, "timestamp", 1, maxMillis); err != nil {
		return Event{}, err
	}
	if raw, ok := object["success"]; ok {
		success := string(raw) == "true"
		if !success && string(raw) != "false" {
			return Event{}, invalid("success", "not a boolean")
		}
		e.Success = &success
	}
	return e, e.check()
}

// check checks what depends on more than one member, and the words.
func (e Event) check() error {
	id := strings.TrimPrefix(e.ID, OwnID)
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return invalid("id", "not printable ASCII")
		}
	}
	if e.Type == TypeState && !slices.Contains([]string{string(Working), string(Idle), string(Sleeping)}, e.State) {
		return invalid("state", "%q is not working, idle or sleeping", e.State)
	}
	if e.Type == TypeHeartbeat && e.Timestamp == 0 {
		return invalid("timestamp", "missing")
	}
	if e.Trigger != "" && !slices.Contains([]string{TriggerCommit, TriggerBugFix, TriggerPR, TriggerRelease, TriggerBounty}, e.Trigger) {
		return invalid("trigger", "unknown trigger %q", e.Trigger)
	}
	if e.Trigger != "" && e.Tokens > 0 {
		return invalid("tokens", "an event with a trigger has no tokens")
	}
	return nil
}

// text returns a string member of least to most bytes. Least 0 means that the member may be absent; if present it is not empty.
func text(object map[string]json.RawMessage, name string, least, most int) (string, error) {
	raw, ok := object[name]
	if !ok && least == 0 {
		return "", nil
	}
	if !ok {
		return "", invalid(name, "missing")
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", invalid(name, "not a string")
	}
	if s == "" && name != "error" {
		return "", invalid(name, "empty")
	}
	if len(s) > most {
		return "", invalid(name, "%d bytes, more than %d", len(s), most)
	}
	for _, r := range s {
		if unicode.IsControl(r) && name != "error" {
			return "", invalid(name, "control character %U", r)
		}
	}
	return s, nil
}

// integer returns an integer member, 0 if it is absent.
func integer(object map[string]json.RawMessage, name string, least, most int64) (int64, error) {
	raw, ok := object[name]
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, invalid(name, "%.40s is not an integer", raw)
	}
	if n < least || n > most {
		return 0, invalid(name, "%d is not in %d to %d", n, least, most)
	}
	return n, nil
}

// Encode returns the event as canonical JSON. Parse returns the same event for it, if the event is valid.
func (e Event) Encode() []byte {
	var b bytes.Buffer
	in := json.NewEncoder(&b)
	in.SetEscapeHTML(false)
	if err := in.Encode(e); err != nil {
		panic(err) // an Event has only strings, integers and a boolean
	}
	plain, err := canon.Canonical(b.Bytes())
	if err != nil {
		panic(err) // what encoding/json writes is JSON
	}
	return plain
}

// Check reports what Parse would refuse, for an event that was not parsed.
func (e Event) Check() error {
	for _, s := range []string{e.ID, e.AgentID, e.WorkUnitID, e.Error} {
		if !utf8.ValidString(s) {
			return invalid("", "%.40q is not UTF-8", s)
		}
	}
	_, err := Parse(e.Encode())
	return err
}

// Received completes an event that arrived at a time, in Unix ms: the timestamp becomes ms, and is the arrival if it was
// absent; the id is derived if it was absent. A timestamp more than 60 s after the arrival is a *FieldError.
//
// The derived id is the hash of the event, so two equal events of one millisecond are one event.
func (e Event) Received(arrived int64) (Event, error) {
	switch {
	case e.Timestamp == 0:
		e.Timestamp = arrived
	case e.Timestamp < seconds:
		e.Timestamp *= 1000
	}
	if e.Timestamp > arrived+maxAhead {
		return Event{}, invalid("timestamp", "%d s in the future", (e.Timestamp-arrived)/1000)
	}
	if e.ID == "" {
		e.ID = digest.Sum(e.Encode()).Hex()
	}
	return e, nil
}
