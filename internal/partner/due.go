package partner

import (
	"cmp"
	"slices"
	"time"

	"guild"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/internal/registry"
)

// sight is what is known of a service beside the facts.
type sight struct {
	registry.Latest
	ears  int64 // Unix ms: since when what others say reaches us; 0 while it does not
	known int64 // Unix ms: when everybody who announces something has been heard of; 0 when that cannot be said
}

// sight looks a service up.
func (p *Partners) sight(i registry.ID) (s sight) {
	s.Latest = p.c.Latest(i)
	if p.c.Hears != nil {
		if since := p.c.Hears(); !since.IsZero() {
			s.ears, s.known = since.UnixMilli(), since.Add(p.c.Patience).UnixMilli()
		}
	}
	return s
}

// turn is a change of state that comes at a time.
type turn struct {
	fact.ProviderMoved
	at int64 // Unix ms
}

// Due lists what is due for the providers that something was decided about, and the next thing that will be. Only
// those are looked at that a fact or an announcement was about since, or whose time has come; of mere strangers Offers
// computes what they are. It implements due.Source.
func (p *Partners) Due(now time.Time) []due.Work {
	work := p.look(now)
	if next, ok := p.fold.agenda.first(); ok {
		work = append(work, p.advance(next.service, time.UnixMilli(next.at)))
	}
	return work
}

// look looks at all who are to be looked at by now.
func (p *Partners) look(now time.Time) (work []due.Work) {
	ms := now.UnixMilli()
	for _, i := range p.fold.agenda.ripe(ms) {
		next, ok, checkup, at := p.ahead(i, ms)
		if ok && next.at <= ms {
			p.fold.agenda.touch(i) // until it is decided
			work = append(work, p.advance(i, time.Time{}))
			ok = false
		}
		p.fold.agenda.wants(i, checkup, at != 0 && at <= ms)
		alarm := int64(0)
		if ok {
			alarm = next.at
		}
		if at > ms && (alarm == 0 || at < alarm) {
			alarm = at
		}
		if again := ms + deafness.Milliseconds(); p.deaf() && (alarm == 0 || again < alarm) {
			alarm = again
		}
		p.fold.agenda.set(i, alarm)
	}
	return work
}

// deafness is how often everybody is looked at anew while we hear nothing, and so cannot say who is silent.
const deafness = time.Minute

func (p *Partners) deaf() bool { return p.c.Hears != nil && p.c.Hears().IsZero() }

// ahead is what comes next for a service: a turn, and a benchmark with its time, 0 for none.
func (p *Partners) ahead(i registry.ID, now int64) (next turn, ok bool, checkup guild.Checkup, at int64) {
	s := p.sight(i)
	p.fold.View(func(st *state) {
		rec, known := st.Services.Get(i)
		if !known {
			return
		}
		f := locked{p.fold, st}
		next, ok = f.next(rec, s, now)
		checkup, at = f.checkup(rec, s)
	})
	return next, ok, checkup, at
}

// advance is the decision that takes a service one turn further, whatever that is by then.
func (p *Partners) advance(i registry.ID, ready time.Time) due.Work {
	rec, _, _ := p.fold.record(i)
	return due.Decide("move "+i.String(), fact.ProviderSubject(rec.Service.PubKey), ready, func(tx *journal.Tx) error {
		now := tx.Now().UnixMilli()
		next, ok, _, _ := p.ahead(i, now)
		if ok && next.at <= now {
			tx.Append(next.ProviderMoved)
		}
		return nil
	})
}

// next is the turn that comes next by the rules, in this order: what its deliveries add up to, that it is heard of
// again, what happened, and what time brings.
func (f locked) next(r record, s sight, now int64) (turn, bool) {
	state := r.state()
	if f.state.blocked(r.Service.PubKey) {
		if state != guild.Removed || len(r.Owed) == 0 || r.Owed[0].What != overturned {
			return turn{}, false
		}
		return f.follow(r, s)
	}
	if !r.Owner && (working(state) || state == guild.Unresponsive && (r.Rung == guild.Warned || r.Rung == guild.Reduced)) {
		if signal, cause := f.examine(r, now); signal != "" {
			t := f.turn(r, guild.Suspended, now, signal, cause)
			t.Until = now + f.p.Retry
			if last := r.Ends[len(r.Ends)-1]; len(r.Owed) > 0 && short(r.Owed[0].Attempt) == last.Attempt {
				t.Attempt = r.Owed[0].Attempt
			}
			return t, true
		}
	}
	if asleep(state) && f.fresh(r, s, now) {
		return f.awake(r, now), true
	}
	if len(r.Owed) > 0 && !(asleep(state) && r.Owed[0].answered()) {
		return f.follow(r, s)
	}
	if r.Owner || r.State == "" {
		return turn{}, false
	}
	return f.timed(r, s)
}

