package route

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Bounds on what is kept. What is not is made anew when it is asked for.
const (
	maxLists   = 32
	maxEntries = 1 << 18 // in all lists but the one in use
)

// Matrix knows for each task the services that do it in their order, and for each provider its tasks (section 3.3.1).
// A task's list is made when it is first asked for, and kept up to date from then on. It may be used by many
// goroutines.
type Matrix struct {
	source  Source
	salt    []byte
	changes changes

	mu    sync.Mutex
	lists map[question]*list
	uses  uint64
}

type question struct {
	task string
	kind int
}

// New returns an empty matrix. The salt decides the order of those that are equally good, so that nobody can make
// itself a key that comes first everywhere.
func New(s Source, salt []byte) *Matrix {
	return &Matrix{source: s, salt: slices.Clone(salt), lists: map[question]*list{}}
}

// Forget drops all lists.
func (m *Matrix) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.lists)
}

// list is one task's services. Slots of those that went are used again.
type list struct {
	question
	matrix   *Matrix
	settings Settings

	slots   map[guild.Service]slot
	keys    map[nostr.PubKey][]slot
	facts   []Facts
	tier    []int8   // of each slot; that of a free one is -1
	at      []slot   // its place in the tier's heap, -1 in none
	orders  []uint64 // see rank
	free    []slot
	heaps   [tiers]heap
	lots    [tiers]lots
	barred  map[string]int
	hourly  map[slot]bool // whose latency is another one in the next hour
	recents map[slot]bool // who was asked within the window
	again   map[slot]bool // who is being tried once more

	costs, trusted, latencies median // costs of all, and of those that were met
	references
	unread int // changes of those since the references were read

	hour     int64
	next     uint64 // change to go on from
	version  uint64 // grows when who may be asked may be others
	used     uint64
	frontier []int32
}

// list brings a task's list up to date, and returns it. The lock must be held.
func (m *Matrix) list(s Scope) *list {
	q := question{s.Task, s.Kind}
	l := m.lists[q]
	if l != nil && (l.settings.Hash != s.Settings.Hash || l.settings.threshold() != s.Settings.threshold()) {
		l = nil
	}
	if l != nil && !l.follow(s.Now) {
		l = nil
	}
	if l == nil {
		l = m.make(q, s.Settings, s.Now)
		m.lists[q] = l
	}
	m.uses++
	l.used = m.uses
	m.limit(l)
	l.measure()
	return l
}

func (m *Matrix) make(q question, s Settings, now time.Time) *list {
	l := m.empty(q, s)
	l.next, l.hour = m.changes.begin(), hourOf(now)
	for _, o := range m.source.All(q.task, q.kind) {
		l.put(m.source.Facts(q.task, o, now))
	}
	return l
}

func (m *Matrix) empty(q question, s Settings) *list {
	return &list{question: q, matrix: m, settings: s, slots: map[guild.Service]slot{}, keys: map[nostr.PubKey][]slot{},
		barred: map[string]int{}, hourly: map[slot]bool{}, recents: map[slot]bool{}, again: map[slot]bool{}, version: 1}
}

// limit drops the lists that were not used for the longest time.
func (m *Matrix) limit(using *list) {
	entries, oldest := 0, uint64(0)
	others := slices.SortedFunc(maps.Values(m.lists), func(a, b *list) int { return cmp.Compare(b.used, a.used) })
	for n, l := range others {
		if entries += len(l.slots); l != using && (n >= maxLists || entries-len(using.slots) > maxEntries) {
			delete(m.lists, l.question)
			continue
		}
		if oldest == 0 || l.next < oldest {
			oldest = l.next
		}
	}
	m.changes.forget(oldest)
}

func hourOf(t time.Time) int64 { return t.Unix() / int64(time.Hour/time.Second) }

// follow looks at what has changed. It is false when that is not known any more.
func (l *list) follow(now time.Time) bool {
	if l.matrix.source.One == nil {
		l.compare(now)
		return true
	}
	changed, next, ok := l.matrix.changes.since(l.next)
	if !ok {
		return false
	}
	l.next = next
	for _, c := range changed {
		if !c.key {
			l.look(c.service, now)
			continue
		}
		for _, s := range slices.Clone(l.keys[c.service.PubKey]) {
			l.look(l.facts[s].Offer.Service, now)
		}
	}
	if hour := hourOf(now); hour != l.hour {
		l.hour = hour
		for s := range l.hourly {
			l.look(l.facts[s].Offer.Service, now)
		}
	}
	return true
}

