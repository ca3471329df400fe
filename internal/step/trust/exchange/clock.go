package exchange

import "maps"

// VectorClock says how often each guild has changed something, by the guild's public key in hex (the partnership
// protocol, section 5.5.2). A guild that is not in it has changed it never.
type VectorClock map[string]uint64

// Dominates reports whether whoever has c has seen everything that o has seen. A clock dominates itself.
func (c VectorClock) Dominates(o VectorClock) bool {
	for guild, n := range o {
		if c[guild] < n {
			return false
		}
	}
	return true
}

// Concurrent reports whether neither has seen all of the other: a conflict.
func (c VectorClock) Concurrent(o VectorClock) bool { return !c.Dominates(o) && !o.Dominates(c) }

// Join is the clock of somebody who has seen both.
func (c VectorClock) Join(o VectorClock) VectorClock {
	joined := VectorClock{}
	maps.Copy(joined, c)
	for guild, n := range o {
		joined[guild] = max(joined[guild], n)
	}
	return joined
}
