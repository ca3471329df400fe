package partner

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/market/registry"
	"guild/internal/policy"
)

// Fold holds the state of every provider, and the events that have not moved a provider yet.
type Fold struct {
	*fold.State[state]
	p    policy.Lifecycle
	hash guild.Hash // of the policy that contains p

	agenda agenda
}

// state is the part of Fold that follows from the facts.
type state struct {
	Services fold.Table[registry.ID, record]       `json:"services"`
	Blocked  fold.Table[string, block]             `json:"blocked"`  // by key in hex: keys that were removed with all their services
	Asked    fold.Table[registry.ID, openAttempt]  `json:"asked"`    // by the first 16 bytes of the attempt's id
	Ended    fold.Table[registry.ID, endedAttempt] `json:"ended"`    // the same key; attempts whose end a record still has
	Jobs     fold.Table[guild.JobID, openJob]      `json:"jobs"`     // open ones
	Meetings fold.Table[string, meeting]           `json:"meetings"` // running ones
	Tasks    fold.Table[string, []latency]         `json:"tasks"`    // latest latencies of each task, of all providers

	keys map[nostr.PubKey][]registry.ID // the services of a key that have a record
}

// Derive computes keys.
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

// rules evaluates the rules by which a state changes. The lock of the state must be held.
type rules struct {
	*Fold
	state *state
}

// openAttempt is an attempt that has not ended.
type openAttempt struct {
	work
	Service guild.Service `json:"service"`
	Meeting string        `json:"meeting,omitempty"` // the meeting that the attempt is a run of
	Heard   bool          `json:"heard,omitempty"`   // the provider has answered
	Ms      int64         `json:"ms,omitempty"`      // from the request to the result
}

// endedAttempt is an attempt that has ended and may be judged again.
type endedAttempt struct {
	Service registry.ID `json:"service"`
	Meeting string      `json:"meeting,omitempty"`
}

// openJob is a job that is not closed.
type openJob struct {
	work
	Meeting string `json:"meeting,omitempty"`
}

// block records the removal of a key.
type block struct {
	Service registry.ID         `json:"service"` // the service of the key that caused it
	From    guild.ProviderState `json:"from"`
	Attempt nostr.ID            `json:"attempt,omitzero"`
	Meeting string              `json:"meeting,omitempty"`
}

// latency is the latency of one delivery of a task, in ms.
type latency struct {
	By   registry.ID `json:"by"`
	Size int         `json:"size,omitempty"` // as in work
	Ms   int64       `json:"ms"`
}

// NewFold returns an empty fold that decides by a policy. The name of its snapshots is "registry", because the fold was
// once a part of that package.
func NewFold(p policy.Policy) *Fold {
	hash, err := p.Hash()
	if err != nil {
		hash = guild.Hash{} // cannot happen: a policy that was read has a hash
	}
	return &Fold{State: fold.NewState[state]("registry", 7), p: p.Lifecycle, hash: hash, agenda: newAgenda()}
}

// Provider returns the state of a service. A service about which nothing was decided is seen.
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
		known.State, known.Until, known.Provisional = r.state(), r.Until, r.Provisional
	})
	return known
}

// Has implements registry.Partners: it reports whether there are facts about a service.
func (f *Fold) Has(i registry.ID) bool {
	return fold.Read(f.State, func(st *state) bool { return st.Services.Has(i) })
}

// Deals reports whether there are facts about a service of a key.
func (f *Fold) Deals(key nostr.PubKey) bool {
	return fold.Read(f.State, func(st *state) bool { return len(st.keys[key]) > 0 })
}

// Keys returns the lowest keys of services that there are facts about, up to most, in order.
func (f *Fold) Keys(most int) []nostr.PubKey {
	keys := fold.Read(f.State, func(st *state) []nostr.PubKey { return slices.Collect(maps.Keys(st.keys)) })
	slices.SortFunc(keys, func(a, b nostr.PubKey) int { return bytes.Compare(a[:], b[:]) })
	return keys[:min(most, len(keys))]
}

// Announced implements registry.Partners: it puts a service on the agenda if there are facts about it.
func (f *Fold) Announced(i registry.ID) {
	if f.Has(i) {
		f.agenda.touch(i)
	}
}

