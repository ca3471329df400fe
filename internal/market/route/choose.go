package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

// Limits on the explanation that a decision records.
const (
	maxCandidates = 16
	maxExclusions = 16
	maxThrows     = 64 // draws of a service to explore; after these the decision does not explore
)

// The rules by which a provider is chosen (fact.Choice.Rule).
const (
	Best     = "best"
	Explored = "explored"
	Sampled  = "sampled" // the best by Thompson sampling
	Unmet    = "unmet"   // no eligible provider is trusted with the task
	Named    = "named"
	Offered  = "offered"
	Meeting  = "meeting"
)

// Scope selects the part of the matrix that a query reads: the services for a task and a kind, scored with a policy's
// settings at a time.
type Scope struct {
	Task     string
	Kind     int
	Settings Settings
	Now      time.Time
	Low      bool // unimportant work: providers that are not trusted with the task may get it
}

// Query describes one decision.
type Query struct {
	Scope
	Job     guild.JobID
	Turn    int // earlier requests of the job
	Decided int // earlier decisions for the task
	Total   int // requests for the task within the policy's window
	Active  int // number of providers that got those

	// Exclude returns the word for a reason that excludes a service from this job, "" if there is none, or ByBusy.
	Exclude func(*Facts) (by string)
	// Explain returns the reason as text for a person.
	Explain func(f *Facts, by string) string
}

// Grades of preference, the best first. A service that breaks a rule gets a lower grade, not an exclusion, so that a
// job still finds a provider if no other is left.
const (
	gladly = iota
	spread // other providers should get some of the work
	anyway // it has had its share
	full   // it has as many requests of ours as it says it does at a time
	atLast // it refused for want of capacity, or nothing confirms that it does such work
	unpaid // it asks for payment first
	grades
)

// found holds the candidates of one tier.
type found struct {
	first [grades]slot // the best of each grade; -1 if there is none
	seen  []slot       // the best few, for the explanation
}

// decision holds the state of a query while it is decided.
type decision struct {
	Query
	*list
	dice
	Choice fact.Choice

	count counts
	tiers [tiers]found
}

// Choose selects one service for a task and explains the selection. ok is false if no service may be asked; the choice
// then lists the exclusions.
func (m *Matrix) Choose(q Query) (f Facts, c fact.Choice, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list(q.Scope).choose(q, true)
}

// Offered does the same as Choose among services that offered to do a job. Their costs and latencies are compared with
// those of all services for the task.
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
		l.cost = l.medianCost()
		l.rescore()
	}
	f, c, ok = l.choose(q, false)
	if c.Rule == Best || c.Rule == Explored || c.Rule == Sampled {
		c.Rule = Offered
	}
	return f, c, ok
}

// Given explains a choice that the router did not make: these services, in this order.
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
		if by := f.PassedOver(q.Now); by != "" && by != ByUnconfirmed { // that does not matter to who names it
			d.barred(by, 1)
			d.Choice.Excluded = append(d.Choice.Excluded, fact.Exclusion{Service: f.Offer.Service, By: by, Reason: f.passedOver(by)})
		}
	}
	if len(given) > 0 && (rule == Named || rule == Meeting) && given[0].Offer.Confidence == 0 {
		d.Choice.Relaxed = append(d.Choice.Relaxed, ByFit+": its announcement does not name the task, and you named it")
	}
	return d.Choice
}

// decide starts a decision, with the services that are barred from every job counted.
func (l *list) decide(q Query) *decision {
	d := &decision{Query: q, list: l, dice: throw(q.Job, q.Turn)}
	d.Choice = fact.Choice{Policy: l.settings.Hash, Rule: Best, Dice: d.Faces, Decided: q.Decided, Epsilon: Epsilon(l.settings.Routing, q.Decided)}
	if draw := drawOf(d.Faces); l.settings.Thompson > 0 && l.references.draw != draw {
		l.references.draw = draw
		l.rescore()
	}
	for _, place := range l.places {
		if place >= 0 {
			d.count[place]++
		}
	}
	for i, by := range bars {
		if n := d.count[tiers+i]; n > 0 {
			d.barred(by, n)
		}
	}
	return d
}

// choose decides. It then reads the chosen service once more, because some facts change with time and cause no entry
// and no Touch. If what it reads would change the decision, it decides again, at most 8 times.
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

