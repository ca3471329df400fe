package partner

import (
	"slices"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
)

// meeting is a running meeting, with the results of its runs so far.
type meeting struct {
	Service guild.Service       `json:"service"`
	Before  guild.ProviderState `json:"before"` // state of the provider before it
	Purpose string              `json:"purpose,omitempty"`
	Runs    int                 `json:"runs"`
	Failed  int                 `json:"failed"` // of the runs
	Silent  int                 `json:"silent"` // of the failed runs
}

// ran counts the end of a run.
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

func (f rules) meetingBegan(m fact.MeetingBegan, at int64) {
	before := f.state.Services.Of(registry.IDOf(m.Service)).State
	f.state.Meetings.Set(m.Meeting, meeting{Service: m.Service, Before: before, Purpose: m.Purpose})
	f.edit(m.Service, func(r *record) { r.Meeting = m.Meeting })
	f.add(m.Service, event{What: meetingBegan, Meeting: m.Meeting, Purpose: m.Purpose, At: at, Cause: "a meeting began"})
}

// meetingEnded records the result of a meeting. If its beginning is still pending, it is dropped, because it leads
// nowhere any more.
func (f rules) meetingEnded(e fact.MeetingEnded, at int64) {
	m := f.state.Meetings.Of(e.Meeting)
	f.state.Meetings.Delete(e.Meeting)
	proves := good
	if e.To != guild.Active {
		proves = partly
	}
	inARow := f.state.Services.Of(registry.IDOf(e.Service)).inARow(proves)
	f.edit(e.Service, func(r *record) {
		r.Pending = slices.DeleteFunc(slices.Clone(r.Pending), func(p event) bool { return p.What == meetingBegan && p.Meeting == e.Meeting })
		r.Meeting = ""
		if e.To != "" {
			r.Tried = at
		}
		if r.Provisional && e.To != "" && !guild.IsLook(m.Purpose) {
			r.Provisional = false
		}
	})
	f.add(e.Service, event{
		What: meetingEnded, To: e.To, Meeting: e.Meeting, Purpose: m.Purpose, At: at, Cause: e.Cause, InARow: inARow,
		Mute:      e.To == "" && m.Runs > 0 && m.Silent == m.Runs,
		WasTried:  m.Before == guild.Benchmarking,
		AllFailed: m.Failed >= 3 && m.Failed == m.Runs,
	})
}