// look reads one service anew.
func (l *list) look(s guild.Service, now time.Time) {
	o, ok := l.matrix.source.One(s, l.task, l.kind)
	if !ok {
		l.remove(s)
		return
	}
	l.put(l.matrix.source.Facts(l.task, o, now))
}

// compare reads all services anew, where nobody says what changes.
func (l *list) compare(now time.Time) {
	there := map[guild.Service]bool{}
	for _, o := range l.matrix.source.All(l.task, l.kind) {
		there[o.Service] = true
		l.put(l.matrix.source.Facts(l.task, o, now))
	}
	for s := range l.slots {
		if !there[s] {
			l.remove(s)
		}
	}
}

// put takes the facts of a service, and finds its place in the order.
func (l *list) put(f Facts) {
	service := f.Offer.Service
	f.Offer.Tasks, f.Offer.Kinds = nil, nil // not needed, and much of many
	tier, by := l.settings.place(&f)
	s, known := l.slots[service]
	if known {
		old := &l.facts[s]
		if !sameToJobs(&f, old) || int8(tier) != l.tier[s] {
			l.version++
		}
		if f.cost() != old.cost() || f.Measured.Latency != old.Measured.Latency || f.Met != old.Met {
			l.unread++
		}
		l.take(s)
	} else {
		s = l.slot()
		l.slots[service], l.orders[s] = s, l.matrix.order(service)
		l.keys[service.PubKey] = append(l.keys[service.PubKey], s)
		l.version++
		l.unread++
	}
	old := int8(-1)
	if known {
		old = l.tier[s]
	}
	l.facts[s], l.tier[s] = f, int8(tier)
	l.count(s, by)
	l.place(s, old)
}

// sameToJobs reports whether two facts about a service differ in nothing that may keep it out of a job, but for what
// it has to do at the time.
func sameToJobs(a, b *Facts) bool {
	x, y := &a.Offer, &b.Offer
	return a.Met == b.Met && x.State == y.State && x.Until == y.Until && x.Encrypts == y.Encrypts && x.Recipient == y.Recipient &&
		x.Price == y.Price && x.Confirmed == y.Confirmed
}

// slot is one that is free.
func (l *list) slot() slot {
	if n := len(l.free); n > 0 {
		s := l.free[n-1]
		l.free = l.free[:n-1]
		return s
	}
	l.facts, l.tier = append(l.facts, Facts{}), append(l.tier, -1)
	l.at, l.orders = append(l.at, -1), append(l.orders, 0)
	return slot(len(l.facts) - 1)
}

// remove takes a service out.
func (l *list) remove(service guild.Service) {
	s, ok := l.slots[service]
	if !ok {
		return
	}
	l.take(s)
	if t := l.tier[s]; t < tiers {
		l.heaps[t].remove(l.at, int(l.at[s]))
		l.lots[t].set(s, 0)
	}
	delete(l.slots, service)
	if rest := slices.DeleteFunc(l.keys[service.PubKey], func(other slot) bool { return other == s }); len(rest) > 0 {
		l.keys[service.PubKey] = rest
	} else {
		delete(l.keys, service.PubKey)
	}
	l.facts[s], l.tier[s] = Facts{}, -1
	l.free = append(l.free, s)
	l.version++
	l.unread++
}

// take takes a service out of what is counted.
func (l *list) take(s slot) {
	f := &l.facts[s]
	l.tally(f, -1)
	if _, by := l.settings.place(f); by != "" {
		if l.barred[by]--; l.barred[by] == 0 {
			delete(l.barred, by)
		}
	}
	delete(l.hourly, s)
	delete(l.recents, s)
	delete(l.again, s)
}