// pick returns the chosen service, or -1 if no service may be asked.
//
// A tier is drawn first and a service of it second, so that the shares of section 3.3.3 hold however many services a
// tier has. A tier with only busy or unpaid services counts as present only if no tier has others: else a job would
// wait for capacity that another tier has.
func (d *decision) pick() slot {
	there, busy := [tiers]bool{}, [tiers]bool{}
	for t := range d.tiers {
		d.tiers[t].first = [grades]slot{-1, -1, -1, -1, -1, -1}
		if t < tertiary || d.Low {
			d.search(t)
		}
		for _, first := range d.tiers[t].first[:full] {
			there[t] = there[t] || first >= 0
		}
		busy[t] = d.tiers[t].first[full] >= 0 || d.tiers[t].first[atLast] >= 0 || d.tiers[t].first[unpaid] >= 0
	}
	if d.settings.Thompson > 0 {
		return d.highest()
	}
	if there == [tiers]bool{} {
		there = busy
	}
	tier := drawTier(d.settings.Routing, there, d.Faces[1])
	if tier < 0 {
		return -1
	}
	d.Choice.Tier = d.settings.Tiers[tier].Name
	// A job explores only with a service that breaks no rule. Exploring is optional, so it must not use up a share or a
	// slot.
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

// highest returns the service with the highest score in the best grade, of all tiers that the job may use. Thompson
// sampling draws the scores, so this explores, too: of a service of which little is known, high shares are drawn often.
func (d *decision) highest() slot {
	for grade := range grades {
		best, tier := slot(-1), 0
		for t := range d.tiers {
			if s := d.tiers[t].first[grade]; s >= 0 && (best < 0 || d.ranks[s].before(&d.ranks[best])) {
				best, tier = s, t
			}
		}
		if tier == tertiary && grade < full { // a job rather waits for a better service than asks a stranger
			for t := range tertiary {
				if s := d.tiers[t].first[full]; s >= 0 && d.ranks[s].before(&d.ranks[best]) {
					best, tier = s, t
				}
			}
		}
		if best >= 0 {
			d.Choice.Tier, d.Choice.Rule = d.settings.Tiers[tier].Name, Sampled
			return best
		}
	}
	return -1
}

// try is a tier and a grade to look for a service in.
type try struct{ tier, grade int }

// order returns the order in which the combinations of tier and grade are tried. It keeps to the drawn tier and to the
// rules as long as possible. It leaves the tiers of trusted services only after all their grades with capacity.
func order(tier int) []try {
	first, second := tier, primary+secondary-tier
	if tier == tertiary {
		first, second = primary, secondary
	}
	all := make([]try, 0, tiers*grades)
	for grade := range full {
		if tier == tertiary {
			all = append(all, try{tertiary, grade})
		}
		all = append(all, try{first, grade}, try{second, grade})
	}
	for grade := range full {
		if tier != tertiary {
			all = append(all, try{tertiary, grade})
		}
	}
	for grade := full; grade < grades; grade++ {
		all = append(all, try{first, grade}, try{second, grade}, try{tertiary, grade})
	}
	return all
}

// search finds the best service of a tier for each grade, and a few more for the explanation.
//
// It visits services in the order of their rank, and stops as soon as it has one without objection and enough for the
// explanation. So a decision among 100,000 services reads the facts of a few dozen.
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

// grade returns the grade of a service, or grades if it must not be asked, and the reason if it is not the best grade.
func (d *decision) grade(s slot) (grade int, by string) {
	f := &d.facts[s]
	if by = d.Exclude(f); by == "" || by == ByBusy && f.Unpaid > d.Now.UnixMilli() {
		by = cmp.Or(f.PassedOver(d.Now), by)
	}
	if by == "" {
		by = d.breaks(s, f)
	}
	return gradeOf(by), by
}

// gradeOf returns the grade that a reason leads to.
func gradeOf(by string) int {
	switch by {
	case "":
		return gladly
	case ByProviders:
		return spread
	case ByShare, ByReduced:
		return anyway
	case BySlots:
		return full
	case ByBusy, ByRefused, ByUnconfirmed:
		return atLast
	case ByPayment:
		return unpaid
	}
	return grades
}

// breaks returns the rule that choosing a service would break, or "" if none. These rules may be broken if no other
// service is left (sections 3.3.3 and 3.4.2).
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

// explore draws a service with few samples from a tier. The fewer samples, the more tickets a service has. It returns
// -1 if no drawn service may be asked.
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

// exclude records the reason why a service is excluded or has a lower grade. If the list is full, a lower grade
// replaces an exclusion: Replay needs the grades of candidates to repeat the decision.
func (d *decision) exclude(s slot, by string) {
	d.barred(by, 1)
	if len(d.Choice.Excluded) == maxExclusions && gradeOf(by) < grades {
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

// explain returns a reason as text for a person. The router explains its own rules, and Query.Explain those of the
// caller.
func (d *decision) explain(f *Facts, by string) string {
	switch by {
	case ByShare:
		return fmt.Sprintf("it had %d of the last %d requests for the task, and may have %s of them", f.Recent, d.Total, percent(d.settings.Share))
	case ByProviders:
		return fmt.Sprintf("only %d had requests for the task lately, and %d should", d.Active, d.settings.Providers)
	case ByReduced:
		return fmt.Sprintf("it is reduced to %s of its share", percent(d.settings.Reduced))
	case BySlots, ByRefused, ByPayment, ByUnconfirmed:
		return f.passedOver(by)
	}
	return d.Explain(f, by)
}

// passedOver explains a reason that PassedOver returned.
func (f *Facts) passedOver(by string) string {
	switch by {
	case BySlots:
		return fmt.Sprintf("it has %d requests of ours, and does %d at a time", f.Given, f.Offer.Slots)
	case ByRefused:
		return fmt.Sprintf("it had no capacity for another job and is not asked until %s", clock(f.Paused))
	case ByUnconfirmed:
		return "it has passed no benchmark, and its announcement does not confirm the kind"
	}
	return fmt.Sprintf("it wanted to be paid first, which is not supported, and is not asked until %s", clock(f.Unpaid))
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func percent(t guild.Trust) string { return fmt.Sprintf("%d %%", t*100/guild.Micro) }

// exclusions fills the list with services that are excluded from every job.
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

// name adds a service to the exclusions, and reports whether there is room for more.
func (d *decision) name(s slot, by string) bool {
	if len(d.Choice.Excluded) < maxExclusions {
		f := &d.facts[s]
		d.Choice.Excluded = append(d.Choice.Excluded, fact.Exclusion{Service: f.Offer.Service, By: by, Reason: d.explain(f, by)})
	}
	return len(d.Choice.Excluded) < maxExclusions
}

// tell records the candidates of the decision, and the rules that the choice breaks.
//
// The chosen service is always recorded, even if sixteen others rank before it, because Replay needs its terms.
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

// candidate returns a service in the form that the choice records.
func (l *list) candidate(f *Facts) fact.Candidate {
	c := fact.Candidate{Service: f.Offer.Service, Name: guild.Cut(f.Offer.Name, 40), Trust: f.Trust, Met: f.Met, Cost: f.cost(),
		LatencyMs: f.Measured.Latency, Load: f.Waiting, Samples: f.Measured.Samples, Unsure: unsure(f)}
	c.Won, c.Lost = l.references.evidence(f)
	c.Terms, c.Score = l.settings.weigh(l.settings.terms(f, &l.references))
	if t, _ := l.settings.place(f); t < tiers {
		c.Tier = l.settings.Tiers[t].Name
	}
	return c
}

// Version returns a number that changes when other services may be eligible. It does not change with trust within a
// tier, with measurements or with the load of a service.
func (m *Matrix) Version(s Scope) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list(s).version
}

// Visit calls visit for the services that may get work, in the order of tiers and scores, until visit returns false. It
// returns the version of the list.
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

// VisitAgain calls visit for the services that get no work only because they are being benchmarked again, until visit
// returns false. For important work it omits services below the threshold, because they could not get the work after a
// success either.
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

// Of lists the services of a provider.
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

// Out counts services that the router excludes for one reason.
type Out struct {
	By    string
	Count int
	One   Facts // of one of them
}

// Out returns the number of services, and those that get no work, or no important work, by reason.
func (m *Matrix) Out(s Scope) (count int, out []Out) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.list(s)
	place := map[string]int{}
	for at, tier := range l.places {
		by := ""
		switch {
		case tier >= tiers:
			by = bars[tier-tiers]
		case tier == tertiary && !s.Low:
			by = ByCriticality
		default:
			continue
		}
		if _, known := place[by]; !known {
			place[by] = len(out)
			out = append(out, Out{By: by, One: l.facts[at]})
		}
		out[place[by]].Count++
	}
	return len(l.slots), out
}
