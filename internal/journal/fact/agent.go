package fact

import (
	"fiatjaf.com/nostr"
)

// AgentsSubject guards all decisions about the agents of this node.
const AgentsSubject Subject = "agents.all"

// AgentInstalled says that an agent of this node runs a version of a definition from now on. Written by agents.
type AgentInstalled struct {
	Name       string        `json:"name"` // on this node
	Agent      nostr.PubKey  `json:"agent"`
	Definition nostr.Event   `json:"definition"`      // kind 4199, as its publisher signed it
	Files      []nostr.Event `json:"files,omitempty"` // kind 1063, of the definition's files that were fetched
}

// AgentRemoved says that this node runs an agent no more. Its key stays. Written by agents.
type AgentRemoved struct {
	Name  string       `json:"name"`
	Agent nostr.PubKey `json:"agent"`
}

// AgentSigned carries an event that the owner or an agent of this node signed, which is to be published. Written by agents.
type AgentSigned struct {
	Event nostr.Event `json:"event"`
}

// AgentPublished says which relays have a signed event. There is one for each time that it was sent. Written by agents.
type AgentPublished struct {
	Event   nostr.ID `json:"event"`
	Relays  []string `json:"relays"`            // that accepted it this time
	Missing []string `json:"missing,omitempty"` // that could not be reached, and are sent it later
	At      int64    `json:"at,omitempty"`      // Unix ms
}

// NudgeKept adds a nudge (kind 4201) to the node's library, or replaces the one with its name. Written by agents.
type NudgeKept struct {
	Name  string      `json:"name"`
	Nudge nostr.Event `json:"nudge"`
}

// NudgeRemoved removes a nudge from the library. Written by agents.
type NudgeRemoved struct {
	Name string `json:"name"`
}

// LessonDrafted proposes a lesson that an agent of this node may have learned from a request. It has no effect until the owner accepts
// it. Written by agents.
type LessonDrafted struct {
	Draft    string       `json:"draft"` // hash of agent, title and text, in hex
	Agent    nostr.PubKey `json:"agent"`
	Request  nostr.ID     `json:"request,omitzero"` // from which it learned; zero if the owner wrote it
	Task     string       `json:"task"`             // its category
	Title    string       `json:"title"`
	Text     string       `json:"text"`
	Proposed string       `json:"proposed"`          // by: worker, command or owner
	Customer nostr.PubKey `json:"customer,omitzero"` // of the request
}

// LessonAsked says that the owner's command was asked what an agent learned from a judged request. Written by agents.
type LessonAsked struct {
	Request nostr.ID `json:"request"`
	Failed  string   `json:"failed,omitempty"` // why there is no answer
}

// LessonAccepted says that a draft became a lesson (kind 4129), which the agent signed. Written by agents.
type LessonAccepted struct {
	Draft  string   `json:"draft"`
	Lesson nostr.ID `json:"lesson"`
}

// LessonRejected says that a draft is no lesson. Written by agents.
type LessonRejected struct {
	Draft string `json:"draft"`
}

// LessonMeasured is a series of pairs of tries, one with a lesson and one without it. Written by agents.
type LessonMeasured struct {
	Lesson  nostr.ID     `json:"lesson"`
	Agent   nostr.PubKey `json:"agent"`
	Bundle  string       `json:"bundle"` // name of what was tried
	Both    int          `json:"both"`   // pairs in which both tries passed
	With    int          `json:"with"`   // pairs in which only the try with the lesson passed
	Without int          `json:"without"`
	Neither int          `json:"neither"`
}

// LessonRetired says that a lesson is applied no more. Written by agents.
type LessonRetired struct {
	Lesson nostr.ID `json:"lesson"`
	Reason string   `json:"reason"`
}

// Type returns the stored name.
func (AgentInstalled) Type() string { return "agent.installed" }

// Type returns the stored name.
func (AgentRemoved) Type() string { return "agent.removed" }

// Type returns the stored name.
func (AgentSigned) Type() string { return "agent.signed" }

// Type returns the stored name.
func (AgentPublished) Type() string { return "agent.published" }

// Type returns the stored name.
func (NudgeKept) Type() string { return "nudge.kept" }

// Type returns the stored name.
func (NudgeRemoved) Type() string { return "nudge.removed" }

// Type returns the stored name.
func (LessonDrafted) Type() string { return "lesson.drafted" }

// Type returns the stored name.
func (LessonAsked) Type() string { return "lesson.asked" }

// Type returns the stored name.
func (LessonAccepted) Type() string { return "lesson.accepted" }

// Type returns the stored name.
func (LessonRejected) Type() string { return "lesson.rejected" }

// Type returns the stored name.
func (LessonMeasured) Type() string { return "lesson.measured" }

// Type returns the stored name.
func (LessonRetired) Type() string { return "lesson.retired" }
