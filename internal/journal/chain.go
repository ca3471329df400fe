package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// The name and version under which snapshots of the chain are kept.
const (
	chainName    = "journal"
	chainVersion = 2
)

// chain is the journal's own fold: the last entry under each guard, and a Merkle tree over all entries (RFC 6962, as in
// golang.org/x/mod/sumdb/tlog), of which only the right edge is kept.
//
// The two protect the history in different ways. Each entry has the hash of the one before it under its guard, so an entry
// cannot be changed or removed without changing those after it; that is local, and costs a lookup. The root of the tree
// covers everything in 32 bytes, so it can be kept elsewhere: in the mark, in snapshots, in archives and in public seals.
type chain struct {
	last     uint64     // sequence of the last entry
	leaf     guild.Hash // its hash in the tree
	at       int64      // the latest time of any entry, Unix ms
	archived uint64     // the last archived entry, according to the last journal.archived
	tips     fold.Table[fact.Subject, tip]
	held     fold.Table[fact.Subject, uint64] // guards in quarantine, each with the entry that put it there, or forGood if it was closed
	peaks    []guild.Hash                     // the right edge: roots of the full subtrees, the widest first

	holes map[fact.Subject]uint64 // guards that lost entries and that no repair has named yet, each with the next entry
}

// tip is the last entry under a guard.
type tip struct {
	seq  uint64
	at   int64      // Unix ms
	hash guild.Hash // of the entry as encoded
}

// forGood stands in chain.held for a guard that was closed in quarantine.
const forGood = 0

// message is an entry in its stored form and decoded.
type message struct {
	seq     uint64
	subject fact.Subject
	data    []byte
	entry   fact.Entry
}

// prev returns the Prev of the next entry under the guard.
func (t tip) prev() string {
	if t.hash.IsZero() {
		return ""
	}
	return t.hash.Hex()
}

// errChain means that an entry does not name the last one under its guard.
var errChain = errors.New("does not fit the entry before it")

// fits returns an error if m cannot be the next new entry.
func (c *chain) fits(m message) error {
	if err := c.follows(m); err != nil {
		return err
	}
	if c.breaks(m) {
		return damaged("entry %d of %s %v", m.seq, m.subject, errChain)
	}
	return nil
}

// follows returns an error if m cannot be the next entry of a history that was repaired. Such an entry may name one that is
// lost, if an entry was lost since the last one under its guard. At the end of the history, explained checks that a repair
// says that it was of this guard.
func (c *chain) follows(m message) error {
	if m.seq != c.last+1 {
		return damaged("entry %d is followed by entry %d", c.last, m.seq)
	}
	if c.breaks(m) && c.tips.Of(lostSubject).seq <= c.tips.Of(m.subject).seq {
		return damaged("entry %d of %s %v", m.seq, m.subject, errChain)
	}
	return nil
}

// breaks reports whether m does not name the last entry under its guard.
func (c *chain) breaks(m message) bool { return m.entry.Prev != c.tips.Of(m.subject).prev() }

// explained returns an error unless repairs have named every guard that lost entries.
func (c *chain) explained() error {
	for guard, seq := range c.holes {
		return damaged("entry %d of %s %v, and no repair says why", seq, guard, errChain)
	}
	return nil
}

// add applies the next entry, which follows.
func (c *chain) add(m message) {
	if c.breaks(m) {
		if c.holes == nil {
			c.holes = make(map[fact.Subject]uint64)
		}
		c.holes[m.subject] = m.seq
	}
	c.last, c.leaf = m.seq, leafOf(m.subject, m.data)
	c.at = max(c.at, m.entry.At)
	c.tips.Set(m.subject, tip{m.seq, m.entry.At, guild.Sum(m.data)})
	c.peaks = grow(c.peaks, c.leaf, m.seq)
	if m.subject == fact.JournalSubject {
		c.note(m.entry)
	} else if closes(m.entry) {
		c.held.Set(m.subject, forGood)
	}
}

func closes(e fact.Entry) bool {
	return slices.ContainsFunc(e.Facts, func(f fact.Fact) bool { _, ok := f.(fact.JournalClosed); return ok })
}

// note applies the facts about the journal itself.
func (c *chain) note(e fact.Entry) {
	for _, f := range e.Facts {
		switch f := f.(type) {
		case fact.JournalArchived:
			c.archived = f.Through
		case fact.JournalRepaired:
			for _, guard := range f.Quarantined {
				delete(c.holes, guard)
				if !own(guard) && !c.closed(guard) {
					c.held.Set(guard, e.Seq)
				}
			}
		case fact.JournalReleased:
			c.held.Delete(f.Guard)
		}
	}
}

// closed reports whether a guard was closed in quarantine.
func (c *chain) closed(guard fact.Subject) bool {
	by, held := c.held.Get(guard)
	return held && by == forGood
}

