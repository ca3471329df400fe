package route

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Limits on the lists in memory. A list that was dropped is rebuilt when it is next used.
const (
	maxLists   = 32
	maxEntries = 1 << 18 // services in all lists except the one in use
)

// Matrix indexes the services by task and by provider (section 3.3.1). It builds the list of a task on first use. From
// then on it reads only services that may have changed, because reading all of 100,000 takes much longer than scanning
// them. Its methods may be called concurrently.
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

// New returns an empty matrix. The salt determines the order of services with equal scores. It must be secret:
// otherwise a provider could search for a key that comes first at every customer.
func New(s Source, salt []byte) *Matrix {
	return &Matrix{source: s, salt: slices.Clone(salt), lists: map[question]*list{}}
}

// Forget drops all lists.
func (m *Matrix) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.lists)
}

// slot is the index of a service in the arrays of its list. The slots of removed services are reused.
type slot = int32

// list holds the services for one task. A decision scans the small arrays, and reads the large Facts only of the
// services that it may choose.
type list struct {
	question
	matrix   *Matrix
	settings Settings

	slots   map[guild.Service]slot
	keys    map[nostr.PubKey][]slot
	free    []slot
	facts   []Facts
	places  []int8  // the tier, or tiers plus the index of the reason that bars the service (see placeOf); -1 in a free slot
	ranks   []rank  // meaningful for services in a tier
	tickets []int32 // tickets in the draw of services to explore

	recent map[slot]bool // services with requests in the window

	references
	unread int // changes that may affect the references, since these were computed

	hour    int64
	next    uint64 // position in the log of changes
	version uint64 // grows when other services may be eligible than before
	used    uint64
}

// list returns the list of a task, up to date. The caller must hold m.mu.
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
		l = m.empty(q, s.Settings)
		// The position in the log is taken before the services are read, so a change in between is read twice and not missed.
		l.next, l.hour = m.changes.begin(), hourOf(s.Now)
		for o := range m.source.All(q.task, q.kind) {
			l.put(m.source.Facts(q.task, o, s.Now))
		}
		m.lists[q] = l
	}
	m.uses++
	l.used = m.uses
	m.limit(l)
	l.measure()
	return l
}

func (m *Matrix) empty(q question, s Settings) *list {
	return &list{question: q, matrix: m, settings: s, version: 1,
		slots: map[guild.Service]slot{}, keys: map[nostr.PubKey][]slot{}, recent: map[slot]bool{}}
}

// limit drops the least recently used lists, and the changes that all remaining lists have read.
//
// The list in use is never dropped, whatever its size: it would be rebuilt for each decision.
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

