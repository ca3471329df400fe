package journal

import (
	"slices"

	"guild"
)

// claims compares claims about the tree with the tree as it grows.
type claims struct {
	size  uint64
	peaks []guild.Hash

	expected []expected

	// The right edge of the tree over the first from entries, which the last seal that holds was about, and the leaves since
	// then. The next seal is about a later tree, so earlier leaves are not needed.
	base   []guild.Hash
	from   uint64
	leaves []guild.Hash

	hold    int    // number of seals and firm claims that hold
	covered uint64 // the largest size of these
	broken  bool   // a claim does not hold
	vouched uint64 // the largest size of the firm claims that hold
}

// expected is a claim that is not from an entry.
type expected struct {
	Claim
	firm bool // it is kept where somebody who can change the entries cannot change it
}

func (c *claims) expect(claim Claim, firm bool) {
	if claim.Size > 0 {
		c.expected = append(c.expected, expected{claim, firm})
	}
}

// add adds the next leaf, and calls made with each new hash of the tree.
func (c *claims) add(leaf guild.Hash, made func(guild.Hash)) {
	c.size++
	c.peaks = growing(c.peaks, leaf, c.size, made)
	c.leaves = append(c.leaves, leaf)
}

// settle checks the expected claims about the present size, and returns those that do not hold.
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

// beyond returns the expected claim with the largest size, if the tree is smaller.
func (c *claims) beyond() (most Claim, ok bool) {
	for _, e := range c.expected {
		if e.Size > max(c.size, most.Size) {
			most, ok = e.Claim, true
		}
	}
	return most, ok
}

// holds reports whether a claim of the latest entry about those before it holds. Claims must come with growing sizes.
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

// edge returns the right edge of the tree at a size from c.from on.
func (c *claims) edge(size uint64) []guild.Hash {
	return growAll(slices.Clone(c.base), c.from, c.leaves[:size-c.from])
}

// rootAt returns the root of the tree at a size, if that is still known.
func (c *claims) rootAt(size uint64) (guild.Hash, bool) {
	if size < c.from || size > c.size {
		return guild.Hash{}, false
	}
	return rootOf(c.edge(size)), true
}