// own reports whether a guard is one of the journal itself. Such a guard is never put into quarantine: its decisions have no
// effect outside, and without it no guard could be released.
func own(guard fact.Subject) bool { return guard.Noun() == fact.JournalSubject.Noun() }

// root returns the root of the tree over all entries.
func (c *chain) root() guild.Hash { return rootOf(c.peaks) }

// rootOf returns the root of the tree with the given right edge.
func rootOf(peaks []guild.Hash) guild.Hash {
	if len(peaks) == 0 {
		return guild.Hash{}
	}
	h := tlog.Hash(peaks[len(peaks)-1])
	for _, peak := range slices.Backward(peaks[:len(peaks)-1]) {
		h = tlog.NodeHash(tlog.Hash(peak), h)
	}
	return guild.Hash(h)
}

// clone returns a copy, in a time that does not depend on the number of guards.
func (c *chain) clone() *chain {
	copied := *c
	copied.tips, copied.held = c.tips.Clone(), c.held.Clone()
	copied.peaks = slices.Clone(c.peaks)
	return &copied
}

// leafOf returns the hash of an entry in the tree: seal.Leaf of its guard, a newline, and the encoded entry.
func leafOf(subject fact.Subject, data []byte) guild.Hash {
	const isLeaf = 0 // as in tlog.RecordHash, for which all of it would have to be copied into one slice
	h := sha256.New()
	h.Write([]byte{isLeaf})
	h.Write([]byte(subject))
	h.Write([]byte{'\n'})
	h.Write(data)
	return guild.Hash(h.Sum(nil))
}

// grow adds the leaf of the entry seq to the right edge. Two full subtrees of the same width become one.
func grow(peaks []guild.Hash, leaf guild.Hash, seq uint64) []guild.Hash {
	return growing(peaks, leaf, seq, func(guild.Hash) {})
}

// growAll adds leaves to the right edge of the tree over the first size entries.
func growAll(peaks []guild.Hash, size uint64, leaves []guild.Hash) []guild.Hash {
	for i, leaf := range leaves {
		peaks = grow(peaks, leaf, size+uint64(i)+1)
	}
	return peaks
}

// growing is grow, and calls made with each new hash of the tree: the leaf, and then the root of each subtree that it fills,
// the smallest first.
func growing(peaks []guild.Hash, leaf guild.Hash, seq uint64, made func(guild.Hash)) []guild.Hash {
	made(leaf)
	for n := seq - 1; n&1 == 1; n >>= 1 {
		leaf = guild.Hash(tlog.NodeHash(tlog.Hash(peaks[len(peaks)-1]), tlog.Hash(leaf)))
		made(leaf)
		peaks = peaks[:len(peaks)-1]
	}
	return append(peaks, leaf)
}

// encode returns the chain for a snapshot: numbers as varints, hashes as bytes, strings with their length.
func (c *chain) encode() []byte {
	b := make([]byte, 0, 64+c.tips.Len()*128)
	for _, n := range []uint64{c.last, uint64(c.at), c.archived, uint64(len(c.peaks)), uint64(c.held.Len())} {
		b = binary.AppendUvarint(b, n)
	}
	b = append(b, c.leaf[:]...)
	for _, peak := range c.peaks {
		b = append(b, peak[:]...)
	}
	for guard, seq := range c.held.All() {
		b = appendText(b, string(guard))
		b = binary.AppendUvarint(b, seq)
	}
	for subject, t := range c.tips.All() {
		b = appendText(b, string(subject))
		b = binary.AppendUvarint(b, t.seq)
		b = binary.AppendUvarint(b, uint64(t.at))
		b = append(b, t.hash[:]...)
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// decodeChain reads what encode wrote.
func decodeChain(b []byte) (*chain, error) {
	r := chainReader{rest: b}
	c := &chain{}
	c.last, c.at, c.archived = r.number(), int64(r.number()), r.number()
	peaks, held := r.number(), r.number()
	c.leaf = r.hash()
	for ; peaks > 0 && !r.bad; peaks-- {
		c.peaks = append(c.peaks, r.hash())
	}
	for ; held > 0 && !r.bad; held-- {
		guard := r.text()
		c.held.Set(fact.Subject(guard), r.number())
	}
	for len(r.rest) > 0 && !r.bad {
		subject := r.text()
		c.tips.Set(fact.Subject(subject), tip{r.number(), int64(r.number()), r.hash()})
	}
	if r.bad {
		return nil, errors.New("chain: incomplete")
	}
	return c, nil
}

// chainReader reads values from the start of rest. Once a value is missing, bad is set and stays so.
type chainReader struct {
	rest []byte
	bad  bool
}

func (r *chainReader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *chainReader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *chainReader) text() string { return string(r.bytes(r.number())) }

func (r *chainReader) hash() (h guild.Hash) {
	copy(h[:], r.bytes(sha256.Size))
	return h
}
