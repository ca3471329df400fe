package jobs

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
)

func (l Limits) orDefaults() Limits {
	l.AtOnce = cmp.Or(l.AtOnce, 8)
	l.PerMinute = cmp.Or(l.PerMinute, 30)
	return l
}

// traffic is what the providers have been asked by us, derived from the attempts of all jobs.
type traffic struct {
	waiting    map[nostr.PubKey]int     // requests that are not answered
	given      map[guild.Service]int    // the same by service
	unanswered int                      // all of those
	recent     map[nostr.PubKey][]int64 // Unix ms of the requests of the minute before the latest, in the order of the facts
	queues     map[nostr.PubKey]queue   // as a provider said last while it had a request of ours
	tasks      map[string]*allotment
}

func newTraffic() traffic {
	return traffic{waiting: map[nostr.PubKey]int{}, given: map[guild.Service]int{}, recent: map[nostr.PubKey][]int64{}, queues: map[nostr.PubKey]queue{},
		tasks: map[string]*allotment{}}
}

// queue is how many requests wait at a provider, and when it said so.
type queue struct {
	depth int
	at    int64 // Unix ms
}

// allotment is who had the requests for one task.
type allotment struct {
	decided int // requests ever
	latest  []allotted
	had     map[nostr.PubKey]int // how many of the latest
}

type allotted struct {
	at int64 // Unix ms
	to nostr.PubKey
}

// maxQueue is the longest queue that a provider is believed to have.
const maxQueue = 1 << 20

// longest is for how long requests are remembered for the sake of the shares: no policy's window is longer.
const longest = 24 * time.Hour

// decided counts a request for a task, whenever it was.
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

// expire forgets requests from before a time, and lists whose they were.
func (a *allotment) expire(since int64) (whose []nostr.PubKey) {
	n := 0
	for n < len(a.latest) && a.latest[n].at <= since {
		p := a.latest[n].to
		if a.had[p]--; a.had[p] == 0 {
			delete(a.had, p)
		}
		whose = append(whose, p)
		n++
	}
	if a.latest = a.latest[n:]; n > 0 && cap(a.latest) > 4*len(a.latest) {
		a.latest = slices.Clone(a.latest)
	}
	return whose
}

// changed follows a job from one state to the next.
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
			delete(t.queues, a.Provider.PubKey) // it said so of a time that is over
		}
	}
}

func (t *traffic) wait(a Attempt, by int) {
	if !a.State.Waiting() {
		return
	}
	t.unanswered += by
	if t.waiting[a.Provider.PubKey] += by; t.waiting[a.Provider.PubKey] == 0 {
		delete(t.waiting, a.Provider.PubKey)
	}
	if t.given[a.Provider] += by; t.given[a.Provider] == 0 {
		delete(t.given, a.Provider)
	}
}

// asked says how many requests a provider has not answered, and when each of the last minute was made.
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

// room says when a provider has room for one request more, of which it has beside given away already: at once, from
// a certain time on, or (known is false) when it has answered one.
func (j *Jobs) room(p nostr.PubKey, now time.Time, beside int) (when time.Time, known bool) {
	waiting, minute := j.fold.asked(p, now)
	if waiting+beside >= j.atOnce(p) || j.full(beside) {
		return time.Time{}, false
	}
	if over := len(minute) + beside - j.c.Limits.PerMinute; over >= 0 {
		freed := min(over, len(minute)-1) // of what is beside nothing is known but that it is younger
		if freed < 0 {
			return now.Add(time.Minute), true
		}
		return time.UnixMilli(minute[freed]).Add(time.Minute), true
	}
	return now, true
}

// promise is room, and a part of a task's requests, that was given to a request whose fact is on its way into the
// journal.
type promise struct {
	to   guild.Service
	task string
	turn int // attempts of the job before
	at   time.Time
}

// promises are those of all jobs, at most one for each: its attempts are planned one after the other. The guard of a
// decision is its job, and two jobs may decide at the same time to ask one provider: what the fold does not know yet of
// such decisions is counted here. That holds within one node; two nodes on one journal can each give away the last
// place.
type promises struct {
	mu    sync.Mutex
	jobs  map[guild.JobID]promise
	to    map[nostr.PubKey]int
	here  map[guild.Service]int
	parts map[portion]int
}

