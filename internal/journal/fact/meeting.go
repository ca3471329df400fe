package fact

import (
	"guild"
)

// MeetingSubject is the boundary of all meetings: they share one daily budget.
const MeetingSubject Subject = "meeting.all"

// MeetingBegan says that a provider is being tried with benchmarks. Written by meet.
type MeetingBegan struct {
	Meeting string        `json:"meeting"` // id: 32 hex digits, from which those of its jobs follow
	Service guild.Service `json:"service"`
	Task    string        `json:"task"`
	Kind    int           `json:"kind"`              // NIP-90 kind of the requests
	Variant string        `json:"variant"`           // standard, stress or correctness
	Modules []string      `json:"modules"`           // computation, memory, io
	Suite   string        `json:"suite"`             // name and version, as "python-v1"
	Bid     guild.Msat    `json:"bid_msat"`          // of one run
	Asked   bool          `json:"asked,omitempty"`   // by a person, outside of the budget
	Purpose string        `json:"purpose,omitempty"` // "" for somebody new; heartbeat, probe, reverify or retry
}

// MeetingEnded says what a provider's runs came to (the partnership protocol, section 3.2.3). Written by meet.
type MeetingEnded struct {
	Meeting string              `json:"meeting"`
	Service guild.Service       `json:"service"`
	Task    string              `json:"task"`
	To      guild.ProviderState `json:"to,omitempty"` // "" when nothing was learned
	Score   guild.Score         `json:"score"`        // the median
	Runs    int                 `json:"runs"`
	Cause   string              `json:"cause"`
}

// Type returns the stored name.
func (MeetingBegan) Type() string { return "meeting.began" }

// Type returns the stored name.
func (MeetingEnded) Type() string { return "meeting.ended" }
