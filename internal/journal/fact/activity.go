package fact

import (
	"fiatjaf.com/nostr"

	"guild/nook"
)

// ActivitySubject is the guard of the activity of agents.
const ActivitySubject Subject = "activity.all"

// ActivityReported says that somebody reported what an agent does: an event of the Nook protocol. Written by activity.
type ActivityReported struct {
	Root  string     `json:"root,omitempty"` // the identity that the agent belongs to, if it is not the node's key
	Event nook.Event `json:"event"`          // as nook.Event.Received completed it
}

// ActivityImported says what an agent did before it came to this node. It decides the heritage package and nothing else.
// Written by activity.
type ActivityImported struct {
	Root  string     `json:"root,omitempty"`
	Event nook.Event `json:"event"`
}

// AgentsOnboarded ends the import of a history: the root gets its heritage package. Written by activity.
type AgentsOnboarded struct {
	Root string `json:"root,omitempty"`
}

// SpriteEvolved says what the owner chose when the sprite of a root reached a stage. Written by activity.
type SpriteEvolved struct {
	Root   string `json:"root,omitempty"`
	Choice string `json:"choice"`
}

// AgentClaimed keeps an event by which a key names its agents, or an agent its owner: kind 14199 or 0. Written by activity.
type AgentClaimed struct {
	Event nostr.Event `json:"event"`
}

// Type returns the stored name.
func (AgentClaimed) Type() string { return "activity.claimed" }

// Type returns the stored name.
func (ActivityReported) Type() string { return "activity.reported" }

// Type returns the stored name.
func (ActivityImported) Type() string { return "activity.imported" }

// Type returns the stored name.
func (AgentsOnboarded) Type() string { return "activity.onboarded" }

// Type returns the stored name.
func (SpriteEvolved) Type() string { return "activity.evolved" }
