package partner

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/registry"
)

// What is kept of one service at most.
const (
	maxEnds       = 128 // ends of attempts, the latest
	maxPast       = 32  // latencies from before them
	maxSignals    = 8
	maxTurns      = 32
	maxOwed       = 64
	maxCause      = 300 // bytes
	maxTaskSample = 128 // latencies of one task
	maxTask       = 64  // bytes of a task in a cause
	maxVersion    = 64  // bytes, as the registry keeps them

	dayMs = 24 * 60 * 60 * 1000
)

// kind is what happened: the end of an attempt, or something else that a provider's state follows from.
type kind string

// The ends of an attempt, by what they are worth.
const (
	good     kind = "good"     // every functional test passed, and 0.8 or more
	fair     kind = "fair"     // every functional test passed, and less
	partly   kind = "partial"  // 0.6 or more
	failed   kind = "failure"  // or an answer against the protocol
	timedOut kind = "timeout"  // it took the work and never delivered
	unheard  kind = "silent"   // it said not one word
	violated kind = "violated" // it tried to break out
)

// What else there is.
const (
	floored    kind = "floor"      // its trust reached the floor
	overturned kind = "overturned" // a delivery was judged again, and differently
	began      kind = "began"      // a meeting
	concluded  kind = "ended"      // a meeting
)

// succeeded reports whether every functional test passed.
func (k kind) succeeded() bool { return k == good || k == fair }

// bad reports whether an end is a sign of decline.
func (k kind) bad() bool { return k == failed || k == timedOut || k == unheard || k == violated }

// end is how one attempt ended.
type end struct {
	Attempt registry.ID `json:"attempt"`
	At      int64       `json:"at"` // Unix ms
	Kind    kind        `json:"kind"`
	Task    string      `json:"task,omitempty"`
	Ms      int64       `json:"ms,omitempty"`    // latency, 0 without a delivery
	Bench   bool        `json:"bench,omitempty"` // a run of a meeting
	Past    bool        `json:"past,omitempty"`  // from before it proved itself anew
}

// past is a latency that is no more among the ends.
type past struct {
	Task string `json:"task,omitempty"`
	Ms   int64  `json:"ms"`
}

// signal is one sign of decline that moved a provider down.
type signal struct {
	Signal  string   `json:"signal,omitempty"`
	Attempt nostr.ID `json:"attempt,omitzero"`
	Meeting string   `json:"meeting,omitempty"`
}

// owed is something that happened and has not been followed yet.
type owed struct {
	What    kind                `json:"what"`
	As      kind                `json:"as,omitempty"` // of an overturned verdict: the new one
	To      guild.ProviderState `json:"to,omitempty"` // of a meeting that ended
	Attempt nostr.ID            `json:"attempt,omitzero"`
	Meeting string              `json:"meeting,omitempty"`
	Purpose string              `json:"purpose,omitempty"` // of the meeting
	Mute    bool                `json:"mute,omitempty"`    // it never said a word in the meeting
	Stays   bool                `json:"stays,omitempty"`   // it was being tried before the meeting began
	Flat    bool                `json:"flat,omitempty"`    // three runs or more of the meeting failed, and none did not
	Row     int                 `json:"row,omitempty"`     // ends like this one in a row
	At      int64               `json:"at"`                // Unix ms
	Cause   string              `json:"cause,omitempty"`
}

// Turn is one change of a provider's state, for a person.
type Turn struct {
	At      int64               `json:"at"` // Unix ms
	From    guild.ProviderState `json:"from"`
	To      guild.ProviderState `json:"to"`
	Until   int64               `json:"until,omitempty"`  // Unix ms: end of a quarantine
	Signal  string              `json:"signal,omitempty"` // see fact.ProviderMoved
	Cause   string              `json:"cause"`
	Attempt nostr.ID            `json:"attempt,omitzero"`
	Meeting string              `json:"meeting,omitempty"`
}

