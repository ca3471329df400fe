package partner

import (
	"slices"

	"guild"
	"guild/internal/fact"
	"guild/internal/registry"
)

// meeting is a provider being tried, and what its runs have come to so far.
type meeting struct {
	Service guild.Service       `json:"service"`
	Before  guild.ProviderState `json:"before"` // where the provider was
	Purpose string              `json:"purpose,omitempty"`
	Runs    int                 `json:"runs"`
	Failed  int                 `json:"failed"` // of them
	Silent  int                 `json:"silent"` // of the failed ones
}

// ran counts the end of a benchmark.
func (st *state) ran(id string, k kind) {
	m, ok := st.Meetings.Get(id)
	if !ok {
		return
	}
	m.Runs++
	m.Failed += count(k.bad())
	m.Silent += count(k == unheard)
	st.Meetings.Set(id, m)
}

func (f locked) began(m fact.MeetingBegan, at int64) {
	before := f.state.Services.Of(registry.IDOf(m.Service)).State
	f.state.Meetings.Set(m.Meeting, meeting{Service: m.Service, Before: before, Purpose: m.Purpose})
	f.edit(m.Service, func(r *record) { r.Meeting = m.Meeting })
	f.owe(m.Service, owed{What: began, Meeting: m.Meeting, Purpose: m.Purpose, At: at, Cause: "a meeting began"})
}

// ended moves a provider to where its meeting leads. The turn that began the meeting is not owed any more, were it
// still.
func (f locked) ended(e fact.MeetingEnded, at int64) {
	m := f.state.Meetings.Of(e.Meeting)
	f.state.Meetings.Delete(e.Meeting)
	k := good
	if e.To != guild.Active {
		k = partly
	}
	o := owed{What: concluded, To: e.To, Meeting: e.Meeting, Purpose: m.Purpose, Mute: e.To == "" && m.Runs > 0 && m.Silent == m.Runs,
		Stays: m.Before == guild.Benchmarking, Flat: m.Failed >= 3 && m.Failed == m.Runs, At: at, Cause: e.Cause,
		Row: f.state.Services.Of(registry.IDOf(e.Service)).row(k)}
	f.edit(e.Service, func(r *record) {
		r.Owed = slices.DeleteFunc(slices.Clone(r.Owed), func(o owed) bool { return o.What == began && o.Meeting == e.Meeting })
		r.Meeting = ""
		if e.To != "" {
			r.Tried = at
		}
	})
	f.owe(e.Service, o)
}
