package nook

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// snapshotVersion changes when an older program could misread a snapshot.
const snapshotVersion = 1

// snapshot is the state of an account. What follows from it, such as the sparks of an event that can still change, is
// computed again.
type snapshot struct {
	Version  int       `json:"version"`
	Root     string    `json:"root"`
	Clock    int64     `json:"clock"`
	Base     cursor    `json:"base"`
	Agents   []*agent  `json:"agents"` // ordered by id
	Units    []string  `json:"units"`  // of the window, ordered
	Window   []byte    `json:"window"` // the entries of the last 48 hours, see appendWindow
	Rewards  []reward  `json:"rewards"`
	Choices  []Choice  `json:"choices"`
	Heritage *Heritage `json:"heritage"`
	Imported *snapshot `json:"imported"`
	Judged   []work    `json:"judged,omitempty"`
}

// MarshalJSON encodes the account as a snapshot. Two accounts with the same events have the same snapshot.
func (a *Account) MarshalJSON() ([]byte, error) { return json.Marshal(a.snapshot()) }

func (a *Account) snapshot() *snapshot {
	a.Settle()
	s := &snapshot{Version: snapshotVersion, Root: a.root, Clock: a.clock, Base: a.base, Choices: a.choices, Heritage: a.heritage}
	s.Rewards, s.Judged = a.rewards[:a.sure], a.judged
	indexes := make(map[*agent]int, len(a.agents))
	for _, id := range slices.Sorted(maps.Keys(a.agents)) {
		g := *a.agents[id]
		g.Hours = slices.DeleteFunc(slices.Clone(g.Hours), func(b bucket) bool { return b.Hour <= a.clock/hour-week || b.Sparks == Split{} })
		indexes[a.agents[id]] = len(s.Agents)
		s.Agents = append(s.Agents, &g)
	}
	for name, u := range a.units {
		if u.latest > a.clock-2*day {
			s.Units = append(s.Units, name)
		}
	}
	slices.Sort(s.Units)
	s.Window = a.appendWindow(nil, indexes, s.Units)
	if a.imported != nil {
		s.Imported = a.imported.snapshot()
	}
	return s
}

// appendWindow appends the entries: first the number of firm ones with a work unit, and these with their time and unit; then the others
// whole. Times are differences to the one before; numbers are varints.
func (a *Account) appendWindow(b []byte, agents map[*agent]int, names []string) []byte {
	units := make(map[*unit]uint64, len(names)) // 0 is no unit
	for i, name := range names {
		units[a.units[name]] = uint64(i) + 1
	}
	before := int64(0)
	named := func(at int64, u *unit) {
		b = binary.AppendVarint(b, at-before)
		b = binary.AppendUvarint(b, units[u])
		before = at
	}
	firm := a.mentions[a.expired():a.named]
	b = binary.AppendUvarint(b, uint64(len(firm)))
	for _, m := range firm {
		named(m.at, m.unit)
	}
	for i := a.firm; i < len(a.entries); i++ {
		e := &a.entries[i]
		named(e.at, e.unit)
		b = binary.AppendUvarint(b, uint64(len(e.id)))
		b = append(b, e.id...)
		b = binary.AppendUvarint(b, uint64(agents[e.agent]))
		b = binary.AppendUvarint(b, uint64(e.tokens))
		b = binary.AppendUvarint(b, uint64(e.earned))
		b = binary.AppendUvarint(b, uint64(e.kind))
		b = append(b, byte(e.level))
		b = append(b, e.hash[:]...)
	}
	return b
}

// UnmarshalJSON decodes a snapshot. It refuses one that no account has written.
func (a *Account) UnmarshalJSON(b []byte) error {
	var s snapshot
	if err := strict(b, &s); err != nil {
		return fmt.Errorf("snapshot of an account: %w", err)
	}
	restored, err := s.restore()
	if err != nil {
		return fmt.Errorf("snapshot of an account: %w", err)
	}
	*a = *restored
	return nil
}

