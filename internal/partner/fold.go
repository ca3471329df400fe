package partner

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
	"guild/internal/policy"
	"guild/internal/registry"
)

// Fold is the state of every provider, and what became of attempts that has not yet moved it.
type Fold struct {
	*fold.State[state]
	p    policy.Lifecycle
	hash guild.Hash // of the policy that p is of

	changes atomic.Uint64 // of what providers are
	agenda  agenda        // what is to be looked at, and when
}

// state is all that follows from the facts. What it holds of one service is in its record.
type state struct {
	Services fold.Table[registry.ID, record]  `json:"services"`
	Blocked  fold.Table[string, block]        `json:"blocked"`  // by key in hex: removed with all its services
	Asked    fold.Table[registry.ID, asked]   `json:"asked"`    // attempts that have not ended
	Ended    fold.Table[registry.ID, ended]   `json:"ended"`    // attempts that a record still knows
	Jobs     fold.Table[guild.JobID, running] `json:"jobs"`     // open ones
	Meetings fold.Table[string, meeting]      `json:"meetings"` // that go on
	Tasks    fold.Table[string, []latency]    `json:"tasks"`    // latest latencies of each task, of all providers

	keys map[nostr.PubKey][]registry.ID // the services of a key that there are records of
}

// Derive computes which services a key has.
func (st *state) Derive() {
	st.keys = map[nostr.PubKey][]registry.ID{}
	for i, r := range st.Services.All() {
		st.keys[r.Service.PubKey] = append(st.keys[r.Service.PubKey], i)
	}
}

// blocked reports whether a key was removed.
func (st *state) blocked(key nostr.PubKey) bool {
	return st.Blocked.Len() > 0 && st.Blocked.Has(key.Hex())
}

// locked is a fold while its lock is held. The rules are its methods, since they need the state and the policy.
type locked struct {
	*Fold
	state *state
}

// asked is an attempt that has not ended.
type asked struct {
	Service guild.Service `json:"service"`
	Meeting string        `json:"meeting,omitempty"` // that it is part of
	Task    string        `json:"task,omitempty"`
	Heard   bool          `json:"heard,omitempty"` // the provider said something
	Ms      int64         `json:"ms,omitempty"`    // from the request to the result
}

// ended is an attempt that has ended, and may be judged once more.
type ended struct {
	Service registry.ID `json:"service"`
	Meeting string      `json:"meeting,omitempty"`
}

// running is an open job.
type running struct {
	Task    string `json:"task,omitempty"`
	Meeting string `json:"meeting,omitempty"`
}

// block says why a key was removed.
type block struct {
	Service registry.ID         `json:"service"` // the one that was
	From    guild.ProviderState `json:"from"`
	Attempt nostr.ID            `json:"attempt,omitzero"`
	Meeting string              `json:"meeting,omitempty"`
}

// latency is one delivery of a task by somebody.
type latency struct {
	By registry.ID `json:"by"`
	Ms int64       `json:"ms"`
}

// NewFold returns an empty fold that decides by a policy.
func NewFold(p policy.Policy) *Fold {
	hash, err := p.Hash()
	if err != nil {
		hash = guild.Hash{} // no policy that can be read has none
	}
	return &Fold{State: fold.NewState[state]("registry", 4), p: p.Lifecycle, hash: hash, agenda: newAgenda()}
}

// Provider returns what was decided about a service; one that nothing was decided about is merely seen.
func (f *Fold) Provider(s guild.Service) guild.Provider { return f.Standing(s).Provider }

// Standing implements registry.Partners.
func (f *Fold) Standing(s guild.Service) registry.Standing {
	known := registry.Standing{Provider: guild.Provider{Service: s, State: guild.Seen}}
	f.View(func(st *state) {
		if st.Services.Len() == 0 {
			return
		}
		r := st.Services.Of(registry.IDOf(s))
		known.Name, known.Heard = r.Name, r.Heard
		if st.blocked(s.PubKey) {
			known.State = guild.Removed
			return
		}
		known.State, known.Until = r.state(), r.Until
	})
	return known
}

// record is what is known of a service now; blocked when its key was removed.
func (f *Fold) record(i registry.ID) (r record, blocked, ok bool) {
	f.View(func(st *state) {
		r, ok = st.Services.Get(i)
		blocked = ok && st.blocked(r.Service.PubKey)
	})
	return r, blocked, ok
}

// records returns a copy of all records, so that nobody waits while they are looked through.
func (f *Fold) records() (all fold.Table[registry.ID, record]) {
	f.Change(func(st *state) { all = st.Services.Clone() })
	return all
}

// Changes implements registry.Partners.
func (f *Fold) Changes() uint64 { return f.changes.Load() }

// Has implements registry.Partners: it reports whether facts are about a service.
func (f *Fold) Has(i registry.ID) bool {
	return fold.Read(f.State, func(st *state) bool { return st.Services.Has(i) })
}