// record is what is known of one service. What it points to is never changed in place.
type record struct {
	Service guild.Service       `json:"service"`
	Name    string              `json:"name,omitempty"`  // that it had when it was asked last
	State   guild.ProviderState `json:"state,omitempty"` // "" is seen
	Until   int64               `json:"until,omitempty"` // Unix ms: end of a quarantine
	Since   int64               `json:"since,omitempty"` // Unix ms: when it came to that state

	Base     guild.ProviderState `json:"base,omitempty"` // active or conditional, whichever it last proved to be
	Rung     guild.ProviderState `json:"rung,omitempty"` // where a quarantine for silence leads; "" is seen
	Was      guild.ProviderState `json:"was,omitempty"`  // before it became stale, or was being tried
	WasUntil int64               `json:"was_until,omitempty"`
	Owner    bool                `json:"owner,omitempty"` // a person has put it where it is

	Failed    int        `json:"failed,omitempty"`    // evaluations in a row
	Suspended int        `json:"suspended,omitempty"` // suspensions since its last accepted delivery
	Signals   []signal   `json:"signals,omitempty"`   // that led down from its base, or to its rejection
	Said      guild.Hash `json:"said,omitzero"`       // what it announced when an evaluation failed last
	Version   string     `json:"version,omitempty"`   // as above
	Excused   bool       `json:"excused,omitempty"`   // that evaluation has a verdict that was overturned

	Asked  int64 `json:"asked,omitempty"`  // Unix ms: the last request
	Heard  int64 `json:"heard,omitempty"`  // Unix ms: the last answer
	Tried  int64 `json:"tried,omitempty"`  // Unix ms: the last meeting that taught something
	Proved int64 `json:"proved,omitempty"` // Unix ms: since when it has a base

	Meeting string `json:"meeting,omitempty"` // that goes on with it

	Ends   []end  `json:"ends,omitempty"` // the latest
	Before []past `json:"before,omitempty"`
	Owed   []owed `json:"owed,omitempty"` // in their order; something follows from the first
	Turns  []Turn `json:"turns,omitempty"`
}

func (r *record) state() guild.ProviderState {
	if r.State == "" {
		return guild.Seen
	}
	return r.State
}

// add appends an end, and returns those that had to go.
func (r *record) add(e end) (gone []registry.ID) {
	r.Ends = append(slices.Clip(r.Ends), e)
	if e.Kind.succeeded() && !e.Bench {
		r.Suspended = 0
	}
	for len(r.Ends) > maxEnds {
		first := r.Ends[0]
		if first.Ms > 0 && !first.Bench {
			r.Before = append(slices.Clip(r.Before), past{first.Task, first.Ms})
			r.Before = r.Before[max(0, len(r.Before)-maxPast):]
		}
		gone, r.Ends = append(gone, first.Attempt), r.Ends[1:]
	}
	return gone
}

// row counts the ends in a row, the latest first, that say the same of what it has proved to be.
func (r record) row(k kind) (n int) {
	for _, e := range slices.Backward(r.Ends) {
		if e.Past || (e.Kind == good) != (k == good) || e.Kind.bad() {
			break
		}
		n++
	}
	return n
}

// caused reports whether it is where it is because of an attempt or a meeting.
func (r *record) caused(attempt nostr.ID, meeting string) bool {
	return r.signal(attempt, meeting) >= 0
}

// signal is the place of the sign that an attempt or a meeting was, or -1.
func (r *record) signal(attempt nostr.ID, meeting string) int {
	return slices.IndexFunc(r.Signals, func(s signal) bool {
		return attempt != (nostr.ID{}) && s.Attempt == attempt || meeting != "" && s.Meeting == meeting
	})
}

// declines reports whether a signal says something bad of the provider that moved for it. Those written before there
// were signals had none.
func declines(m fact.ProviderMoved) bool {
	switch m.Signal {
	case fact.SignalTimeout, fact.SignalFailure, fact.SignalSilence, fact.SignalSustained, fact.SignalRate, fact.SignalLatency,
		fact.SignalTimeouts, fact.SignalFloor:
		return true
	case "":
		return m.To == guild.Warned || m.To == guild.Unqualified || m.To == guild.Unresponsive
	}
	return false
}

