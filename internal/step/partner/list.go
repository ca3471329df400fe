package partner

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
)

// Services lists the services about which something was decided, in no order.
func (f *Fold) Services() []guild.Service {
	return f.list(func(r record) bool { return r.State != "" })
}

// Known lists the services with facts, including those that were only asked, in no order.
func (f *Fold) Known() []guild.Service { return f.list(func(record) bool { return true }) }

func (f *Fold) list(wanted func(record) bool) (all []guild.Service) {
	records := f.records()
	for _, r := range records.All() {
		if wanted(r) {
			all = append(all, r.Service)
		}
	}
	return all
}

// Dealt lists the keys of at most max providers with decided services, in the order of the keys. If there are too many,
// those that may get work are preferred.
func (f *Fold) Dealt(max int) []nostr.PubKey {
	var eligible, others []nostr.PubKey
	f.View(func(st *state) {
		for _, r := range st.Services.All() {
			switch r.State {
			case "", guild.Removed, guild.Archived:
			case guild.Active, guild.Conditional, guild.Warned, guild.Reduced, guild.Benchmarking:
				eligible = append(eligible, r.Service.PubKey)
			default:
				others = append(others, r.Service.PubKey)
			}
		}
	})
	eligible, others = unique(eligible), unique(others)
	others = slices.DeleteFunc(others, func(key nostr.PubKey) bool {
		_, found := slices.BinarySearchFunc(eligible, key, compareKeys)
		return found
	})
	eligible = eligible[:min(len(eligible), max)]
	return unique(append(eligible, others[:min(len(others), max-len(eligible))]...))
}

// unique sorts keys and removes duplicates.
func unique(keys []nostr.PubKey) []nostr.PubKey {
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys)
}

func compareKeys(a, b nostr.PubKey) int { return slices.Compare(a[:], b[:]) }
