package trust

import (
	"fmt"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/policy"
)

// maxChanges limits the attempts for which Change and Last remember the change.
const maxChanges = 50_000

// Fold holds all trust, and the evidence that trust has not followed yet.
type Fold struct {
	*fold.State[state]
	policy policy.Policy
	hash   guild.Hash
}

// state is the state of the fold. Its slices may only be appended to and cut at the front, because a snapshot shares
// their arrays.
type state struct {
	Adopted   guild.Hash                    `json:"adopted"`   // the policy in force
	Table     fold.Table[string, row]       `json:"table"`     // by key(task, service)
	Days      fold.Table[string, day]       `json:"days"`      // task → how far trust moved on its latest day
	Jobs      fold.Table[guild.JobID, job]  `json:"jobs"`      // until they are closed and their attempts have ended
	Asked     fold.Table[string, asked]     `json:"asked"`     // attempt → its provider and progress, until there is evidence
	Owed      fold.Table[string, []owed]    `json:"owed"`      // task → evidence that trust has not followed, in order
	Owing     fold.Table[guild.JobID, int]  `json:"owing"`     // job → number of its entries in Owed
	Judged    fold.Table[string, verdict]   `json:"judged"`    // attempts whose verdict can still be disputed
	Young     []until                       `json:"young"`     // when their verdicts become final
	Moved     fold.Table[string, changed]   `json:"moved"`     // attempt → its change of trust
	Order     []string                      `json:"order"`     // of Moved, the oldest first
	Lasts     fold.Table[guild.JobID, last] `json:"lasts"`     // job → its latest change in Moved
	Latencies fold.Table[string, []int64]   `json:"latencies"` // task → latencies of accepted deliveries in ms, the newest last

	tasks fold.Table[string, []string] // service → the tasks for which there ever was trust
}

// Derive rebuilds the index of each service's tasks.
func (s *state) Derive() {
	s.tasks = fold.Table[string, []string]{}
	for _, r := range s.Table.All() {
		s.index(r.Task, r.Service)
	}
}

// row is a standing with the values that its next change depends on.
type row struct {
	Standing
	Task    string        `json:"task"`
	Service guild.Service `json:"service"`
	Last    nostr.ID      `json:"last,omitzero"`   // the attempt of the latest change
	Set     uint64        `json:"set,omitempty"`   // the entry that last set trust outright; changes before it do not count
	Since   int64         `json:"since,omitempty"` // Unix ms: time of the latest change
	Areas   []area        `json:"areas,omitempty"` // trust over time, up to Since
	Past    pasts         `json:"past,omitempty"`
	Fell    day           `json:"fell,omitzero"` // on its latest day with decreases, if decreases have a limit of their own
}

// relevant returns the changes since trust was last set outright.
func (r row) relevant() []Past {
	i := slices.IndexFunc(r.Past, func(p Past) bool { return p.Seq > r.Set })
	if i < 0 {
		return nil
	}
	return r.Past[i:]
}

type changed struct {
	Change
	Job guild.JobID `json:"job"`
	Seq uint64      `json:"seq"`
}

type last struct {
	Seq     uint64   `json:"seq"`
	Attempt nostr.ID `json:"attempt"`
}

type day struct {
	Day   int64       `json:"day"` // days since 1970, UTC
	Spent guild.Trust `json:"spent"`
}

// NewFold returns an empty fold under a policy.
func NewFold(p policy.Policy) (*Fold, error) {
	hash, err := p.Hash()
	if err != nil {
		return nil, fmt.Errorf("trust: %w", err)
	}
	return &Fold{State: fold.NewState[state]("trust", 4), policy: p, hash: hash}, nil
}

// Policy returns the hash of the policy that this node decides by.
func (f *Fold) Policy() guild.Hash { return f.hash }

// Adopted returns the hash of the policy that was last adopted, or zero.
func (f *Fold) Adopted() guild.Hash {
	return fold.Read(f.State, func(s *state) guild.Hash { return s.Adopted })
}

func key(task string, s guild.Service) string { return task + "\x00" + s.PubKey.Hex() + "\x00" + s.D }

func serviceKey(s guild.Service) string { return s.PubKey.Hex() + "\x00" + s.D }

