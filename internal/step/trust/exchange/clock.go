package exchange

import "maps"

// VectorClock counts the changes that each guild has made to a value, by the guild's public key in hex (the partnership
// protocol, section 5.5.2). A missing guild has made none.
type VectorClock map[string]uint64

// Dominates reports whether c includes every change that o includes. A clock dominates itself.
func (c VectorClock) Dominates(o VectorClock) bool {
	for guild, n := range o {
		if c[guild] < n {
			return false
		}
	}
	return true
}

// Concurrent reports a conflict: each clock includes a change that the other does not.
func (c VectorClock) Concurrent(o VectorClock) bool { return !c.Dominates(o) && !o.Dominates(c) }

// Join returns the clock that includes the changes of both.
func (c VectorClock) Join(o VectorClock) VectorClock {
	joined := VectorClock{}
	maps.Copy(joined, c)
	for guild, n := range o {
		joined[guild] = max(joined[guild], n)
	}
	return joined
}
