package partner

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
)

// live is a service's latest announcement, and the times from which its silence or absence means something.
type live struct {
	registry.Latest
	connected int64 // Unix ms: the start of the connection to relays; 0 without one
	complete  int64 // Unix ms: when all announcements should have arrived; 0 without a connection
}

func (p *Partners) live(i registry.ID) live {
	l := live{Latest: p.c.Latest(i)}
	if p.c.Hears != nil {
		if since := p.c.Hears(); !since.IsZero() {
			l.connected, l.complete = since.UnixMilli(), since.Add(p.c.Patience).UnixMilli()
		}
	}
	return l
}

// move is a decision and the time at which it is due.
type move struct {
	fact.ProviderMoved
	at int64 // Unix ms
}

// Due lists the moves that are due, and the next one that will be. It looks only at services with a new fact or
// announcement and at those whose time has come. Services without facts are never moved, because registry derives their
// state from the age of their announcement. It implements due.Source.
func (p *Partners) Due(now time.Time) []due.Work {
	work := p.look(now)
	if next, ok := p.fold.agenda.first(); ok {
		work = append(work, p.advance(next.service, time.UnixMilli(next.at)))
	}
	return work
}

// look empties the agenda. For each service it lists the move that is due, notes the benchmark that is due, and sets
// the time of the next look.
func (p *Partners) look(now time.Time) (work []due.Work) {
	ms := now.UnixMilli()
	for _, i := range p.fold.agenda.take(ms) {
		next, ok, checkup, checkupAt := p.upcoming(i, ms)
		if ok && next.at <= ms {
			p.fold.agenda.touch(i) // look again until the move is recorded
			work = append(work, p.advance(i, time.Time{}))
			ok = false
		}
		p.fold.agenda.setCheckup(i, checkup, checkupAt != 0 && checkupAt <= ms)
		var alarms []int64
		if ok {
			alarms = append(alarms, next.at)
		}
		if checkupAt > ms {
			alarms = append(alarms, checkupAt)
		}
		if p.c.Hears != nil && p.c.Hears().IsZero() {
			alarms = append(alarms, ms+recheck.Milliseconds())
		}
		if len(alarms) == 0 {
			p.fold.agenda.clear(i)
		} else {
			p.fold.agenda.set(i, slices.Min(alarms))
		}
	}
	return work
}

// recheck is the interval of looks while the node is not connected to relays. Silence means nothing then, so no other
// time can be computed.
const recheck = time.Minute

// upcoming returns the next move of a service, if there is one, and its next benchmark with its time in Unix ms, or 0.
//
// The registry is asked before the fold is locked, because it asks the fold while it holds its own lock. The other
// order would be a deadlock.
func (p *Partners) upcoming(i registry.ID, now int64) (next move, ok bool, checkup guild.Checkup, at int64) {
	l := p.live(i) // see above for the order of locks
	p.fold.View(func(st *state) {
		rec, known := st.Services.Get(i)
		if !known {
			return
		}
		f := rules{p.fold, st}
		next, ok = f.next(rec, l, now)
		checkup, at = f.checkup(rec, l)
	})
	return next, ok, checkup, at
}

// advance returns the decision that moves a service once. It computes the move again when it is made.
func (p *Partners) advance(i registry.ID, ready time.Time) due.Work {
	rec, _, _ := p.fold.record(i)
	return due.Decide("move "+i.String(), fact.ProviderSubject(rec.Service.PubKey), ready, func(tx *journal.Tx) error {
		now := tx.Now().UnixMilli()
		next, ok, _, _ := p.upcoming(i, now)
		if ok && next.at <= now {
			tx.Append(next.ProviderMoved)
		}
		return nil
	})
}

// next returns the next move of a service. The rules have this order: a removed key comes back only by an overturned
// verdict; degradation comes before single events; a return comes before events from the time of absence; events follow
// in their order; and time counts when nothing is pending.
func (f rules) next(r record, l live, now int64) (move, bool) {
	if f.state.blocked(r.Service.PubKey) {
		if r.state() == guild.Removed && len(r.Pending) > 0 && r.Pending[0].What == overturned {
			return f.follow(r, l)
		}
		return move{}, false
	}
	if m, ok := f.degradation(r, now); ok {
		return m, true
	}
	if m, ok := f.comeback(r, l, now); ok {
		return m, true
	}
	if len(r.Pending) > 0 && !r.waits(r.Pending[0]) {
		return f.follow(r, l)
	}
	return f.timed(r, l)
}

func (f *Fold) move(r record, to guild.ProviderState, at int64, signal, cause string) move {
	return move{fact.ProviderMoved{Service: r.Service, From: r.state(), To: to, Cause: cause, Signal: signal, Policy: f.hash}, at}
}