// record returns the record of a service. blocked is true if its key was removed.
func (f *Fold) record(i registry.ID) (r record, blocked, ok bool) {
	f.View(func(st *state) {
		r, ok = st.Services.Get(i)
		blocked = ok && st.blocked(r.Service.PubKey)
	})
	return r, blocked, ok
}

// records returns a copy of all records, which may be read without the lock.
func (f *Fold) records() (all fold.Table[registry.ID, record]) {
	f.Change(func(st *state) { all = st.Services.Clone() })
	return all
}

// touchAll puts every service with a record on the agenda.
func (f *Fold) touchAll() {
	f.View(func(st *state) {
		for i := range st.Services.All() {
			f.agenda.touch(i)
		}
	})
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.Change(func(st *state) {
		for _, one := range e.Facts {
			rules{f, st}.hear(one, e.At)
			rules{f, st}.apply(one, e.At)
		}
	})
}

func (f rules) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.ProviderMoved:
		f.moved(one, at)
	case fact.JobOpened:
		job := openJob{work: workOf(one.Task, one.Size)}
		if one.Meeting != nil {
			job.Meeting = one.Meeting.Meeting
		}
		f.state.Jobs.Set(one.Job, job)
	case fact.JobClosed:
		f.state.Jobs.Delete(one.Job)
	case fact.MeetingBegan:
		f.meetingBegan(one, at)
	case fact.MeetingEnded:
		f.meetingEnded(one, at)
	case fact.AttemptPlanned:
		f.planned(one, at)
	case fact.AttemptDelivered:
		if a, ok := f.state.Asked.Get(short(one.Attempt)); ok {
			a.Ms = max(one.LatencyMs, 0)
			f.state.Asked.Set(short(one.Attempt), a)
		}
	case fact.TrustChanged:
		if one.Suspends {
			f.add(one.Service, event{What: floored, Attempt: one.Attempt, At: at, Cause: "trust in " + guild.Cut(one.Task, maxTask) + " reached its floor"})
		}
	case fact.AttemptExpired:
		f.expired(one, at)
	case fact.AttemptJudged:
		f.judged(one, at)
	case fact.AttemptRefused:
		if one.Fault {
			f.end(one.Attempt, failed, at, fact.NotAsAgreed)
		}
		f.state.Asked.Delete(short(one.Attempt))
	case fact.AttemptCancelled:
		f.state.Asked.Delete(short(one.Attempt))
	case fact.AttemptParked:
		f.state.Asked.Delete(short(one.Attempt))
	}
}

// short returns the first 16 bytes of an attempt's id. They are enough, because the node makes these ids itself: a
// provider cannot search for two ids with the same beginning.
func short(attempt nostr.ID) registry.ID { return registry.ID(attempt[:len(registry.ID{})]) }

// edit changes the record of a service, and puts it on the agenda.
func (f rules) edit(s guild.Service, change func(*record)) {
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

// add queues an event of a service and drops it if nothing follows from it. For a removed key only overturned verdicts
// count.
func (f rules) add(s guild.Service, e event) {
	e.Cause = guild.Cut(e.Cause, maxCause)
	f.edit(s, func(r *record) {
		if !f.state.blocked(s.PubKey) || e.What == overturned {
			r.Pending = append(slices.Clip(r.Pending), e)
			f.settle(r)
		}
	})
}

// hear notes that a provider has answered.
func (f rules) hear(one fact.Fact, at int64) {
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
		r.Heard = max(r.Heard, at)
	})
}

// planned records a request. It takes the name of the provider from the candidates of the routing decision.
func (f rules) planned(p fact.AttemptPlanned, at int64) {
	job := f.state.Jobs.Of(p.Job)
	f.state.Asked.Set(short(p.Attempt), openAttempt{work: job.work, Service: p.Provider, Meeting: job.Meeting})
	name := ""
	if p.Choice != nil {
		n := slices.IndexFunc(p.Choice.Candidates, func(c fact.Candidate) bool { return c.Service == p.Provider })
		if n >= 0 {
			name = p.Choice.Candidates[n].Name
		}
	}
	f.edit(p.Provider, func(r *record) { r.Asked, r.Name = at, cmp.Or(name, r.Name) })
}

