package activity

import (
	"cmp"
	"maps"
	"slices"

	"guild/nook"
)

// look returns what read says of the account of a root; of a root without activity it is an empty one. An account whose
// computation waits completes it first, under the lock of writers.
func look[T any](f *Fold, root string, read func(*nook.Account) T) (got T) {
	done := false
	f.View(func(s *state) {
		account := cmp.Or(s.accounts[root], nook.New(root))
		if done = account.Settled(); done {
			got = read(account)
		}
	})
	if !done {
		f.Change(func(s *state) { got = read(cmp.Or(s.accounts[root], nook.New(root))) })
	}
	return got
}

func (f *Fold) empty(root string) bool { return look(f, root, (*nook.Account).IsEmpty) }

func (f *Fold) changes() (n int) {
	f.View(func(s *state) { n = s.changes })
	return n
}

// count returns how many events of a root count.
func (f *Fold) count(root string) int64 {
	return look(f, root, func(a *nook.Account) (n int64) {
		for _, g := range a.Agents(0) {
			n += g.Events
		}
		return n
	})
}

// roots returns the root identities that have activity, sorted, Own first.
func (f *Fold) roots() (all []string) {
	f.View(func(s *state) {
		all = slices.DeleteFunc(slices.Sorted(maps.Keys(s.accounts)), func(root string) bool { return root == Own })
	})
	return slices.Insert(all, 0, Own)
}
