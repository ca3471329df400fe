package partner

import (
	"math/bits"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
)

// Limits of the memory of one service.
const (
	maxEnds        = 128 // latest ends of attempts
	maxEarlier     = 32  // latencies of older ends
	maxSignals     = 8
	maxTransitions = 32
	maxPending     = 64
	maxCause       = 300 // bytes
	maxTaskSample  = 128 // latencies of one task
	maxTask        = 64  // bytes of a task in a cause
	maxVersion     = 64  // bytes, as the registry keeps them

	dayMs = 24 * 60 * 60 * 1000
)

// kind names an event that can change a provider's state, such as the end of an attempt.
type kind string

// The kinds of ends of an attempt.
const (
	good     kind = "good"     // every functional test passed, with a score from 0.8
	fair     kind = "fair"     // every functional test passed, with a lower score
	partly   kind = "partial"  // a score from 0.6
	failed   kind = "failure"  // a lower score, a crash, or an answer against the protocol
	timedOut kind = "timeout"  // it answered, but did not deliver
	unheard  kind = "silent"   // it never answered
	violated kind = "violated" // it tried to escape the sandbox
)

// The other events.
const (
	floored      kind = "floor"      // trust in it reached the floor
	overturned   kind = "overturned" // a delivery was judged again with another outcome
	meetingBegan kind = "began"
	meetingEnded kind = "ended"
)

// succeeded reports whether every functional test passed.
func (k kind) succeeded() bool { return k == good || k == fair }

// bad reports whether an end is a sign of decline.
func (k kind) bad() bool { return k == failed || k == timedOut || k == unheard || k == violated }

// work groups jobs whose latencies can be compared: those of one task with request bundles of similar size.
type work struct {
	Task string `json:"task,omitempty"`
	Size int    `json:"size,omitempty"` // class of the bundle's size; each has four times the bytes of the one before
}

// workOf returns the group of a job with a bundle of a number of bytes.
func workOf(task string, bytes int64) work { return work{task, bits.Len64(uint64(max(bytes, 0))) / 2} }

// end is the end of one attempt.
type end struct {
	work
	Attempt registry.ID `json:"attempt"`
	At      int64       `json:"at"` // Unix ms
	Kind    kind        `json:"kind"`
	Ms      int64       `json:"ms,omitempty"`    // latency, 0 without a delivery
	Bench   bool        `json:"bench,omitempty"` // a run of a meeting
	Past    bool        `json:"past,omitempty"`  // from before the provider proved itself anew
}

// earlier is the latency of an end that is no longer kept.
type earlier struct {
	work
	Ms int64 `json:"ms"`
}

// signal is a sign of decline that moved a provider down.
type signal struct {
	Signal  string   `json:"signal,omitempty"`
	Attempt nostr.ID `json:"attempt,omitzero"`
	Meeting string   `json:"meeting,omitempty"`
}

// event is an event that has not moved the provider yet.
type event struct {
	What      kind                `json:"what"`
	As        kind                `json:"as,omitempty"` // of an overturned verdict: the new kind
	To        guild.ProviderState `json:"to,omitempty"` // of an ended meeting: its result, "" if nothing was learned
	Attempt   nostr.ID            `json:"attempt,omitzero"`
	Meeting   string              `json:"meeting,omitempty"`
	Purpose   string              `json:"purpose,omitempty"` // of the meeting
	Mute      bool                `json:"mute,omitempty"`    // the provider never answered in the meeting
	WasTried  bool                `json:"stays,omitempty"`   // it was benchmarking before the meeting began
	AllFailed bool                `json:"flat,omitempty"`    // all runs of the meeting failed, three or more
	InARow    int                 `json:"row,omitempty"`     // number of ends like this one
	At        int64               `json:"at"`                // Unix ms
	Cause     string              `json:"cause,omitempty"`
}

// answered reports whether the event shows that the provider is reachable.
func (e event) answered() bool {
	return slices.Contains([]kind{good, fair, partly, failed, timedOut}, e.What)
}

