package activity

import (
	"cmp"
	"maps"
	"slices"

	"guild/nook"
)

// look calls what with the account of a root, which must only read; of a root without activity it is an empty one. An account
// whose computation waits completes it first, under the lock of writers.
func (f *Fold) look(root string, what func(*nook.Account)) {
	var account *nook.Account
	done := false
	f.View(func(s *state) {
		account = s.accounts[root]
		if done = account == nil || account.Settled(); done {
			what(cmp.Or(account, nook.New(root)))
		}
	})
	if !done {
		f.Change(func(s *state) { what(cmp.Or(s.accounts[root], nook.New(root))) })
	}
}

func (f *Fold) has(root, id string) (yes bool) {
	f.look(root, func(a *nook.Account) { yes = a.Has(id) })
	return yes
}

func (f *Fold) empty(root string) (yes bool) {
	f.look(root, func(a *nook.Account) { yes = a.IsEmpty() })
	return yes
}

func (f *Fold) changes() (n int) {
	f.View(func(s *state) { n = s.changes })
	return n
}

// count returns how many events of a root count.
func (f *Fold) count(root string) (n int64) {
	f.look(root, func(a *nook.Account) {
		for _, g := range a.Agents(0) {
			n += g.Events
		}
	})
	return n
}

func (f *Fold) pulse(root, agent string) (p nook.Pulse) {
	f.look(root, func(a *nook.Account) { p = a.Pulse(agent) })
	return p
}

func (f *Fold) mayEvolve(root, choice string) (err error) {
	f.look(root, func(a *nook.Account) { err = a.MayEvolve(choice) })
	return err
}

// roots returns the root identities that have activity, sorted, Own first.
func (f *Fold) roots() (all []string) {
	f.View(func(s *state) {
		all = slices.DeleteFunc(slices.Sorted(maps.Keys(s.accounts)), func(root string) bool { return root == Own })
	})
	return slices.Insert(all, 0, Own)
}