// portion is what a provider has of a task's requests.
type portion struct {
	task string
	to   nostr.PubKey
}

func newPromises() promises {
	return promises{jobs: map[guild.JobID]promise{}, to: map[nostr.PubKey]int{}, here: map[guild.Service]int{}, parts: map[portion]int{}}
}

// give makes a promise. The one that the job had before is taken back.
func (m *promises) give(job guild.JobID, p promise) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take(job)
	m.jobs[job] = p
	m.to[p.to.PubKey]++
	m.here[p.to]++
	m.parts[portion{p.task, p.to.PubKey}]++
}

// take takes a promise back. The lock must be held.
func (m *promises) take(job guild.JobID) {
	p, ok := m.jobs[job]
	if !ok {
		return
	}
	delete(m.jobs, job)
	if m.to[p.to.PubKey]--; m.to[p.to.PubKey] == 0 {
		delete(m.to, p.to.PubKey)
	}
	if m.here[p.to]--; m.here[p.to] == 0 {
		delete(m.here, p.to)
	}
	of := portion{p.task, p.to.PubKey}
	if m.parts[of]--; m.parts[of] == 0 {
		delete(m.parts, of)
	}
}

// drop takes back those promises for which over says so, and lists whose they were.
func (m *promises) drop(over func(guild.JobID, promise) bool) (whose []nostr.PubKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for job, p := range maps.Clone(m.jobs) {
		if over(job, p) {
			m.take(job)
			whose = append(whose, p.to.PubKey)
		}
	}
	return whose
}

// of counts what is promised: in all, to a provider, and to it of a task's requests.
func (m *promises) of(to nostr.PubKey, task string) (all, his, ofTask int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.jobs), m.to[to], m.parts[portion{task, to}]
}

// given counts what is promised to a service.
func (m *promises) given(to guild.Service) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.here[to]
}

// ofTask lists what is promised of a task's requests, and to whom.
func (m *promises) ofTask(task string) map[nostr.PubKey]int {
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

// promise gives a request that is being planned its room. The lock on choosing must be held.
func (j *Jobs) promise(job guild.JobID, p promise) {
	j.withdrawPromise(job)
	j.promises.give(job, p)
	j.matrix.TouchAll(p.to.PubKey)
}

// withdrawPromise takes the room of a job's next request back.
func (j *Jobs) withdrawPromise(job guild.JobID) {
	for _, p := range j.promises.drop(func(id guild.JobID, _ promise) bool { return id == job }) {
		j.matrix.TouchAll(p)
	}
}

// settle drops the promises that the fold knows of by now, and those whose decision failed in the end, and has those
// looked at again whose demand to be paid is so old that it is forgotten.
func (j *Jobs) settle(now time.Time) {
	j.forgive(now)
	for _, p := range j.promises.drop(func(id guild.JobID, p promise) bool {
		job, ok := j.fold.Job(id)
		return ok && (len(job.Attempts) > p.turn || job.Ending != guild.Open) || now.Sub(p.at) > time.Minute
	}) {
		j.matrix.TouchAll(p)
	}
}

// forgive has the matrix look again at those whose demand to be paid holds no longer.
func (j *Jobs) forgive(now time.Time) {
	for _, s := range j.fold.forgiven(now) {
		j.matrix.Touch(s)
	}
}

// admit gives a planned request its room inside the decision that appends it, or keeps what it was promised when its
// provider was chosen.
func (j *Jobs) admit(p fact.AttemptPlanned, now time.Time) bool {
	j.choosing.Lock()
	defer j.choosing.Unlock()
	j.settle(now)
	j.withdrawPromise(p.Job)
	turn, task := 0, ""
	if job, ok := j.fold.Job(p.Job); ok {
		turn, task = len(job.Attempts), job.Task
	}
	all, his, _ := j.promises.of(p.Provider.PubKey, task)
	when, known := j.room(p.Provider.PubKey, now, his)
	if j.full(all) || !known || when.After(now) {
		return false
	}
	j.promise(p.Job, promise{p.Provider, task, turn, now})
	return true
}
