package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"guild/canon"
	"guild/digest"
)

// Names that other implementations use where the specification defines none. The first name that is present is used.
var (
	idNames     = []string{"id", "call_id", "tool_call_id", "tool_use_id"}
	toolNames   = []string{"tool", "tool_name", "name", "action"}
	paramNames  = []string{"params", "input", "arguments", "args", "parameters"}
	outputNames = []string{"output", "result", "content", "observation", "output_preview"}
	timeNames   = []string{"t", "timestamp", "time", "at", "started_at"}
)

// stepsToTimeline replaces the steps of a bundle by a timeline. A step with a tool becomes a call, and also a result
// if it has an output. Any other step becomes an entry of its own type. The data of the call is the step without its
// output.
func stepsToTimeline(b object) error {
	if b["timeline"] != nil || b["steps"] == nil {
		return nil
	}
	var steps []object
	if json.Unmarshal(b["steps"], &steps) != nil || slices.ContainsFunc(steps, isNull) {
		return fmt.Errorf("replay: steps: want an array of objects: %w", ErrBundle)
	}
	delete(b, "steps")
	metadata, _ := objectOf(b["metadata"]) // optional
	start := startOf(b, metadata)
	if start.Unix() == 0 && len(steps) > 0 {
		if t := timeOf(valueOf(steps[0], timeNames)); !t.IsZero() {
			start = t
		}
	}
	timeline := []object{}
	for _, step := range steps {
		timeline = append(timeline, stepEntries(step, start)...)
	}
	raw, err := canon.Marshal(timeline) // can exceed the nesting limit: entries nest deeper than steps
	if err != nil {
		return fmt.Errorf("replay: steps: %w", err)
	}
	b["timeline"] = raw
	if b["created_at"] == nil {
		b["created_at"] = jsonOf(Time(start))
	}
	if b["id"] == nil {
		b["id"] = jsonOf("replay_" + text(b["session_id"]))
	}
	if b["version"] == nil {
		b["version"] = jsonOf("1.0")
	}
	return nil
}

// stepEntries returns the timeline entries of one step.
func stepEntries(step object, start time.Time) []object {
	said := valueOf(step, timeNames)
	ms := whole(said)
	if t := timeOf(said); !t.IsZero() {
		ms = min(max(0, t.Sub(start).Milliseconds()), MaxMs)
	}
	at := jsonOf(ms)
	kind := cmp.Or(text(step["type"]), text(step["kind"]))
	tool := textOf(step, toolNames)
	output := valueOf(step, outputNames)
	switch {
	case kind == "tool_result", tool == "" && kind != "tool_call":
		return []object{{"t": at, "type": jsonOf(cmp.Or(kind, "assistant")), "data": jsonOf(step)}}
	case output == nil && step["output_hash"] == nil:
		return []object{{"t": at, "type": jsonOf("tool_call"), "tool": jsonOf(tool), "data": jsonOf(step)}}
	}
	call, result := object{}, object{}
	for name, value := range step {
		if isOutput(name) {
			result[name] = value
		} else {
			call[name] = value
		}
	}
	for _, name := range idNames {
		if value := step[name]; value != nil {
			result[name] = value
			break
		}
	}
	end := jsonOf(min(ms+latency(step, 0), MaxMs))
	return []object{
		{"t": at, "type": jsonOf("tool_call"), "tool": jsonOf(tool), "data": jsonOf(call)},
		{"t": end, "type": jsonOf("tool_result"), "tool": jsonOf(tool), "data": jsonOf(result)},
	}
}

func isOutput(name string) bool {
	switch name {
	case "output_hash", "exit_code", "latency_ms", "duration_ms", "success", "is_error", "error", "step_utility":
		return true
	}
	return slices.Contains(outputNames, name)
}

// outputOf returns the hash and the preview of an output: of the bytes of a text, otherwise of the canonical form.
func outputOf(output json.RawMessage) (digest.SHA256, string, error) {
	if len(output) == 0 {
		return digest.Sum(nil), "", nil
	}
	var s string
	if json.Unmarshal(output, &s) == nil && output[0] == '"' {
		return digest.Sum([]byte(s)), Preview(s), nil
	}
	canonical, err := canon.Canonical(output)
	if err != nil {
		return digest.SHA256{}, "", err
	}
	return digest.Sum(canonical), Preview(string(canonical)), nil
}

// utility returns the step_utility of a result, from -1 to 1. If it has none, the utility is 1 for a reported success,
// otherwise 0.
func utility(data object) Float {
	if said := data["step_utility"]; said != nil {
		return Float(max(-1, min(1, number(said))))
	}
	if string(data["success"]) == "true" || string(data["exit_code"]) == "0" {
		return 1
	}
	return 0
}

// latency returns the duration of a call in ms, or otherwise if data has none.
func latency(data object, otherwise int64) int64 {
	for _, name := range []string{"latency_ms", "duration_ms"} {
		if data[name] != nil {
			return whole(data[name])
		}
	}
	return max(0, otherwise)
}

// timeOf parses an RFC 3339 text, or a number from 1e9 on as Unix seconds or milliseconds. For anything else it
// returns the zero time.
func timeOf(raw json.RawMessage) time.Time {
	if t, err := time.Parse(time.RFC3339Nano, text(raw)); err == nil && t.Year() > 0 {
		return t
	}
	n := number(raw)
	switch {
	case n >= 1e9 && n < 1e11:
		return time.UnixMilli(int64(n * 1000))
	case n >= 1e11 && n < 1e14:
		return time.UnixMilli(int64(n))
	}
	return time.Time{}
}

// moment returns the time of a line, or the zero time.
func moment(line object) time.Time {
	if t, err := time.Parse(time.RFC3339Nano, cmp.Or(text(line["t"]), text(line["created_at"]))); err == nil {
		return t
	}
	return time.Time{}
}

func objectOf(raw json.RawMessage) (object, error) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, fmt.Errorf("null: %w", ErrValue)
	}
	return o, nil
}

// text returns the string value of raw, or "" if it is not a JSON string.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// number returns the number value of raw, or 0 if it is not a finite number.
func number(raw json.RawMessage) float64 {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// whole returns a number of milliseconds, without its fraction, limited to 0 to MaxMs.
func whole(raw json.RawMessage) int64 { return int64(max(0, min(MaxMs, number(raw)))) }

func valueOf(o object, names []string) json.RawMessage {
	for _, name := range names {
		if o[name] != nil {
			return o[name]
		}
	}
	return nil
}

func textOf(o object, names []string) string {
	for _, name := range names {
		if s := text(o[name]); s != "" {
			return s
		}
	}
	return ""
}

// jsonOf returns the canonical form of v. The callers pass parsed JSON, texts, numbers and structs of this package.
// Only a text with invalid UTF-8 would fail, and the parser refuses that.
func jsonOf(v any) json.RawMessage {
	raw, err := canon.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
