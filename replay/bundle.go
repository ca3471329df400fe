package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"guild/canon"
	"guild/digest"
)

// A ReplayBundle is the older form of a trajectory (the OpenAgents surface, "Current: ReplayBundle"). It has two
// shapes: {version, id, created_at, metadata, timeline, receipts}, which the implementation writes, and {session_id,
// steps, metadata}, which the specification names without defining a step.
//
// Both conversions are reversible, because each form carries the data that it has no field for. ToBundle stores each
// line of the trajectory as the data of its timeline entry. FromBundle stores everything beside the timeline in the
// header as "bundle", and each entry in its line as "entry". The only loss: a bundle of the second shape is converted
// back to the first shape.

// MaxBundle limits the size of a bundle or trajectory to convert, in bytes.
const MaxBundle = 64 << 20

// ErrBundle means that the input is not a ReplayBundle.
var ErrBundle = errors.New("not a ReplayBundle")

// object is a JSON object with all its members, known or not.
type object map[string]json.RawMessage

// ToBundle converts a trajectory to a ReplayBundle: canonical JSON in the shape with a timeline. A trajectory with any
// faulty line, or over MaxBundle bytes, is an error.
func ToBundle(src io.Reader) ([]byte, error) {
	var all []object
	limited := &io.LimitedReader{R: src, N: MaxBundle + 1}
	for line, err := range Read(limited) {
		if limited.N <= 0 {
			return nil, fmt.Errorf("replay: over %d bytes: %w", MaxBundle, ErrTooLong)
		}
		if err != nil {
			return nil, err
		}
		o, err := objectOf(line.canonical)
		if err != nil {
			return nil, fmt.Errorf("replay: line %d: %w", line.Number, err)
		}
		all = append(all, o)
	}
	header := all[0] // Read reports a missing header, start or end, so all three exist here
	if bundle, err := objectOf(header["bundle"]); err == nil {
		return withTimeline(bundle, keptEntries(all))
	}
	bundle, err := envelope(all)
	if err != nil {
		return nil, err
	}
	if changed, err := objectOf(header["envelope"]); err == nil {
		bundle = changed
		delete(header, "envelope")
	}
	return withTimeline(bundle, entries(all))
}

// withTimeline returns the bundle with the timeline added. The entries nest deeper than the lines, so a line that was
// canonical can exceed the nesting limit here; that is an error.
func withTimeline(bundle object, entries []object) ([]byte, error) {
	timeline, err := canon.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("replay: timeline: %w", err)
	}
	bundle["timeline"] = timeline
	return canon.Marshal(bundle)
}

// keptEntries returns the entries of the bundle that the lines were made from, and new entries for lines added since.
func keptEntries(lines []object) []object {
	out := []object{}
	for i, added := range entries(lines) {
		entry, err := objectOf(lines[i]["entry"])
		switch {
		case err == nil:
			// Move params back from the line into the entry that they were taken from.
			data, err := objectOf(entry["data"])
			from := text(lines[i]["params_from"])
			switch {
			case from == "" || err != nil:
			case from == allMembers:
				params, _ := objectOf(lines[i]["params"]) // they were an object
				maps.Copy(data, params)
				entry["data"] = jsonOf(data)
			default:
				data[from] = lines[i]["params"]
				entry["data"] = jsonOf(data)
			}
			out = append(out, entry)
		case i > 1 && i < len(lines)-1:
			out = append(out, added)
		}
	}
	return out
}

// allMembers is the params_from of a call whose params were the members of data themselves.
const allMembers = "."

