package jobs

import (
	"fiatjaf.com/nostr"

	"guild"
)

// With lists the latest jobs that a provider was asked to do, in the order in which it was first asked for each: those of
// its last thousand attempts, and maybe some more.
func (f *Fold) With(provider nostr.PubKey) []guild.JobID {
	var all []guild.JobID
	known := map[guild.JobID]bool{}
	f.View(func(s *state) {
		for _, attempt := range s.turns.Of(provider) {
			if id, ok := s.attempts.Get(attempt); ok && !known[id] {
				known[id] = true
				all = append(all, id)
			}
		}
	})
	return all
}