// follow applies the logged changes. It returns false if some were dropped, so the list must be rebuilt. Latencies that
// depend on the hour are read again once an hour.
func (l *list) follow(now time.Time) bool {
	if l.matrix.source.One == nil { // the source reports no changes, so all services are read again
		there := map[guild.Service]bool{}
		for o := range l.matrix.source.All(l.task, l.kind) {
			there[o.Service] = true
			l.put(l.matrix.source.Facts(l.task, o, now))
		}
		for s := range l.facts {
			if service := l.facts[s].Offer.Service; l.places[s] >= 0 && !there[service] {
				l.remove(service)
			}
		}
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
	// Predicted latencies depend on the hour of the day, and no entry says that an hour has passed.
	if hour := hourOf(now); hour != l.hour {
		l.hour = hour
		for s := range l.facts {
			if l.places[s] >= 0 && l.facts[s].Measured.Hourly {
				l.look(l.facts[s].Offer.Service, now)
			}
		}
	}
	return true
}

// look reads one service again.
func (l *list) look(s guild.Service, now time.Time) {
	o, ok := l.matrix.source.One(s, l.task, l.kind)
	if !ok {
		l.remove(s)
		return
	}
	l.put(l.matrix.source.Facts(l.task, o, now))
}

// put stores the facts of a service.
//
// It updates only this service's score. A change that may move a reference counts in unread, and measure decides when
// all scores are computed again.
func (l *list) put(f Facts) {
	f.Offer.Tasks, f.Offer.Kinds = nil, nil // not needed here, and large
	place := l.settings.placeOf(&f)
	s, known := l.slots[f.Offer.Service]
	if !known {
		if n := len(l.free); n > 0 {
			s = l.free[n-1]
			l.free = l.free[:n-1]
		} else {
			s = slot(len(l.facts))
			l.facts, l.places = append(l.facts, Facts{}), append(l.places, -1)
			l.ranks, l.tickets = append(l.ranks, rank{}), append(l.tickets, 0)
		}
		l.slots[f.Offer.Service] = s
		l.keys[f.Offer.Service.PubKey] = append(l.keys[f.Offer.Service.PubKey], s)
		l.ranks[s].order = l.matrix.order(f.Offer.Service)
	}
	old := &l.facts[s]
	if !known || !sameToJobs(&f, old) || place != l.places[s] {
		l.version++
	}
	if !known || f.cost() != old.cost() || f.Measured.Latency != old.Measured.Latency || f.Met != old.Met ||
		f.Measured.Won != old.Measured.Won || f.Measured.Lost != old.Measured.Lost {
		l.unread++
	}
	l.facts[s], l.places[s], l.tickets[s] = f, place, int32(l.settings.thirst(&f))
	if f.Recent > 0 {
		l.recent[s] = true
	} else {
		delete(l.recent, s)
	}
	l.score(s)
}

// sameToJobs reports whether two facts about a service are equal in everything that can exclude it from a job, except
// for its load.
func sameToJobs(a, b *Facts) bool {
	x, y := &a.Offer, &b.Offer
	return a.Met == b.Met && x.State == y.State && x.Until == y.Until && x.Encrypts == y.Encrypts && x.Recipient == y.Recipient &&
		x.Price == y.Price && x.Confirmed == y.Confirmed && x.Kind == y.Kind && x.Plain == y.Plain
}

// remove removes a service from the list.
func (l *list) remove(service guild.Service) {
	s, ok := l.slots[service]
	if !ok {
		return
	}
	delete(l.slots, service)
	delete(l.recent, s)
	rest := slices.DeleteFunc(l.keys[service.PubKey], func(other slot) bool { return other == s })
	if len(rest) > 0 {
		l.keys[service.PubKey] = rest
	} else {
		delete(l.keys, service.PubKey)
	}
	l.facts[s], l.places[s], l.tickets[s] = Facts{}, -1, 0
	l.free = append(l.free, s)
	l.version++
	l.unread++
}

// score computes the score of a service relative to the references.
func (l *list) score(s slot) {
	f := &l.facts[s]
	_, score := l.settings.weigh(l.settings.terms(f, &l.references))
	l.ranks[s].score = score - unsure(f)
}

// measure computes the references again, and all scores if they changed. This reads every service. So it happens only
// after a 64th of them have changed, which costs about 64 reads for each change.
func (l *list) measure() {
	if l.unread == 0 || l.unread*64 < len(l.slots) {
		return
	}
	l.unread = 0
	fresh := l.references
	fresh.cost, fresh.latency = l.medianCost(), median(l.of(func(f *Facts) int64 { return f.Measured.Latency }))
	fresh.asked = l.askedBy(&fresh)
	if fresh.cost != l.cost || fresh.latency != l.latency || !slices.Equal(fresh.asked, l.asked) {
		l.references = fresh
		l.rescore()
	}
}

// askedBy counts the services that were asked, by price.
func (l *list) askedBy(r *references) (all []priced) {
	for s, place := range l.places {
		if m := &l.facts[s].Measured; place >= 0 && m.Won+m.Lost > 0 {
			one := priced{cost: r.priceOf(&l.facts[s]), known: 1}
			if m.Won > m.Lost {
				one.sound = 1
			}
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b priced) int { return cmp.Compare(a.cost, b.cost) })
	merged := all[:0]
	for _, one := range all {
		if n := len(merged); n > 0 && merged[n-1].cost == one.cost {
			merged[n-1].known, merged[n-1].sound = merged[n-1].known+one.known, merged[n-1].sound+one.sound
			continue
		}
		merged = append(merged, one)
	}
	return merged
}

// medianCost returns the median cost of the services that are trusted with the task, or of all if fewer than few are.
func (l *list) medianCost() int64 {
	const few = 3
	trusted := 0
	for _, place := range l.places {
		if place == primary || place == secondary {
			trusted++
		}
	}
	return median(l.of(func(f *Facts) int64 {
		if trusted >= few && !l.settings.Qualifies(f) {
			return 0
		}
		return int64(f.cost())
	}))
}

// of yields one number for each service.
func (l *list) of(number func(*Facts) int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for s := range l.facts {
			if l.places[s] >= 0 && !yield(number(&l.facts[s])) {
				return
			}
		}
	}
}