// entries converts the lines of a trajectory to entries of a timeline.
func entries(lines []object) []object {
	out := []object{}
	start := moment(lines[1])
	tools := map[string]string{} // tool by call id
	for _, line := range lines {
		entry := object{"data": jsonOf(line), "t": json.RawMessage("0")}
		if at := moment(line); !at.IsZero() && at.After(start) && !start.IsZero() {
			entry["t"] = jsonOf(at.Sub(start).Milliseconds())
		}
		kind := "assistant"
		switch text(line["event"]) {
		case "ReplayHeader", "SessionStart", "PlanStart":
			kind = "phase_start"
		case "StepComplete", "Verification", "SessionEnd":
			kind = "phase_end"
		case "ToolCall":
			kind = "tool_call"
			tools[text(line["id"])] = text(line["tool"])
			entry["tool"] = jsonOf(text(line["tool"]))
		case "ToolResult":
			kind = "tool_result"
			if tool, known := tools[text(line["id"])]; known {
				entry["tool"] = jsonOf(tool)
			}
		}
		entry["type"] = jsonOf(kind)
		out = append(out, entry)
	}
	return out
}

// envelope returns a bundle without its timeline, filled from the trajectory. Unknown values are null where the older
// implementation allows null, otherwise zero.
func envelope(lines []object) (object, error) {
	header, start, end := lines[0], lines[1], lines[len(lines)-1]
	seconds := int64(0)
	if from, to := moment(start), moment(end); !from.IsZero() && to.After(from) {
		seconds = int64(to.Sub(from) / time.Second)
	}
	return objectOf(jsonOf(map[string]any{
		"version": "1.0", "id": "replay_" + text(start["session_id"]), "created_at": text(header["created_at"]),
		"metadata": map[string]any{"issue_url": nil, "pr_url": nil, "duration_seconds": seconds, "playback_speed": Float(1),
			"demo_duration_seconds": seconds, "model": "", "cost_usd": nil, "tokens_in": nil, "tokens_out": nil},
		"receipts": map[string]any{"tests_run": nil, "tests_passed": nil, "ci_status": nil, "files_changed": 0, "lines_added": 0, "lines_removed": 0},
	}))
}

// FromBundle converts a ReplayBundle of either shape to a trajectory, writes it to dst and returns the trajectory's
// hash. It does not invent values: a session is a Success only if the bundle reports one. After an error, dst can
// contain a part of the trajectory.
func FromBundle(dst io.Writer, bundle []byte) (digest.SHA256, error) {
	lines, err := linesOf(bundle)
	if err != nil {
		return digest.SHA256{}, err
	}
	w := NewWriter(dst)
	for _, line := range lines {
		if err := w.WriteRaw(jsonOf(line)); err != nil {
			return digest.SHA256{}, err
		}
	}
	return w.Close()
}

// linesOf returns the events of a bundle.
func linesOf(bundle []byte) ([]object, error) {
	if len(bundle) > MaxBundle {
		return nil, fmt.Errorf("replay: %d bytes, %d allowed: %w", len(bundle), MaxBundle, ErrTooLong)
	}
	canonical, err := canon.Canonical(bundle)
	if err != nil {
		return nil, fmt.Errorf("replay: %w: %w", ErrBundle, err)
	}
	b, err := objectOf(canonical)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", ErrBundle)
	}
	if err := stepsToTimeline(b); err != nil {
		return nil, err
	}
	var timeline []object
	if json.Unmarshal(b["timeline"], &timeline) != nil || timeline == nil || slices.ContainsFunc(timeline, isNull) {
		return nil, fmt.Errorf("replay: timeline: want an array of objects: %w", ErrBundle)
	}
	delete(b, "timeline")
	lines, err := ownLines(b, timeline)
	if lines == nil && err == nil {
		lines, err = foreignLines(b, timeline)
	}
	return lines, err
}

func isNull(o object) bool { return o == nil }

// ownLines returns the lines of a bundle that ToBundle made, which are the data of its entries, or nil for any other
// bundle. If members beside the timeline were changed since, the header keeps them as "envelope".
func ownLines(b object, timeline []object) ([]object, error) {
	var lines []object
	for i, entry := range timeline {
		data, err := objectOf(entry["data"])
		if i == 0 && text(data["event"]) != "ReplayHeader" {
			return nil, nil
		}
		if err != nil || text(data["event"]) == "" {
			return nil, fmt.Errorf("replay: timeline[%d]: no event in data: %w", i, ErrBundle)
		}
		lines = append(lines, data)
	}
	if lines == nil {
		return nil, nil
	}
	if len(lines) < 2 {
		return lines, nil // Writer.Close reports the missing lines
	}
	made, err := envelope(lines)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(jsonOf(made), jsonOf(b)) {
		lines[0]["envelope"] = jsonOf(b)
	}
	return lines, nil
}