// Trust returns how far a service is trusted with a task. met is false if there is no trust yet.
func (f *Fold) Trust(task string, s guild.Service) (t guild.Trust, met bool) {
	standing := f.Standing(task, s)
	return standing.Trust, standing.Met
}

// Standing returns the standing of a service for a task, or the zero value if there is no trust yet.
func (f *Fold) Standing(task string, s guild.Service) Standing {
	r := f.rowOf(task, s)
	if !r.Met {
		return Standing{}
	}
	return r.Standing
}

// rowOf returns the row of a service for a task.
func (f *Fold) rowOf(task string, of guild.Service) row {
	return fold.Read(f.State, func(s *state) row { return s.Table.Of(key(task, of)) })
}

// Of returns the trust in a service, by task.
func (f *Fold) Of(service guild.Service) map[string]guild.Trust {
	of := map[string]guild.Trust{}
	f.View(func(s *state) {
		for _, task := range s.tasks.Of(serviceKey(service)) {
			r := s.Table.Of(key(task, service))
			if r.Met {
				of[task] = r.Trust
			}
		}
	})
	return of
}

// rows returns a copy of all rows, which may be read while the fold changes.
func (f *Fold) rows() (all fold.Table[string, row]) {
	f.State.Change(func(s *state) { all = s.Table.Clone() }) // Clone marks the table as shared, which is a write
	return all
}

// Change is the effect of one attempt on trust.
type Change struct {
	From, To  guild.Trust
	First     bool // there was no trust before
	Unfounded bool // there is no trust after it
}

// Change returns the effect of an attempt on trust. ok is false if there is none yet, or if the attempt is not among
// the last 50,000.
func (f *Fold) Change(attempt nostr.ID) (change Change, ok bool) {
	f.View(func(s *state) {
		var c changed
		c, ok = s.Moved.Get(attempt.Hex())
		change = c.Change
	})
	return change, ok
}

// Last returns the latest entry that moved trust for a job, or 0 if there is none or it is older than Change remembers.
func (f *Fold) Last(job guild.JobID) uint64 {
	return fold.Read(f.State, func(s *state) uint64 { return s.Lasts.Of(job).Seq })
}

// Settled reports whether trust has followed all evidence of a job so far.
func (f *Fold) Settled(job guild.JobID) bool {
	return fold.Read(f.State, func(s *state) bool { return s.Owing.Of(job) == 0 && len(s.Jobs.Of(job).Held) == 0 })
}

// UpToDate reports whether trust has followed all evidence of a task. Until then no provider should be chosen by trust
// (the partnership protocol, section 5.5.1).
func (f *Fold) UpToDate(task string) bool {
	return fold.Read(f.State, func(s *state) bool { return len(s.Owed.Of(task)) == 0 })
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.State.Change(func(s *state) {
		s.prune(e.At)
		for _, one := range e.Facts {
			s.apply(one, e, &f.policy)
		}
	})
}

// change applies a decided change of trust.
func (s *state) change(c fact.TrustChanged, e fact.Entry, p *policy.Policy) {
	k := key(c.Task, c.Service)
	r := s.Table.Of(k)
	at := max(e.At, r.Since)
	if c.Rule == fact.RuleMean {
		at = r.Since // at the same time as the change that led to it
	}
	o, ok := s.learned(c)
	if ok {
		at = max(o.At, r.Since)
	}
	undone := s.contested(c, r, e, at)
	s.remember(c, e.Seq)
	if c.Unfounded && !r.Met || c.Rule == fact.RuleMerged && r.Met && c.To == r.Trust {
		return // there was and is no trust, or another guild has the same
	}
	if !c.First {
		s.spend(c, &r, undone, at, p.Trust)
	}
	if r.Met {
		r.Areas = addArea(r.Areas, r.Trust, r.Since, at)
	}
	r.Task, r.Service, r.Since, r.Last = c.Task, c.Service, at, c.Attempt
	r.Standing = Standing{Trust: c.To, EMA: c.EMA, Runs: c.Runs, Met: !c.Unfounded, Samples: c.Samples, Wrong: c.Consecutive}
	if c.Samples == 0 {
		r.Samples = s.Table.Of(k).Samples
	}
	if outright(c.Rule) {
		r.Set = e.Seq
	}
	if c.Rule == fact.RuleRejudged {
		r.Past = without(r.Past, undone.Seq)
	}
	r.Past = append(r.Past[max(0, len(r.Past)+1-maxPast):], Past{Seq: e.Seq, At: at, From: c.From, To: c.To, Rule: c.Rule, Pattern: c.Pattern,
		First: c.First, Confidence: c.Confidence, Held: c.Held})
	s.Table.Set(k, r)
	s.index(c.Task, c.Service)
}

