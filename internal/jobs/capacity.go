package jobs

import (
	"cmp"
	"encoding/json"
	"strings"

	"guild/internal/fact"
	"guild/nip90"
)

// Bounds on what a provider says of how busy it is.
const (
	maxReport = 1 << 10   // bytes
	maxBusier = 1_000_000 // requests
)

// report is what a provider says of how busy it is, as the content of a processing feedback: an object with both
// numbers, and perhaps a text for people. Anything else is text (the partnership protocol, section 5.3.3).
func report(content string) (c *fact.Capacity, text string) {
	content = strings.TrimSpace(content)
	if len(content) > maxReport || !strings.HasPrefix(content, "{") {
		return nil, ""
	}
	var said struct {
		Queue *int   `json:"queue_depth"`
		Idle  *int   `json:"idle_capacity"`
		Text  string `json:"text"`
	}
	if json.Unmarshal([]byte(content), &said) != nil || said.Queue == nil || said.Idle == nil {
		return nil, ""
	}
	for _, n := range [...]int{*said.Queue, *said.Idle} {
		if n < 0 || n > maxBusier {
			return nil, ""
		}
	}
	return &fact.Capacity{Queue: *said.Queue, Idle: *said.Idle}, said.Text
}

// processing is what a processing feedback says: in words, and how busy the provider is.
func processing(f nip90.Feedback) (text string, c *fact.Capacity) {
	c, words := report(f.Content)
	if c == nil {
		return said(f), nil
	}
	return cmp.Or(f.Text, words, c.String()), c
}
