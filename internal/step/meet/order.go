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
	chance guild.Hash  // pseudo-random, and secret
}

// least is the least proof of work that counts, in bits: about a second of one processor core.
const least = 20

// class is a group of newcomers with its own order.
type class struct {
	name string
	has  func(newcomer) bool
	less func(a, b newcomer) int // ties are resolved by chance
}

// classes are served in turn. Keys are free, so that somebody may announce any number of services that never answer.
// They delay only the classes that they are in: nobody gets the signature of a followed key by numbers, more work costs
// more for each key, and keys that come later wait longer. A newcomer may be in several classes. The turn of an empty
// class goes to the next one.
var classes = []class{
	{"recommended", newcomer.recommended, func(a, b newcomer) int {
		return cmp.Or(unmetFirst(a, b), -cmp.Compare(a.Confidence, b.Confidence), -cmp.Compare(a.Recommended, b.Recommended), -cmp.Compare(a.rating, b.rating))
	}},
	{"work", func(n newcomer) bool { return n.Work >= least }, func(a, b newcomer) int {
		return cmp.Or(unmetFirst(a, b), -cmp.Compare(a.Work, b.Work), -cmp.Compare(a.Confidence, b.Confidence))
	}},
	{"waiting", func(newcomer) bool { return true }, func(a, b newcomer) int { return cmp.Compare(a.since, b.since) }},
	{"chance", func(newcomer) bool { return true }, func(a, b newcomer) int {
		return cmp.Or(unmetFirst(a, b), -cmp.Compare(a.Confidence, b.Confidence))
	}},
}

// recommended reports whether the owner follows the key, a followed key recommends it (NIP-89, kind 31989), or the
// reviews that count rate it above the mean.
func (n newcomer) recommended() bool {
	return n.Followed || n.Recommended > 0 || n.rating > guild.Micro/2
}

// unmetFirst puts keys that were never met before the others.
func unmetFirst(a, b newcomer) int {
	switch {
	case a.met == b.met:
		return 0
	case b.met:
		return -1
	}
	return 1
}

// next returns the newcomer to meet after a number of meetings with newcomers; ok is false if all is empty.
func next(all []newcomer, meetings int) (first newcomer, ok bool) {
	for i := range classes {
		c := classes[(meetings+i)%len(classes)]
		for _, n := range all {
			if c.has(n) && (!ok || c.before(n, first)) {
				first, ok = n, true
			}
		}
		if ok {
			return first, true
		}
	}
	return first, false
}

// before reports whether a is met before b in a class.
func (c class) before(a, b newcomer) bool {
	return cmp.Or(c.less(a, b), slices.Compare(a.chance[:], b.chance[:])) < 0
}