// foreignLines converts a bundle of another program: a header, a start, one line per entry, and an end.
func foreignLines(b object, timeline []object) ([]object, error) {
	metadata, _ := objectOf(b["metadata"]) // optional
	receipts, _ := objectOf(b["receipts"])
	c := conversion{start: startOf(b, metadata), open: map[string][]string{}, when: map[string]int64{}}
	id := text(b["session_id"])
	if id == "" {
		id = strings.TrimPrefix(text(b["id"]), "replay_")
	}
	producer := text(metadata["producer"])
	if producer == "" {
		producer = "ReplayBundle@" + cmp.Or(text(b["version"]), "0")
	}
	at := jsonOf(Time(c.start))
	lines := []object{
		{"event": jsonOf("ReplayHeader"), "replay_version": json.RawMessage("1"), "producer": jsonOf(producer),
			"created_at": at, "bundle": jsonOf(b)},
		{"event": jsonOf("SessionStart"), "session_id": jsonOf(id), "issue_number": json.RawMessage("null"),
			"policy_bundle_id": jsonOf(text(metadata["policy_bundle_id"])), "t": at},
	}
	for i, entry := range timeline {
		line, err := c.line(entry)
		if err != nil {
			return nil, fmt.Errorf("replay: timeline[%d]: %w", i, err)
		}
		lines = append(lines, line)
	}
	end := SessionEnd{Status: outcome(metadata, receipts), Confidence: Float(max(0, min(1, number(metadata["confidence"])))), TotalToolCalls: c.calls,
		TotalLatencyMs: c.last, T: Time(c.at(c.last))}
	last, err := objectOf(jsonOf(end))
	last["event"] = jsonOf("SessionEnd")
	return append(lines, last), err
}

// outcome returns the session status that a bundle reports. It returns Success only if a member of the bundle says so.
func outcome(metadata, receipts object) Status {
	for _, said := range []string{text(metadata["status"]), text(metadata["outcome"]), text(receipts["ci_status"])} {
		var s Status
		if s.UnmarshalText([]byte(said)) == nil && s.check(Success, Failed, Cancelled, Timeout) == nil {
			return s
		}
		if slices.Contains([]string{"passed", "pass", "passing", "ok", "completed"}, strings.ToLower(said)) {
			return Success
		}
	}
	run, passed := receipts["tests_run"], receipts["tests_passed"]
	if len(run) > 0 && string(run) != "null" && string(run) != "0" && bytes.Equal(run, passed) {
		return Success
	}
	return Failed
}

// startOf returns the start time of a bundle, or the Unix epoch if it has none.
func startOf(b, metadata object) time.Time {
	for _, said := range []json.RawMessage{b["created_at"], metadata["created_at"], metadata["started_at"], metadata["start_time"]} {
		if t := timeOf(said); !t.IsZero() {
			return t
		}
	}
	return time.Unix(0, 0)
}

// conversion turns entries of a timeline into events.
type conversion struct {
	start time.Time
	calls int
	last  int64               // latest t so far, ms
	open  map[string][]string // ids of calls without a result, by tool
	when  map[string]int64    // time of calls in ms, by id
}

func (c *conversion) at(ms int64) time.Time { return c.start.Add(time.Duration(ms) * time.Millisecond) }