func (s *snapshot) restore() (*Account, error) {
	if s.Version != snapshotVersion {
		return nil, fmt.Errorf("version %d, this program reads %d", s.Version, snapshotVersion)
	}
	a := New(s.Root)
	a.clock, a.base, a.choices, a.heritage, a.rewards, a.sure = s.Clock, s.Base, s.Choices, s.Heritage, s.Rewards, len(s.Rewards)
	if s.Clock < 0 || s.Clock > maxMillis || len(s.Choices) >= len(stages) || s.Heritage != nil && !s.Heritage.plausible() {
		return nil, errors.New("a member is out of range")
	}
	byHour := func(x, y bucket) int { return cmp.Compare(x.Hour, y.Hour) }
	for i, g := range s.Agents {
		if g == nil || i > 0 && g.ID <= s.Agents[i-1].ID || !slices.IsSortedFunc(g.Hours, byHour) {
			return nil, errors.New("agents are not in order")
		}
		a.agents[g.ID] = g
	}
	for _, r := range s.Rewards {
		if r.What < 0 || r.What > streak365 {
			return nil, fmt.Errorf("unknown reward %d", r.What)
		}
	}
	for i, w := range s.Judged {
		if a.agents[w.Agent] == nil || w.Earned <= 0 || w.At >= s.Clock-day || i > 0 && w.At < s.Judged[i-1].At {
			return nil, errors.New("judged work is not that of the agents")
		}
	}
	a.judged = s.Judged
	if err := a.readWindow(s.Window, s.Agents, s.Units); err != nil {
		return nil, err
	}
	if s.Imported != nil {
		if s.Imported.Imported != nil {
			return nil, errors.New("an imported history has none itself")
		}
		imported, err := s.Imported.restore()
		if err != nil {
			return nil, err
		}
		a.imported = imported
	}
	return a, nil
}

func (h *Heritage) plausible() bool {
	return h.ChestTier >= 1 && h.ChestTier <= 3 && h.Chests >= 0 && h.Chests <= 5
}

var errWindow = errors.New("the window is damaged")

// readWindow reads what appendWindow writes, and computes the entries that are not firm.
func (a *Account) readWindow(b []byte, agents []*agent, units []string) error {
	in := window{b: b}
	firm := in.uvarint()
	horizon := a.clock - day
	var at int64
	name := func() *unit {
		before := at
		at += in.varint()
		u := in.uvarint()
		in.bad = in.bad || at < before || u > uint64(len(units))
		if in.bad || u == 0 {
			return nil
		}
		named := a.unit(units[u-1])
		named.latest = at
		return named
	}
	for ; firm > 0 && !in.bad; firm-- {
		u := name()
		in.bad = in.bad || at >= horizon || at <= horizon-day || u == nil
		a.mentions = append(a.mentions, mention{at, u})
	}
	a.named = len(a.mentions)
	for len(in.b) > 0 && !in.bad {
		u := name()
		e := entry{at: at, unit: u, id: string(in.bytes(in.uvarint()))}
		if g := in.uvarint(); g < uint64(len(agents)) {
			e.agent = agents[g]
		}
		e.tokens, e.earned, e.kind = int64(in.uvarint()), Sparks(in.uvarint()), kind(in.uvarint())
		if l := in.bytes(1); len(l) == 1 {
			e.level = Level(l[0])
		}
		copy(e.hash[:], in.bytes(uint64(len(e.hash))))
		in.bad = in.bad || e.agent == nil || e.level > ReceiptBound || e.at < horizon || e.at > a.clock+maxAhead || e.tokens < 0
		if n := len(a.entries); n > 0 {
			in.bad = in.bad || inTime(&a.entries[n-1], &e) >= 0
		}
		a.known[e.id] = e.at
		a.entries = append(a.entries, e)
	}
	if in.bad || len(a.units) != len(units) || len(a.known) != len(a.entries) {
		return errWindow
	}
	before := make([]Sparks, 0, len(a.entries))
	for _, e := range a.entries {
		before = append(before, e.earned)
	}
	a.recompute()
	for i, e := range a.entries {
		if e.earned != before[i] {
			return errWindow
		}
	}
	return nil
}

// window reads the parts of a window. After an error bad is true.
type window struct {
	b   []byte
	bad bool
}

func (w *window) bytes(n uint64) []byte {
	if n > uint64(len(w.b)) {
		w.bad, w.b = true, nil
		return nil
	}
	b := w.b[:n]
	w.b = w.b[n:]
	return b
}

func (w *window) uvarint() uint64 { return number(w, binary.Uvarint) }

func (w *window) varint() int64 { return number(w, binary.Varint) }

func number[T any](w *window, decode func([]byte) (T, int)) (v T) {
	v, n := decode(w.b)
	if n <= 0 {
		w.bad, w.b = true, nil
		return v
	}
	w.b = w.b[n:]
	return v
}