// ledTo reports whether a decision follows from the event. A move to benchmarking does not follow from the end of its
// meeting, although it may be decided while the meeting ends.
func (e event) ledTo(m fact.ProviderMoved) bool {
	if e.What == meetingEnded && m.To == guild.Benchmarking {
		return false
	}
	return e.Attempt == m.Attempt && e.Meeting == m.Meeting && (e.Attempt != nostr.ID{} || e.Meeting != "")
}

// Transition is one change of a provider's state, as it is shown to a person.
type Transition struct {
	At      int64               `json:"at"` // Unix ms
	From    guild.ProviderState `json:"from"`
	To      guild.ProviderState `json:"to"`
	Until   int64               `json:"until,omitempty"`  // Unix ms: end of a quarantine
	Signal  string              `json:"signal,omitempty"` // see fact.ProviderMoved
	Cause   string              `json:"cause"`
	Attempt nostr.ID            `json:"attempt,omitzero"`
	Meeting string              `json:"meeting,omitempty"`
}

// record holds everything about one service. Its slices are replaced and never changed in place.
type record struct {
	Service guild.Service       `json:"service"`
	Name    string              `json:"name,omitempty"`  // its name at the last request
	State   guild.ProviderState `json:"state,omitempty"` // "" is seen
	Until   int64               `json:"until,omitempty"` // Unix ms: end of a quarantine
	Since   int64               `json:"since,omitempty"` // Unix ms: the last change of State

	Base     guild.ProviderState `json:"base,omitempty"`      // the last proven state: active or conditional
	Rung     guild.ProviderState `json:"rung,omitempty"`      // of the ladder, after a quarantine for silence; "" is seen
	Was      guild.ProviderState `json:"was,omitempty"`       // the state before it became stale or benchmarking
	WasUntil int64               `json:"was_until,omitempty"` // the value of Until in that state
	Owner    bool                `json:"owner,omitempty"`     // a person has set its state

	Provisional bool `json:"provisional,omitempty"` // deliveries gave it its state, and too few to fix it

	Silent    int        `json:"silent,omitempty"`    // quarantines for silence since it was last proved
	Failed    int        `json:"failed,omitempty"`    // failed evaluations in a row
	Suspended int        `json:"suspended,omitempty"` // suspensions since its last accepted delivery
	Signals   []signal   `json:"signals,omitempty"`   // signals that led down from its base, or to its rejection
	Sum       guild.Hash `json:"said,omitzero"`       // hash of its announcement at the last failed evaluation
	Version   string     `json:"version,omitempty"`   // version in that announcement
	Excused   bool       `json:"excused,omitempty"`   // a verdict of that evaluation was overturned

	Asked  int64 `json:"asked,omitempty"`  // Unix ms: the last request
	Heard  int64 `json:"heard,omitempty"`  // Unix ms: the last answer
	Tried  int64 `json:"tried,omitempty"`  // Unix ms: the last meeting with a result
	Proved int64 `json:"proved,omitempty"` // Unix ms: the time since which it has a base

	Meeting string `json:"meeting,omitempty"` // the running meeting

	Ends        []end        `json:"ends,omitempty"` // the latest
	Before      []earlier    `json:"before,omitempty"`
	Pending     []event      `json:"owed,omitempty"` // in order; the first one leads to another state
	Transitions []Transition `json:"turns,omitempty"`
}

func (r *record) state() guild.ProviderState {
	if r.State == "" {
		return guild.Seen
	}
	return r.State
}

// add appends an end, and returns the attempts whose ends were dropped for it.
func (r *record) add(e end) (dropped []registry.ID) {
	r.Ends = append(slices.Clip(r.Ends), e)
	if e.Kind.succeeded() && !e.Bench {
		r.Suspended = 0
	}
	for len(r.Ends) > maxEnds {
		first := r.Ends[0]
		if first.Ms > 0 && !first.Bench {
			r.Before = append(slices.Clip(r.Before), earlier{first.work, first.Ms})
			r.Before = r.Before[max(0, len(r.Before)-maxEarlier):]
		}
		dropped, r.Ends = append(dropped, first.Attempt), r.Ends[1:]
	}
	return dropped
}

