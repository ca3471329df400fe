package jobs

import (
	"fiatjaf.com/nostr"

	"guild"
)

// With lists the latest jobs that a provider was asked to do, in the order in which it was first asked for each: those of
// its last thousand attempts, and maybe some more.
func (f *Fold) With(provider nostr.PubKey) []guild.JobID {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var all []guild.JobID
	known := map[guild.JobID]bool{}
	for _, attempt := range f.turns.Of(provider) {
		if id, ok := f.attempts.Get(attempt); ok && !known[id] {
			known[id] = true
			all = append(all, id)
		}
	}
	return all
}
