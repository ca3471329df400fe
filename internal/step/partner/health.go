package partner

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
	"guild/internal/policy"
)

// degraded begins the cause of a suspension that several deliveries led to (the partnership protocol, section 3.4.1).
const degraded = "SUSPECTED_DEGRADED: "

// examine returns the signal and the cause of the first trigger of section 3.4.1 that a service's ended attempts show,
// or "".
func (f rules) examine(r record, now int64) (signal, cause string) {
	recent := r.since(now - f.p.Window)
	if n := lateness(recent); f.p.Timeouts > 0 && n >= f.p.Timeouts {
		return fact.SignalTimeouts, fmt.Sprintf("%s%d timeouts in a row", degraded, n)
	}
	if done, ends := tally(recent); below(done, ends, f.p) {
		return fact.SignalRate, fmt.Sprintf("%s%d of %d accepted in %s, at least %.0f %% required", degraded, done, ends,
			days(f.p.Window), 100*f.p.Rate.Float())
	}
	for _, w := range groupsOf(recent) {
		p95, base, ok := f.slowness(r, recent, w, now)
		if ok && p95 >= f.p.SlowFrom && p95*guild.Micro > int64(f.p.Slow)*base {
			return fact.SignalLatency, fmt.Sprintf("%sp95 of %s is %d ms, usually %d ms", degraded, guild.Cut(w.Task, maxTask), p95, base)
		}
	}
	return "", ""
}

// days formats milliseconds for a person, in days if they are whole.
func days(ms int64) string {
	if ms%dayMs == 0 {
		return fmt.Sprintf("%d days", ms/dayMs)
	}
	return time.Duration(ms * int64(time.Millisecond)).String()
}

// since returns the ends after a time in Unix ms, without those marked as past.
func (r record) since(after int64) []end {
	var recent []end
	for _, e := range r.Ends {
		if e.At > after && !e.Past {
			recent = append(recent, e)
		}
	}
	return recent
}

// lateness counts the timeouts at the end of a list of ends.
func lateness(ends []end) (n int) {
	for _, e := range slices.Backward(ends) {
		if e.Kind != unheard && e.Kind != timedOut {
			break
		}
		n++
	}
	return n
}

// tally counts the ends of ordinary work: the successes, and all.
func tally(ends []end) (done, all int) {
	for _, e := range ends {
		if !e.Bench {
			all++
			done += count(e.Kind.succeeded())
		}
	}
	return done, all
}

// below reports whether a success rate of done in n is below the policy's by more than p.RateZ standard errors. Few
// deliveries therefore do not suspend a provider by chance. It computes in integers of micro-units: the rate lacks
// p.Rate·n − done, and a standard error of n ends is the square root of p.Rate·(1 − p.Rate)·n.
//
// A provider that is right 97 times of a hundred has two failures among twenty sooner or later, which is below 95 %. A
// policy with RateZ above 0 requires more than such a chance.
func below(done, n int, p policy.Lifecycle) bool {
	if n < p.Sample || n == 0 {
		return false
	}
	lacking := int64(p.Rate)*int64(n) - int64(done)*guild.Micro
	spread := int64(root(uint64(p.Rate) * uint64(guild.Micro-p.Rate) * uint64(n)))
	return lacking > int64(p.RateZ)*spread/guild.Micro
}

// root returns the integer part of the square root of n.
func root(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	x := uint64(1) << ((bits.Len64(n) + 1) / 2) // at least the root
	for {
		y := (x + n/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// groupsOf lists the groups of the deliveries among ends, sorted.
func groupsOf(ends []end) (all []work) {
	for _, e := range ends {
		if e.Ms > 0 && !e.Bench && !slices.Contains(all, e.work) {
			all = append(all, e.work)
		}
	}
	slices.SortFunc(all, func(a, b work) int { return cmp.Or(strings.Compare(a.Task, b.Task), a.Size-b.Size) })
	return all
}

// slowness returns the 95th percentile of a service's latencies in like work, and that of its baseline, in ms. The
// baseline is the service's own latencies from before the window, or those of the other providers if there are too few.
// ok is false if there are too few of both.
func (f rules) slowness(r record, recent []end, like work, now int64) (p95, base int64, ok bool) {
	var mine, before []int64
	for _, e := range recent {
		if e.work == like && e.Ms > 0 && !e.Bench {
			mine = append(mine, e.Ms)
		}
	}
	if len(mine) < max(f.p.SlowRuns, 1) {
		return 0, 0, false
	}
	for _, p := range r.Before {
		if p.work == like {
			before = append(before, p.Ms)
		}
	}
	for _, e := range r.Ends {
		if e.work == like && e.Ms > 0 && !e.Bench && (e.At <= now-f.p.Window || e.Past) {
			before = append(before, e.Ms)
		}
	}
	// A new provider has no history of its own. It is compared with the others in the task.
	if len(before) < f.p.SlowRuns {
		before = before[:0]
		i := registry.IDOf(r.Service)
		for _, l := range f.state.Tasks.Of(like.Task) {
			if l.By != i && l.Size == like.Size {
				before = append(before, l.Ms)
			}
		}
	}
	if len(before) < max(f.p.SlowRuns, 1) {
		return 0, 0, false
	}
	return percentile(mine, 95), percentile(before, 95), true
}
