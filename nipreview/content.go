package nipreview

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"guild"
)

// object is a JSON object from which known members are removed one by one.
type object map[string]json.RawMessage

// readContent reads the known members and keeps the rest. A content that is not a JSON object is the summary.
func readContent(content string) (c Content) {
	var fields object
	if !strings.HasPrefix(strings.TrimSpace(content), "{") || json.Unmarshal([]byte(content), &fields) != nil {
		c.Summary = text(content, MaxText)
		return c
	}
	fields.takeText("summary", MaxText, &c.Summary)
	fields.takeText("recommendation", MaxText, &c.Recommendation)
	fields.takeList("strengths", &c.Strengths)
	fields.takeList("weaknesses", &c.Weaknesses)
	fields.inside("metrics", func(m object) {
		if micro, ok := parseDecimal(string(m["test_score"])); ok && micro <= guild.Micro {
			delete(m, "test_score")
			score := guild.Score(micro)
			c.Metrics.TestScore = &score
		}
		m.takeMs("latency_p50_ms", &c.Metrics.LatencyP50Ms)
		m.takeMs("latency_p95_ms", &c.Metrics.LatencyP95Ms)
		c.Metrics.Extra = m.rest()
	})
	fields.inside("evidence", func(o object) {
		o.takeText("receipt", MaxItem, &c.Evidence.Receipt)
		o.takeHash("receipt_hash", &c.Evidence.ReceiptHash)
		o.takeHash("verdict_hash", &c.Evidence.VerdictHash)
		o.takeText("cid", MaxItem, &c.Evidence.CID)
		c.Evidence.Extra = o.rest()
	})
	if c.Evidence.CID == "" { // its place in the partnership protocol
		fields.takeText("evidence_cid", MaxItem, &c.Evidence.CID)
	}
	c.Extra = fields.rest()
	return c
}

// text returns a text as it is kept: without control characters, cut to at most most bytes.
func text(s string, most int) string { return guild.Cut(guild.Clean(s), most) }

func (o object) rest() map[string]json.RawMessage {
	if len(o) == 0 {
		return nil
	}
	return o
}

func (o object) takeText(name string, most int, to *string) {
	var s string
	if raw, ok := o[name]; ok && isString(raw) && json.Unmarshal(raw, &s) == nil {
		delete(o, name)
		*to = text(s, most)
	}
}

func isString(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte(`"`)) }

// takeList reads a list of texts, or a single text.
func (o object) takeList(name string, to *[]string) {
	raw, ok := o[name]
	if !ok {
		return
	}
	var list []json.RawMessage
	if isString(raw) {
		list = []json.RawMessage{raw}
	} else if json.Unmarshal(raw, &list) != nil || list == nil {
		return
	}
	delete(o, name)
	for _, item := range list {
		var s string
		if len(*to) == MaxList {
			return
		}
		if isString(item) && json.Unmarshal(item, &s) == nil {
			if s = text(s, MaxItem); s != "" {
				*to = append(*to, s)
			}
		}
	}
}

// takeMs reads a time in whole milliseconds.
func (o object) takeMs(name string, to **int64) {
	var ms int64
	if raw, ok := o[name]; ok && !isString(raw) && string(raw) != "null" && json.Unmarshal(raw, &ms) == nil && ms >= 0 {
		delete(o, name)
		*to = &ms
	}
}

func (o object) takeHash(name string, to *guild.Hash) {
	var s string
	if raw := o[name]; !isString(raw) || json.Unmarshal(raw, &s) != nil {
		return
	}
	if hash, err := guild.ParseHash(s); err == nil {
		delete(o, name)
		*to = hash
	}
}

// inside passes a member that is an object to read.
func (o object) inside(name string, read func(object)) {
	var inner object
	if raw, ok := o[name]; ok && json.Unmarshal(raw, &inner) == nil && inner != nil {
		delete(o, name)
		read(inner)
	}
}

// encode returns the JSON object with sorted members.
func (c Content) encode() string {
	o := object{}
	o.put("summary", text(c.Summary, MaxText))
	o.put("strengths", texts(c.Strengths))
	o.put("weaknesses", texts(c.Weaknesses))
	o.put("recommendation", text(c.Recommendation, MaxText))

	metrics := object{}
	if c.Metrics.TestScore != nil {
		metrics["test_score"] = json.RawMessage(decimal(int64(min(max(*c.Metrics.TestScore, 0), guild.Micro))))
	}
	metrics.putMs("latency_p50_ms", c.Metrics.LatencyP50Ms)
	metrics.putMs("latency_p95_ms", c.Metrics.LatencyP95Ms)
	metrics.merge(c.Metrics.Extra)
	o.put("metrics", metrics)

	evidence := object{}
	evidence.put("receipt", text(c.Evidence.Receipt, MaxItem))
	evidence.put("receipt_hash", c.Evidence.ReceiptHash)
	evidence.put("verdict_hash", c.Evidence.VerdictHash)
	evidence.put("cid", text(c.Evidence.CID, MaxItem))
	evidence.merge(c.Evidence.Extra)
	o.put("evidence", evidence)

	o.merge(c.Extra)
	b, _ := encodeJSON(o) // cannot fail: valid JSON and strings only
	return guild.Clean(string(b))
}

func texts(list []string) (kept []string) {
	for _, s := range list {
		if s = text(s, MaxItem); s != "" && len(kept) < MaxList {
			kept = append(kept, s)
		}
	}
	return kept
}

// put sets a member, unless the value is empty.
func (o object) put(name string, v any) {
	b, err := encodeJSON(v)
	if err != nil {
		return
	}
	switch string(b) {
	case `""`, `{}`, `null`:
	default:
		o[name] = b
	}
}

func (o object) putMs(name string, ms *int64) {
	if ms != nil && *ms >= 0 {
		o.put(name, *ms)
	}
}

// merge adds the members of more that o does not have and that are valid JSON.
func (o object) merge(more map[string]json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		raw := more[name]
		name = guild.Clean(name) // before they are sorted
		if _, ok := o[name]; !ok && json.Valid(raw) {
			o[name] = raw
		}
	}
}

// encodeJSON is json.Marshal without escapes for HTML.
func encodeJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