// outright reports whether a rule sets trust to a value that does not follow from the one before.
func outright(rule string) bool {
	switch rule {
	case fact.RuleMean, fact.RuleOwner, fact.RuleRollback, fact.RuleMerged, fact.RuleRestored:
		return true
	}
	return false
}

// without removes the outcome from a change whose attempt was judged again, so that the attempt is observed once.
func without(past []Past, seq uint64) []Past {
	past = slices.Clone(past)
	for i := range past {
		if past[i].Seq == seq {
			past[i].Pattern = ""
		}
	}
	return past
}

func (s *state) index(task string, service guild.Service) {
	k := serviceKey(service)
	of := s.tasks.Of(k)
	if !slices.Contains(of, task) {
		s.tasks.Set(k, append(slices.Clip(of), task))
	}
}

// spend charges a change to the daily limit of its task, or to that of its service for a decrease with a limit of its
// own. Changes that set trust outright are not charged. A change that takes a decrease back frees what the decrease
// used on the same day, and a change by a second verdict frees what the first one used.
func (s *state) spend(c fact.TrustChanged, r *row, undone verdict, at int64, p policy.Trust) {
	today, fell := s.today(c.Task, at), r.Fell.at(at)
	of := func(by guild.Trust) *day {
		if own(by, p) {
			return &fell
		}
		return &today
	}
	switch c.Rule {
	case "":
		of(c.To - c.From).Spent += abs(c.To - c.From)
	case fact.RuleContradiction:
		before := r.Past[max(0, len(r.Past)-1):]
		if len(before) == 1 && before[0].At/dayMs == of(-1).Day {
			of(-1).Spent -= abs(c.To - c.From)
		}
	case fact.RuleRejudged:
		if undone.First {
			return // a first trust is not charged, and neither is its replacement
		}
		now := c.To - (c.From - undone.Delta)
		of(now).Spent += abs(now)
		of(undone.direction()).Spent -= undone.refund(of(undone.direction()).Day)
	default:
		return
	}
	today.Spent, fell.Spent = max(0, today.Spent), max(0, fell.Spent)
	s.Days.Set(c.Task, today)
	if p.DailyOf == policy.OfService {
		r.Fell = fell
	}
}

func abs(t guild.Trust) guild.Trust { return max(t, -t) }

// today returns how far trust in a task has moved on the UTC day of at. If evidence of a later day came first, it
// returns that day instead.
func (s *state) today(task string, at int64) day {
	return s.Days.Of(task).at(at)
}

func (d day) at(at int64) day {
	if d.Day >= at/dayMs {
		return d
	}
	return day{Day: at / dayMs}
}

// remember stores an attempt's change and forgets the oldest one.
func (s *state) remember(c fact.TrustChanged, seq uint64) {
	if c.Attempt == nostr.ZeroID {
		return
	}
	id := c.Attempt.Hex()
	now := changed{Change{From: c.From, To: c.To, First: c.First, Unfounded: c.Unfounded}, c.Job, seq}
	before, known := s.Moved.Get(id)
	switch {
	case !known:
		s.Order = append(s.Order, id)
	case before.Seq == seq: // two rules in one decision
		now.From, now.First = before.From, before.First
	}
	s.Moved.Set(id, now)
	s.Lasts.Set(c.Job, last{seq, c.Attempt})
	if len(s.Order) > maxChanges {
		s.forget(s.Order[0])
		s.Order = s.Order[1:]
	}
}

func (s *state) forget(id string) {
	old := s.Moved.Of(id)
	s.Moved.Delete(id)
	if s.Lasts.Of(old.Job).Attempt.Hex() == id {
		s.Lasts.Delete(old.Job)
	}
}