// inARow counts the latest ends in a row that prove the same state as k.
func (r record) inARow(k kind) (n int) {
	for _, e := range slices.Backward(r.Ends) {
		if e.Past || (e.Kind == good) != (k == good) || e.Kind.bad() {
			break
		}
		n++
	}
	return n
}

// signal returns the index of the signal of an attempt or a meeting, or -1.
func (r *record) signal(attempt nostr.ID, meeting string) int {
	return slices.IndexFunc(r.Signals, func(s signal) bool {
		return attempt != (nostr.ID{}) && s.Attempt == attempt || meeting != "" && s.Meeting == meeting
	})
}

// declines reports whether a decision counts against the provider. The oldest journals have decisions without signals,
// which are judged by the state that they lead to.
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

// moved applies a decision.
func (r *record) moved(m fact.ProviderMoved, at int64) {
	r.Transitions = append(slices.Clip(r.Transitions), Transition{
		At: at, From: m.From, To: m.To, Until: m.Until, Signal: m.Signal, Cause: guild.Cut(m.Cause, maxCause), Attempt: m.Attempt, Meeting: m.Meeting,
	})
	r.Transitions = r.Transitions[max(0, len(r.Transitions)-maxTransitions):]
	// Events before the one that led to the decision led nowhere. They must not be evaluated again, because the rules may
	// have changed since.
	if n := slices.IndexFunc(r.Pending, func(e event) bool { return e.ledTo(m) }); n >= 0 {
		r.Pending = r.Pending[n+1:]
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
	r.enter(m, from, until, at)
}

// enter updates the record for the state that a decision leads to.
func (r *record) enter(m fact.ProviderMoved, from guild.ProviderState, until, at int64) {
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
		r.Silent++
		r.Rung = map[guild.ProviderState]guild.ProviderState{guild.Active: guild.Warned, guild.Conditional: guild.Warned,
			guild.Warned: guild.Reduced}[from]
		if from == guild.Benchmarking && r.Was == guild.Unqualified {
			r.Rung = guild.Unqualified
		}
	case guild.Unqualified:
		if declines(m) {
			r.Failed++
			r.Sum, r.Version, r.Excused = m.Said, m.Version, false
			r.Base, r.Proved = "", 0
		}
	case guild.Seen:
		r.Base, r.Proved, r.Rung, r.Signals = "", 0, "", nil
		r.Was, r.WasUntil = "", 0
		if from == guild.Removed {
			r.Failed, r.Suspended, r.Ends = 0, 0, r.pastEnds()
			r.Sum, r.Version = guild.Hash{}, ""
		}
	case guild.Stale, guild.Benchmarking:
		if from != guild.Stale && from != guild.Benchmarking {
			r.Was, r.WasUntil = from, until
		}
	}
}

// proved records that a provider became active or conditional. If it did so by a benchmark, earlier ends no longer
// count against it.
func (r *record) proved(m fact.ProviderMoved, from guild.ProviderState, at int64) {
	switch {
	case r.Base == "":
		r.Provisional = m.Attempt != (nostr.ID{}) && m.Meeting == ""
	case m.Signal == fact.SignalOwner:
		r.Provisional = false
	}
	if r.Base == "" || r.Proved == 0 {
		r.Proved = at
	}
	r.Base, r.Rung, r.Excused, r.Silent = m.To, "", false, 0
	if m.Signal == fact.SignalRejudged || m.Signal == fact.SignalHeard {
		return
	}
	r.Failed, r.Signals = 0, nil
	r.Sum, r.Version = guild.Hash{}, ""
	switch from {
	case guild.Active, guild.Conditional, guild.Warned, guild.Unresponsive:
	default:
		r.Ends = r.pastEnds()
		for n, e := range r.Ends {
			r.Ends[n].Past = !r.Provisional || e.Attempt != short(m.Attempt)
		}
	}
}

// pastEnds returns the ends marked as past.
func (r *record) pastEnds() []end {
	ends := slices.Clone(r.Ends)
	for n := range ends {
		ends[n].Past = true
	}
	return ends
}
