package registry

import (
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
)

// meeting is a provider being tried, and what its runs have come to so far.
type meeting struct {
	Service guild.Service       `json:"service"`
	Before  guild.ProviderState `json:"before"` // where the provider was
	Runs    int                 `json:"runs"`
	Failed  int                 `json:"failed"` // of them
	Silent  int                 `json:"silent"` // of the failed ones
}

// run is how one benchmark ended.
type run struct{ failed, silent bool }

// ran counts the end of a benchmark, and reports whether the attempt was one: then it moves nobody by itself.
func (f *Fold) ran(attempt nostr.ID, r run) bool {
	id := f.state.Asked[attempt.Hex()].Meeting
	m, ok := f.state.Meetings[id]
	if ok {
		m.Runs++
		if r.failed {
			m.Failed++
		}
		if r.silent {
			m.Silent++
		}
		f.state.Meetings[id] = m
	}
	return id != ""
}

func (f *Fold) began(m fact.MeetingBegan, at int64) {
	before := f.provider(m.Service).State
	f.state.Meetings[m.Meeting] = meeting{Service: m.Service, Before: before}
	if before.CanBecome(guild.Benchmarking) {
		f.state.Owed = append(f.state.Owed, owed{nostr.ID{}, m.Meeting, m.Service, guild.Benchmarking, 0, at, "a meeting began"})
	}
}

// ended moves a provider to where its meeting leads. The turn that began the meeting is not owed any more, were it
// still.
func (f *Fold) ended(e fact.MeetingEnded, at int64) {
	m := f.state.Meetings[e.Meeting]
	delete(f.state.Meetings, e.Meeting)
	f.state.Owed = slices.DeleteFunc(f.state.Owed, func(o owed) bool { return o.Meeting == e.Meeting })
	now := f.provider(e.Service).State
	to := e.To
	switch {
	case to == "" && m.Runs > 0 && m.Silent == m.Runs:
		to = guild.Unresponsive
	case to == "":
		to = m.resume(now)
	case to == guild.Unqualified && now == guild.Active:
		to = guild.Warned
	}
	if now.CanBecome(to) {
		f.state.Owed = append(f.state.Owed, owed{nostr.ID{}, e.Meeting, e.Service, to, f.quarantine(to, m, e), at, e.Cause})
	}
}

// resume is where a provider goes back to of whom nothing was learned.
func (m meeting) resume(now guild.ProviderState) guild.ProviderState {
	switch {
	case now != guild.Benchmarking:
		return now // nothing follows itself
	case m.Before == guild.Reduced || m.Before == guild.Suspended:
		return m.Before
	}
	return guild.Seen
}

// quarantine is how long the provider is left alone after a meeting.
func (f *Fold) quarantine(to guild.ProviderState, m meeting, e fact.MeetingEnded) time.Duration {
	switch {
	case to == guild.Unresponsive:
		return Silence
	case to != guild.Unqualified:
		return 0
	case m.Failed >= 3 && m.Failed == m.Runs:
		return hopeless
	}
	return cooldownAfter(f.state.Failed[identify(e.Service)] + 1)
}