// degradation suspends a working provider whose deliveries together show a trigger of section 3.4.1.
func (f rules) degradation(r record, now int64) (move, bool) {
	fromWork := r.Rung == guild.Warned || r.Rung == guild.Reduced
	if r.Owner || !working(r.state()) && !(r.state() == guild.Unresponsive && fromWork) {
		return move{}, false
	}
	signal, cause := f.examine(r, now)
	if signal == "" {
		return move{}, false
	}
	m := f.move(r, guild.Suspended, now, signal, cause)
	m.Until = now + f.p.Retry
	if last := r.Ends[len(r.Ends)-1]; len(r.Pending) > 0 && short(r.Pending[0].Attempt) == last.Attempt {
		m.Attempt = r.Pending[0].Attempt
	}
	return m, true
}

// comeback returns the move of an absent provider that was heard of again. It returns to its former state, because
// absence must not clear a bad record. A proven provider that was archived starts anew.
func (f *Fold) comeback(r record, l live, now int64) (move, bool) {
	if !absent(r.state()) || !f.fresh(r, l, now) {
		return move{}, false
	}
	was := r.Was
	if was == guild.Unresponsive {
		was = r.Rung
	}
	to := guild.Seen
	if r.state().CanBecome(was) && was != guild.Benchmarking {
		to = was
	}
	m := f.move(r, to, now, fact.SignalHeard, "heard of again")
	if to == guild.Unqualified || to == guild.Suspended {
		m.Until = r.WasUntil
	}
	return m, true
}

// fresh reports whether an absent provider has announced something or answered recently.
func (f *Fold) fresh(r record, l live, now int64) bool {
	if l.Announced {
		return now-max(l.At, r.Heard) < f.p.Stale
	}
	return r.Heard > 0 && r.Heard >= r.Since && now-r.Heard < f.p.Stale
}

// follow returns the move to which the first pending event leads.
func (f rules) follow(r record, l live) (move, bool) {
	e := r.Pending[0]
	to := f.step(r, e)
	if to == r.state() {
		return move{}, false
	}
	signal := r.signalOf(e, to)
	m := f.move(r, to, e.At, signal, cmp.Or(e.Cause, string(e.What)))
	m.Attempt, m.Meeting, m.Until = e.Attempt, e.Meeting, f.quarantine(r, e, to, signal)
	if e.What == meetingEnded && to != e.To && e.To != "" && to != guild.Removed {
		m.Cause = string(e.To) + ": " + m.Cause
	}
	if to == guild.Unqualified && declines(m.ProviderMoved) && l.Announced {
		m.Said, m.Version = l.Sum, l.Version
	}
	return m, true
}

// timed returns the move that follows from the passing of time, unless a person has set the state.
//
// Silence alone leads no further than a warning: a warned provider is reduced only if it was asked since. A provider
// that nobody asks and that announces nothing becomes stale, which does not count against it.
func (f *Fold) timed(r record, l live) (move, bool) {
	if r.Owner || r.State == "" {
		return move{}, false
	}
	var all []move
	switch r.state() {
	case guild.Unresponsive:
		m := f.move(r, cmp.Or(r.Rung, guild.Seen), r.Until, fact.SignalOver, "quarantine over")
		if m.To == guild.Unqualified {
			m.Until = r.WasUntil
		}
		all = append(all, m)
	case guild.Suspended:
		if f.p.Persist > 0 && r.Suspended >= f.p.Persist {
			return f.move(r, guild.Removed, r.Since, fact.SignalPersistent, "suspended repeatedly without a success between"), true
		}
	case guild.Warned:
		if r.Asked > r.Since {
			all = append(all, f.move(r, guild.Reduced, r.Since+f.p.Sustained, fact.SignalSustained, "warned for "+days(f.p.Sustained)+" without a success"))
		}
	case guild.Active, guild.Conditional:
		if l.connected > 0 {
			all = append(all, f.move(r, guild.Warned, f.silent(r, l), fact.SignalSilence,
				"nothing heard of it for "+time.Duration(f.p.Silence*int64(time.Millisecond)).String()))
		}
	}
	if m, ok := f.aging(r, l); ok {
		all = append(all, m)
	}
	if len(all) == 0 {
		return move{}, false
	}
	return slices.MinFunc(all, func(a, b move) int { return cmp.Compare(a.at, b.at) }), true
}

// silent returns the time at which a provider counts as silent if nothing is heard of it until then, in Unix ms.
func (f *Fold) silent(r record, l live) int64 { return max(l.At, r.Heard, l.connected) + f.p.Silence }

// aging returns the move by which a provider becomes stale or archived. The cause is the age of its announcement, or
// that it has none once all announcements should have arrived (the partnership protocol, section 3.3.4).
func (f *Fold) aging(r record, l live) (move, bool) {
	state, last := r.state(), max(l.At, r.Heard)
	if state == guild.Stale && last == 0 {
		last = r.Since - f.p.Stale
	}
	since := "not heard of since " + time.UnixMilli(last).UTC().Format(time.DateOnly)
	if state == guild.Stale {
		return f.move(r, guild.Archived, last+f.p.Archived, fact.SignalStale, since), true
	}
	if state == guild.Benchmarking || !state.CanBecome(guild.Stale) {
		return move{}, false
	}
	if l.Announced {
		return f.move(r, guild.Stale, last+f.p.Stale, fact.SignalStale, since), true
	}
	if l.complete == 0 {
		return move{}, false
	}
	if last == 0 || r.restored() && last <= r.Since {
		return f.move(r, guild.Stale, l.complete, fact.SignalStale, "not announced"), true
	}
	return f.move(r, guild.Stale, max(l.complete, last+f.p.Silence), fact.SignalStale, "not announced, and "+since), true
}