// line converts one entry. An entry that is not a call or a result becomes an unknown event with its type as name,
// except that the names of known events are not used: Read would expect their fields.
func (c *conversion) line(entry object) (object, error) {
	ms := whole(entry["t"])
	c.last = max(c.last, ms)
	t := jsonOf(Time(c.at(ms)))
	data, _ := objectOf(entry["data"]) // data can have any type; only an object is used
	kind := text(entry["type"])
	switch kind {
	case "tool_call", "tool_use", "ToolCall":
		return c.call(entry, data, t, ms)
	case "tool_result", "ToolResult":
		return c.result(entry, data, t, ms)
	case "", "ReplayHeader", "SessionStart", "SessionEnd", "PlanStart", "StepComplete", "Verification":
		kind = "timeline"
	}
	return object{"event": jsonOf(kind), "entry": jsonOf(entry), "t": t}, nil
}

// call converts a call. It moves the params from the entry into the line, so that they are stored once, and notes
// their name in params_from. keptEntries reverses this.
func (c *conversion) call(entry, data object, t json.RawMessage, ms int64) (object, error) {
	c.calls++
	id := cmp.Or(textOf(data, idNames), fmt.Sprintf("tc_%03d", c.calls))
	tool := cmp.Or(text(entry["tool"]), textOf(data, toolNames))
	c.open[tool] = append(c.open[tool], id)
	c.when[id] = ms
	line := object{"event": jsonOf("ToolCall"), "id": jsonOf(id), "tool": jsonOf(tool), "step_id": jsonOf(text(data["step_id"])),
		"t": t, "params": json.RawMessage("{}")}
	params, from, rest := paramsOf(data)
	if from != "" {
		line["params"], line["params_from"] = params, jsonOf(from)
		entry = maps.Clone(entry)
		entry["data"] = jsonOf(rest)
	}
	hash, err := canon.Hash(line["params"])
	line["params_hash"], line["entry"] = jsonOf(hash.String()), jsonOf(entry)
	return line, err
}

// paramsOf returns the params in the data of a call, where they were, and the data without them. A call without such a member
// has the members that say neither its id nor its tool as params. from is "" for a call without params.
func paramsOf(data object) (params json.RawMessage, from string, rest object) {
	for _, name := range paramNames {
		if params := data[name]; len(params) > 0 && params[0] == '{' {
			rest = maps.Clone(data)
			delete(rest, name)
			return params, name, rest
		}
	}
	rest, own := object{}, object{}
	for name, value := range data {
		if name == "step_id" || slices.Contains(idNames, name) || slices.Contains(toolNames, name) {
			rest[name] = value
		} else {
			own[name] = value
		}
	}
	if len(own) == 0 {
		return nil, "", nil
	}
	return jsonOf(own), allMembers, rest
}

// result converts a result. A result without an id belongs to the oldest open call of its tool, because many bundles
// link calls and results only by their order. If no output hash is stated, the hash is computed from the output, which
// the bundle may have shortened.
func (c *conversion) result(entry, data object, t json.RawMessage, ms int64) (object, error) {
	tool := cmp.Or(text(entry["tool"]), textOf(data, toolNames))
	id := textOf(data, idNames)
	if open := c.open[tool]; id == "" && len(open) > 0 {
		id = open[0]
	}
	id = cmp.Or(id, fmt.Sprintf("tc_%03d", c.calls))
	c.open[tool] = slices.DeleteFunc(c.open[tool], func(open string) bool { return open == id })
	output := entry["data"]
	for _, name := range outputNames {
		if value := data[name]; value != nil {
			output = value
			break
		}
	}
	hash, preview, err := outputOf(output)
	if err != nil {
		return nil, err
	}
	if declared, err := digest.Parse(text(data["output_hash"])); err == nil {
		hash = declared
	}
	since := int64(0) // with no call by this id, the result took no time
	if called, known := c.when[id]; known {
		since = ms - called
	}
	result := ToolResult{
		ID: id, OutputHash: hash.String(), Preview: preview, StepUtility: utility(data), LatencyMs: latency(data, since), T: text(t),
	}
	if code := data["exit_code"]; len(code) > 0 && code[0] != '"' {
		if n := int(whole(code)); string(jsonOf(n)) == string(code) {
			result.ExitCode = &n
		}
	}
	line, err := objectOf(jsonOf(result))
	line["event"], line["entry"] = jsonOf("ToolResult"), jsonOf(entry)
	return line, err
}
