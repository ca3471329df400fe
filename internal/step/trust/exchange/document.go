package exchange

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/journal/fact"
)

// Limits of a document that another guild wrote.
const (
	MaxDocument = 32 << 20 // bytes
	maxEntries  = 100_000  // of each of its lists
	maxSiblings = 16       // of one entry
	maxGuilds   = 64       // in one clock
	maxTask     = fact.MaxTask
	maxD        = 1024    // bytes
	maxCount    = 1 << 53 // of a clock: the largest integer that every reader of JSON can hold
	maxFactor   = 100 * guild.Micro
	maxAtOnce   = 1000
)

// Document contains the trust that a guild exports to others (the partnership protocol, section 5.5.2). Each value has
// the vector clock of its guild at that time. Values that were set without knowledge of each other are siblings and are
// all kept, because only sets of values can be merged in any order. The reader decides which of the siblings counts:
// the lowest trust, the longest timeout, the lowest parallelism.
type Document struct {
	Version     int                `json:"version"`
	Guild       string             `json:"guild"`       // the exporter's public key in hex; "" for a merger of several
	Entries     []TrustEntry       `json:"entries"`     // sorted by task, key and d
	Timeouts    []TimeoutEntry     `json:"timeouts"`    // sorted by task
	Parallelism []ParallelismEntry `json:"parallelism"` // sorted by key
}

// TrustEntry is the trust in one service for one task, in micro-units. The value 0 withdraws an earlier one. Trust in
// force is never that low.
type TrustEntry struct {
	Task     string                 `json:"task"`
	PubKey   nostr.PubKey           `json:"pubkey"`
	D        string                 `json:"d"`
	Siblings []fact.VariableSibling `json:"siblings"`
}

// TimeoutEntry is the factor of a task's configured silence, in micro-units.
type TimeoutEntry struct {
	Task     string                 `json:"task"`
	Siblings []fact.VariableSibling `json:"siblings"`
}

// ParallelismEntry is the number of requests that a provider gets at once.
type ParallelismEntry struct {
	PubKey   nostr.PubKey           `json:"pubkey"`
	Siblings []fact.VariableSibling `json:"siblings"`
}

func (e TrustEntry) compare(o TrustEntry) int {
	return cmp.Or(cmp.Compare(e.Task, o.Task), bytes.Compare(e.PubKey[:], o.PubKey[:]), cmp.Compare(e.D, o.D))
}

func (e TimeoutEntry) compare(o TimeoutEntry) int { return cmp.Compare(e.Task, o.Task) }

func (e ParallelismEntry) compare(o ParallelismEntry) int {
	return bytes.Compare(e.PubKey[:], o.PubKey[:])
}

// minimum and maximum resolve siblings. Of two values they return the one to use while guilds disagree.
func minimum(a, b int64) int64 { return min(a, b) }
func maximum(a, b int64) int64 { return max(a, b) }

// Resolve returns the trust that the siblings resolve to, or 0 if all of them are withdrawn.
func (e TrustEntry) Resolve() guild.Trust { return resolveTrust(e.Siblings) }

func resolveTrust(all []fact.VariableSibling) guild.Trust {
	all = slices.DeleteFunc(slices.Clone(all), func(s fact.VariableSibling) bool { return s.Value == 0 })
	if len(all) == 0 {
		return 0
	}
	return guild.Trust(resolveSiblings(all, minimum))
}

// resolveSiblings returns the value that siblings resolve to. There must be at least one.
func resolveSiblings(all []fact.VariableSibling, careful func(a, b int64) int64) int64 {
	value := all[0].Value
	for _, s := range all[1:] {
		value = careful(value, s.Value)
	}
	return value
}

