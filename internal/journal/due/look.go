package due

import (
	"container/heap"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"guild/internal/journal/fact"
)

// Large is a source whose work is under many guards, most of which wait. After a change the runner looks only at the guards that
// changed, and at those whose time has come. What is due may depend on more than that, as the market. So all guards are looked
// at, too, but if that takes long then less often.
type Large struct {
	All Source // what is due under all guards

	// Under returns what is due under given guards. It may add work under others that has become more likely.
	Under func(guards []fact.Subject, now time.Time) []Work
}

const (
	idle  = time.Minute      // longest time between two looks at everything
	few   = 256              // up to this much work, there is no pause between looks at everything
	brief = time.Millisecond // nor is there one after a look as short as this
	share = 100              // pause after a look at everything, as a multiple of its duration
	most  = 10 * time.Second // longest such pause
)

// agenda says which guards of large sources to look at next.
type agenda struct {
	times turns
	at    map[fact.Subject]time.Time // the next time of each guard; other turns are outdated
	stuck map[fact.Subject]bool      // guards with ready work that could not begin

	seen   uint64    // the last entry before the last look
	wanted bool      // something changed since the last look at everything
	rests  time.Time // before that, not everything is looked at again
	latest time.Time // when everything is looked at again without a change
}

func newAgenda() agenda {
	return agenda{at: map[fact.Subject]time.Time{}, stuck: map[fact.Subject]bool{}}
}

// set has a guard looked at at a time, unless that is due before.
func (a *agenda) set(guard fact.Subject, at time.Time) {
	if before, ok := a.at[guard]; ok && !at.Before(before) {
		return
	}
	a.at[guard] = at
	heap.Push(&a.times, turn{at, guard})
}

// forget forgets what is known of guards.
func (a *agenda) forget(guards []fact.Subject) {
	for _, guard := range guards {
		delete(a.at, guard)
		delete(a.stuck, guard)
	}
}

// first returns the first turn, and false if nothing is planned.
func (a *agenda) first() (turn, bool) {
	for len(a.times) > 0 {
		if t := a.times[0]; a.at[t.guard].Equal(t.at) {
			return t, true
		}
		heap.Pop(&a.times)
	}
	return turn{}, false
}

// come returns the guards whose time has come.
func (a *agenda) come(now time.Time) (guards []fact.Subject) {
	for t, ok := a.first(); ok && !t.at.After(now); t, ok = a.first() {
		delete(a.at, t.guard)
		guards = append(guards, t.guard)
	}
	return guards
}

// turn is a time at which a guard is looked at.
type turn struct {
	at    time.Time
	guard fact.Subject
}

// turns is a heap, the earliest first.
type turns []turn

func (t turns) Len() int           { return len(t) }
func (t turns) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t turns) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *turns) Push(x any)        { *t = append(*t, x.(turn)) }
func (t *turns) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	*t = (*t)[:last]
	return x
}

// look starts all work that is ready, and returns the time until more will be ready. changed says that it is not only time that
// has passed.
func (r *Runner) look(ctx context.Context, started *sync.WaitGroup, changed bool) time.Duration {
	r.looking.Lock()
	defer r.looking.Unlock()
	now, a := r.Now(), &r.agenda
	l := survey{Runner: r, ctx: ctx, started: started, now: now, seen: r.Journal.Last(), next: now.Add(idle), due: map[string]bool{}}
	guards, known := r.Claims.after(a.seen)
	guards = append(guards, r.takeEnded()...)
	a.seen, a.wanted = l.seen, a.wanted || changed
	whole := len(r.Large) == 0 || !known || !now.Before(a.latest) || a.wanted && !now.Before(a.rests)
	if whole {
		l.everything()
	} else {
		l.under(append(append(guards, a.come(now)...), keysOf(a.stuck)...))
	}
	for _, source := range r.Sources { // after the large ones: of what begins now, somebody waits for the jobs the most
		for _, w := range source(now) {
			if at, _ := l.consider(w); !at.IsZero() && at.Before(l.next) {
				l.next = at
			}
		}
	}
	if whole {
		l.forget(l.due)
	}
	if t, ok := a.first(); ok && t.at.Before(l.next) {
		l.next = t.at
	}
	if a.wanted && a.rests.Before(l.next) {
		l.next = a.rests
	}
	if len(r.Large) > 0 && a.latest.Before(l.next) {
		l.next = a.latest
	}
	return max(0, l.next.Sub(now))
}

