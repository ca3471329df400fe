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

// settings returns the policy's numbers for a task.
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

// facts gathers what is known of a service. Slots count, too, for requests whose facts are not in the journal yet.
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

// notifyMatrix tells the matrix which services an entry may change. It does so before the fold changes: whoever sees the
// change then finds the matrix already outdated.
func (f *Fold) notifyMatrix(e fact.Entry) {
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
			providers = append(providers, one.Service.PubKey) // a removal counts for all its services
		case fact.AttemptPlanned:
			providers = append(providers, one.Provider.PubKey)
		}
	}
	id, _ := jobOf(e.Subject)
	if job, ok := f.Job(id); ok {
		for _, a := range job.Attempts {
			if !slices.Contains(providers, a.Provider.PubKey) {
				providers = append(providers, a.Provider.PubKey)
			}
		}
	}
	m.Applied(e.Seq, services, providers)
}

// burden returns how busy a provider is by the facts: our requests that it has not answered, the queue that it reported,
// and how many of the latest requests for the task it got.
func (f *Fold) burden(task string, p nostr.PubKey) (waiting, queue, recent int) {
	f.View(func(s *state) {
		if a := s.traffic.tasks[task]; a != nil {
			recent = a.had[p]
		}
		waiting, queue = s.traffic.waiting[p], s.traffic.queues[p].depth
	})
	return waiting, queue, recent
}

// given returns the number of our requests that a service has not answered.
func (f *Fold) given(service guild.Service) int {
	return fold.Read(f.State, func(s *state) int { return s.traffic.given[service] })
}

// allotments counts the requests for a task: all of them, those within a window, and the providers that got one in the
// window and are not in but.
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

// scope returns the part of the matrix that a job is about.
func (j *Jobs) scope(job *Job, now time.Time) route.Scope {
	return route.Scope{Task: job.Task, Kind: job.Kind, Settings: j.settings(job.Task), Now: now, Low: !job.important()}
}

// query returns the question to the router for the next request of a job.
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

// settleOn chooses the provider for the next request and takes a slot for it. The choice says why; it is nil if nobody can
// be asked now.
//
// Usually the choice is the provider o that the last look found. Since then another job may have taken its last place.
// Then another provider is chosen, but the bid was reserved for o. If the reservation is enough for the new provider, it
// is used; if more must be reserved first, nothing is chosen, and the next look starts from the new provider.
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
			bid = had // enough for this one, too
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

// waits reports whether a job waits for a full provider. With tiers it is asked all the same: it may have a queue.
func waits(q route.Query, f route.Facts) bool { return q.Settings.Thompson > 0 && f.Full() }

// choose picks the provider to ask next for a job, and says why. ok is false if nobody may be asked now. The lock on
// choosing must be held.
func (j *Jobs) choose(job *Job, now time.Time) (o guild.Offer, c fact.Choice, ok bool) {
	q := j.query(job, now)
	given, rule := j.given(job, q.Scope)
	switch rule {
	case "":
		f, c, ok := j.matrix.Choose(q)
		return f.Offer, c, ok && !waits(q, f)
	case route.Offered:
		f, c, ok := j.matrix.Offered(q, given)
		return f.Offer, c, ok && !waits(q, f)
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
