package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/market/route"
	"guild/nip90"
)

// Fold is the state of every job of ours and of its attempts, and of what was bid for them.
type Fold struct {
	*fold.State[state]
	matrix atomic.Pointer[route.Matrix] // told of changes; nil before New
}

type state struct {
	Jobs  fold.Table[guild.JobID, *Job] `json:"jobs"`
	Deals fold.Table[string, []deal]    `json:"deals"` // the latest bids for each task
	ledger
	Backoffs fold.Table[serviceKey, backoff] `json:"backoffs"` // of services that have any

	attempts      fold.Table[nostr.ID, guild.JobID]
	open          map[guild.JobID]bool // jobs for which something may still be due
	traffic       traffic
	latest        fold.Table[nostr.PubKey, []nostr.ID] // the latest attempts of each provider, the latest last
	solicitations fold.Table[nostr.ID, guild.JobID]    // requests for offers, as long as offers are taken
	demands       []demand                             // for payment first, the oldest first
}

// Check refuses an empty job, which nothing could be derived from.
func (s *state) Check() error {
	for id, job := range s.Jobs.All() {
		if job == nil {
			return fmt.Errorf("job %s is empty", id)
		}
	}
	return nil
}

// Derive computes everything that is not in a snapshot from the jobs and the backoffs.
func (s *state) Derive() {
	s.open, s.traffic = map[guild.JobID]bool{}, newTraffic()
	var planned []*Attempt
	for id, job := range s.Jobs.All() {
		for i := range job.Attempts {
			s.attempts.Set(job.Attempts[i].ID, id)
			planned = append(planned, &job.Attempts[i])
		}
		s.traffic.changed(nil, job.Attempts)
		if !job.quiet() {
			s.open[id] = true
		}
		if job.Solicited != nil {
			for _, e := range job.Solicited.Requests() {
				s.solicitations.Set(e.ID, id)
			}
		}
	}
	slices.SortFunc(planned, func(a, b *Attempt) int { return cmp.Or(cmp.Compare(a.At, b.At), slices.Compare(a.ID[:], b.ID[:])) })
	var since int64
	if len(planned) > 0 {
		since = planned[len(planned)-1].At - longest.Milliseconds()
	}
	for _, a := range planned {
		s.addAttempt(a.Provider.PubKey, a.ID)
		task := s.traffic.decided(s.taskOf(a.Job))
		if a.At > since {
			s.traffic.asked(task, a.Provider.PubKey, a.At)
		}
	}
	s.deriveDemands()
	s.deriveBids()
}