func (l *list) rescore() {
	for s, place := range l.places {
		if place >= 0 {
			l.score(slot(s))
		}
	}
}

// outOf sets the number of requests in the window, by which each service's number of recent requests is divided. It is
// rounded down, so that the scores are not computed again for each request.
func (l *list) outOf(total int) {
	coarse := least(bucket(int64(max(total, 1))))
	if coarse == l.references.total {
		return
	}
	l.references.total = coarse
	for s := range l.recent {
		l.score(s)
	}
}

// counts holds the number of services in each place: the tiers, then the reasons of bars.
type counts [tiers + len(bars)]int

// walk calls visit for the services of a tier, the best first, until visit returns false. Usually a few suffice, so it
// first sorts only the best 32, and then eight times as many each time it needs more.
func (l *list) walk(tier int, visit func(slot) bool) {
	after := rank{score: math.MaxInt64} // ranks before every other
	for size := 32; ; size *= 8 {
		best := l.best(int8(tier), after, size)
		for _, s := range best {
			if !visit(s) {
				return
			}
		}
		if len(best) < size {
			return
		}
		after = l.ranks[best[len(best)-1]]
	}
}

// best returns up to size services of a tier, sorted, that rank after a given rank. It keeps at most 2*size at a time,
// and sorts and cuts them when that is reached, so it does not sort the whole tier.
func (l *list) best(tier int8, after rank, size int) []slot {
	found := make([]slot, 0, min(2*size, len(l.places)))
	worst := rank{score: math.MinInt64} // rank of the last of the best size, once there are that many
	for i, place := range l.places {
		if place != tier {
			continue
		}
		if r := &l.ranks[i]; !r.before(&worst) || !after.before(r) {
			continue
		}
		found = append(found, slot(i))
		if len(found) == 2*size {
			l.sort(found)
			found = found[:size]
			worst = l.ranks[found[size-1]]
		}
	}
	l.sort(found)
	return found[:min(len(found), size)]
}

// sort sorts services by rank, the best first.
func (l *list) sort(all []slot) {
	slices.SortFunc(all, func(a, b slot) int {
		switch {
		case l.ranks[a].before(&l.ranks[b]):
			return -1
		case l.ranks[b].before(&l.ranks[a]):
			return 1
		}
		return 0
	})
}

// order returns the number that orders a service among those with an equal score. It depends on the salt.
func (m *Matrix) order(s guild.Service) uint64 {
	b := append(slices.Clone(m.salt), s.PubKey[:]...)
	sum := guild.Sum(append(b, s.D...))
	return binary.BigEndian.Uint64(sum[:8])
}

// Entries lists up to most services: those that get work first, by tier and score.
func (m *Matrix) Entries(s Scope, most int) []Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.list(s)
	all := make([]Entry, 0, min(most, len(l.slots)))
	add := func(s slot) bool {
		if len(all) >= most {
			return false
		}
		f := l.facts[s]
		e := Entry{Facts: f, Performance: l.performance(f.Measured.Latency)}
		if place := l.places[s]; place < tiers {
			e.Tier = l.settings.Tiers[place].Name
			_, e.Score = l.settings.weigh(l.settings.terms(&f, &l.references))
		} else {
			e.Barred = bars[place-tiers]
		}
		all = append(all, e)
		return len(all) < most
	}
	for t := range tiers {
		l.walk(t, add)
	}
	for s, place := range l.places {
		if place >= tiers {
			add(slot(s))
		}
	}
	return all
}

// Tasks lists the tasks that a provider's services do, out of the tasks that have a list.
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
