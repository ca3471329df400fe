package partner

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
)

// settle drops pending events up to the first that leads to another state or that waits.
func (f rules) settle(r *record) {
	for len(r.Pending) > 0 {
		e := r.Pending[0]
		if f.step(*r, e) != r.state() || r.waits(e) {
			break
		}
		r.Pending = r.Pending[1:]
	}
	r.Pending = r.Pending[max(0, len(r.Pending)-maxPending):]
}

// absent reports whether a provider is stale or archived.
func absent(s guild.ProviderState) bool { return s == guild.Stale || s == guild.Archived }

// waits reports whether an event has to wait until its absent provider has come back because of it.
func (r record) waits(e event) bool { return absent(r.state()) && e.answered() }

// working reports whether a provider gets ordinary work, or some of it.
func working(s guild.ProviderState) bool {
	return s == guild.Active || s == guild.Conditional || s == guild.Warned || s == guild.Reduced
}

// step returns the state to which an event leads. That is the present state if nothing follows from the event. Only a
// violation overrides a state that a person has set.
func (f rules) step(r record, e event) guild.ProviderState {
	state := r.state()
	switch {
	case e.What == violated || e.To == guild.Removed:
		return guild.Removed
	case e.What == overturned && !r.Owner:
		return f.overturn(r, e)
	case r.Owner || state == guild.Removed:
		return state
	case e.What == meetingBegan:
		if !guild.IsLook(e.Purpose) && state.CanBecome(guild.Benchmarking) {
			return guild.Benchmarking
		}
		return state
	case e.What == meetingEnded:
		return r.evaluated(e)
	case e.What == floored:
		if working(state) || state == guild.Unresponsive || state == guild.Seen {
			return guild.Suspended
		}
		return state
	case e.What.bad():
		return r.worse(e.What)
	}
	return r.better(e)
}

// worse moves a provider down the ladder of section 3.4.2 of the partnership protocol, one rung for each signal. A
// failure rejects a provider that never worked for us. A silent provider is not asked for a day, and then continues on
// the rung to which the signal led. More silence meanwhile does not count.
func (r record) worse(k kind) guild.ProviderState {
	state := r.state()
	switch state {
	case guild.Seen:
		return map[kind]guild.ProviderState{failed: guild.Unqualified, unheard: guild.Unresponsive, timedOut: state}[k]
	case guild.Unresponsive:
		switch {
		case k == unheard || r.Rung == guild.Unqualified || r.Rung == "" && k == timedOut:
			return state
		case r.Rung == "":
			return guild.Unqualified
		case r.Rung == guild.Warned:
			return guild.Reduced
		}
		return guild.Suspended
	case guild.Active, guild.Conditional:
		if k == unheard {
			return guild.Unresponsive
		}
		return guild.Warned
	case guild.Warned:
		if k == unheard {
			return guild.Unresponsive
		}
		return guild.Reduced
	case guild.Reduced:
		return guild.Suspended
	}
	return state
}

// fixed is the number of deliveries in a row that change the status of an active or conditional provider. One gives a
// provisional status, three of a kind fix it, or five of any (the partnership protocol, section 3.2.3).
const (
	fixed  = 3
	fixing = 5
)

// isFixed reports whether the deliveries up to one of kind k fix a provisional status.
func (r record) isFixed(k kind) bool {
	n := 0
	for _, e := range r.Ends {
		if !e.Past && !e.Bench {
			n++
		}
	}
	return r.inARow(k) >= fixed || n >= fixing
}

// better moves a provider up the ladder of section 3.4.2. A success ends a warning. A provider further down needs a
// benchmark.
func (r record) better(e event) guild.ProviderState {
	state, proves := r.state(), guild.Conditional
	if e.What == good {
		proves = guild.Active
	}
	switch state {
	case guild.Seen:
		return proves
	case guild.Unresponsive:
		switch {
		case r.Rung == "":
			return proves
		case r.Rung == guild.Warned && e.What.succeeded():
			return r.base()
		}
		return r.Rung
	case guild.Warned:
		if e.What.succeeded() {
			return r.base()
		}
	case guild.Active, guild.Conditional:
		if e.InARow >= fixed {
			return proves
		}
	}
	return state
}

// base returns the state that a provider had before it declined.
func (r record) base() guild.ProviderState {
	if r.Base == "" {
		return guild.Active
	}
	return r.Base
}

// rung returns the state to which a number of signals leads.
func (r record) rung(signals int) guild.ProviderState {
	switch signals {
	case 0:
		return r.base()
	case 1:
		return guild.Warned
	case 2:
		return guild.Reduced
	}
	return guild.Suspended
}

// evaluated returns the state to which the end of a meeting leads. A look counts as one more delivery. A whole
// evaluation decides.
func (r record) evaluated(e event) guild.ProviderState {
	switch {
	case e.To == "":
		return r.inconclusive(e)
	case guild.IsLook(e.Purpose):
		e.What = map[guild.ProviderState]kind{guild.Active: good, guild.Conditional: partly}[e.To]
		if e.What == "" {
			return r.worse(failed)
		}
		return r.better(e)
	case e.To == guild.Unqualified:
		return r.failedEvaluation(e)
	case r.state().CanBecome(e.To):
		return e.To
	}
	return r.state()
}

