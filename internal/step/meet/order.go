package meet

import (
	"cmp"
	"slices"

	"guild"
)

// newcomer is a service that could be met now.
type newcomer struct {
	guild.Offer
	task   string
	met    bool        // its key was met before
	since  int64       // Unix ms: when it was first seen or, if later, when its last meeting ended
	rating guild.Trust // see Config.Said
}

// least is the least proof of work that counts, in bits: about a second of one processor core.
const least = 20

// class is a group of newcomers with its own order.
type class struct {
	name string
	has  func(*newcomer) bool
	less func(a, b *newcomer) int // ties are resolved by chance
}

// classes are served in turn. Keys are free, so that somebody may announce any number of services that never answer.
// They delay only the classes that they are in: nobody gets the signature of a followed key by numbers, more work costs
// more for each key, and keys that come later wait longer. A newcomer may be in several classes. The turn of an empty
// class goes to the next one.
var classes = []class{
	{"recommended", (*newcomer).recommended, func(a, b *newcomer) int {
		return cmp.Or(unmetFirst(a, b), -cmp.Compare(a.Confidence, b.Confidence), -cmp.Compare(a.Recommended, b.Recommended), -cmp.Compare(a.rating, b.rating))
	}},
	{"waiting", func(*newcomer) bool { return true }, func(a, b *newcomer) int { return cmp.Compare(a.since, b.since) }},
	{"work", func(n *newcomer) bool { return n.Work >= least }, func(a, b *newcomer) int {
		return cmp.Or(unmetFirst(a, b), -cmp.Compare(a.Work, b.Work), -cmp.Compare(a.Confidence, b.Confidence))
	}},
	{"chance", func(*newcomer) bool { return true }, func(a, b *newcomer) int {
		return cmp.Or(unmetFirst(a, b), -cmp.Compare(a.Confidence, b.Confidence))
	}},
}

// recommended reports whether the owner follows the key, a followed key recommends it (NIP-89, kind 31989), or the
// reviews that count rate it above the mean.
func (n *newcomer) recommended() bool {
	return n.Followed || n.Recommended > 0 || n.rating > guild.Micro/2
}

// unmetFirst puts keys that were never met before the others.
func unmetFirst(a, b *newcomer) int {
	switch {
	case a.met == b.met:
		return 0
	case b.met:
		return -1
	}
	return 1
}

// next returns the newcomer to meet after a number of meetings with newcomers, or nil if all is empty. chance returns a
// secret pseudo-random number of a service, which decides between equals.
func next(all []newcomer, meetings int, chance func(guild.Service) guild.Hash) (first *newcomer) {
	for i := range classes {
		c := classes[(meetings+i)%len(classes)]
		for i := range all {
			n := &all[i]
			if c.has(n) && (first == nil || c.before(n, first, chance)) {
				first = n
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}

// before reports whether a is met before b in a class.
func (c class) before(a, b *newcomer, chance func(guild.Service) guild.Hash) bool {
	if order := c.less(a, b); order != 0 {
		return order < 0
	}
	x, y := chance(a.Service), chance(b.Service)
	return slices.Compare(x[:], y[:]) < 0
}
