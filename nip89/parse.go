package nip89

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
)

// Parse reads an announcement. It keeps or ignores what it does not understand. Only an event of another kind, an
// event over the limits, and a content that is neither empty nor a JSON object are errors.
func Parse(e nostr.Event) (Handler, error) {
	h, err := parse(e)
	if err != nil {
		return Handler{}, fmt.Errorf("announcement %.8s: %w", e.ID.Hex(), err)
	}
	return h, nil
}

func parse(e nostr.Event) (Handler, error) {
	if err := check(e, Kind); err != nil {
		return Handler{}, err
	}
	h := Handler{PubKey: e.PubKey, D: e.Tags.GetD(), CreatedAt: e.CreatedAt, NoK: true}
	inTags := h.readTags(e.Tags)
	inContent, err := h.readContent(e.Content)
	if err != nil {
		return Handler{}, err
	}
	h.reconcile(inTags, inContent)
	return h, nil
}

// check checks the kind and the limits before anything is parsed, because anyone can publish announcements.
func check(e nostr.Event, kind nostr.Kind) error {
	switch {
	case e.Kind != kind:
		return fmt.Errorf("kind %d: %w", e.Kind, ErrKind)
	case len(e.Content) > MaxContent:
		return fmt.Errorf("content of %d bytes: %w", len(e.Content), ErrTooBig)
	case len(e.Tags) > MaxTags:
		return fmt.Errorf("%d tags: %w", len(e.Tags), ErrTooBig)
	}
	for _, tag := range e.Tags {
		if len(tag) > MaxWords {
			return fmt.Errorf("tag of %d values: %w", len(tag), ErrTooBig)
		}
		for _, value := range tag {
			if len(value) > MaxValue {
				return fmt.Errorf("tag value of %d bytes: %w", len(value), ErrTooBig)
			}
		}
	}
	return nil
}

func (h *Handler) readTags(tags nostr.Tags) (c claims) {
	for _, tag := range tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "k":
			h.NoK = false
			c.add(tag[1])
		case "t":
			c.add(tag[1])
		case "handler", "capability": // OpenAgents
			if _, err := strconv.Atoi(tag[1]); err != nil { // a number is not a kind here
				c.add(tag[1])
			}
		case "relays":
			h.Relays = addRelays(h.Relays, tag[1:])
		case "encryption":
			h.Encryption = append(h.Encryption, encryptions(tag[1:])...)
		case "price": // OpenAgents: ["price", msats]
			h.readPrice(tag[1:])
		}
	}
	return c
}

