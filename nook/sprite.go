package nook

// SpriteState is what a sprite shows. An agent.state event can name only Working, Idle and Sleeping.
type SpriteState string

// The states of a sprite, section 3 of the specification.
const (
	Idle     SpriteState = "idle"
	Working  SpriteState = "working"
	Success  SpriteState = "success"
	Failure  SpriteState = "failure"
	Sleeping SpriteState = "sleeping"
)

// How long a sprite shows a state, in ms.
const (
	showsEnd   = int64(10_000)         // success and failure
	worksAlone = int64(5 * 60 * 1000)  // working, without any event
	staysAwake = int64(30 * 60 * 1000) // without any event
)

// Pulse says which state an agent's sprite is in. The zero Pulse is that of an agent without events.
type Pulse struct {
	set   SpriteState // since when
	since int64
	id    string // of the event that set it
	alive int64  // the last event or heartbeat
}

// Observe takes an event that Received completed. An event from before the one that set the present state changes nothing; so the
// order of arrival does not matter. A heartbeat keeps the present state alive.
func (p *Pulse) Observe(e *Event) {
	if e.Type == TypeHeartbeat {
		if e.Timestamp <= p.alive {
			return
		}
		if now := p.State(e.Timestamp); now != p.set {
			p.set, p.since, p.id = now, e.Timestamp, ""
		}
		p.alive = e.Timestamp
		return
	}
	p.alive = max(p.alive, e.Timestamp)
	if e.Timestamp < p.since || e.Timestamp == p.since && e.ID < p.id {
		return
	}
	p.set, p.since, p.id = stateAfter(e), e.Timestamp, e.ID
}

// stateAfter returns the state that an event sets.
func stateAfter(e *Event) SpriteState {
	switch e.Type {
	case TypeStarted:
		return Working
	case TypeCompleted:
		if e.Success != nil && !*e.Success {
			return Failure
		}
		return Success
	case TypeFailed:
		return Failure
	case TypeState:
		return SpriteState(e.State)
	}
	return Idle
}

// State returns the state at a time, in Unix ms.
func (p *Pulse) State(now int64) SpriteState {
	quiet := now - p.alive
	switch {
	case p.set == "" || p.set == Sleeping || quiet >= staysAwake:
		return Sleeping
	case p.set == Working && quiet < worksAlone:
		return Working
	case (p.set == Success || p.set == Failure) && now-p.since < showsEnd:
		return p.set
	}
	return Idle
}
