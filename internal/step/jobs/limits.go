package jobs

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// This file counts the requests that providers have not answered, and says whether a provider may be given one more. The
// counts come from the facts, and from slots for requests whose fact is on its way into the journal.

// Limits bounds what we ask of one provider. A zero field means the value given beside it.
type Limits struct {
	AtOnce    int // requests that it has not answered: 8
	PerMinute int // new requests: 30
}

func (l Limits) orDefaults() Limits {
	l.AtOnce = cmp.Or(l.AtOnce, 8)
	l.PerMinute = cmp.Or(l.PerMinute, 30)
	return l
}

// traffic counts our requests to providers. It is derived from the attempts of all jobs.
type traffic struct {
	waiting    map[nostr.PubKey]int     // requests that a provider has not answered
	given      map[guild.Service]int    // requests that a service has not answered
	unanswered int                      // requests that nobody has answered
	recent     map[nostr.PubKey][]int64 // Unix ms of the requests of the minute before the latest, in the order of the facts
	queues     map[nostr.PubKey]queue   // the latest report of a provider that has a request of ours
	tasks      map[string]*allotment
}

func newTraffic() traffic {
	return traffic{
		waiting: map[nostr.PubKey]int{},
		given:   map[guild.Service]int{},
		recent:  map[nostr.PubKey][]int64{},
		queues:  map[nostr.PubKey]queue{},
		tasks:   map[string]*allotment{},
	}
}

// queue is the length of a provider's queue, as the provider reported it.
type queue struct {
	depth int
	at    int64 // Unix ms of the report
}

// allotment counts the requests for one task by provider.
type allotment struct {
	decided int // all requests
	latest  []allotted
	had     map[nostr.PubKey]int // requests among the latest
}

type allotted struct {
	at int64 // Unix ms
	to nostr.PubKey
}

// maxQueue is the longest queue that a provider may report; a longer one counts as this.
const maxQueue = 1 << 20

// longest is the time for which requests are remembered to compute shares. No policy has a longer window.
const longest = 24 * time.Hour

// decided counts a request for a task, however old.
func (t *traffic) decided(task string) *allotment {
	a := t.tasks[task]
	if a == nil {
		a = &allotment{had: map[nostr.PubKey]int{}}
		t.tasks[task] = a
	}
	a.decided++
	return a
}

// asked counts one of the latest requests.
func (t *traffic) asked(a *allotment, p nostr.PubKey, at int64) {
	since := at - time.Minute.Milliseconds()
	t.recent[p] = append(slices.DeleteFunc(slices.Clone(t.recent[p]), func(was int64) bool { return was <= since }), at)
	a.expire(at - longest.Milliseconds())
	a.latest = append(a.latest, allotted{at, p})
	a.had[p]++
}

// expire forgets requests from before a time, and returns the provider of each.
func (a *allotment) expire(since int64) (whose []nostr.PubKey) {
	n := 0
	for n < len(a.latest) && a.latest[n].at <= since {
		p := a.latest[n].to
		a.had[p]--
		if a.had[p] == 0 {
			delete(a.had, p)
		}
		whose = append(whose, p)
		n++
	}
	a.latest = a.latest[n:]
	if n > 0 && cap(a.latest) > 4*len(a.latest) {
		a.latest = slices.Clone(a.latest)
	}
	return whose
}

// changed counts the attempts of a job as they are now, instead of as they were.
func (t *traffic) changed(from, to []Attempt) {
	for _, a := range from {
		t.wait(a, -1)
	}
	for _, a := range to {
		t.wait(a, +1)
		if p := a.Provider.PubKey; a.State.Waiting() && a.Capacity != nil && a.Reported >= t.queues[p].at {
			t.queues[p] = queue{min(max(a.Capacity.Queue, 0), maxQueue), a.Reported}
		}
	}
	for _, a := range from {
		if t.waiting[a.Provider.PubKey] == 0 {
			delete(t.queues, a.Provider.PubKey) // the report was about requests that are answered
		}
	}
}

func (t *traffic) wait(a Attempt, by int) {
	if !a.State.Waiting() {
		return
	}
	t.unanswered += by
	add(t.waiting, a.Provider.PubKey, by)
	add(t.given, a.Provider, by)
}

// add adds to a count, and removes a count that becomes 0.
func add[K comparable](counts map[K]int, k K, n int) {
	counts[k] += n
	if counts[k] == 0 {
		delete(counts, k)
	}
}

// asked returns how many requests a provider has not answered, and the times of those made within the last minute, in
// Unix ms.
func (f *Fold) asked(p nostr.PubKey, now time.Time) (waiting int, minute []int64) {
	since := now.Add(-time.Minute).UnixMilli()
	f.View(func(s *state) {
		for _, at := range s.traffic.recent[p] {
			if at > since {
				minute = append(minute, at)
			}
		}
		waiting = s.traffic.waiting[p]
	})
	return waiting, minute
}

// atOnce returns the number of unanswered requests that a provider may have: the variable PARALLELISM_LIMIT, else the
// configured one (section 5.3.3).
func (j *Jobs) atOnce(p nostr.PubKey) int {
	if j.c.Variables != nil {
		if n, ok := j.c.Variables.Parallelism(p); ok {
			return max(n, 1)
		}
	}
	return j.c.Limits.AtOnce
}

// full reports whether all providers together have as many unanswered requests as PARALLELISM_LIMIT allows; taken is how
// many slots other requests hold.
func (j *Jobs) full(taken int) bool {
	if j.c.Variables == nil {
		return false
	}
	most, limited := j.c.Variables.AtOnce()
	return limited && j.fold.unanswered()+taken >= max(most, 1)
}

