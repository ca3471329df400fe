package route

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

// Bounds on what is kept of a decision.
const (
	maxCandidates = 16
	maxExclusions = 16
	maxThrows     = 64 // to explore; then nobody is explored
)

// The rules that choose (fact.Choice.Rule).
const (
	Best     = "best"
	Explored = "explored"
	Unmet    = "unmet" // nobody is trusted with the task
	Named    = "named"
	Offered  = "offered"
	Meeting  = "meeting"
)

// Scope is what of the matrix is looked at: the services that do a task under a kind, by a policy's numbers, at a time.
type Scope struct {
	Task     string
	Kind     int
	Settings Settings
	Now      time.Time
	Low      bool // for unimportant work, which those may do too who are not trusted with the task
}

// Query is one decision to make.
type Query struct {
	Scope
	Job     guild.JobID
	Turn    int // requests of the job before
	Decided int // decisions for the task before
	Total   int // requests for the task within the policy's window
	Active  int // providers of those

	// Exclude says in a word what keeps a service out of this job, "" for nothing, or ByBusy.
	Exclude func(*Facts) (by string)
	// Explain says the same for a person.
	Explain func(f *Facts, by string) string
}

// grades are how gladly one is taken.
const (
	gladly = iota
	spread // others should have some of the work too
	anyway // it has its share
	atLast // it has no capacity
	unpaid // it would have to be paid
	grades
)

// found is who there is in one tier.
type found struct {
	first [grades]slot // the best of each grade, -1 for nobody
	seen  []slot       // the best few
}

// decision is a query on its way.
type decision struct {
	Query
	*list
	dice
	Choice fact.Choice

	count counts
	tiers [tiers]found
}

// Choose picks one service for a task, and says why it. ok is false when nobody may be asked; the choice then says
// whom what excluded.
func (m *Matrix) Choose(q Query) (f Facts, c fact.Choice, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list(q.Scope).choose(q, true)
}

// Offered is Choose among services that offered to do a job. They are measured by those that do the task.
func (m *Matrix) Offered(q Query, offered []Facts) (f Facts, c fact.Choice, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	whole := m.list(q.Scope)
	l := m.empty(whole.question, q.Settings)
	l.references = whole.references
	for _, f := range offered {
		l.put(f)
	}
	l.unread = 0
	if l.cost == 0 {
		l.cost = l.medianCost(false)
		l.rescore()
	}
	f, c, ok = l.choose(q, false)
	if c.Rule == Best || c.Rule == Explored {
		c.Rule = Offered
	}
	return f, c, ok
}

// Given explains a choice that was not ours: these services, in this order.
func (m *Matrix) Given(q Query, rule string, given []Facts) fact.Choice {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.list(q.Scope)
	l.outOf(q.Total)
	d := l.decide(q)
	d.Choice.Rule, d.Choice.Count = rule, len(given)
	for i := range given[:min(len(given), maxCandidates)] {
		f := &given[i]
		d.Choice.Candidates = append(d.Choice.Candidates, l.candidate(f))
		if by := f.PassedOver(q.Now); by != "" {
			d.barred(by, 1)
			d.Choice.Excluded = append(d.Choice.Excluded, fact.Exclusion{Service: f.Offer.Service, By: by, Reason: f.passedOver(by)})
		}
	}
	return d.Choice
}

func (l *list) decide(q Query) *decision {
	d := &decision{Query: q, list: l, dice: throw(q.Job, q.Turn), count: l.counts()}
	d.Choice = fact.Choice{Policy: l.settings.Hash, Rule: Best, Dice: d.Faces, Decided: q.Decided, Epsilon: Epsilon(l.settings.Routing, q.Decided)}
	for by, n := range d.count.barred() {
		d.barred(by, n)
	}
	return d
}

// choose decides. What it would choose is read once more: some things change by time alone.
func (l *list) choose(q Query, again bool) (Facts, fact.Choice, bool) {
	const most = 8
	for try := 1; ; try++ {
		l.outOf(q.Total)
		d := l.decide(q)
		s := d.pick()
		d.exclusions()
		if s < 0 {
			return Facts{}, d.Choice, false
		}
		f, place, rank := l.facts[s], l.places[s], l.ranks[s]
		if again && l.matrix.source.One != nil && try < most {
			l.look(f.Offer.Service, q.Now)
			now, ok := l.slots[f.Offer.Service]
			l.measure()
			if !ok || l.places[now] != place || l.ranks[now] != rank || !sameToJobs(&l.facts[now], &f) || l.facts[now].PassedOver(q.Now) != f.PassedOver(q.Now) {
				continue
			}
			f = l.facts[now]
		}
		d.tell(s)
		return f, d.Choice, true
	}
}

