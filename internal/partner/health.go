package partner

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/fact"
	"guild/internal/policy"
	"guild/internal/registry"
)

// degraded is how a cause begins when a provider is suspended for what its deliveries add up to (the partnership
// protocol, section 3.4.1).
const degraded = "SUSPECTED_DEGRADED: "

// examine looks for the triggers of section 3.4.1 in the ends of a service, and says which one there is, or "". The
// attempt is the one that the ends end with.
func (f locked) examine(r record, now int64) (signal, cause string) {
	recent := r.since(now - f.p.Window)
	if n := lateness(recent); f.p.Timeouts > 0 && n >= f.p.Timeouts {
		return fact.SignalTimeouts, fmt.Sprintf("%s%d timeouts in a row", degraded, n)
	}
	if done, ends := tally(recent); below(done, ends, f.p) {
		return fact.SignalRate, fmt.Sprintf("%s%d of %d accepted in %s, and %.0f %% is the least", degraded, done, ends,
			days(f.p.Window), 100*f.p.Rate.Float())
	}
	for _, task := range tasksOf(recent) {
		p95, base, ok := f.slowness(r, recent, task, now)
		if ok && p95 >= f.p.SlowFrom && p95*guild.Micro > int64(f.p.Slow)*base {
			return fact.SignalLatency, fmt.Sprintf("%sp95 of %s is %d ms, and %d ms was usual", degraded, guild.Cut(task, maxTask), p95, base)
		}
	}
	return "", ""
}

// healthy reports whether there is no trigger.
func (f locked) healthy(r record, now int64) bool {
	signal, _ := f.examine(r, now)
	return signal == ""
}

// days writes a length of time as a person says it.
func days(ms int64) string {
	if ms%dayMs == 0 {
		return fmt.Sprintf("%d days", ms/dayMs)
	}
	return time.Duration(ms * int64(time.Millisecond)).String()
}

// since is the ends after a time that count.
func (r record) since(after int64) []end {
	var recent []end
	for _, e := range r.Ends {
		if e.At > after && !e.Past {
			recent = append(recent, e)
		}
	}
	return recent
}

// lateness counts the timeouts that the ends end with.
func lateness(ends []end) (n int) {
	for _, e := range slices.Backward(ends) {
		if e.Kind != unheard && e.Kind != timedOut {
			break
		}
		n++
	}
	return n
}

// tally counts ordinary work: what was accepted, and all of it.
func tally(ends []end) (done, all int) {
	for _, e := range ends {
		if !e.Bench {
			all++
			done += count(e.Kind.succeeded())
		}
	}
	return done, all
}

// below reports whether a success rate is below the policy's, by so many standard errors as it wants. All of it is
// integers in micro-units: with n ends, the rate lacks p.Rate·n − done to the policy's, and a standard error of n ends
// is the square root of p.Rate·(1 − p.Rate)·n.
func below(done, n int, p policy.Lifecycle) bool {
	if n < p.Sample || n == 0 {
		return false
	}
	lacking := int64(p.Rate)*int64(n) - int64(done)*guild.Micro
	spread := int64(root(uint64(p.Rate) * uint64(guild.Micro-p.Rate) * uint64(n)))
	return lacking > int64(p.RateZ)*spread/guild.Micro
}

// root is the integer part of the square root.
func root(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	x := uint64(1) << ((bits.Len64(n) + 1) / 2) // not below the root
	for {
		y := (x + n/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// tasksOf lists the tasks of the deliveries among ends, in order.
func tasksOf(ends []end) (tasks []string) {
	for _, e := range ends {
		if e.Ms > 0 && !e.Bench && !slices.Contains(tasks, e.Task) {
			tasks = append(tasks, e.Task)
		}
	}
	slices.SortFunc(tasks, strings.Compare)
	return tasks
}

// slowness is the 95th percentile of a service's latencies in a task, and its baseline: its own from before the window,
// or, where there are too few, that of all other providers of the task. ok is false where either says nothing.
func (f locked) slowness(r record, recent []end, task string, now int64) (p95, base int64, ok bool) {
	var mine, before []int64
	for _, e := range recent {
		if e.Task == task && e.Ms > 0 && !e.Bench {
			mine = append(mine, e.Ms)
		}
	}
	if len(mine) < max(f.p.SlowRuns, 1) {
		return 0, 0, false
	}
	for _, p := range r.Before {
		if p.Task == task {
			before = append(before, p.Ms)
		}
	}
	for _, e := range r.Ends {
		if e.Task == task && e.Ms > 0 && !e.Bench && (e.At <= now-f.p.Window || e.Past) {
			before = append(before, e.Ms)
		}
	}
	if len(before) < f.p.SlowRuns {
		before = before[:0]
		i := registry.IDOf(r.Service)
		for _, l := range f.state.Tasks.Of(task) {
			if l.By != i {
				before = append(before, l.Ms)
			}
		}
	}
	if len(before) < max(f.p.SlowRuns, 1) {
		return 0, 0, false
	}
	return percentile(mine, 95), percentile(before, 95), true
}