func (f *Fold) turn(r record, to guild.ProviderState, at int64, signal, cause string) turn {
	return turn{fact.ProviderMoved{Service: r.Service, From: r.state(), To: to, Cause: cause, Signal: signal, Policy: f.hash}, at}
}

// follow is the turn that follows from the first debt.
func (f locked) follow(r record, s sight) (turn, bool) {
	o := r.Owed[0]
	to := f.step(r, o)
	if to == r.state() {
		return turn{}, false
	}
	signal := r.signalOf(o, to)
	t := f.turn(r, to, o.At, signal, cmp.Or(o.Cause, string(o.What)))
	t.Attempt, t.Meeting, t.Until = o.Attempt, o.Meeting, f.quarantine(r, o, to, signal)
	if o.What == concluded && to != o.To && o.To != "" && to != guild.Removed {
		t.Cause = string(o.To) + ": " + t.Cause
	}
	if to == guild.Unqualified && declines(t.ProviderMoved) && s.Announced {
		t.Said, t.Version = s.Sum, s.Version
	}
	return t, true
}

// fresh reports whether somebody who was put aside is heard of again.
func (f *Fold) fresh(r record, s sight, now int64) bool {
	if s.Announced {
		return now-max(s.At, r.Heard) < f.p.Stale
	}
	return r.Heard > 0 && r.Heard >= r.Since && now-r.Heard < f.p.Stale
}

// awake is where a provider goes that is heard of again: back to where it was, for nobody gets rid of what it did by
// being silent. Whoever had proven itself and was gone for so long that it was archived is new.
func (f *Fold) awake(r record, now int64) turn {
	to, until := guild.Seen, int64(0)
	was := r.Was
	if was == guild.Unresponsive {
		was = r.Rung
	}
	if r.state().CanBecome(was) && was != guild.Benchmarking {
		to = was
	}
	if to == guild.Unqualified || to == guild.Suspended {
		until = r.WasUntil
	}
	t := f.turn(r, to, now, fact.SignalHeard, "heard of again")
	t.Until = until
	return t
}

// timed is what time brings.
func (f *Fold) timed(r record, s sight) (turn, bool) {
	var all []turn
	switch state := r.state(); state {
	case guild.Unresponsive:
		to := cmp.Or(r.Rung, guild.Seen)
		t := f.turn(r, to, r.Until, fact.SignalOver, "quarantine over")
		if to == guild.Unqualified {
			t.Until = r.WasUntil
		}
		all = append(all, t)
	case guild.Suspended:
		if f.p.Persist > 0 && r.Suspended >= f.p.Persist {
			return f.turn(r, guild.Removed, r.Since, fact.SignalPersistent, "suspended again and again, and nothing accepted between"), true
		}
	case guild.Warned:
		if r.Asked > r.Since {
			all = append(all, f.turn(r, guild.Reduced, r.Since+f.p.Sustained, fact.SignalSustained, "warned for "+days(f.p.Sustained)+" without a success"))
		}
	case guild.Active, guild.Conditional:
		if s.ears > 0 {
			all = append(all, f.turn(r, guild.Warned, max(s.At, r.Heard, s.ears)+f.p.Silence, fact.SignalSilence,
				"nothing heard of it for "+time.Duration(f.p.Silence*int64(time.Millisecond)).String()))
		}
	}
	if t, ok := f.aging(r, s); ok {
		all = append(all, t)
	}
	if len(all) == 0 {
		return turn{}, false
	}
	return slices.MinFunc(all, func(a, b turn) int { return cmp.Compare(a.at, b.at) }), true
}

// aging is when a provider is put aside: by the age of what it announced, or, once everybody could be heard of, because
// it announces nothing (the partnership protocol, section 3.3.4).
func (f *Fold) aging(r record, s sight) (turn, bool) {
	last := max(s.At, r.Heard)
	since := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }
	switch state := r.state(); {
	case state == guild.Archived || state == guild.Benchmarking || !state.CanBecome(guild.Stale) && state != guild.Stale:
		return turn{}, false
	case state == guild.Stale:
		if last == 0 {
			last = r.Since - f.p.Stale
		}
		return f.turn(r, guild.Archived, last+f.p.Archived, fact.SignalStale, "not heard of since "+since(last)), true
	case s.Announced:
		return f.turn(r, guild.Stale, last+f.p.Stale, fact.SignalStale, "not heard of since "+since(last)), true
	case s.known == 0:
		return turn{}, false
	case last == 0:
		return f.turn(r, guild.Stale, s.known, fact.SignalStale, "nobody announces it"), true
	}
	return f.turn(r, guild.Stale, max(s.known, last+f.p.Silence), fact.SignalStale, "not announced, and not heard of since "+since(last)), true
}