// pick is who is chosen, -1 for nobody.
func (d *decision) pick() slot {
	there, busy := [tiers]bool{}, [tiers]bool{}
	for t := range d.tiers {
		d.tiers[t].first = [grades]slot{-1, -1, -1, -1, -1}
		if t < tertiary || d.Low {
			d.search(t)
		}
		for _, first := range d.tiers[t].first[:atLast] {
			there[t] = there[t] || first >= 0
		}
		busy[t] = d.tiers[t].first[atLast] >= 0 || d.tiers[t].first[unpaid] >= 0
	}
	if there == [tiers]bool{} {
		there = busy
	}
	tier := drawTier(d.settings.Routing, there, d.Faces[1])
	if tier < 0 {
		return -1
	}
	d.Choice.Tier = d.settings.Tiers[tier].Name
	if d.Faces[0] < d.Choice.Epsilon && d.tiers[tier].first[gladly] >= 0 {
		if s := d.explore(tier); s >= 0 {
			d.Choice.Rule = Explored
			return s
		}
	}
	for _, try := range order(tier) {
		if s := d.tiers[try.tier].first[try.grade]; s >= 0 {
			return s
		}
	}
	return -1
}

// try is whom to ask.
type try struct{ tier, grade int }

// order is in which order it is tried to keep to the tier that the dice chose and to the rules. What matters less than
// both is not to leave those who are trusted with the task.
func order(tier int) []try {
	if tier == tertiary {
		return []try{{tertiary, gladly}, {primary, gladly}, {secondary, gladly}, {tertiary, spread}, {primary, spread}, {secondary, spread},
			{tertiary, anyway}, {primary, anyway}, {secondary, anyway}, {primary, atLast}, {secondary, atLast}, {tertiary, atLast},
			{primary, unpaid}, {secondary, unpaid}, {tertiary, unpaid}}
	}
	other := primary + secondary - tier
	return []try{{tier, gladly}, {other, gladly}, {tier, spread}, {other, spread}, {tier, anyway}, {other, anyway},
		{tertiary, gladly}, {tertiary, spread}, {tertiary, anyway}, {tier, atLast}, {other, atLast}, {tertiary, atLast},
		{tier, unpaid}, {other, unpaid}, {tertiary, unpaid}}
}

// search finds the best of a tier, and a few more to tell of.
func (d *decision) search(tier int) {
	in := &d.tiers[tier]
	d.Choice.Count += d.count[tier]
	d.walk(tier, func(s slot) bool {
		grade, by := d.grade(s)
		if by != "" {
			d.exclude(s, by)
		}
		if grade == grades {
			d.Choice.Count--
			return true
		}
		if in.first[grade] < 0 {
			in.first[grade] = s
		}
		if len(in.seen) < maxCandidates {
			in.seen = append(in.seen, s)
		}
		return in.first[gladly] < 0 || len(in.seen) < maxCandidates
	})
}

// grade is how gladly one is taken, grades for not at all, and why not most gladly.
func (d *decision) grade(s slot) (grade int, by string) {
	f := &d.facts[s]
	if by = d.Exclude(f); by == "" || by == ByBusy && f.Unpaid > 0 {
		by = cmp.Or(f.PassedOver(d.Now), by)
	}
	if by == "" {
		by = d.breaks(s, f)
	}
	return gradeOf(by), by
}

// gradeOf is how gladly one is taken that something is said against.
func gradeOf(by string) int {
	switch by {
	case "":
		return gladly
	case ByProviders:
		return spread
	case ByShare, ByReduced:
		return anyway
	case ByBusy, BySlots, ByRefused:
		return atLast
	case ByPayment:
		return unpaid
	}
	return grades
}