// mergeSiblings returns the values of both lists that are not superseded by another one. It is commutative, associative
// and idempotent.
//
// Two different values with equal clocks cannot come from one history: a guild was restored from a backup, or lies.
// Then the more careful value stays.
func mergeSiblings(a, b []fact.VariableSibling, careful func(a, b int64) int64) []fact.VariableSibling {
	var kept []fact.VariableSibling
	all := slices.Concat(a, b)
	for i, s := range all {
		clock := VectorClock(s.Clock)
		dominated, first := false, true
		for k, o := range all {
			other := VectorClock(o.Clock)
			switch {
			case !other.Dominates(clock):
			case !clock.Dominates(other):
				dominated = true
			case k < i:
				first = false
			default:
				s.Value = careful(s.Value, o.Value)
			}
		}
		if !dominated && first {
			kept = append(kept, s)
		}
	}
	slices.SortFunc(kept, func(a, b fact.VariableSibling) int { return compareClocks(a.Clock, b.Clock) })
	return kept
}

// compareClocks is a total order of clocks. It has no meaning, but makes all guilds write them in the same order.
func compareClocks(a, b VectorClock) int {
	guilds := slices.Collect(maps.Keys(a.Join(b)))
	slices.Sort(guilds)
	for _, g := range guilds {
		if c := cmp.Compare(a[g], b[g]); c != 0 {
			return c
		}
	}
	return 0
}

// joinClocks returns the clock that includes the changes of all siblings.
func joinClocks(all []fact.VariableSibling) VectorClock {
	joined := VectorClock{}
	for _, s := range all {
		joined = joined.Join(s.Clock)
	}
	return joined
}

// Merge returns a document with the knowledge of both. It is commutative, associative and idempotent, and changes
// neither.
func Merge(a, b Document) Document {
	m := Document{Version: documentVersion}
	if a.Guild == b.Guild {
		m.Guild = a.Guild
	}
	m.Entries = mergeEntries(a.Entries, b.Entries, TrustEntry.compare, func(x, y TrustEntry) TrustEntry {
		x.Siblings = mergeSiblings(x.Siblings, y.Siblings, minimum)
		return x
	})
	m.Timeouts = mergeEntries(a.Timeouts, b.Timeouts, TimeoutEntry.compare, func(x, y TimeoutEntry) TimeoutEntry {
		x.Siblings = mergeSiblings(x.Siblings, y.Siblings, maximum)
		return x
	})
	m.Parallelism = mergeEntries(a.Parallelism, b.Parallelism, ParallelismEntry.compare, func(x, y ParallelismEntry) ParallelismEntry {
		x.Siblings = mergeSiblings(x.Siblings, y.Siblings, minimum)
		return x
	})
	return m
}

// mergeEntries merges both lists into one sorted list, with one entry for each key.
func mergeEntries[E any](a, b []E, compare func(E, E) int, merge func(E, E) E) []E {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, compare)
	merged := make([]E, 0, len(all))
	for _, e := range all {
		if last := len(merged) - 1; last >= 0 && compare(merged[last], e) == 0 {
			merged[last] = merge(merged[last], e)
		} else {
			merged = append(merged, e)
		}
	}
	return merged
}

const documentVersion = 1

// Encode returns the document as canonical JSON.
func (d Document) Encode() ([]byte, error) {
	b, err := canon.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("trust document: %w", err)
	}
	if len(b) > MaxDocument {
		return nil, fmt.Errorf("trust document: %d bytes, at most %d", len(b), MaxDocument)
	}
	return b, nil
}

// Decode reads a document that another guild wrote. It refuses the whole document if a part of it is outside the
// limits, not in the order of Encode, or duplicated. The error matches ErrSignature if the document is signed and the
// signature does not verify.
func Decode(b []byte) (Signed, error) {
	d, err := decode(b)
	if err != nil {
		return Signed{}, fmt.Errorf("trust document: %w", err)
	}
	s, err := readSignature(b)
	if err != nil {
		return Signed{}, fmt.Errorf("trust document: %w", err)
	}
	s.Document = d
	return s, nil
}

