package nip89

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
)

// Event returns the unsigned announcement; the signer sets the key and the date. Equal handlers give equal tags and
// content. Contradictions are removed: each kind and task is written in both places.
func (h Handler) Event() nostr.Event {
	return nostr.Event{Kind: Kind, Tags: h.tags(), Content: h.content()}
}

func (h Handler) tags() nostr.Tags {
	tags := nostr.Tags{{"d", guild.Clean(h.D)}}
	for _, kind := range union(h.Kinds) {
		tags = append(tags, nostr.Tag{"k", strconv.Itoa(kind)})
	}
	for _, task := range h.words() {
		tags = append(tags, nostr.Tag{"t", task})
	}
	if relays := addRelays(nil, h.Relays); len(relays) > 0 {
		tags = append(tags, append(nostr.Tag{"relays"}, relays...))
	}
	if known := union(encryptions(h.Encryption)); len(known) > 0 {
		tags = append(tags, append(nostr.Tag{"encryption"}, known...))
	}
	return tags
}

// words returns the tasks in the form in which they are compared.
func (h Handler) words() []string {
	var c claims
	for _, task := range h.Tasks {
		c.add(task)
	}
	return union(c.words)
}

// content returns the JSON object of "Announcement Content" (the OpenAgents surface), with the members of section
// 1.3.2 of the partnership protocol.
func (h Handler) content() string {
	fields := tree{}
	fields.put("name", guild.Clean(h.Name))
	fields.put("about", guild.Clean(h.About))
	fields.put("version", guild.Clean(h.Version))
	fields.put("supply_class", guild.Clean(h.SupplyClass))
	fields.put("supported_kinds", union(h.Kinds))
	able := capabilities{SupportedJobs: h.words(), Hardware: hardware(h.Hardware)}
	for _, model := range h.Models {
		able.Models = append(able.Models, guild.Clean(model))
	}
	fields.put("capabilities", able)
	price := pricing{
		PerJob:           h.Price,
		InputPer1k:       h.Rates.InputPer1k,
		OutputPer1k:      h.Rates.OutputPer1k,
		SandboxPerMinute: h.Rates.SandboxPerMinute,
		Text:             guild.Clean(h.PriceText),
	}
	if price == (pricing{Text: price.Text}) { // no numbers: a string, not an object
		fields.put("pricing", price.Text)
	} else {
		fields.put("pricing", price)
	}
	fields.put("capacity", capacity{h.MaxConcurrent, h.MaxContext})
	fields.put("stability", stability{h.Stability.SuccessRate, h.Stability.AvgLatencyMs, h.Stability.JobsCompleted})
	if IsAgeRecipient(h.AgeRecipient) {
		fields.put("age_recipient", h.AgeRecipient)
	}
	if !h.Behaviour.IsZero() {
		fields.put("behaviour", h.Behaviour.String())
	}
	if h.Bundles {
		fields.put("accepts", []string{bundleType + "+gzip", bundleType + "+zstd", bundleType, "text/plain"})
	}
	fields.put("performance", performance{h.Performance.TypicalLatencyMs})
	fields.merge(h.Extra)
	return guild.Clean(string(fields.encode()))
}

type capabilities struct {
	SupportedJobs []string `json:"supported_jobs,omitempty"`
	Models        []string `json:"models,omitempty"`
	Hardware      hardware `json:"hardware,omitzero"`
}

type hardware struct {
	MemoryGB float64 `json:"memory_gb,omitempty"`
	GPU      string  `json:"gpu_type,omitempty"`
	VRAMGB   float64 `json:"vram_gb,omitempty"`
}

type pricing struct {
	PerJob           guild.Msat `json:"per_job_msats,omitempty"`
	InputPer1k       guild.Msat `json:"input_tokens_per_1k_msats,omitempty"`
	OutputPer1k      guild.Msat `json:"output_tokens_per_1k_msats,omitempty"`
	SandboxPerMinute guild.Msat `json:"sandbox_per_minute_msats,omitempty"`
	Text             string     `json:"text,omitempty"`
}

type capacity struct {
	MaxConcurrent int `json:"max_concurrent_jobs,omitempty"`
	MaxContext    int `json:"max_context_tokens,omitempty"`
}

type stability struct {
	SuccessRate   *float64 `json:"success_rate,omitempty"`
	AvgLatencyMs  *float64 `json:"avg_latency_ms,omitempty"`
	JobsCompleted *float64 `json:"jobs_completed,omitempty"`
}

type performance struct {
	TypicalLatencyMs *float64 `json:"typical_latency_ms,omitempty"`
}

// tree is a JSON object under construction.
type tree map[string]json.RawMessage

// put sets a member, unless the value is empty.
func (t tree) put(name string, v any) {
	b, err := encodeJSON(v)
	if err == nil && !slices.Contains([]string{`""`, `{}`, `[]`, `null`}, string(b)) {
		t[name] = b
	}
}

// merge adds the members of more that t does not have, and does the same inside members that are objects in both. It
// reports whether it added any; an object without additions keeps its text.
func (t tree) merge(more map[string]json.RawMessage) (added bool) {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		raw := more[name]
		name = guild.Clean(name) // before they are sorted
		ours, ok := t[name]
		var a, b tree
		switch {
		case !json.Valid(raw): // set by a caller; it would make the whole content invalid
		case !ok:
			t[name], added = raw, true
		case json.Unmarshal(ours, &a) == nil && json.Unmarshal(raw, &b) == nil && a.merge(b):
			t[name], added = a.encode(), true
		}
	}
	return added
}

// encode returns the object with sorted keys. It cannot fail, because all values are valid JSON.
func (t tree) encode() json.RawMessage {
	b, _ := encodeJSON(t)
	return b
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