// breaks says which rule that can be broken it would break to choose one (sections 3.3.3 and 3.4.2), or "".
func (d *decision) breaks(s slot, f *Facts) string {
	r := &d.settings.Routing
	switch {
	case int64(f.Recent)+1 > max(1, int64(r.Share)*int64(d.Total+1)/guild.Micro):
		return ByShare
	case f.Offer.State == guild.Reduced && guild.Trust((d.more(0)^d.ranks[s].order*0x9e3779b97f4a7c15)>>11%guild.Micro) >= r.Reduced:
		return ByReduced
	case f.Recent > 0 && d.Active < r.Providers:
		return ByProviders
	}
	return ""
}

// explore draws one of a tier's services that have few samples; a service without any has the most tickets. It returns -1
// when none of those drawn may be asked.
func (d *decision) explore(tier int) slot {
	var holders []slot
	var upTo []uint64 // tickets of the holders through each one
	total := uint64(0)
	for s, place := range d.places {
		if int(place) == tier && d.tickets[s] > 0 {
			total += uint64(d.tickets[s])
			holders, upTo = append(holders, slot(s)), append(upTo, total)
		}
	}
	if total == 0 {
		return -1
	}
	ticket := uint64(d.Faces[2]) * total / guild.Micro
	for n := range maxThrows {
		if n > 0 {
			ticket = d.more(uint64(n)) % total
		}
		at, _ := slices.BinarySearch(upTo, ticket+1)
		if grade, _ := d.grade(holders[at]); grade == gladly {
			return holders[at]
		}
	}
	return -1
}

// exclude notes who is kept out, or was taken for less, and by what. What is said of a candidate goes before what is said
// of others: it was decided by.
func (d *decision) exclude(s slot, by string) {
	d.barred(by, 1)
	full := len(d.Choice.Excluded) == maxExclusions
	if full && gradeOf(by) < grades {
		if at := slices.IndexFunc(d.Choice.Excluded, func(e fact.Exclusion) bool { return gradeOf(e.By) == grades }); at >= 0 {
			d.Choice.Excluded = slices.Delete(d.Choice.Excluded, at, at+1)
		}
	}
	d.name(s, by)
}

func (d *decision) barred(by string, n int) {
	if d.Choice.Barred == nil {
		d.Choice.Barred = map[string]int{}
	}
	d.Choice.Barred[by] += n
}

func (d *decision) explain(f *Facts, by string) string {
	switch by {
	case ByShare:
		return fmt.Sprintf("it had %d of the last %d requests for the task, and may have %s of them", f.Recent, d.Total, percent(d.settings.Share))
	case ByProviders:
		return fmt.Sprintf("only %d had requests for the task lately, and %d should", d.Active, d.settings.Providers)
	case ByReduced:
		return fmt.Sprintf("it is reduced to %s of its share", percent(d.settings.Reduced))
	case BySlots, ByRefused, ByPayment:
		return f.passedOver(by)
	}
	return d.Explain(f, by)
}

