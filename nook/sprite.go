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
	Set   SpriteState `json:"set"`   // what the last event set
	Since int64       `json:"since"` // when it did, Unix ms
	By    string      `json:"by"`    // the id of that event; "" if time has changed the state
	Alive int64       `json:"alive"` // the last event or heartbeat, Unix ms
}

// Observe takes an event that Received completed. An event from before the one that set the present state changes nothing; so the
// order of arrival does not matter. A heartbeat keeps the present state alive.
func (p *Pulse) Observe(e *Event) {
	if e.Type == TypeHeartbeat {
		if e.Timestamp <= p.Alive {
			return
		}
		if now := p.State(e.Timestamp); now != p.Set {
			p.Set, p.Since, p.By = now, e.Timestamp, ""
		}
		p.Alive = e.Timestamp
		return
	}
	p.Alive = max(p.Alive, e.Timestamp)
	if e.Timestamp < p.Since || e.Timestamp == p.Since && e.ID < p.By {
		return
	}
	p.Set, p.Since, p.By = stateAfter(e), e.Timestamp, e.ID
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
	quiet := now - p.Alive
	switch {
	case p.Set == "" || p.Set == Sleeping || quiet >= staysAwake:
		return Sleeping
	case p.Set == Working && quiet < worksAlone:
		return Working
	case (p.Set == Success || p.Set == Failure) && now-p.Since < showsEnd:
		return p.Set
	}
	return Idle
}
