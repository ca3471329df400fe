package registry

import (
	"slices"
	"time"

	"guild"
	"guild/internal/due"
)

// When an announcement is stale and when it is archived, if nothing was heard of the provider since.
const (
	staleAfter    = 30 * 24 * time.Hour
	archivedAfter = 90 * 24 * time.Hour
)

// lastHeard is when an announcement was made, or when its provider last answered if that was later.
func lastHeard(c *card, heard int64) time.Time {
	return time.Unix(max(int64(c.at), heard/1000), 0)
}

// Due lists what is due for the providers that something was decided about: the moves of the fold, and that they have
// become stale or archived, or are heard of again. Of mere strangers Offers computes it. It implements due.Source.
func (r *Registry) Due(now time.Time) []due.Work {
	work := r.fold.Due(now)
	for _, p := range r.fold.known() {
		i := identify(p.Service)
		r.mu.RLock()
		c := r.index.find(i)
		r.mu.RUnlock()
		if c == nil {
			continue
		}
		_, heard := r.fold.standing(p.Service)
		last := lastHeard(c, heard)
		fresh := now.Sub(last) < staleAfter
		switch {
		case fresh && (p.State == guild.Stale || p.State == guild.Archived):
			work = append(work, r.fold.turn("revive "+i.String(), p, r.fold.awake(p), time.Time{}, "heard of again"))
		case p.State == guild.Stale:
			work = append(work, r.aging(p, i, guild.Archived, last.Add(archivedAfter)))
		case p.State.CanBecome(guild.Stale):
			work = append(work, r.aging(p, i, guild.Stale, last.Add(staleAfter)))
		}
	}
	return work
}

// aging is a turn that comes with time. Its key has the time in it, which is another once the provider is heard of.
func (r *Registry) aging(p guild.Provider, i identity, to guild.ProviderState, at time.Time) due.Work {
	key := string(to) + " " + i.String() + " " + at.UTC().Format(time.RFC3339)
	return r.fold.turn(key, p, to, at, "not heard of since "+at.Add(-map[guild.ProviderState]time.Duration{
		guild.Stale: staleAfter, guild.Archived: archivedAfter}[to]).UTC().Format(time.DateOnly))
}

// known lists the providers that something was decided about and that are not removed.
func (f *Fold) known() []guild.Provider {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var all []guild.Provider
	for _, p := range f.state.Providers {
		if !f.state.Blocked[p.Service.PubKey.Hex()] {
			all = append(all, p)
		}
	}
	return all
}

// awake is where a provider goes that is heard of again: back to where it was if it had proven itself.
func (f *Fold) awake(p guild.Provider) guild.ProviderState {
	f.mu.RLock()
	defer f.mu.RUnlock()
	was := f.state.Was[identify(p.Service)]
	if p.State == guild.Stale && slices.Contains([]guild.ProviderState{guild.Active, guild.Conditional}, was) {
		return was
	}
	return guild.Seen
}