// Deals reports whether facts are about a service of a key.
func (f *Fold) Deals(key nostr.PubKey) bool {
	return fold.Read(f.State, func(st *state) bool { return len(st.keys[key]) > 0 })
}

// Announced implements registry.Partners: a service is looked at when its announcement changes, if facts are about it.
func (f *Fold) Announced(i registry.ID) {
	if f.Has(i) {
		f.agenda.touch(i)
	}
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.Change(func(st *state) {
		for _, one := range e.Facts {
			locked{f, st}.hear(one, e.At)
			locked{f, st}.apply(one, e.At)
		}
	})
}

func (f locked) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.ProviderMoved:
		f.moved(one, at)
	case fact.JobOpened:
		run := running{Task: one.Task}
		if one.Meeting != nil {
			run.Meeting = one.Meeting.Meeting
		}
		f.state.Jobs.Set(one.Job, run)
	case fact.JobClosed:
		f.state.Jobs.Delete(one.Job)
	case fact.MeetingBegan:
		f.began(one, at)
	case fact.MeetingEnded:
		f.ended(one, at)
	case fact.AttemptPlanned:
		job := f.state.Jobs.Of(one.Job)
		f.state.Asked.Set(short(one.Attempt), asked{Service: one.Provider, Meeting: job.Meeting, Task: job.Task})
		f.edit(one.Provider, func(r *record) { r.Asked, r.Name = at, cmp.Or(nameIn(one), r.Name) })
	case fact.AttemptDelivered:
		if a, ok := f.state.Asked.Get(short(one.Attempt)); ok {
			a.Ms = max(one.LatencyMs, 0)
			f.state.Asked.Set(short(one.Attempt), a)
		}
	case fact.TrustChanged:
		if one.Suspends {
			f.owe(one.Service, owed{What: floored, Attempt: one.Attempt, At: at, Cause: "trust in " + guild.Cut(one.Task, maxTask) + " reached its floor"})
		}
	default:
		f.applyEnd(one, at)
	}
}

// applyEnd takes the end of an attempt.
func (f locked) applyEnd(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.AttemptExpired:
		f.expired(one, at)
	case fact.AttemptJudged:
		f.judged(one, at)
	case fact.AttemptRefused:
		if one.Fault {
			f.end(one.Attempt, failed, at, one.Reason)
		}
		f.state.Asked.Delete(short(one.Attempt))
	case fact.AttemptCancelled:
		f.state.Asked.Delete(short(one.Attempt))
	case fact.AttemptParked:
		f.state.Asked.Delete(short(one.Attempt))
	}
}

// nameIn is what the chosen provider called its service, "" when the choice does not say.
func nameIn(planned fact.AttemptPlanned) string {
	if planned.Choice == nil {
		return ""
	}
	for _, c := range planned.Choice.Candidates {
		if c.Service == planned.Provider {
			return c.Name
		}
	}
	return ""
}

// short is what an attempt is known by in the maps: we make the ids, and nobody searches for two that begin alike.
func short(attempt nostr.ID) registry.ID { return registry.ID(attempt[:len(registry.ID{})]) }

// edit changes the record of a service, and has it looked at.
func (f locked) edit(s guild.Service, change func(*record)) {
	i := registry.IDOf(s)
	r, known := f.state.Services.Get(i)
	if !known {
		r.Service = s
		f.state.keys[s.PubKey] = append(f.state.keys[s.PubKey], i)
	}
	change(&r)
	f.state.Services.Set(i, r)
	f.agenda.touch(i)
}

// owe notes that something happened that a provider's state must follow, unless nothing follows from it.
func (f locked) owe(s guild.Service, o owed) {
	o.Cause = guild.Cut(o.Cause, maxCause)
	f.edit(s, func(r *record) {
		if !f.state.blocked(s.PubKey) || o.What == overturned {
			r.Owed = append(slices.Clip(r.Owed), o)
			f.settle(r)
		}
	})
}

// hear notes that a provider answered.
func (f locked) hear(one fact.Fact, at int64) {
	var attempt nostr.ID
	switch one := one.(type) {
	case fact.AttemptQuoted:
		attempt = one.Attempt
	case fact.AttemptProgressed:
		attempt = one.Attempt
	case fact.AttemptDelivered:
		attempt = one.Attempt
	case fact.AttemptRefused:
		attempt = one.Attempt
	default:
		return
	}
	a, ok := f.state.Asked.Get(short(attempt))
	if !ok {
		return
	}
	if !a.Heard {
		a.Heard = true
		f.state.Asked.Set(short(attempt), a)
	}
	f.edit(a.Service, func(r *record) {
		// What an announcement's age makes of a stranger follows from it, by the day.
		if at-r.Heard >= dayMs {
			f.changes.Add(1)
		}
		r.Heard = max(r.Heard, at)
	})
}

