package journal

import (
	"slices"

	"guild"
)

// claims holds what is said of the tree against the tree as it grows.
type claims struct {
	size  uint64
	peaks []guild.Hash

	expected []expected // said from outside, and not yet reached

	// The tree that the entries were last said to be, and held to, and the leaves since then: what an entry says is always
	// of a later one.
	base   []guild.Hash
	from   uint64
	leaves []guild.Hash

	hold    int    // how many of those hold that have a name to lose
	covered uint64 // the largest of them
	broken  bool   // one does not
	vouched uint64 // the largest firm one that holds
}

// expected is a claim from outside the entries.
type expected struct {
	Claim
	firm bool // whoever can change the entries cannot change it
}

func (c *claims) expect(claim Claim, firm bool) {
	if claim.Size > 0 {
		c.expected = append(c.expected, expected{claim, firm})
	}
}

// add takes the next leaf, and tells of every hash that the tree gets.
func (c *claims) add(leaf guild.Hash, made func(guild.Hash)) {
	c.size++
	c.peaks = growing(c.peaks, leaf, c.size, made)
	c.leaves = append(c.leaves, leaf)
}

// settle returns the expected claims about the tree as it is now that do not hold.
func (c *claims) settle() (wrong []Claim) {
	if !slices.ContainsFunc(c.expected, func(e expected) bool { return e.Size == c.size }) {
		return nil
	}
	root := rootOf(c.peaks)
	for _, e := range c.expected {
		switch {
		case e.Size != c.size:
		case e.Root != root:
			wrong = append(wrong, e.Claim)
		case e.firm:
			c.vouched = e.Size
			if !c.broken {
				c.hold, c.covered = c.hold+1, max(c.covered, e.Size)
			}
		}
	}
	return wrong
}

// beyond is the expected claim about the most entries, if those are not there.
func (c *claims) beyond() (most Claim, ok bool) {
	for _, e := range c.expected {
		if e.Size > max(c.size, most.Size) {
			most, ok = e.Claim, true
		}
	}
	return most, ok
}

// holds reports whether what the latest entry claims about those before it is so. A later claim is about more entries.
func (c *claims) holds(claim Claim) bool {
	if claim.Size >= c.size || claim.Size < c.from {
		return false
	}
	peaks := c.edge(claim.Size)
	if rootOf(peaks) != claim.Root {
		return false
	}
	if !c.broken {
		c.hold, c.covered = c.hold+1, max(c.covered, claim.Size)
	}
	c.leaves = slices.Clone(c.leaves[claim.Size-c.from:])
	c.base, c.from = peaks, claim.Size
	return true
}

// edge is the right edge of the tree as it was at a size, not before base.
func (c *claims) edge(size uint64) []guild.Hash {
	return growAll(slices.Clone(c.base), c.from, c.leaves[:size-c.from])
}

// rootAt is the root of the tree as it was at a size, if that is still known.
func (c *claims) rootAt(size uint64) (guild.Hash, bool) {
	if size < c.from || size > c.size {
		return guild.Hash{}, false
	}
	return rootOf(c.edge(size)), true
}
