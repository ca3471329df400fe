package partner

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
)

// Dealt lists the providers about whose services something was decided, each once and in the order of their keys, at
// most max of them: those first that may get work.
func (f *Fold) Dealt(max int) []nostr.PubKey {
	var near, far []nostr.PubKey
	f.View(func(st *state) {
		for _, p := range st.Services.All() {
			switch p.State {
			case "", guild.Removed, guild.Archived:
			case guild.Active, guild.Conditional, guild.Warned, guild.Reduced, guild.Benchmarking:
				near = append(near, p.Service.PubKey)
			default:
				far = append(far, p.Service.PubKey)
			}
		}
	})
	near, far = keys(near), keys(far)
	far = slices.DeleteFunc(far, func(key nostr.PubKey) bool {
		_, twice := slices.BinarySearchFunc(near, key, compare)
		return twice
	})
	near = near[:min(len(near), max)]
	return keys(append(near, far[:min(len(far), max-len(near))]...))
}

func keys(all []nostr.PubKey) []nostr.PubKey {
	slices.SortFunc(all, compare)
	return slices.Compact(all)
}

func compare(a, b nostr.PubKey) int { return slices.Compare(a[:], b[:]) }