func (f locked) expired(x fact.AttemptExpired, at int64) {
	a, ok := f.state.Asked.Get(short(x.Attempt))
	switch {
	case !ok:
	case x.Silent:
		f.end(x.Attempt, unheard, at, "not a word: "+x.Reason)
	case a.Heard:
		f.end(x.Attempt, timedOut, at, x.Reason)
	case a.Meeting != "":
		f.state.ran(a.Meeting, failed) // it counts for the meeting as before: nothing was learned
	}
	f.state.Asked.Delete(short(x.Attempt))
}

// gradeOf is what one verdict is worth: below 0.6 it is a failure, and so is what crashed.
func gradeOf(v guild.Verdict) kind {
	switch {
	case v.Outcome == guild.Violation:
		return violated
	case v.Outcome == guild.Success && v.Score >= guild.ActiveFrom:
		return good
	case v.Outcome == guild.Success:
		return fair
	case v.Outcome == guild.Partial && v.Score >= guild.ConditionalFrom:
		return partly
	}
	return failed
}

func (f locked) judged(j fact.AttemptJudged, at int64) {
	v := j.Verdict
	cause := "score " + v.Score.String()
	switch grade := gradeOf(v); {
	case grade == violated:
		cause = "security violation: " + v.Cause
	case grade == failed:
		cause = fmt.Sprintf("%s: %s", v.Outcome, v.Cause)
	}
	if f.state.Asked.Has(short(j.Attempt)) {
		f.end(j.Attempt, gradeOf(v), at, cause)
		f.state.Asked.Delete(short(j.Attempt))
		return
	}
	f.rejudged(j.Attempt, gradeOf(v), at, cause)
}

// end takes the end of an attempt for which the provider answers. What one run of a meeting means for its state is
// said by the end of the meeting, unless it is a violation.
func (f locked) end(attempt nostr.ID, k kind, at int64, cause string) {
	a, ok := f.state.Asked.Get(short(attempt))
	if !ok {
		return
	}
	i := registry.IDOf(a.Service)
	f.edit(a.Service, func(r *record) {
		for _, gone := range r.add(end{Attempt: short(attempt), At: at, Kind: k, Task: a.Task, Ms: a.Ms, Bench: a.Meeting != ""}) {
			f.state.Ended.Delete(gone)
		}
	})
	f.state.Ended.Set(short(attempt), ended{i, a.Meeting})
	if a.Ms > 0 && a.Meeting == "" {
		sample := append(slices.Clone(f.state.Tasks.Of(a.Task)), latency{i, a.Ms})
		f.state.Tasks.Set(a.Task, sample[max(0, len(sample)-maxTaskSample):])
	}
	if a.Meeting != "" {
		f.state.ran(a.Meeting, k)
		if k != violated {
			return
		}
	}
	f.owe(a.Service, owed{What: k, Attempt: attempt, At: at, Cause: cause, Row: f.state.Services.Of(i).row(k)})
}

// rejudged takes another verdict on a delivery that was judged before.
func (f locked) rejudged(attempt nostr.ID, k kind, at int64, cause string) {
	e, ok := f.state.Ended.Get(short(attempt))
	if !ok {
		return
	}
	r := f.state.Services.Of(e.Service)
	n := slices.IndexFunc(r.Ends, func(e end) bool { return e.Attempt == short(attempt) })
	if n < 0 || r.Ends[n].Kind == k {
		return
	}
	was := r.Ends[n].Kind
	f.edit(r.Service, func(r *record) {
		r.Ends = slices.Clone(r.Ends)
		r.Ends[n].Kind = k
		if e.Meeting != "" && r.state() == guild.Unqualified && r.caused(nostr.ID{}, e.Meeting) && !k.bad() {
			r.Excused = true
		}
	})
	o := owed{What: overturned, As: k, Attempt: attempt, Meeting: e.Meeting, At: at, Cause: "judged again: " + cause}
	if k.bad() && (k == violated || !was.bad() && e.Meeting == "") {
		o.What, o.As = k, ""
	}
	f.owe(r.Service, o)
}

// moved takes a decision, and drops the debts from which nothing follows in the new state.
func (f locked) moved(m fact.ProviderMoved, at int64) {
	key := m.Service.PubKey.Hex()
	i := registry.IDOf(m.Service)
	if m.To == guild.Removed {
		f.state.Blocked.Set(key, block{i, m.From, m.Attempt, m.Meeting})
	} else if b, _ := f.state.Blocked.Get(key); m.From == guild.Removed || m.Signal == fact.SignalRestored && b.Service == i {
		f.state.Blocked.Delete(key)
	}
	f.edit(m.Service, func(r *record) {
		r.moved(m, at)
		f.settle(r)
	})
	for _, other := range f.state.keys[m.Service.PubKey] {
		f.agenda.touch(other)
	}
	f.changes.Add(1)
}

// touchAll has every service looked at that facts are about.
func (f *Fold) touchAll() {
	f.View(func(st *state) {
		for i := range st.Services.All() {
			f.agenda.touch(i)
		}
	})
}