// passedOver says for a person what a word of PassedOver means.
func (f *Facts) passedOver(by string) string {
	switch by {
	case BySlots:
		return fmt.Sprintf("it has %d requests of ours, and does %d at a time", f.Given, f.Offer.Slots)
	case ByRefused:
		return fmt.Sprintf("it had no capacity for another job, and is left alone until %s", clock(f.Paused))
	}
	return fmt.Sprintf("it wanted to be paid first, which cannot be done, and is left alone until %s", clock(f.Unpaid))
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func percent(t guild.Trust) string { return fmt.Sprintf("%d %%", t*100/guild.Micro) }

// exclusions fills up the exclusions with some of those that are kept out of every job.
func (d *decision) exclusions() {
	if !d.Low && d.count[tertiary] > 0 {
		d.barred(ByCriticality, d.count[tertiary])
		d.walk(tertiary, func(s slot) bool { return d.name(s, ByCriticality) })
	}
	if d.Choice.Count > 0 {
		return
	}
	for s, place := range d.places {
		if place >= tiers && !d.name(slot(s), bars[place-tiers]) {
			return
		}
	}
}

// name adds one to the exclusions, and reports whether there is room for more.
func (d *decision) name(s slot, by string) bool {
	if len(d.Choice.Excluded) < maxExclusions {
		f := &d.facts[s]
		d.Choice.Excluded = append(d.Choice.Excluded, fact.Exclusion{Service: f.Offer.Service, By: by, Reason: d.explain(f, by)})
	}
	return len(d.Choice.Excluded) < maxExclusions
}

// tell writes down who was there to choose from, and what could not be kept to.
func (d *decision) tell(chosen slot) {
	var seen []slot
	for t := range d.tiers {
		seen = append(seen, d.tiers[t].seen...)
	}
	d.sort(seen)
	seen = seen[:min(len(seen), maxCandidates)]
	if !slices.Contains(seen, chosen) {
		seen = append(seen[:min(len(seen), maxCandidates-1)], chosen)
	}
	for _, s := range seen {
		d.Choice.Candidates = append(d.Choice.Candidates, d.candidate(&d.facts[s]))
	}
	d.relaxed(chosen)
}

// relaxed says which rules could not be kept.
func (d *decision) relaxed(chosen slot) {
	f := &d.facts[chosen]
	if by := f.PassedOver(d.Now); by != "" {
		d.Choice.Relaxed = append(d.Choice.Relaxed, by+": "+f.passedOver(by)+", and there is nobody else")
	}
	say := func(by, why string) { d.Choice.Relaxed = append(d.Choice.Relaxed, by+": "+why) }
	switch by := d.breaks(chosen, f); by {
	case "":
	case ByReduced:
		say(by, d.explain(f, by)+", and there is nobody else")
	default:
		say(by, d.explain(f, by)+", and too few others may be asked")
	}
	if d.places[chosen] == tertiary && d.nobodyIn(primary) && d.nobodyIn(secondary) {
		if !f.Met {
			d.Choice.Rule = Unmet
		}
		say("qualified", "nobody who is trusted with the task may be asked")
	}
}

func (d *decision) nobodyIn(tier int) bool { return len(d.tiers[tier].seen) == 0 }

// candidate is a service as it is written down.
func (l *list) candidate(f *Facts) fact.Candidate {
	c := fact.Candidate{Service: f.Offer.Service, Name: guild.Cut(f.Offer.Name, 40), Trust: f.Trust, Met: f.Met, Cost: f.cost(),
		LatencyMs: f.Measured.Latency, Load: f.Waiting, Samples: f.Measured.Samples, Unsure: unsure(f)}
	c.Terms, c.Score = l.settings.weigh(l.settings.terms(f, &l.references))
	if t, _ := l.settings.place(f); t < tiers {
		c.Tier = l.settings.Tiers[t].Name
	}
	return c
}

// Version is the same as long as only trust within a tier, measurements and what each service has to do have changed.
func (m *Matrix) Version(s Scope) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list(s).version
}

// Visit shows services that may get work, those of the better tiers and scores first, until visit says no more, and
// returns the version that they are of.
func (m *Matrix) Visit(s Scope, visit func(*Facts) bool) (version uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, more := m.list(s), true
	for t := range tiers {
		if more && (t < tertiary || s.Low) {
			l.walk(t, func(s slot) bool { more = visit(&l.facts[s]); return more })
		}
	}
	return l.version
}

// VisitAgain shows the services that get no work only because they are being tried once more, until visit says no more.
// Those are left out that will not be trusted with work that matters, where it does.
func (m *Matrix) VisitAgain(s Scope, visit func(*Facts) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.list(s)
	again := int8(tiers + slices.Index(bars[:], ByAgain))
	for at, place := range l.places {
		if f := &l.facts[at]; place == again && (s.Low || f.Trust >= l.settings.threshold()) && !visit(f) {
			return
		}
	}
}

// Of lists a provider's services.
func (m *Matrix) Of(s Scope, p nostr.PubKey) (all []Facts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.list(s)
	for _, at := range l.keys[p] {
		all = append(all, l.facts[at])
	}
	slices.SortFunc(all, func(a, b Facts) int { return strings.Compare(a.Offer.Service.D, b.Offer.Service.D) })
	return all
}

// Out is how many services there are, and one of those that get no work, or none of importance, with what keeps it out;
// "" when there is none.
func (m *Matrix) Out(s Scope) (count int, f Facts, by string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.list(s)
	if !s.Low {
		if best := l.best(tertiary, rank{score: math.MaxInt64}, 1); len(best) > 0 {
			return len(l.slots), l.facts[best[0]], ByCriticality
		}
	}
	at := slices.IndexFunc(l.places, func(place int8) bool { return place >= tiers })
	if at < 0 {
		return len(l.slots), Facts{}, ""
	}
	return len(l.slots), l.facts[at], bars[l.places[at]-tiers]
}