// expired records the end of an attempt without a delivery in time. An attempt that is neither silent nor answered does
// not count against the provider, because this node may not have received its answers.
func (f rules) expired(x fact.AttemptExpired, at int64) {
	a, ok := f.state.Asked.Get(short(x.Attempt))
	switch {
	case !ok:
	case x.Silent:
		f.end(x.Attempt, unheard, at, "not a word: "+x.Reason)
	case a.Heard:
		f.end(x.Attempt, timedOut, at, x.Reason)
	case a.Meeting != "":
		f.state.ran(a.Meeting, failed) // it does not move the provider, but the meeting counts a failed run
	}
	f.state.Asked.Delete(short(x.Attempt))
}

// gradeOf returns the kind of end that a verdict means. A partial result below 0.6 and a crash are failures.
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

// judged records a verdict. If the attempt has ended before, this is a second verdict on it. A verdict that tells nothing
// about the provider only ends the attempt.
func (f rules) judged(j fact.AttemptJudged, at int64) {
	if !j.Verdict.Counts() {
		f.state.Asked.Delete(short(j.Attempt))
		return
	}
	v, grade := j.Verdict, gradeOf(j.Verdict)
	cause := "score " + v.Score.String()
	switch grade {
	case violated:
		cause = "security violation"
	case failed:
		cause = string(v.Outcome) // without its cause, which is private
	}
	if f.state.Asked.Has(short(j.Attempt)) {
		f.end(j.Attempt, grade, at, cause)
		f.state.Asked.Delete(short(j.Attempt))
		return
	}
	f.rejudged(j.Attempt, grade, at, cause)
}

// end records the end of an attempt for which the provider is responsible. In a meeting only a violation moves the
// provider at once. The other runs count when the meeting ends.
func (f rules) end(attempt nostr.ID, k kind, at int64, cause string) {
	a, ok := f.state.Asked.Get(short(attempt))
	if !ok {
		return
	}
	i := registry.IDOf(a.Service)
	f.edit(a.Service, func(r *record) {
		for _, dropped := range r.add(end{work: a.work, Attempt: short(attempt), At: at, Kind: k, Ms: a.Ms, Bench: a.Meeting != ""}) {
			f.state.Ended.Delete(dropped)
		}
		if a.Meeting == "" && r.Provisional && r.isFixed(k) {
			r.Provisional = false
		}
	})
	f.state.Ended.Set(short(attempt), endedAttempt{i, a.Meeting})
	if a.Ms > 0 && a.Meeting == "" {
		sample := append(slices.Clone(f.state.Tasks.Of(a.Task)), latency{i, a.Size, a.Ms})
		f.state.Tasks.Set(a.Task, sample[max(0, len(sample)-maxTaskSample):])
	}
	if a.Meeting != "" {
		f.state.ran(a.Meeting, k)
		if k != violated {
			return
		}
	}
	f.add(a.Service, event{What: k, Attempt: attempt, At: at, Cause: cause, InARow: f.state.Services.Of(i).inARow(k)})
}

// rejudged records a second verdict on a delivery. A new violation, or a failure of a delivery that had passed, is an
// event like any other. Everything else overturns the first verdict.
func (f rules) rejudged(attempt nostr.ID, k kind, at int64, cause string) {
	a, ok := f.state.Ended.Get(short(attempt))
	if !ok {
		return
	}
	r := f.state.Services.Of(a.Service)
	n := slices.IndexFunc(r.Ends, func(e end) bool { return e.Attempt == short(attempt) })
	if n < 0 || r.Ends[n].Kind == k {
		return
	}
	was := r.Ends[n].Kind
	f.edit(r.Service, func(r *record) {
		r.Ends = slices.Clone(r.Ends)
		r.Ends[n].Kind = k
		if a.Meeting != "" && r.state() == guild.Unqualified && r.signal(nostr.ID{}, a.Meeting) >= 0 && !k.bad() {
			r.Excused = true
		}
	})
	e := event{What: overturned, As: k, Attempt: attempt, Meeting: a.Meeting, At: at, Cause: "judged again: " + cause}
	if k == violated || k.bad() && !was.bad() && a.Meeting == "" {
		e.What, e.As = k, ""
	}
	f.add(r.Service, e)
}

// moved applies a decision, and drops the pending events from which nothing follows in the new state.
//
// A removal applies to the key, so all its services are looked at again.
func (f rules) moved(m fact.ProviderMoved, at int64) {
	key := m.Service.PubKey.Hex()
	i := registry.IDOf(m.Service)
	if m.To == guild.Removed {
		f.state.Blocked.Set(key, block{Service: i, From: m.From, Attempt: m.Attempt, Meeting: m.Meeting})
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
}