func decode(b []byte) (Document, error) {
	if len(b) > MaxDocument {
		return Document{}, fmt.Errorf("%d bytes, at most %d", len(b), MaxDocument)
	}
	if !utf8.Valid(b) {
		return Document{}, errors.New("not UTF-8")
	}
	var d Document
	if err := json.Unmarshal(b, &d); err != nil {
		return Document{}, err
	}
	switch {
	case d.Version != documentVersion:
		return Document{}, fmt.Errorf("version %d, want %d", d.Version, documentVersion)
	case d.Guild != "" && !isGuild(d.Guild):
		return Document{}, errors.New("guild: want 64 hex digits")
	case max(len(d.Entries), len(d.Timeouts), len(d.Parallelism)) > maxEntries:
		return Document{}, fmt.Errorf("more than %d entries", maxEntries)
	case !ascending(d.Entries, TrustEntry.compare), !ascending(d.Timeouts, TimeoutEntry.compare), !ascending(d.Parallelism, ParallelismEntry.compare):
		return Document{}, errors.New("entries out of order or repeated")
	}
	for i, e := range d.Entries {
		if err := errors.Join(e.check(), checkForeign(e.Siblings)); err != nil {
			return Document{}, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	for i, e := range d.Timeouts {
		if err := errors.Join(e.check(), checkForeign(e.Siblings)); err != nil {
			return Document{}, fmt.Errorf("timeout %d: %w", i, err)
		}
	}
	for i, e := range d.Parallelism {
		if err := errors.Join(e.check(), checkForeign(e.Siblings)); err != nil {
			return Document{}, fmt.Errorf("parallelism %d: %w", i, err)
		}
	}
	return Merge(d, d), nil // removes superseded and duplicate siblings within an entry
}

func (e TrustEntry) check() error {
	return errors.Join(checkProvider(e.PubKey), checkName(e.Task, 1, maxTask), checkName(e.D, 0, maxD), checkSiblings(e.Siblings, 0, guild.Micro))
}

func (e TimeoutEntry) check() error {
	return errors.Join(checkName(e.Task, 1, maxTask), checkSiblings(e.Siblings, 1, maxFactor))
}

func (e ParallelismEntry) check() error {
	return errors.Join(checkProvider(e.PubKey), checkSiblings(e.Siblings, 1, maxAtOnce))
}

// checkForeign refuses a clock with the key that stands for this guild in rows. In a backup such a clock would become
// this guild's own.
func checkForeign(all []fact.VariableSibling) error {
	for _, s := range all {
		if _, ok := s.Clock[ourselves]; ok {
			return errors.New("a clock names the reserved key")
		}
	}
	return nil
}

// ascending reports whether all is sorted and has no duplicates.
func ascending[E any](all []E, compare func(E, E) int) bool {
	for i := range all {
		if i > 0 && compare(all[i-1], all[i]) >= 0 {
			return false
		}
	}
	return true
}

// checkProvider refuses an entry without a provider. JSON decoding has refused anything else that is not a key.
func checkProvider(p nostr.PubKey) error {
	if p == (nostr.PubKey{}) {
		return errors.New("no provider")
	}
	return nil
}

func checkName(s string, shortest, longest int) error {
	if len(s) < shortest || len(s) > longest || !utf8.ValidString(s) {
		return fmt.Errorf("%.40q: want %d to %d bytes of UTF-8", s, shortest, longest)
	}
	return nil
}

func checkSiblings(all []fact.VariableSibling, least, most int64) error {
	if len(all) == 0 || len(all) > maxSiblings {
		return fmt.Errorf("%d siblings, want 1 to %d", len(all), maxSiblings)
	}
	for _, s := range all {
		if s.Value < least || s.Value > most {
			return fmt.Errorf("value %d, want %d to %d", s.Value, least, most)
		}
		if len(s.Clock) == 0 || len(s.Clock) > maxGuilds {
			return fmt.Errorf("a clock of %d guilds, want 1 to %d", len(s.Clock), maxGuilds)
		}
		for g, n := range s.Clock {
			if !isGuild(g) || n == 0 || n > maxCount {
				return fmt.Errorf("clock value %d for %.80q", n, g)
			}
		}
	}
	return nil
}

// isGuild reports whether s can be a public key in lower-case hex.
func isGuild(s string) bool {
	key, err := nostr.PubKeyFromHexCheap(s)
	return err == nil && key.Hex() == s
}
