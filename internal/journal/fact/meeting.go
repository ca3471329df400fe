package fact

import (
	"guild"
)

// MeetingSubject is the guard of all meetings, since they share a daily budget.
const MeetingSubject Subject = "meeting.all"

// MeetingBegan says that a provider is going to be benchmarked. Written by meet.
type MeetingBegan struct {
	Meeting string        `json:"meeting"` // its id: 32 hex digits, from which the ids of its jobs are derived
	Service guild.Service `json:"service"`
	Task    string        `json:"task"`
	Kind    int           `json:"kind"`              // NIP-90 kind of the requests
	Variant string        `json:"variant"`           // standard, stress or correctness
	Modules []string      `json:"modules"`           // computation, memory, io
	Suite   string        `json:"suite"`             // name and version, as "python-v1"
	Bid     guild.Msat    `json:"bid_msat"`          // of one run
	Asked   bool          `json:"asked,omitempty"`   // ordered by a person, and not charged to the budget
	Purpose string        `json:"purpose,omitempty"` // "" for a new provider; else heartbeat, probe, reverify or retry
}

// MeetingEnded records the result of a meeting (the partnership protocol, section 3.2.3). Written by meet.
type MeetingEnded struct {
	Meeting string              `json:"meeting"`
	Service guild.Service       `json:"service"`
	Task    string              `json:"task"`
	To      guild.ProviderState `json:"to,omitempty"` // "" if the runs gave no result
	Score   guild.Score         `json:"score"`        // the median
	Runs    int                 `json:"runs"`
	Cause   string              `json:"cause"`
}

// Type returns the stored name.
func (MeetingBegan) Type() string { return "meeting.began" }

// Type returns the stored name.
func (MeetingEnded) Type() string { return "meeting.ended" }
