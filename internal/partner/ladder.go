package partner

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/registry"
)

// settle drops the debts from which nothing follows, up to the first from which something does. What somebody
// answered who is stale waits until that is lifted.
func (f locked) settle(r *record) {
	for len(r.Owed) > 0 {
		o := r.Owed[0]
		if f.step(*r, o) != r.state() || asleep(r.state()) && o.answered() {
			break
		}
		r.Owed = r.Owed[1:]
	}
	r.Owed = r.Owed[max(0, len(r.Owed)-maxOwed):]
}

// asleep reports whether a provider is put aside because nothing was heard of it.
func asleep(s guild.ProviderState) bool { return s == guild.Stale || s == guild.Archived }

// answered reports whether a debt shows that the provider is there.
func (o owed) answered() bool {
	return slices.Contains([]kind{good, fair, partly, failed, timedOut}, o.What)
}

// working reports whether a provider gets ordinary work, or some of it.
func working(s guild.ProviderState) bool {
	return s == guild.Active || s == guild.Conditional || s == guild.Warned || s == guild.Reduced
}

// step is where a provider goes because of something that happened; it stays where it is if nothing follows. Whatever
// a person has set, only a violation undoes.
func (f locked) step(r record, o owed) guild.ProviderState {
	state := r.state()
	switch {
	case o.What == violated || o.To == guild.Removed:
		return guild.Removed
	case o.What == overturned && !r.Owner:
		return f.overturn(r, o)
	case r.Owner || state == guild.Removed:
		return state
	case o.What == began:
		if !guild.IsLook(o.Purpose) && state.CanBecome(guild.Benchmarking) {
			return guild.Benchmarking
		}
		return state
	case o.What == concluded:
		return r.concluded(o)
	case o.What == floored:
		if working(state) || state == guild.Unresponsive || state == guild.Seen {
			return guild.Suspended
		}
		return state
	case o.What.bad():
		return r.worse(o.What)
	}
	return r.better(o)
}

// worse is the ladder of section 3.4.2 of the partnership protocol down, one rung for each signal. Who never worked
// for us is rejected by a failure. Who says not one word is left alone for a day first, and comes back to the rung
// that the signal led to; what else it does not answer meanwhile is the same silence.
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

// inARow is how many deliveries that say the same make another status of an active or a conditional provider: one gives
// a provisional status, three fix it (the partnership protocol, section 3.2.3).
const inARow = 3

// better is the way back of section 3.4.2: a success ends a warning, and nothing but a benchmark what is further down.
func (r record) better(o owed) guild.ProviderState {
	state, proves := r.state(), guild.Conditional
	if o.What == good {
		proves = guild.Active
	}
	switch state {
	case guild.Seen:
		return proves
	case guild.Unresponsive:
		switch {
		case r.Rung == "":
			return proves
		case r.Rung == guild.Warned && o.What.succeeded():
			return r.base()
		}
		return r.Rung
	case guild.Warned:
		if o.What.succeeded() {
			return r.base()
		}
	case guild.Active, guild.Conditional:
		if o.Row >= inARow {
			return proves
		}
	}
	return state
}

// base is what it proved to be before it declined.
func (r record) base() guild.ProviderState {
	if r.Base == "" {
		return guild.Active
	}
	return r.Base
}

// rung is where so many signals lead.
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

// concluded is where a meeting leads. One that was only a look is one more delivery; a whole evaluation says what the
// provider is.
func (r record) concluded(o owed) guild.ProviderState {
	state := r.state()
	tried := state == guild.Benchmarking
	switch {
	case guild.IsLook(o.Purpose) && o.To != "":
		o.What = map[guild.ProviderState]kind{guild.Active: good, guild.Conditional: partly}[o.To]
		if o.What == "" {
			return r.worse(failed)
		}
		return r.better(o)
	case o.To == "" && o.Mute && !tried:
		return r.worse(unheard)
	case o.To == "" && !tried:
		return state
	case o.To == "":
		return r.resumed(o)
	case o.To != guild.Unqualified:
		if state.CanBecome(o.To) {
			return o.To
		}
		return state
	case tried && r.Was == guild.Reduced:
		return guild.Suspended
	case tried && r.Was == guild.Suspended:
		if o.Purpose == guild.PurposeRetry && !o.Stays {
			return guild.Removed
		}
		return guild.Suspended
	case tried, state == guild.Seen:
		return guild.Unqualified
	}
	return r.worse(failed)
}

