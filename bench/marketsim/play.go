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
		line = append(line, &order{at: at, job: uint64(n), left: nil})
	}
	heap.Init(&line)
	for len(line) > 0 {
		o := line[0]
		if o.asked != nil {
			r.learn(o.at, o.asked, o.end)
		}
		if !w.advance(r, o) {
			heap.Pop(&line)
			continue
		}
		heap.Fix(&line, 0)
	}
}

// advance asks the next provider for a job, and reports whether that was possible.
func (w *world) advance(r router, o *order) bool {
	if o.left == nil {
		w.tally.Jobs++
		o.left = w.doing(o.job, o.at)
	}
	if o.asked != nil && o.end.ending == accepted || o.tried == tries || o.asks == asks || len(o.left) == 0 {
		return false
	}
	p := r.choose(o.at, w.idle(o))
	if p == nil {
		return false
	}
	if o.asked == nil {
		w.first(p, o.job, o.at)
	}
	end := w.ask(p, o.job, o.at, false)
	w.asked(p, o.at, end)
	o.left = slices.DeleteFunc(o.left, func(other *provider) bool { return other == p })
	o.asked, o.end, o.asks = p, end, o.asks+1
	if end.ending != full {
		w.waiting[p.n] = append(w.waiting[p.n], o.at+end.after)
		o.tried++
	}
	o.at += end.after
	return true
}

// idle returns the providers that were not asked for the job and seem to have a free slot. A provider has none if it
// has as many unanswered requests as announced slots. If that is true of all, idle returns all.
func (w *world) idle(o *order) []*provider {
	idle := make([]*provider, 0, len(o.left))
	for _, p := range o.left {
		w.waiting[p.n] = slices.DeleteFunc(w.waiting[p.n], func(until time.Duration) bool { return until <= o.at })
		if len(w.waiting[p.n]) < p.slots {
			idle = append(idle, p)
		}
	}
	if len(idle) == 0 {
		return o.left
	}
	return idle
}

// order is a job in progress.
type order struct {
	at    time.Duration // time of the next step
	job   uint64
	left  []*provider // providers not asked yet
	asked *provider   // latest provider
	end   outcome     // of the latest request
	tried int
	asks  int
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
