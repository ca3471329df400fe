package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"

	"guild"
	"guild/internal/journal/fact"
)

// holes finds the guards that lost entries, so that a repair can put them into quarantine.
//
// The guard of a lost entry is found in one of three ways:
//   - Parts of its bytes can be read: the hash of the entry before it, which is the last one under some guard, or its subject.
//   - The first entry kept after it under the same guard names an entry that is not there. Such an entry is a break.
//   - Neither. Then it may have been the last entry of any guard. All guards are suspected that have no later entry, except
//     finished ones.
type holes struct {
	gaps    []gap
	breaks  []hole
	told    map[uint64]bool // lost entries that an earlier repair lists
	sighted []sighting      // parts of entries that were found since the last kept one
}

// gap is a run of lost entries.
type gap struct {
	from, through uint64
	guards        []fact.Subject // of the entries whose bytes show the guard
}

// hole is a break: a kept entry that does not name the last kept one under its guard.
type hole struct {
	guard         fact.Subject
	after, before uint64 // the kept entries on both sides of it
	named         bool   // an earlier repair names the guard
}

// sighting is the readable part of a damaged entry.
type sighting struct {
	seq     uint64       // 0 if unknown
	subject fact.Subject // "" if unknown
	prev    string       // "" if unknown, or if it was the first under its guard
}

// lose notes that the entries from one sequence through another are lost, and uses what was sighted of them. c is the chain
// before them.
func (h *holes) lose(c *chain, from, through uint64) {
	g := gap{from: from, through: through}
	if len(h.sighted) > 0 {
		after := make(map[string]fact.Subject, c.tips.Len())
		for subject, t := range c.tips.All() {
			after[t.prev()] = subject
		}
		for _, s := range h.sighted {
			if s.seq != 0 && (s.seq < from || s.seq > through) {
				continue
			}
			guard, ok := after[s.prev]
			if !ok && (c.tips.Has(s.subject) || slices.Contains(g.guards, s.subject) || s.subject != "" && s.prev == "") {
				guard, ok = s.subject, true
			}
			if ok && guard != lostSubject {
				g.guards = append(g.guards, guard)
			}
		}
	}
	h.gaps, h.sighted = append(h.gaps, g), nil
}

// keep notes a kept entry. c is the chain before it.
func (h *holes) keep(c *chain, m message) {
	if c.breaks(m) {
		h.breaks = append(h.breaks, hole{guard: m.subject, after: c.tips.Of(m.subject).seq, before: m.seq})
	}
	for _, f := range m.entry.Facts {
		repaired, ok := f.(fact.JournalRepaired)
		if !ok {
			continue
		}
		for _, seq := range repaired.Dropped {
			h.told[seq] = true
		}
		for i := range h.breaks {
			h.breaks[i].named = h.breaks[i].named || slices.Contains(repaired.Quarantined, h.breaks[i].guard)
		}
	}
}

// guards returns the guards that lost entries, or may have, sorted. finished, which may be nil, reports whether a lost entry of
// a guard would not matter.
func (h *holes) guards(c *chain, finished func(fact.Subject) bool) []fact.Subject {
	found := make(map[fact.Subject]bool)
	unknown := make([]int, len(h.gaps)) // number of entries in each gap whose guard is unknown
	var last uint64                     // of the last gap with such an entry
	for i, g := range h.gaps {
		for _, guard := range g.guards {
			found[guard] = true
		}
		for seq := g.from; seq <= g.through; seq++ {
			if !h.told[seq] {
				unknown[i]++
			}
		}
		unknown[i] = max(0, unknown[i]-len(g.guards))
		if unknown[i] > 0 {
			last = max(last, g.through)
		}
	}
	for _, b := range h.breaks {
		if !b.named {
			found[b.guard] = true
			h.account(b, unknown)
		}
	}
	if slices.ContainsFunc(unknown, func(n int) bool { return n > 0 }) {
		h.suspect(c, last, finished, found)
	}
	return slices.Sorted(maps.Keys(found))
}

// account attributes one of the unknown entries in the gaps of a break to the guard of the break, unless the bytes of an entry
// have shown that guard already. If unknown entries are left after all breaks, guards are suspected.
func (h *holes) account(b hole, unknown []int) {
	within := func(g gap) bool { return b.after < g.from && g.through < b.before }
	if slices.ContainsFunc(h.gaps, func(g gap) bool { return within(g) && slices.Contains(g.guards, b.guard) }) {
		return
	}
	for i, g := range h.gaps {
		if within(g) && unknown[i] > 0 {
			unknown[i]--
			return
		}
	}
}

// suspect adds the guards that an unknown entry through last may have been of: those without a later entry, unless they are
// finished, and those with a break, since a break may stand for several lost entries.
func (h *holes) suspect(c *chain, last uint64, finished func(fact.Subject) bool, found map[fact.Subject]bool) {
	for guard, t := range c.tips.All() {
		if t.seq < last && !own(guard) && (finished == nil || !finished(guard)) {
			found[guard] = true
		}
	}
	for _, b := range h.breaks {
		found[b.guard] = true
	}
}

// sightings reads what can be read in bytes that are not a whole record. They begin with a record, since what is before them
// is whole; others in them are found by their heads.
func sightings(b []byte) (found []sighting) {
	for len(b) > 0 {
		end := 1
		for end < len(b) && subjectAt(b[end:]) == "" {
			end++
		}
		s := sighting{subject: subjectAt(b), prev: prevIn(b[:end])}
		if len(found) > 0 {
			s.seq = binary.LittleEndian.Uint64(b[4:]) &^ erasedBits
		}
		found, b = append(found, s), b[end:]
	}
	return found
}

// subjectAt returns the guard in the head of the record at the start of b, "" if there is none.
func subjectAt(b []byte) fact.Subject {
	if len(b) < recordHead || !bytes.HasPrefix(b[recordHead:], []byte(factsPrefix)) {
		return ""
	}
	size := int(binary.LittleEndian.Uint16(b[recordHead-2:]))
	if size > len(b)-recordHead {
		return ""
	}
	guard := guardOf(string(b[recordHead : recordHead+size]))
	if checkSubject(guard) != nil {
		return ""
	}
	return guard
}

// prevIn returns the Prev in the bytes of an encoded entry, "" if there is none.
func prevIn(b []byte) string {
	_, rest, ok := bytes.Cut(b, []byte(`"prev":"`))
	size := hex.EncodedLen(len(guild.Hash{}))
	if !ok || len(rest) < size {
		return ""
	}
	return string(rest[:size])
}
