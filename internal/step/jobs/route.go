package jobs

import (
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/market/route"
)

// Touch says that what a service announces may have changed. It may be called with any lock held.
func (j *Jobs) Touch(s guild.Service) { j.matrix.Touch(s) }

// settings are the policy's numbers for a task.
func (j *Jobs) settings(task string) route.Settings {
	p, hash := j.c.Policy()
	return route.Settings{Routing: p.Routing, Hash: hash, Threshold: j.c.Thresholds[task]}
}

// Matrix lists the services of a task as the router sees them (the partnership protocol, section 3.3.1): those that get
// work first, the best of each tier first; at most so many.
func (j *Jobs) Matrix(task string, kind int, most int) []route.Entry {
	now := j.c.Now()
	j.endDemands(now)
	return j.matrix.Entries(route.Scope{Task: task, Kind: kind, Settings: j.settings(task), Now: now}, most)
}

// facts is all that is known of a service, with the slots that are taken and no fact says yet.
func (j *Jobs) facts(task string, o guild.Offer, now time.Time) route.Facts {
	f := route.Facts{Offer: o}
	f.Trust, f.Met = j.c.Trust(task, o.Service)
	f.Measured = j.c.Market.Measured(o.Service, now)
	_, taken, ofTask := j.slots.of(o.Service.PubKey, task)
	f.Waiting, f.Queue, f.Recent = j.fold.burden(task, o.Service.PubKey)
	f.Waiting, f.Recent = f.Waiting+taken, f.Recent+ofTask
	f.Given = j.fold.given(o.Service) + j.slots.given(o.Service)
	s := j.fold.backoffOf(o.Service)
	f.Paused = s.paused(j.c.Patience.Busy)
	if s.unpaid() > now.UnixMilli() {
		f.Unpaid, f.Quoted = s.unpaid(), s.Quote
	}
	return f
}

// heed tells the matrix whom an entry may change: before it does, so that nobody sees the change and does not know of it.
func (f *Fold) heed(e fact.Entry) {
	m := f.matrix.Load()
	if m == nil {
		return
	}
	var services []guild.Service
	var providers []nostr.PubKey
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.TrustChanged:
			services = append(services, one.Service)
		case fact.ProviderMoved:
			providers = append(providers, one.Service.PubKey) // who is removed is so with all services
		case fact.AttemptPlanned:
			providers = append(providers, one.Provider.PubKey)
		}
	}
	if job, ok := f.Job(jobOf(e)); ok {
		for _, a := range job.Attempts {
			if !slices.Contains(providers, a.Provider.PubKey) {
				providers = append(providers, a.Provider.PubKey)
			}
		}
	}
	m.Applied(e.Seq, services, providers)
}

// burden says what a provider has to do for us, as far as facts say it: requests that it has not answered, requests that
// wait there as it says, and how many for the task are among the latest.
func (f *Fold) burden(task string, p nostr.PubKey) (waiting, queue, recent int) {
	f.View(func(s *state) {
		if a := s.traffic.tasks[task]; a != nil {
			recent = a.had[p]
		}
		waiting, queue = s.traffic.waiting[p], s.traffic.queues[p].depth
	})
	return waiting, queue, recent
}

// given is how many requests of ours a service has not answered.
func (f *Fold) given(service guild.Service) int {
	return fold.Read(f.State, func(s *state) int { return s.traffic.given[service] })
}

// allotments is how the requests for a task were given out within a window: how many there were ever, how many in the
// window, and to how many providers of those that but does not name.
func (f *Fold) allotments(task string, since time.Time, but map[nostr.PubKey]int) (decided, total, active int) {
	f.Change(func(s *state) {
		a := s.traffic.tasks[task]
		if a == nil {
			return
		}
		for _, p := range a.expire(since.UnixMilli()) {
			f.matrix.Load().TouchAll(p)
		}
		active = len(a.had)
		for p := range but {
			if a.had[p] > 0 {
				active--
			}
		}
		decided, total = a.decided, len(a.latest)
	})
	return decided, total, active
}

// scope is what of the matrix a job is about.
func (j *Jobs) scope(job *Job, now time.Time) route.Scope {
	return route.Scope{Task: job.Task, Kind: job.Kind, Settings: j.settings(job.Task), Now: now, Low: job.Criticality.Replicas() == 1}
}

// query is what the router is asked for the next request of a job.
func (j *Jobs) query(job *Job, now time.Time) route.Query {
	s := j.scope(job, now)
	taken := j.slots.ofTask(job.Task)
	window := time.Duration(s.Settings.Window) * time.Millisecond
	decided, total, active := j.fold.allotments(job.Task, now.Add(-window), taken)
	for _, n := range taken {
		decided, total = decided+n, total+n
	}
	return route.Query{
		Scope: s, Job: job.Job, Turn: len(job.Attempts), Decided: decided, Total: total, Active: active + len(taken),
		Exclude: func(f *route.Facts) string {
			by, when := j.excludes(job, &f.Offer, now)
			if by == route.ByBusy && when.After(now) {
				return byPause
			}
			return by
		},
		Explain: func(f *route.Facts, by string) string { return j.explain(job, f, by) },
	}
}

// settleOn is who is asked in the end, with the choice that says why, and the room for it. It is whom the last look
// found, unless that has no room any more: then it is another, if what is bid allows that. Without anybody the choice
// is nil.
func (j *Jobs) settleOn(job *Job, o guild.Offer, bid guild.Msat) (guild.Offer, guild.Msat, *fact.Choice) {
	now := j.c.Now()
	j.choosing.Lock()
	defer j.choosing.Unlock()
	j.releaseSlots(now)
	j.releaseSlot(job.Job)
	chosen, choice, ok := j.choose(job, now)
	if !ok {
		return o, bid, nil
	}
	if chosen.Service != o.Service {
		had, reserved := j.fold.reserved(job)
		wants := j.bid(job, chosen)
		switch {
		case reserved && had >= min(wants, chosen.Price):
			bid = had // it is enough for this one too
		case reserved || j.limited(job.Task, wants):
			delete(j.looks, job.Job) // the next look finds this one, and reserves what it takes
			return o, bid, nil
		default:
			bid = wants
		}
	}
	j.takeSlot(job.Job, slot{to: chosen.Service, task: job.Task, turn: len(job.Attempts), at: now})
	return chosen, bid, &choice
}

// forgo takes back the room of a request that will not be made.
func (j *Jobs) forgo(job *Job) {
	j.choosing.Lock()
	defer j.choosing.Unlock()
	j.releaseSlot(job.Job)
}

// choose picks who is asked next for a job, and says why. ok is false when nobody may be asked now. The lock on choosing
// must be held.
func (j *Jobs) choose(job *Job, now time.Time) (o guild.Offer, c fact.Choice, ok bool) {
	q := j.query(job, now)
	given, rule := j.given(job, q.Scope)
	switch rule {
	case "":
		f, c, ok := j.matrix.Choose(q)
		return f.Offer, c, ok
	case route.Offered:
		f, c, ok := j.matrix.Offered(q, given)
		return f.Offer, c, ok
	}
	var able []route.Facts
	for _, c := range j.inOrder(job, given, now) {
		if !c.when.After(now) {
			able = append(able, c.Facts)
		}
	}
	c = j.matrix.Given(q, rule, able)
	if len(able) == 0 {
		return guild.Offer{}, c, false
	}
	return able[0].Offer, c, true
}