func (l *list) count(s slot, by string) {
	f := &l.facts[s]
	l.tally(f, 1)
	if by != "" {
		l.barred[by]++
	}
	if by == ByAgain {
		l.again[s] = true
	}
	if f.Measured.Hourly {
		l.hourly[s] = true
	}
	if f.Recent > 0 {
		l.recents[s] = true
	}
}

func (l *list) tally(f *Facts, by int) {
	cost := int64(f.cost())
	l.costs.add(cost, by)
	if f.Met {
		l.trusted.add(cost, by)
	}
	l.latencies.add(f.Measured.Latency, by)
}

// place gives a slot its place in the heap and the lottery of its tier.
func (l *list) place(s slot, old int8) {
	now := l.tier[s]
	if old >= 0 && old < tiers && old != now {
		l.heaps[old].remove(l.at, int(l.at[s]))
		l.lots[old].set(s, 0)
	}
	if now == tiers {
		return
	}
	l.lots[now].set(s, l.settings.thirst(&l.facts[s]))
	if old == now {
		l.heaps[now].move(l.at, int(l.at[s]), l.rank(s))
	} else {
		l.heaps[now].push(l.at, s, l.rank(s))
	}
}

// rank is the place of a slot in the order.
func (l *list) rank(s slot) rank {
	f := &l.facts[s]
	_, score := l.settings.weigh(l.settings.terms(f, &l.references))
	return rank{score - unsure(f), l.orders[s]}
}

// measure reads the references again once enough has changed that they may be others, and scores all anew if they
// are: for each change that is a few dozen at most.
func (l *list) measure() {
	if l.unread == 0 || l.unread*64 < len(l.slots) {
		return
	}
	l.unread = 0
	fresh := references{cost: l.trusted.value(), latency: l.latencies.value(), total: l.total}
	if fresh.cost == 0 {
		fresh.cost = l.costs.value()
	}
	if fresh == l.references {
		return
	}
	l.references = fresh
	l.rescore()
}

// rescore gives every service its place by the references.
func (l *list) rescore() {
	for s, t := range l.tier {
		if t >= 0 && t < tiers {
			l.heaps[t].move(l.at, int(l.at[s]), l.rank(slot(s)))
		}
	}
}

// outOf sets how many requests there were in the window, by which each one's part of them is measured.
func (l *list) outOf(total int) {
	coarse := least(bucket(int64(max(total, 1))))
	if coarse == l.total {
		return
	}
	l.total = coarse
	for s := range l.recents {
		if t := l.tier[s]; t >= 0 && t < tiers {
			l.heaps[t].move(l.at, int(l.at[s]), l.rank(s))
		}
	}
}

// order is what stands for a service among its equals.
func (m *Matrix) order(s guild.Service) uint64 {
	b := append(slices.Clone(m.salt), s.PubKey[:]...)
	sum := guild.Sum(append(b, s.D...))
	return binary.BigEndian.Uint64(sum[:8])
}

// Entries lists the services: those that get work first, the best of each tier first; at most so many.
func (m *Matrix) Entries(s Scope, most int) []Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.list(s)
	all := make([]Entry, 0, min(most, len(l.slots)))
	add := func(s slot) bool {
		if len(all) < most {
			all = append(all, l.entry(s))
		}
		return len(all) < most
	}
	for t := range l.heaps {
		l.heaps[t].walk(&l.frontier, add)
	}
	for s, t := range l.tier {
		if t == tiers {
			add(slot(s))
		}
	}
	return all
}

func (l *list) entry(s slot) Entry {
	f := l.facts[s]
	e := Entry{Facts: f, Performance: l.performance(f.Measured.Latency)}
	_, e.Barred = l.settings.place(&f)
	if t := l.tier[s]; t < tiers {
		e.Tier = l.settings.Tiers[t].Name
		_, e.Score = l.settings.weigh(l.settings.terms(&f, &l.references))
	}
	return e
}

// Tasks lists the tasks that a provider's services are known to do, of those that were asked for.
func (m *Matrix) Tasks(p nostr.PubKey) (tasks []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for q, l := range m.lists {
		if len(l.keys[p]) > 0 {
			tasks = append(tasks, q.task)
		}
	}
	slices.Sort(tasks)
	return slices.Compact(tasks)
}
