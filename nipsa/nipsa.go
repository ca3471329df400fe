// Package nipsa reads two events of the NIP-SA draft ("sovereign agents"), as OpenAgents' programs publish them: the
// profile and the state of an agent. The specification has no kinds for them yet (seeds/003), so they are only read, for
// a person to look at. Nothing in them is checked by anybody else, and guild never publishes one.
package nipsa

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"fiatjaf.com/nostr"
)

// Kinds of the draft, and those of an earlier draft.
const (
	KindProfile    nostr.Kind = 39200
	KindState      nostr.Kind = 39201
	KindOldProfile nostr.Kind = 38000
	KindOldState   nostr.Kind = 38001
)

// Limits. What is longer is refused.
const (
	MaxContent = 64 << 10 // bytes of a profile's content
	MaxTags    = 200
	MaxWords   = 100 // capabilities, and members of a state's metadata
)

// Errors of the parsers.
var (
	ErrKind    = errors.New("not an event of the NIP-SA draft")
	ErrInvalid = errors.New("not of the draft's form")
	ErrTooBig  = errors.New("too big")
)

// Profile is what an agent says of itself (AgentProfile). The JSON names are those of the draft.
type Profile struct {
	Name         string   `json:"name"`
	About        string   `json:"about,omitempty"`
	Picture      string   `json:"picture,omitempty"` // URL
	Capabilities []string `json:"capabilities,omitempty"`
	Autonomy     string   `json:"autonomy_level,omitempty"` // supervised, bounded or autonomous
	Version      string   `json:"version,omitempty"`

	Operators []string `json:"operators,omitempty"` // as the operator tags have them, usually hex keys
	At        int64    `json:"at_ms"`               // of the event, Unix ms
}

// State is what is public of an agent's state (AgentState), whose content only the agent can decrypt.
type State struct {
	Counts map[string]int64 `json:"counts,omitempty"` // by the names of the draft: goals, memory, tick_count, last_tick …
	At     int64            `json:"at_ms"`            // of the event, Unix ms
}

// ParseProfile reads an AgentProfile.
func ParseProfile(e nostr.Event) (Profile, error) {
	if err := check(e, KindProfile, KindOldProfile); err != nil {
		return Profile{}, fmt.Errorf("agent profile: %w", err)
	}
	var p Profile
	if err := json.Unmarshal([]byte(e.Content), &p); err != nil {
		return Profile{}, fmt.Errorf("agent profile: content: %w: %w", ErrInvalid, err)
	}
	if len(p.Capabilities) > MaxWords {
		return Profile{}, fmt.Errorf("agent profile: capabilities: %w: %d, at most %d", ErrTooBig, len(p.Capabilities), MaxWords)
	}
	p.Operators, p.At = nil, int64(e.CreatedAt)*1000
	for tag := range e.Tags.FindAll("operator") {
		p.Operators = append(p.Operators, tag[1])
	}
	return p, nil
}

// ParseState reads an AgentState. Members of its metadata that are no counts are left out.
func ParseState(e nostr.Event) (State, error) {
	if err := check(e, KindState, KindOldState); err != nil {
		return State{}, fmt.Errorf("agent state: %w", err)
	}
	s := State{Counts: map[string]int64{}, At: int64(e.CreatedAt) * 1000}
	for tag := range e.Tags.FindAll("state_meta") {
		if len(tag) < 3 || len(s.Counts) == MaxWords {
			continue
		}
		if n, err := strconv.ParseInt(tag[2], 10, 64); err == nil && n >= 0 {
			s.Counts[tag[1]] = n
		}
	}
	return s, nil
}

func check(e nostr.Event, kinds ...nostr.Kind) error {
	switch {
	case !slices.Contains(kinds, e.Kind):
		return fmt.Errorf("kind %d: %w", e.Kind, ErrKind)
	case len(e.Content) > MaxContent || len(e.Tags) > MaxTags:
		return ErrTooBig
	}
	return nil
}
