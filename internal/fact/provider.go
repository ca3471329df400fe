package fact

import (
	"fiatjaf.com/nostr"

	"guild"
)

// ProviderSubject is the boundary of what is decided about one provider.
func ProviderSubject(p nostr.PubKey) Subject { return Subject("provider." + p.Hex()) }

// ProviderMoved says that a provider is in another state now. Written by registry.
type ProviderMoved struct {
	Service guild.Service       `json:"service"`
	From    guild.ProviderState `json:"from"`
	To      guild.ProviderState `json:"to"`
	Until   int64               `json:"until,omitempty"` // Unix ms: end of a quarantine
	Cause   string              `json:"cause"`
	Attempt nostr.ID            `json:"attempt,omitzero"`  // what it was moved for
	Meeting string              `json:"meeting,omitempty"` // or the meeting
}

// Type returns the stored name.
func (ProviderMoved) Type() string { return "provider.moved" }