// moved takes over a decision.
func (r *record) moved(m fact.ProviderMoved, at int64) {
	turn := Turn{at, m.From, m.To, m.Until, m.Signal, guild.Cut(m.Cause, maxCause), m.Attempt, m.Meeting}
	r.Turns = append(slices.Clip(r.Turns), turn)
	r.Turns = r.Turns[max(0, len(r.Turns)-maxTurns):]
	// What came before the thing that was decided on was passed over, by rules that were others.
	if n := slices.IndexFunc(r.Owed, func(o owed) bool { return o.leads(m) }); n >= 0 {
		r.Owed = r.Owed[n+1:]
	}
	if m.Signal == fact.SignalRestored {
		r.restore(m, at)
		return
	}
	from, until := r.state(), r.Until
	if m.Signal == fact.SignalRejudged {
		r.Signals = r.without(r.signal(m.Attempt, m.Meeting))
		if from == guild.Suspended && m.To != guild.Suspended {
			r.Suspended = max(r.Suspended-1, 0)
		}
		if from == guild.Unqualified {
			r.Failed = max(r.Failed-1, 0)
		}
	}
	if m.To != from {
		r.Since = at
	}
	r.State, r.Until = m.To, m.Until
	r.Owner = m.Signal == fact.SignalOwner && (m.To == guild.Active || m.To == guild.Conditional || m.To == guild.Suspended)
	r.arrive(m, from, until, at)
}

// leads reports whether a decision is what something led to. That a meeting is begun may be decided while it ends: what it
// came to is followed after that.
func (o owed) leads(m fact.ProviderMoved) bool {
	if o.What == concluded && m.To == guild.Benchmarking {
		return false
	}
	return o.Attempt == m.Attempt && o.Meeting == m.Meeting && (o.Attempt != nostr.ID{} || o.Meeting != "")
}

// arrive is what a new state means for what is remembered.
func (r *record) arrive(m fact.ProviderMoved, from guild.ProviderState, until, at int64) {
	if declines(m) && (r.Base != "" || m.To == guild.Unqualified) {
		if m.To == guild.Unqualified {
			r.Signals = nil
		}
		r.Signals = append(slices.Clip(r.Signals), signal{m.Signal, m.Attempt, m.Meeting})
		r.Signals = r.Signals[max(0, len(r.Signals)-maxSignals):]
	}
	switch m.To {
	case guild.Active, guild.Conditional:
		r.proved(m, from, at)
	case guild.Suspended:
		if declines(m) {
			r.Suspended++
		}
	case guild.Unresponsive:
		r.Rung = map[guild.ProviderState]guild.ProviderState{guild.Active: guild.Warned, guild.Conditional: guild.Warned,
			guild.Warned: guild.Reduced}[from]
		if from == guild.Benchmarking && r.Was == guild.Unqualified {
			r.Rung = guild.Unqualified
		}
	case guild.Unqualified:
		if declines(m) {
			r.Failed++
			r.Said, r.Version, r.Excused, r.Base, r.Proved = m.Said, m.Version, false, "", 0
		}
	case guild.Seen:
		r.Base, r.Proved, r.Rung, r.Was, r.WasUntil, r.Signals = "", 0, "", "", 0, nil
		if from == guild.Removed {
			r.Failed, r.Suspended, r.Ends, r.Said, r.Version = 0, 0, r.goneBy(), guild.Hash{}, ""
		}
	case guild.Stale, guild.Benchmarking:
		if from != guild.Stale && from != guild.Benchmarking {
			r.Was, r.WasUntil = from, until
		}
	}
}

// proved is what it means that a provider is active or conditional. What it did before it proved itself by a benchmark
// is not held against it any more.
func (r *record) proved(m fact.ProviderMoved, from guild.ProviderState, at int64) {
	if r.Base == "" || r.Proved == 0 {
		r.Proved = at
	}
	r.Base, r.Rung, r.Excused = m.To, "", false
	if m.Signal == fact.SignalRejudged || m.Signal == fact.SignalHeard {
		return
	}
	r.Failed, r.Signals, r.Said, r.Version = 0, nil, guild.Hash{}, ""
	switch from {
	case guild.Active, guild.Conditional, guild.Warned, guild.Unresponsive:
	default:
		r.Ends = r.goneBy()
	}
}

// goneBy is the ends, as those of before.
func (r *record) goneBy() []end {
	ends := slices.Clone(r.Ends)
	for n := range ends {
		ends[n].Past = true
	}
	return ends
}