// Job is one job as the facts have it. A *Job that was handed out is never changed again, so readers need no lock.
type Job struct {
	fact.JobOpened
	Seq       uint64       `json:"seq"`  // entry that opened it
	Last      uint64       `json:"last"` // latest entry about it
	At        int64        `json:"at"`   // Unix ms when it was opened
	Cancelled bool         `json:"cancelled,omitempty"`
	Ending    guild.Ending `json:"ending,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	Closed    int64        `json:"closed,omitempty"` // Unix ms
	Attempts  []Attempt    `json:"attempts"`

	Solicited *fact.JobSolicited `json:"solicited,omitempty"`
	Offers    []fact.JobOffered  `json:"offers,omitempty"`
	Sought    bool               `json:"sought,omitempty"`   // a relay took the solicitation
	Unsought  bool               `json:"unsought,omitempty"` // it was taken back, or that was given up
	Chosen    nostr.ID           `json:"chosen,omitzero"`    // the attempt whose delivery counts

	Shredded int64 `json:"shredded,omitempty"` // Unix ms when it was decided that it is forgotten
	Erased   int64 `json:"erased,omitempty"`   // Unix ms when that was done
	Exposed  int   `json:"exposed,omitempty"`  // entries that stay as they are, because an older program stored them unencrypted
}

// Attempt is one request to one provider. Members that only matter until it ends are dropped then.
type Attempt struct {
	guild.Attempt
	Planned   *fact.AttemptPlanned `json:"planned,omitempty"` // nil when nothing of it can be due any more
	Encrypted bool                 `json:"encrypted,omitempty"`
	Kind      int                  `json:"kind,omitempty"`   // of the request, if it is not the job's
	At        int64                `json:"at"`               // Unix ms when it was planned
	Asked     int64                `json:"asked"`            // Unix ms when a relay took it
	Silence   int64                `json:"silence"`          // Unix ms when our patience ends
	Answer    *nostr.Event         `json:"answer,omitempty"` // the result event, until the delivery is judged
	Heard     int                  `json:"heard"`            // feedback events so far
	Last      int64                `json:"last"`             // Unix ms of the last of them
	Words     []nostr.ID           `json:"words,omitempty"`  // ids of the latest of them, as long as more may come
	Result    nostr.ID             `json:"result,omitzero"`
	Answered  nostr.ID             `json:"answered,omitzero"` // the event that refused, if one did
	Broke     string               `json:"broke,omitempty"`   // a fault of the provider that did not end the attempt
	Over      int64                `json:"over,omitempty"`    // Unix ms when the provider's part was over
	Away      *fact.Place          `json:"away,omitempty"`
	Size      int64                `json:"size,omitempty"`
	Deletion  *nostr.Event         `json:"deletion,omitempty"`
	Unpaid    bool                 `json:"unpaid,omitempty"`    // we do not pay its quote, and its provider is told so by a deletion
	Withdrawn bool                 `json:"withdrawn,omitempty"` // the deletion was published, or given up
	Verdict   *guild.Verdict       `json:"verdict,omitempty"`
	Stored    guild.Hash           `json:"stored,omitzero"`    // blob: the whole verdict
	Whole     guild.Hash           `json:"whole,omitzero"`     // blob: the evidence with what hidden tests showed; never exported
	Agrees    nostr.ID             `json:"agrees,omitzero"`    // the first accepted attempt of the job that it agrees with
	Later     bool                 `json:"later,omitempty"`    // it was refused for want of capacity
	Bid       guild.Msat           `json:"bid,omitempty"`      // of the request
	Quote     guild.Msat           `json:"quote,omitempty"`    // of the provider; 0 without one
	Claimed   int64                `json:"claimed,omitempty"`  // Unix ms when the provider said that it was done
	Again     int                  `json:"again,omitempty"`    // times that the request was published after the first
	Capacity  *fact.Capacity       `json:"capacity,omitempty"` // of the provider, by its latest report for this attempt
	Reported  int64                `json:"reported,omitempty"` // Unix ms of that report
	Deferred  int64                `json:"deferred,omitempty"` // Unix ms since when it waits for the owner to allow the price
	Idle      int64                `json:"idle_ms,omitempty"`  // that it waited so
	Held      *fact.AttemptHeld    `json:"held,omitempty"`     // money that is locked or paid for it
	Got       guild.Msat           `json:"got,omitempty"`      // of that, what was released to the provider
	Ahead     bool                 `json:"ahead,omitempty"`    // it was the provider's before the work
	Back      bool                 `json:"back,omitempty"`     // all of it is ours again
	LeftOut   int                  `json:"left_out,omitempty"` // nudges that the provider's agent did not work by
	Usage     *nip90.Usage         `json:"usage,omitempty"`    // what the work took, as the provider claims
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{State: fold.NewState[state]("jobs", 9)} }

// Job returns a job.
func (f *Fold) Job(id guild.JobID) (job *Job, ok bool) {
	f.View(func(s *state) { job, ok = s.Jobs.Get(id) })
	return job, ok
}

// Attempt returns an attempt and its job.
func (f *Fold) Attempt(id nostr.ID) (Attempt, *Job, bool) {
	job := fold.Read(f.State, func(s *state) *Job { return s.Jobs.Of(s.attempts.Of(id)) })
	if job == nil {
		return Attempt{}, nil, false
	}
	return job.Attempts[job.index(id)], job, true
}

// All lists the jobs, the newest first.
func (f *Fold) All() []*Job {
	var all []*Job
	f.View(func(s *state) {
		all = make([]*Job, 0, s.Jobs.Len())
		for _, job := range s.Jobs.All() {
			all = append(all, job)
		}
	})
	slices.SortFunc(all, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(b.At, a.At), slices.Compare(a.Job[:], b.Job[:]))
	})
	return all
}

// Open returns the number of jobs for which something may still be due.
func (f *Fold) Open() int { return fold.Read(f.State, func(s *state) int { return len(s.open) }) }

// OpenUnless is Open without the jobs whose guard is held.
func (f *Fold) OpenUnless(held func(fact.Subject) bool) (n int) {
	for _, job := range f.active() {
		if !held(fact.JobSubject(job.Job)) {
			n++
		}
	}
	return n
}

// active lists the jobs for which something may be due, the oldest first.
func (f *Fold) active() []*Job {
	var active []*Job
	f.View(func(s *state) {
		for id := range s.open {
			active = append(active, s.Jobs.Of(id))
		}
	})
	slices.SortFunc(active, func(a, b *Job) int { return cmp.Compare(a.Seq, b.Seq) })
	return active
}

// open returns a job, nil if it is not known, and whether something may still be due for it.
func (f *Fold) open(id guild.JobID) (job *Job, open bool) {
	f.View(func(s *state) { job, open = s.Jobs.Of(id), s.open[id] })
	return job, open
}

func (j *Job) index(attempt nostr.ID) int {
	return slices.IndexFunc(j.Attempts, func(a Attempt) bool { return a.ID == attempt })
}

// why says for a person how an attempt ended.
func (a Attempt) why() string {
	if a.Reason == "" {
		return string(a.stands())
	}
	return string(a.stands()) + ", " + guild.Cut(a.Reason, 200)
}

// stands returns the state that counts for the job. A disputed verdict counts until there is another.
func (a Attempt) stands() guild.State {
	if a.Verdict != nil && (a.State == guild.Disputed || a.State == guild.Undecided) {
		return a.Ended
	}
	return a.Outcome()
}

func (j *Job) deadline() time.Time { return time.UnixMilli(j.Deadline) }

func (j *Job) vocabulary() []guild.Attempt {
	attempts := make([]guild.Attempt, len(j.Attempts))
	for i, a := range j.Attempts {
		attempts[i] = a.Attempt
		attempts[i].State = a.stands()
	}
	return attempts
}

// quiet reports whether nothing can be due for the job any more.
func (j *Job) quiet() bool {
	if j.Ending == guild.Open {
		return false
	}
	for _, a := range j.Attempts {
		if a.live() || a.untold() {
			return false
		}
	}
	return (j.Solicited == nil || j.Unsought) && j.uncounted() == nostr.ZeroID && (j.Shredded == 0 || j.Erased != 0)
}

// Finished reports whether a guard belongs to a job that is over: closed, with nothing due, and all its attempts recorded.
// At most something is published again under it.
func (f *Fold) Finished(guard fact.Subject) bool {
	id, _ := jobOf(guard)
	job, ok := f.Job(id)
	return ok && job.quiet() && !slices.ContainsFunc(job.Attempts, func(a Attempt) bool { return a.State != guild.Recorded })
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.notifyMatrix(e)
	switch e.Subject.Noun() {
	case "bid":
		f.Change(func(s *state) { s.applyBids(e) })
	case "job":
		f.Change(func(s *state) {
			for _, one := range e.Facts {
				s.apply(one, e)
			}
			if id, ok := jobOf(e.Subject); ok {
				s.change(id, func(j *Job) { j.Last = e.Seq })
			}
		})
	}
}

func (s *state) apply(one fact.Fact, e fact.Entry) {
	at := e.At
	switch one := one.(type) {
	case fact.JobOpened:
		s.Jobs.Set(one.Job, &Job{JobOpened: one, Seq: e.Seq, At: at})
		s.settleBids(one.Job)
		s.open[one.Job] = true
	case fact.JobCancelled:
		s.change(one.Job, func(j *Job) { j.Cancelled = true })
	case fact.JobClosed:
		s.change(one.Job, func(j *Job) { j.Ending, j.Reason, j.Closed, j.Chosen = one.Ending, one.Reason, at, one.Chosen })
	case fact.JobShredded:
		s.change(one.Job, func(j *Job) {
			j.Shredded = at
			j.shred()
		})
	case fact.JobErased:
		s.change(one.Job, func(j *Job) { j.Erased, j.Exposed = at, one.Exposed })
	case fact.JournalClosed:
		if id, ok := jobOf(e.Subject); ok {
			s.change(id, func(j *Job) { j.abandon(at) })
		}
	case fact.JobSolicited:
		for _, e := range one.Requests() {
			s.solicitations.Set(e.ID, one.Job)
		}
		s.change(one.Job, func(j *Job) { j.Solicited = &one })
	case fact.JobOffered:
		s.change(one.Job, func(j *Job) { j.Offers = append(slices.Clip(j.Offers), one) })
	case fact.AttemptPlanned:
		s.attempts.Set(one.Attempt, one.Job)
		s.traffic.asked(s.traffic.decided(s.taskOf(one.Job)), one.Provider.PubKey, at)
		s.addAttempt(one.Provider.PubKey, one.Attempt)
		s.change(one.Job, func(j *Job) { j.plan(one, at) })
	case fact.EffectSettled:
		s.published(one.Effect)
		s.sought(one.Effect, true)
	case fact.EffectParked:
		s.published(one.Effect)
		s.sought(one.Effect, false)
	default:
		s.applyToAttempt(one, at)
	}
}

func (j *Job) plan(p fact.AttemptPlanned, at int64) {
	kind := int(p.Request.Kind)
	if kind == j.Kind {
		kind = 0
	}
	j.Attempts = append(j.Attempts, Attempt{
		Attempt: guild.Attempt{ID: p.Attempt, Job: p.Job, Provider: p.Provider, State: guild.Planned},
		Planned: &p, Encrypted: p.Encrypted, Kind: kind, At: at, Bid: p.Bid,
	})
}

// abandon ends a job that was closed in quarantine. Nothing of it is due any more, and no attempt holds a place or a bid.
func (j *Job) abandon(at int64) {
	if j.Ending == guild.Open {
		j.Ending, j.Reason, j.Closed = guild.JobCancelled, "closed in quarantine, since entries of it are lost", at
	}
	j.Unsought = true
	for i := range j.Attempts {
		a := &j.Attempts[i]
		if a.live() {
			a.end(guild.Cancelled, "closed in quarantine", at)
		}
		a.Withdrawn = true
		if a.Held != nil && a.Agrees == nostr.ZeroID {
			a.Agrees = a.ID // it is compared with no other
		}
		a.slim()
	}
}

// answersIn returns the kind of the results of an attempt.
func (a Attempt) answersIn(job *Job) int { return nip90.ResultKind(cmp.Or(a.Kind, job.Kind)) }

// change replaces a job by a changed copy, so that readers keep what they hold.
func (s *state) change(id guild.JobID, by func(*Job)) {
	old, ok := s.Jobs.Get(id)
	if !ok {
		return
	}
	job := *old
	job.Attempts = slices.Clone(old.Attempts)
	by(&job)
	s.traffic.changed(old.Attempts, job.Attempts)
	if job.quiet() {
		s.rest(&job)
	} else {
		s.open[id] = true
	}
	s.Jobs.Set(id, &job)
	s.settleBids(id)
}

// rest drops the parts of a finished job that are only needed while something may be due. Jobs are kept for ever.
func (s *state) rest(job *Job) {
	delete(s.open, job.Job)
	if job.Solicited != nil {
		for _, e := range job.Solicited.Requests() {
			s.solicitations.Delete(e.ID)
		}
	}
	job.Solicited, job.Offers, job.Providers, job.Inputs, job.Quality = nil, nil, nil, nil, nil
	if job.Release != nil {
		job.Release = &fact.Release{Names: job.Release.Names}
	}
}

func (s *state) changeAttempt(id nostr.ID, by func(*Attempt)) {
	s.change(s.attempts.Of(id), func(j *Job) {
		if i := j.index(id); i >= 0 {
			by(&j.Attempts[i])
			j.Attempts[i].slim()
		}
	})
}

// slim drops the events of an attempt for which nothing more will be sent: requests can hold whole bundles, and jobs are
// kept for ever.
func (a *Attempt) slim() {
	if a.State != guild.Delivered && a.State != guild.Undecided {
		a.Answer = nil
	}
	if a.State.Waiting() {
		return
	}
	a.Words = nil
	if a.untold() {
		return
	}
	a.Planned, a.Deletion = nil, nil
}

// untold reports whether the provider has yet to be told that we do not wait for it any more.
func (a *Attempt) untold() bool { return (a.Deletion != nil || a.Unpaid) && !a.Withdrawn }

// published notes that a deletion was published or given up, after which the next provider may be asked, and counts how
// often a request was published again.
func (s *state) published(effect string) {
	if id, ok := deletionOf(effect); ok {
		s.changeAttempt(id, func(a *Attempt) { a.Withdrawn = true })
	}
	if id, ok := againOf(effect); ok {
		s.changeAttempt(id, func(a *Attempt) { a.Again++ })
	}
}