// readContent reads the known members of the content and keeps the others in Extra. An empty content is valid: then
// the key's kind 0 describes the provider (NIP-89).
func (h *Handler) readContent(content string) (c claims, err error) {
	if strings.TrimSpace(content) == "" {
		return c, nil
	}
	raw := json.RawMessage(content)
	if !json.Valid(raw) {
		return c, fmt.Errorf("%w: %w", ErrContent, json.Unmarshal(raw, new(any)))
	}
	fields := members(raw)
	if fields == nil {
		return c, ErrContent
	}
	take(fields, "name", &h.Name)
	take(fields, "about", &h.About)
	if h.About == "" {
		take(fields, "description", &h.About)
	}
	take(fields, "version", &h.Version)
	take(fields, "supply_class", &h.SupplyClass)
	h.Encryption = append(h.Encryption, encryptions(fields.words("encryption"))...)
	for _, name := range []string{"encryption", "supportsEncryption", "supports_encryption", "encryptionSupported"} {
		if string(fields[name]) == "true" { // nostrdvm, which reads both
			h.Encryption = append(h.Encryption, "nip04", "nip44")
			delete(fields, name)
		}
	}
	h.Relays = addRelays(h.Relays, fields.words("relays"))
	if recipient, ok := stringOf(fields["age_recipient"]); ok && IsAgeRecipient(recipient) {
		h.AgeRecipient = recipient
		delete(fields, "age_recipient")
	}
	if text, ok := stringOf(fields["behaviour"]); ok {
		if behaviour, err := guild.ParseHash(text); err == nil && !behaviour.IsZero() {
			h.Behaviour = behaviour
			delete(fields, "behaviour")
		}
	}
	if slices.ContainsFunc(object{"accepts": fields["accepts"]}.words("accepts"), isBundle) {
		h.Bundles = true
		delete(fields, "accepts")
	}
	for _, name := range []string{"supported_kinds", "supported_jobs", "capabilities"} {
		for _, value := range fields.words(name) {
			c.add(value)
		}
	}
	// A list of words in the partnership protocol, an object in the OpenAgents surface.
	fields.inside("capabilities", func(o object) {
		for _, value := range o.words("supported_jobs") {
			c.add(value)
		}
		h.Models = o.words("models")
		o.inside("hardware", func(o object) {
			take(o, "memory_gb", &h.Hardware.MemoryGB)
			take(o, "gpu_type", &h.Hardware.GPU)
			take(o, "vram_gb", &h.Hardware.VRAMGB)
		})
	})
	h.readPricing(fields)
	h.Tool = toolOf(fields["tools"])
	fields.inside("capacity", func(o object) {
		o.takeCount("max_concurrent_jobs", &h.MaxConcurrent)
		o.takeCount("max_context_tokens", &h.MaxContext)
	})
	fields.inside("stability", func(o object) {
		take(o, "success_rate", &h.Stability.SuccessRate)
		take(o, "avg_latency_ms", &h.Stability.AvgLatencyMs)
		take(o, "jobs_completed", &h.Stability.JobsCompleted)
	})
	fields.inside("performance", func(o object) { take(o, "typical_latency_ms", &h.Performance.TypicalLatencyMs) })
	if len(fields) > 0 {
		h.Extra = fields
	}
	return c, nil
}

// reconcile merges the claims of tags and content. One source is enough to list a kind or task; both are needed to
// confirm a kind. If both name kinds (or tasks), each that only one has is a contradiction.
func (h *Handler) reconcile(tags, content claims) {
	h.Kinds = union(tags.kinds, content.kinds)
	h.Confirmed = slices.DeleteFunc(union(tags.kinds), func(k int) bool { return !slices.Contains(content.kinds, k) })
	h.Tasks = union(tags.words, content.words)
	h.Encryption = union(h.Encryption)
	if len(tags.kinds) > 0 && len(content.kinds) > 0 {
		h.Contradictions = slices.Concat(
			contradictions("kind", "content", without(tags.kinds, content.kinds)),
			contradictions("kind", "tags", without(content.kinds, tags.kinds)))
	}
	if len(tags.words) > 0 && len(content.words) > 0 {
		h.Contradictions = slices.Concat(h.Contradictions,
			contradictions("task", "content", without(tags.words, content.words)),
			contradictions("task", "tags", without(content.words, tags.words)))
	}
}

// contradictions returns one sentence for each element that the source where does not have.
func contradictions[T int | string](what, where string, missing []T) (sentences []string) {
	for _, x := range missing {
		sentences = append(sentences, fmt.Sprintf("%s %v is not in the %s", what, x, where))
	}
	return sentences
}

// toolOf returns the first tool of a list that takes one text and needs nothing else. The list stays in Extra.
func toolOf(raw json.RawMessage) Tool {
	for _, item := range elements(raw) {
		tool := members(item)
		schema := members(tool["inputSchema"])
		name, named := stringOf(tool["name"])
		required, properties := object{"required": schema["required"]}.words("required"), members(schema["properties"])
		if !named || name == "" || len(name) > MaxValue || len(required) > 1 || len(required) == 0 && len(properties) != 1 {
			continue
		}
		for text, property := range properties {
			if kind, ok := stringOf(members(property)["type"]); ok && kind == "string" && len(text) <= MaxValue && (len(required) == 0 || required[0] == text) {
				return Tool{Name: name, Text: text}
			}
		}
	}
	return Tool{}
}