// survey is one look.
type survey struct {
	*Runner
	ctx     context.Context
	started *sync.WaitGroup
	now     time.Time
	seen    uint64          // the last entry before it
	next    time.Time       // of the next one
	due     map[string]bool // what is due, by its key
}

// everything looks at all guards of the large sources.
func (l *survey) everything() {
	a, begun := &l.agenda, l.Now()
	a.times, a.at, a.stuck, a.wanted = nil, map[fact.Subject]time.Time{}, map[fact.Subject]bool{}, false
	for _, source := range l.Large {
		l.plan(source.All(l.now))
	}
	ended := l.Now()
	a.latest, a.rests = ended.Add(idle), ended
	if took := ended.Sub(begun); took > brief && len(l.due) > few {
		a.rests = ended.Add(min(took*share, most))
	}
}

// under looks at some guards of the large sources.
func (l *survey) under(guards []fact.Subject) {
	var work []Work
	for _, source := range l.Large {
		work = append(work, source.Under(guards, l.now)...)
	}
	l.agenda.forget(guards)
	for _, w := range work {
		l.agenda.forget([]fact.Subject{w.of()})
	}
	l.plan(work)
}

// plan considers work of a large source, and notes when its guards are to be looked at again.
func (l *survey) plan(work []Work) {
	for _, w := range work {
		at, stuck := l.consider(w)
		if stuck {
			l.agenda.stuck[w.of()] = true
		}
		if !at.IsZero() {
			l.agenda.set(w.of(), at)
		}
	}
}

// consider starts work if it is ready. If not, at is when it will be. stuck says that it is ready and could not begin.
func (l *survey) consider(w Work) (at time.Time, stuck bool) {
	if l.Journal.Held(w.Guard) || l.Journal.Held(w.of()) {
		return time.Time{}, false // a lost entry may say that it was done
	}
	l.due[w.Key] = true
	if ready := l.ready(w, l.now); ready.After(l.now) {
		return ready, false
	}
	if !l.take(w) {
		return time.Time{}, true
	}
	l.started.Go(func() { l.do(l.ctx, w, l.seen) })
	return time.Time{}, false
}

// Pending returns the keys of the effects that are due under a guard, now or later, but for the parked ones.
func (r *Runner) Pending(guard fact.Subject) (keys []string) {
	defer r.Wake() // some sources list what changed only once
	r.looking.Lock()
	defer r.looking.Unlock()
	now := r.Now()
	var work []Work
	for _, source := range r.Sources {
		work = append(work, source(now)...)
	}
	for _, source := range r.Large {
		work = append(work, source.Under([]fact.Subject{guard}, now)...)
	}
	for _, w := range work {
		if w.Guard == guard && r.Claims.get(w.Key).Parked == "" {
			keys = append(keys, w.Key)
		}
	}
	return keys
}

// takeEnded returns the guards of work that has ended since it was last called.
func (r *Runner) takeEnded() []fact.Subject {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := keysOf(r.ended)
	clear(r.ended)
	return ended
}

func keysOf(set map[fact.Subject]bool) []fact.Subject { return slices.Collect(maps.Keys(set)) }

// forget removes the records of effects that are not due any more.
func (r *Runner) forget(due map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.failed, func(key string, _ failure) bool { return !due[key] && !r.running[key] })
	maps.DeleteFunc(r.acted, func(key string, _ uint64) bool { return !due[key] && !r.running[key] })
}
