package main

import (
	"container/heap"
	"slices"
	"time"
)

// play runs a router on all jobs of its world.
func (w *world) play(r router) {
	var line queue
	for n, at := range w.jobs {
		line = append(line, &order{at: at, job: uint64(n)})
	}
	heap.Init(&line)
	for len(line) > 0 {
		o := line[0]
		if o.asked != nil && !o.learned {
			r.learn(o.at, o.asked, o.end)
			o.learned = true
		}
		if !w.advance(r, o) {
			heap.Pop(&line)
			continue
		}
		heap.Fix(&line, 0)
	}
}

// again is the time after which a job looks again for a provider with a free slot.
const again = time.Minute

// advance asks the next provider for a job, or lets the job wait. It reports whether the job goes on.
func (w *world) advance(r router, o *order) bool {
	if o.left == nil {
		w.tally.Jobs++
		o.left = w.doing(o.job, o.at)
	}
	if o.asked != nil && o.end.ending == accepted || o.tried == tries || len(o.left)+len(o.refused) == 0 || o.at > time.Duration(w.days)*day {
		return false
	}
	idle, next := w.idle(o)
	if len(idle) == 0 {
		w.wait(o, next)
		return true
	}
	p := r.choose(o.at, idle)
	if p == nil {
		w.wait(o, o.at+again)
		return true
	}
	if !o.first {
		o.first = true
		w.first(p, o.job, o.at)
	}
	end := w.ask(p, o.job, o.at, false)
	w.asked(p, o.at, end)
	o.left = slices.DeleteFunc(o.left, func(other *provider) bool { return other == p })
	o.asked, o.end, o.learned = p, end, false
	if end.ending == full {
		o.refused = append(o.refused, p)
	} else {
		w.waiting[p.n] = append(w.waiting[p.n], o.at+end.after)
		o.tried++
	}
	o.at += end.after
	return true
}

// idle returns the providers that may be asked for the job and seem to have a free slot. A provider has none if it has
// as many unanswered requests as announced slots. The job should look again at the time next if all are full.
func (w *world) idle(o *order) (idle []*provider, next time.Duration) {
	next = o.at + again
	for _, p := range o.left {
		w.waiting[p.n] = slices.DeleteFunc(w.waiting[p.n], func(until time.Duration) bool { return until <= o.at })
		if len(w.waiting[p.n]) < p.slots {
			idle = append(idle, p)
			continue
		}
		next = min(next, slices.Min(w.waiting[p.n]))
	}
	return idle, next
}

// wait lets a job wait. Then it may also ask the providers again that refused it.
func (w *world) wait(o *order, until time.Duration) {
	w.waited(until - o.at)
	o.at, o.left, o.refused = until, append(o.left, o.refused...), nil
}

// waited counts the cost of a job that waits for a free slot.
func (w *world) waited(d time.Duration) {
	w.tally.Expected -= cost(d)
	w.tally.Realised -= cost(d)
}

// order is a job in progress.
type order struct {
	at      time.Duration // time of the next step
	job     uint64
	left    []*provider // providers not asked yet
	refused []*provider // providers that had no free slot since the job waited last
	asked   *provider   // latest provider
	end     outcome     // of the latest request
	learned bool        // the router knows that outcome
	first   bool        // a provider was asked
	tried   int
}

// queue has orders by time, then by number.
type queue []*order

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].job < q[j].job
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*order)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