// checkup returns the next benchmark that a service needs and the time from which it is due, in Unix ms, or 0. It
// returns none while an event is pending, because the state may change by it.
func (f rules) checkup(r record, l live) (guild.Checkup, int64) {
	if r.Owner || r.Meeting != "" || len(r.Pending) > 0 || f.state.blocked(r.Service.PubKey) {
		return guild.Checkup{}, 0
	}
	var purpose string
	var at int64
	switch r.state() {
	case guild.Active, guild.Conditional, guild.Warned:
		purpose, at = guild.PurposeHeartbeat, max(r.Tried, r.Proved)+f.p.Heartbeat
		if l.connected > 0 && f.silent(r, l) < at {
			purpose, at = guild.PurposeProbe, f.silent(r, l)
		}
	case guild.Reduced:
		purpose, at = guild.PurposeReverify, r.Since
	case guild.Unqualified:
		purpose, at = guild.PurposeRetry, f.retry(r, l)
	case guild.Suspended:
		purpose, at = guild.PurposeRetry, r.Until
	case guild.Benchmarking:
		purpose, at = guild.PurposeRetry, r.Since
	case guild.Stale:
		if r.Base != "" && l.Announced {
			purpose, at = guild.PurposeProbe, r.Since
			if r.Asked > r.Since {
				at = r.Asked + f.p.Heartbeat
			}
		}
	}
	if at == 0 {
		return guild.Checkup{}, 0
	}
	task := "" // the task that it did last
	if len(r.Ends) > 0 {
		task = r.Ends[len(r.Ends)-1].Task
	}
	return guild.Checkup{Service: r.Service, Purpose: purpose, Task: task, Since: at}, at
}

// retry returns when a rejected provider is evaluated again, in Unix ms, or 0 if it is not (the table of section 3.4.3 of
// the partnership protocol). The cooldown must be over in any case. After three failures the provider must announce
// something else, after more than three another version. There is no wait if a verdict of the failed evaluation was
// overturned.
func (f *Fold) retry(r record, l live) int64 {
	cooled := max(r.Until, 1)
	switch {
	case r.Excused:
		return r.Since
	case r.Failed <= 2:
		return cooled
	case l.Announced && r.Failed == 3 && l.Sum != r.Sum:
		return cooled
	case l.Announced && r.Failed > 3 && significant(r.Version, l.Version):
		return cooled
	}
	return 0
}

// significant reports whether the major or minor numbers of two semantic versions differ. Other versions differ unless
// they are equal.
func significant(from, to string) bool {
	major, minor, ok := semantic(from)
	toMajor, toMinor, toOK := semantic(to)
	if ok && toOK {
		return major != toMajor || minor != toMinor
	}
	return from != to
}

// semantic reads the first two numbers of a version such as "2.1.0", "v2.1" or "2.1.0-rc.1+build".
func semantic(version string) (major, minor uint64, ok bool) {
	core, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "+")
	core, _, _ = strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, 0, false
	}
	var numbers [3]uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		numbers[i] = n
	}
	return numbers[0], numbers[1], true
}

// Checkups lists the benchmarks that are due for services with facts, the longest due first.
func (p *Partners) Checkups(now time.Time) []guild.Checkup {
	p.look(now)
	return p.fold.agenda.dueCheckups()
}

// Coming is something that will happen to a provider, unless something else happens first.
type Coming struct {
	At   time.Time // zero if it waits for the provider or a person
	What string
}

// Next lists what will happen to a service, the earliest first. Entries that wait for the provider or a person are
// last.
func (p *Partners) Next(s guild.Service) (coming []Coming) {
	now := p.c.Now().UnixMilli()
	i := registry.IDOf(s)
	rec, blocked, ok := p.fold.record(i)
	if !ok || blocked {
		return nil
	}
	next, ok, checkup, at := p.upcoming(i, now)
	if ok {
		coming = append(coming, Coming{time.UnixMilli(next.at), string(next.To) + ": " + next.Cause})
	}
	if at != 0 && checkup.Purpose != "" {
		coming = append(coming, Coming{time.UnixMilli(at), "benchmark (" + checkup.Purpose + ")"})
	}
	slices.SortStableFunc(coming, func(a, b Coming) int { return a.At.Compare(b.At) })
	waiting := rec.state() == guild.Unqualified && at == 0
	switch {
	case rec.Owner:
		coming = append(coming, Coming{What: "set by a person; only a violation changes that"})
	case waiting && rec.Failed == 3:
		coming = append(coming, Coming{What: "retry, once it announces something else"})
	case waiting:
		coming = append(coming, Coming{What: "retry, once it announces another version"})
	}
	return coming
}

// Story lists the latest transitions of a service, the oldest first.
func (f *Fold) Story(s guild.Service) []Transition {
	r, _, _ := f.record(registry.IDOf(s))
	return slices.Clone(r.Transitions)
}