// checkup is the benchmark that a service needs next, and from when on; 0 for none.
func (f locked) checkup(r record, s sight) (c guild.Checkup, at int64) {
	if r.Owner || r.Meeting != "" || len(r.Owed) > 0 || f.state.blocked(r.Service.PubKey) {
		return c, 0 // with a move owed, where it stands is not known yet
	}
	purpose := ""
	switch r.state() {
	case guild.Active, guild.Conditional, guild.Warned:
		purpose, at = guild.PurposeHeartbeat, max(r.Tried, r.Proved)+f.p.Heartbeat
		if quiet := max(s.At, r.Heard, s.ears) + f.p.Silence; s.ears > 0 && quiet < at {
			purpose, at = guild.PurposeProbe, quiet
		}
	case guild.Reduced:
		purpose, at = guild.PurposeReverify, r.Since
	case guild.Unqualified:
		purpose, at = guild.PurposeRetry, f.retry(r, s)
	case guild.Suspended:
		purpose, at = guild.PurposeRetry, r.Until
	case guild.Benchmarking:
		purpose, at = guild.PurposeRetry, r.Since
	case guild.Stale:
		if r.Base != "" && s.Announced {
			purpose, at = guild.PurposeProbe, r.Since
			if r.Asked > r.Since {
				at = r.Asked + f.p.Heartbeat
			}
		}
	}
	if at == 0 {
		return guild.Checkup{}, 0
	}
	return guild.Checkup{Service: r.Service, Purpose: purpose, Task: r.task(), Since: at}, at
}

// task is what it last did for us.
func (r record) task() string {
	if len(r.Ends) == 0 {
		return ""
	}
	return r.Ends[len(r.Ends)-1].Task
}

// retry is when a rejected provider is evaluated anew, 0 for not by itself: the table of section 3.4.3 of the
// partnership protocol. The cooldown is over in any case first. After three failures it must announce something else,
// after more another version.
func (f *Fold) retry(r record, s sight) int64 {
	switch {
	case r.Excused:
		return r.Since
	case r.Failed <= 2:
		return max(r.Until, 1)
	case !s.Announced:
		return 0
	}
	if r.Failed == 3 && s.Sum != r.Said || r.Failed > 3 && significant(r.Version, s.Version) {
		return max(r.Until, 1)
	}
	return 0
}

// Checkups lists the benchmarks that are due for those we have dealt with, those first that are so for longest.
func (p *Partners) Checkups(now time.Time) []guild.Checkup {
	p.look(now)
	return p.fold.agenda.wanted()
}

// Coming is something that will come for a provider, unless something else happens first.
type Coming struct {
	At   time.Time // zero when it waits for the provider or a person
	What string
}

// Next lists what comes next for a service, the first first.
func (p *Partners) Next(s guild.Service) (coming []Coming) {
	now := p.c.Now().UnixMilli()
	i := registry.IDOf(s)
	rec, blocked, ok := p.fold.record(i)
	if !ok || blocked {
		return nil
	}
	next, ok, checkup, at := p.ahead(i, now)
	if ok {
		coming = append(coming, Coming{time.UnixMilli(next.at), string(next.To) + ": " + next.Cause})
	}
	if at != 0 && checkup.Purpose != "" {
		coming = append(coming, Coming{time.UnixMilli(at), checkup.Purpose})
	}
	switch {
	case rec.Owner:
		coming = append(coming, Coming{What: "a person has put it there, and only a violation undoes that"})
	case rec.state() == guild.Unqualified && at == 0 && rec.Failed == 3:
		coming = append(coming, Coming{What: "retry, once it announces something else"})
	case rec.state() == guild.Unqualified && at == 0:
		coming = append(coming, Coming{What: "retry, once it announces another version"})
	}
	slices.SortStableFunc(coming, func(a, b Coming) int {
		switch {
		case a.At.IsZero() == b.At.IsZero():
			return a.At.Compare(b.At)
		case a.At.IsZero():
			return 1 // what waits for somebody comes last
		}
		return -1
	})
	return coming
}

// Story lists the latest turns of a service, the oldest first.
func (f *Fold) Story(s guild.Service) []Turn {
	r, _, _ := f.record(registry.IDOf(s))
	return slices.Clone(r.Turns)
}