// failedEvaluation returns the state to which a failed evaluation leads: a failed re-verification suspends, a failed
// retry after a suspension removes, a newcomer is rejected.
func (r record) failedEvaluation(e event) guild.ProviderState {
	if r.state() == guild.Seen {
		return guild.Unqualified
	}
	if r.state() != guild.Benchmarking {
		return r.worse(failed)
	}
	switch {
	case r.Was == guild.Suspended && e.Purpose == guild.PurposeRetry && !e.WasTried:
		return guild.Removed
	case r.Was == guild.Suspended || r.Was == guild.Reduced:
		return guild.Suspended
	}
	return guild.Unqualified
}

// inconclusive returns the state after a meeting that taught nothing or in which the provider never answered. Mostly
// that is the state before the meeting.
func (r record) inconclusive(e event) guild.ProviderState {
	tried := r.state() == guild.Benchmarking
	switch {
	case !tried && e.Mute:
		return r.worse(unheard)
	case !tried:
		return r.state()
	case e.Mute && r.Was == guild.Reduced:
		return guild.Suspended
	case e.Mute && r.Was != guild.Suspended:
		return guild.Unresponsive
	case e.WasTried:
		return guild.Benchmarking
	case slices.Contains([]guild.ProviderState{guild.Reduced, guild.Suspended, guild.Unqualified, guild.Stale}, r.Was):
		return r.Was
	}
	return guild.Seen
}

// overturn returns the state to which an overturned verdict leads.
//
// A removed key comes back only if the verdict or the meeting that caused the removal is overturned. In the other
// states the signal of the verdict is taken away, and the remaining signals give the state.
func (f rules) overturn(r record, e event) guild.ProviderState {
	state := r.state()
	n := r.signal(e.Attempt, e.Meeting)
	switch state {
	case guild.Removed:
		b, _ := f.state.Blocked.Get(r.Service.PubKey.Hex())
		mine := e.Attempt != (nostr.ID{}) && b.Attempt == e.Attempt || e.Meeting != "" && b.Meeting == e.Meeting
		switch {
		case b.Service != registry.IDOf(r.Service) || !mine:
			return state
		case guild.Removed.CanBecome(b.From):
			return b.From
		}
		return guild.Seen
	case guild.Unqualified:
		if n >= 0 && e.Meeting == "" && !e.As.bad() {
			if e.As == good {
				return guild.Active
			}
			return guild.Conditional
		}
	case guild.Warned, guild.Reduced, guild.Suspended:
		suspected := r.suspected()
		if e.As.bad() || n < 0 && !suspected {
			return state
		}
		if suspected {
			if signal, _ := f.examine(r, e.At); signal != "" {
				return state // its deliveries still show a trigger
			}
		}
		if to := r.rung(len(r.without(n))); state.CanBecome(to) {
			return to
		}
	}
	return state
}

// without returns the signals without the one at index n, if n is not -1, and without a suspicion.
func (r record) without(n int) []signal {
	left := slices.Clone(r.Signals)
	if r.suspected() {
		left = left[:len(left)-1]
	}
	if n >= 0 && n < len(left) {
		left = slices.Delete(left, n, n+1)
	}
	return left
}

// suspected reports whether a provider is suspended for several deliveries together, and not for one of them.
func (r record) suspected() bool {
	if r.state() != guild.Suspended || len(r.Signals) == 0 {
		return false
	}
	switch r.Signals[len(r.Signals)-1].Signal {
	case fact.SignalRate, fact.SignalLatency, fact.SignalTimeouts:
		return true
	}
	return false
}

// signalOf returns the signal of the decision by which an event leads to a state.
func (r record) signalOf(e event, to guild.ProviderState) string {
	switch {
	case e.What == overturned:
		return fact.SignalRejudged
	case to == guild.Removed && (e.What == violated || e.To == guild.Removed):
		return fact.SignalViolation
	case to == guild.Removed:
		return fact.SignalPersistent
	case e.What == floored:
		return fact.SignalFloor
	case e.What == unheard || e.What == timedOut:
		return fact.SignalTimeout
	case e.What == failed, e.What == meetingEnded && e.To == guild.Unqualified:
		return fact.SignalFailure
	case e.What != meetingEnded || e.To != "":
		return ""
	case e.Mute && !(r.Was == guild.Suspended && to == guild.Suspended):
		return fact.SignalTimeout
	}
	return fact.SignalResumed
}

// quarantine returns the end of the quarantine in the state to which an event led, in Unix ms, or 0 if there is none.
func (f *Fold) quarantine(r record, e event, to guild.ProviderState, signal string) int64 {
	switch to {
	case guild.Unresponsive:
		quiet := f.p.Quiet
		for range r.Silent {
			quiet = max(quiet, min(2*quiet, f.p.Quietest))
		}
		return e.At + quiet
	case guild.Unqualified:
		switch {
		case signal == fact.SignalResumed:
			return r.WasUntil
		case signal == fact.SignalRejudged:
			return e.At + f.p.Cooldown(r.Failed).Milliseconds()
		case e.AllFailed:
			return e.At + f.p.Hopeless
		}
		return e.At + f.p.Cooldown(r.Failed+1).Milliseconds()
	case guild.Suspended:
		if signal == fact.SignalResumed && !e.Mute {
			return r.WasUntil
		}
		return e.At + f.p.Retry
	}
	return 0
}
