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

// How others spell what the specification does not. The first that is there counts.
var (
	idNames     = []string{"id", "call_id", "tool_call_id", "tool_use_id"}
	toolNames   = []string{"tool", "tool_name", "name", "action"}
	paramNames  = []string{"params", "input", "arguments", "args", "parameters"}
	outputNames = []string{"output", "result", "content", "observation", "output_preview"}
	timeNames   = []string{"t", "timestamp", "time", "at", "started_at"}
)

// stepsToTimeline gives a bundle in the shape with steps a timeline instead: a step with a tool is a call, and if it
// has an output also a result; any other is what it says it is. The step is the data of the call, without its output.
func stepsToTimeline(b object) error {
	if b["timeline"] != nil || b["steps"] == nil {
		return nil
	}
	var steps []object
	if json.Unmarshal(b["steps"], &steps) != nil || slices.ContainsFunc(steps, isNull) {
		return fmt.Errorf("replay: steps: want an array of objects: %w", ErrBundle)
	}
	delete(b, "steps")
	metadata, _ := objectOf(b["metadata"]) // may be left out
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
	raw, err := canon.Marshal(timeline) // nests deeper than the steps did
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

// stepEntries are the entries of the timeline for one step.
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

// outputOf is the hash and the preview of an output: of a text its bytes, of anything else its canonical form.
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

// utility is what a result says of the use of its step: 1 for a success that is said to be one, else 0.
func utility(data object) Float {
	if said := data["step_utility"]; said != nil {
		return Float(max(-1, min(1, number(said))))
	}
	if string(data["success"]) == "true" || string(data["exit_code"]) == "0" {
		return 1
	}
	return 0
}

// latency is how long a call took, ms.
func latency(data object, otherwise int64) int64 {
	for _, name := range []string{"latency_ms", "duration_ms"} {
		if data[name] != nil {
			return whole(data[name])
		}
	}
	return max(0, otherwise)
}

// timeOf reads a time as text or, from 1e9 on, as Unix seconds or milliseconds. Anything else is the zero time.
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

// moment is when a line says that it is, or the zero time.
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

// text is a JSON string, or nothing.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// number is a JSON number, or 0.
func number(raw json.RawMessage) float64 {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

func fraction(raw json.RawMessage) float64 { return max(0, min(1, number(raw))) }

// whole is a number of milliseconds that makes sense, without its fraction.
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

// jsonOf is the canonical form of what was read as JSON, or is a text, a number or one of our own structs: these
// always have one, but for a text that is no UTF-8, and none is read.
func jsonOf(v any) json.RawMessage {
	raw, err := canon.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