// resumed is where somebody goes whose whole evaluation taught nothing, or who did not answer in it.
func (r record) resumed(o owed) guild.ProviderState {
	switch {
	case o.Mute && r.Was == guild.Reduced:
		return guild.Suspended
	case o.Mute && r.Was != guild.Suspended:
		return guild.Unresponsive
	case o.Stays:
		return guild.Benchmarking
	case slices.Contains([]guild.ProviderState{guild.Reduced, guild.Suspended, guild.Unqualified, guild.Stale}, r.Was):
		return r.Was
	}
	return guild.Seen
}

// overturn is where a provider goes because a verdict that it was moved for is no more.
func (f locked) overturn(r record, o owed) guild.ProviderState {
	state := r.state()
	n := r.signal(o.Attempt, o.Meeting)
	switch state {
	case guild.Removed:
		b, _ := f.state.Blocked.Get(r.Service.PubKey.Hex())
		mine := o.Attempt != (nostr.ID{}) && b.Attempt == o.Attempt || o.Meeting != "" && b.Meeting == o.Meeting
		switch {
		case b.Service != registry.IDOf(r.Service) || !mine:
			return state
		case guild.Removed.CanBecome(b.From):
			return b.From
		}
		return guild.Seen
	case guild.Unqualified:
		if n >= 0 && o.Meeting == "" && !o.As.bad() {
			if o.As == good {
				return guild.Active
			}
			return guild.Conditional
		}
	case guild.Warned, guild.Reduced, guild.Suspended:
		suspected := r.suspected()
		if o.As.bad() || n < 0 && !suspected || suspected && !f.healthy(r, o.At) {
			return state
		}
		if to := r.rung(len(r.without(n))); state.CanBecome(to) {
			return to
		}
	}
	return state
}

// without is the signals that are left when one of them is none, -1 for none, and when its deliveries do not add up to
// anything bad any more.
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

// suspected reports whether it is suspended for what its deliveries add up to, and not for one of them.
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

// signalOf is what kind of sign a debt is, for the decision that follows from it.
func (r record) signalOf(o owed, to guild.ProviderState) string {
	switch {
	case o.What == overturned:
		return fact.SignalRejudged
	case to == guild.Removed && (o.What == violated || o.To == guild.Removed):
		return fact.SignalViolation
	case to == guild.Removed:
		return fact.SignalPersistent
	case o.What == floored:
		return fact.SignalFloor
	case o.What == unheard || o.What == timedOut:
		return fact.SignalTimeout
	case o.What == failed, o.What == concluded && o.To == guild.Unqualified:
		return fact.SignalFailure
	case o.What != concluded || o.To != "":
		return ""
	case o.Mute && !(r.Was == guild.Suspended && to == guild.Suspended):
		return fact.SignalTimeout
	}
	return fact.SignalResumed
}

// quarantine is until when a provider is left alone in a state that something led to, in Unix ms; 0 for none.
func (f *Fold) quarantine(r record, o owed, to guild.ProviderState, signal string) int64 {
	switch to {
	case guild.Unresponsive:
		return o.At + f.p.Quiet
	case guild.Unqualified:
		switch {
		case signal == fact.SignalResumed:
			return r.WasUntil
		case signal == fact.SignalRejudged:
			return o.At + f.p.Cooldown(r.Failed).Milliseconds()
		case o.Flat:
			return o.At + f.p.Hopeless
		}
		return o.At + f.p.Cooldown(r.Failed+1).Milliseconds()
	case guild.Suspended:
		if signal == fact.SignalResumed && !o.Mute {
			return r.WasUntil
		}
		return o.At + f.p.Retry
	}
	return 0
}
