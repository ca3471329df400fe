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

// holes finds out which guards lost entries, so that a repair can put them into quarantine.
//
// The guard of a lost entry is known if its bytes still tell: by the hash of the entry before it, which is that of the
// last entry under some guard, or by its subject. Else the first entry kept after it under the same guard tells, because
// it names an entry that is not there. What is left over may have been the last entry of any guard, so then every guard
// counts that has no later entry and under which something may still follow.
type holes struct {
	gaps    []gap
	breaks  []hole
	told    map[uint64]bool // lost entries that an earlier repair tells of
	sighted []sighting      // what can still be read of entries since the last one that was kept
}

// gap is a run of lost entries.
type gap struct {
	from, through uint64
	guards        []fact.Subject // of those whose guard is known
}

// hole is an entry that names another than the last kept one under its guard.
type hole struct {
	guard         fact.Subject
	after, before uint64 // the entries kept on both sides
	named         bool   // by an earlier repair
}

// sighting holds the legible parts of a damaged entry.
type sighting struct {
	seq     uint64       // 0 for the first one in a stretch of bytes
	subject fact.Subject // "" if not legible
	prev    string       // "" if not legible, or if it was the first under its guard
}

// lose notes that the entries from one sequence through another are lost, of which something may have been sighted. c is
// the chain before them.
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

// keep takes note of an entry that is kept. c is the chain before it.
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

// guards lists the guards that have a hole, or may have one, sorted. finished says of a guard that nothing follows under
// it that matters.
func (h *holes) guards(c *chain, finished func(fact.Subject) bool) []fact.Subject {
	found := make(map[fact.Subject]bool)
	unknown := make([]int, len(h.gaps)) // entries of each gap of which the guard is not known
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
	}
	last := h.lastUnknown(unknown)
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

// lastUnknown is the last entry that may be one of which the guard is not known.
func (h *holes) lastUnknown(unknown []int) (last uint64) {
	for i, g := range h.gaps {
		if unknown[i] > 0 {
			last = max(last, g.through)
		}
	}
	return last
}

// account takes one entry off those of which the guard is not known, because one was of this guard: they are as many as
// there are breaks, or some are left over.
func (h *holes) account(b hole, unknown []int) {
	within := func(g gap) bool { return b.after < g.from && g.through < b.before }
	if slices.ContainsFunc(h.gaps, func(g gap) bool { return within(g) && slices.Contains(g.guards, b.guard) }) {
		return // that one is known
	}
	for i, g := range h.gaps {
		if within(g) && unknown[i] > 0 {
			unknown[i]--
			return
		}
	}
}

// suspect adds the guards that an entry through last may have been of: those without a later entry, unless they are
// finished, and those that lost one before, which hides whether they lost another.
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

// sightings reads what is legible in a stretch of bytes that is no whole record. It begins where a record began, for
// what is before it is whole; where others began in it, shows their head.
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

// subjectAt reads the guard in the head of a record, "" if there is none.
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

// prevIn reads which entry an encoded entry names as the one before it.
func prevIn(b []byte) string {
	_, rest, ok := bytes.Cut(b, []byte(`"prev":"`))
	size := hex.EncodedLen(len(guild.Hash{}))
	if !ok || len(rest) < size {
		return ""
	}
	return string(rest[:size])
}