// unanswered returns the number of requests that are not answered.
func (f *Fold) unanswered() int {
	return fold.Read(f.State, func(s *state) int { return s.traffic.unanswered })
}

// room returns the time from which a provider may be given one request more; taken is how many slots of it other
// requests hold. known is false where that depends on an answer of the provider.
func (j *Jobs) room(p nostr.PubKey, now time.Time, taken int) (when time.Time, known bool) {
	waiting, minute := j.fold.asked(p, now)
	if waiting+taken >= j.atOnce(p) || j.full(taken) {
		return time.Time{}, false
	}
	if over := len(minute) + taken - j.c.Limits.PerMinute; over >= 0 {
		freed := min(over, len(minute)-1) // the slots are the youngest of the minute
		if freed < 0 {
			return now.Add(time.Minute), true
		}
		return time.UnixMilli(minute[freed]).Add(time.Minute), true
	}
	return now, true
}

// slot is a place at a provider that is taken by a request whose fact is on its way into the journal.
type slot struct {
	to   guild.Service
	task string
	turn int // attempts of the job before
	at   time.Time
}

// takenSlots holds the slots of all jobs, at most one for each, since the attempts of a job are planned one after the other.
//
// A decision is guarded by its job alone, so two jobs may decide at the same time to ask one provider. The slots count
// what the fold does not know yet of such decisions. That works within one node; two nodes on one journal can both give
// away the last place.
type takenSlots struct {
	mu    sync.Mutex
	jobs  map[guild.JobID]slot
	to    map[nostr.PubKey]int
	here  map[guild.Service]int
	parts map[portion]int
}

// portion is a provider's part of the requests for a task.
type portion struct {
	task string
	to   nostr.PubKey
}

func newSlots() takenSlots {
	return takenSlots{
		jobs:  map[guild.JobID]slot{},
		to:    map[nostr.PubKey]int{},
		here:  map[guild.Service]int{},
		parts: map[portion]int{},
	}
}

// take gives a job a slot, and releases the one that it had before.
func (m *takenSlots) take(job guild.JobID, s slot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(job)
	m.jobs[job] = s
	m.count(s, 1)
}

// release releases the slot of a job. The lock must be held.
func (m *takenSlots) release(job guild.JobID) {
	if s, ok := m.jobs[job]; ok {
		delete(m.jobs, job)
		m.count(s, -1)
	}
}

func (m *takenSlots) count(s slot, by int) {
	add(m.to, s.to.PubKey, by)
	add(m.here, s.to, by)
	add(m.parts, portion{s.task, s.to.PubKey}, by)
}

// drop releases the slots for which over returns true, and returns their providers.
func (m *takenSlots) drop(over func(guild.JobID, slot) bool) (whose []nostr.PubKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for job, p := range maps.Clone(m.jobs) {
		if over(job, p) {
			m.release(job)
			whose = append(whose, p.to.PubKey)
		}
	}
	return whose
}

// of counts the slots: all, those of a provider, and those of the provider for a task.
func (m *takenSlots) of(to nostr.PubKey, task string) (all, theirs, ofTask int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.jobs), m.to[to], m.parts[portion{task, to}]
}

// given counts the slots of a service.
func (m *takenSlots) given(to guild.Service) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.here[to]
}

// ofTask counts the slots for a task by provider.
func (m *takenSlots) ofTask(task string) map[nostr.PubKey]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := map[nostr.PubKey]int{}
	for p, n := range m.parts {
		if p.task == task {
			of[p.to] = n
		}
	}
	return of
}

// takeSlot takes a slot for a request that is being planned. The lock on choosing must be held.
func (j *Jobs) takeSlot(job guild.JobID, s slot) {
	j.releaseSlot(job)
	j.slots.take(job, s)
	j.matrix.TouchAll(s.to.PubKey)
}

// releaseSlot releases the slot of a job's next request.
func (j *Jobs) releaseSlot(job guild.JobID) {
	for _, p := range j.slots.drop(func(id guild.JobID, _ slot) bool { return id == job }) {
		j.matrix.TouchAll(p)
	}
}

// releaseSlots releases the slots of requests that the fold knows by now, and of those whose decision failed in the end.
func (j *Jobs) releaseSlots(now time.Time) {
	j.endDemands(now)
	for _, p := range j.slots.drop(func(id guild.JobID, s slot) bool {
		job, ok := j.fold.Job(id)
		return ok && (len(job.Attempts) > s.turn || job.Ending != guild.Open) || now.Sub(s.at) > time.Minute
	}) {
		j.matrix.TouchAll(p)
	}
}

// admit takes a slot for a planned request inside the decision that appends it, or keeps the one that it got when its
// provider was chosen. It returns false when the provider has no room any more.
func (j *Jobs) admit(p fact.AttemptPlanned, now time.Time) bool {
	j.choosing.Lock()
	defer j.choosing.Unlock()
	j.releaseSlots(now)
	j.releaseSlot(p.Job)
	turn, task := 0, ""
	if job, ok := j.fold.Job(p.Job); ok {
		turn, task = len(job.Attempts), job.Task
	}
	all, theirs, _ := j.slots.of(p.Provider.PubKey, task)
	when, known := j.room(p.Provider.PubKey, now, theirs)
	if j.full(all) || !known || when.After(now) {
		return false
	}
	j.takeSlot(p.Job, slot{to: p.Provider, task: task, turn: turn, at: now})
	return true
}
