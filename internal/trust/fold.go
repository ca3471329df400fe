package trust

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
	"guild/internal/policy"
)

// maxChanges is of how many attempts the fold tells what they changed.
const maxChanges = 50_000

// Fold is all trust, and the evidence that has not moved it yet.
type Fold struct {
	policy policy.Policy
	hash   guild.Hash

	mu    sync.RWMutex
	state folded
	tasks fold.Table[string, []string] // service → the tasks that it was ever trusted with; it follows from the state
}

type folded struct {
	Whole     bool                          `json:"whole"`            // the snapshot has all that follows
	Adopted   guild.Hash                    `json:"adopted,omitzero"` // the policy in force
	Table     fold.Table[string, row]       `json:"table"`            // by key(task, service)
	Days      fold.Table[string, day]       `json:"days"`             // task → what moved in its latest day
	Jobs      fold.Table[guild.JobID, job]  `json:"jobs"`             // until they and their attempts are over
	Asked     fold.Table[string, asked]     `json:"asked"`            // attempt → whom; until there is evidence
	Owed      fold.Table[string, []owed]    `json:"owed"`             // task → evidence not learned from, in its order
	Owing     fold.Table[guild.JobID, int]  `json:"owing"`            // job → how much of that is of it
	Judged    fold.Table[string, verdict]   `json:"judged"`           // attempts whose verdict may still be contested
	Young     []until                       `json:"young"`            // when it may not any more
	Moved     fold.Table[string, changed]   `json:"moved"`            // attempt → what it changed
	Order     []string                      `json:"order"`            // of those, the oldest first
	Lasts     fold.Table[guild.JobID, last] `json:"lasts"`            // job → latest change for it, while that is among those
	Latencies fold.Table[string, []int64]   `json:"latencies"`        // task → of accepted deliveries, in ms, the newest last
}

// row is a standing and what its next change depends on.
type row struct {
	Standing
	Task    string        `json:"task"`
	Service guild.Service `json:"service"`
	Last    nostr.ID      `json:"last,omitzero"`   // the attempt of the latest change
	Set     uint64        `json:"set,omitempty"`   // the entry that set trust outright; what was before counts no more
	Since   int64         `json:"since,omitempty"` // Unix ms: when the latest change was due
	Areas   []area        `json:"areas,omitempty"` // of trust up to then
	Past    pasts         `json:"past,omitempty"`
	Fell    day           `json:"fell,omitzero"` // of its latest day with decreases, where these have a limit of their own
}

// relevant is the changes since trust was last set outright.
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
	return &Fold{policy: p, hash: hash}, nil
}

// Policy is the hash of the policy that this node decides by.
func (f *Fold) Policy() guild.Hash { return f.hash }

// Adopted is the hash of the policy that was last adopted, zero for none.
func (f *Fold) Adopted() guild.Hash {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Adopted
}

// Name implements fold.Fold.
func (*Fold) Name() string { return "trust" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 2 }

func key(task string, s guild.Service) string { return task + "\x00" + s.PubKey.Hex() + "\x00" + s.D }

func serviceKey(s guild.Service) string { return s.PubKey.Hex() + "\x00" + s.D }

// Trust is how far a service is trusted with a task; met is false when no verdict has founded any.
func (f *Fold) Trust(task string, s guild.Service) (t guild.Trust, met bool) {
	standing := f.Standing(task, s)
	return standing.Trust, standing.Met
}

// Standing is what trust in a service for a task rests on; the zero value where nothing has founded any.
func (f *Fold) Standing(task string, s guild.Service) Standing {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if r := f.state.Table.Of(key(task, s)); r.Met {
		return r.Standing
	}
	return Standing{}
}

// Of lists the trust in a service, by task.
func (f *Fold) Of(s guild.Service) map[string]guild.Trust {
	f.mu.RLock()
	defer f.mu.RUnlock()
	of := map[string]guild.Trust{}
	for _, task := range f.tasks.Of(serviceKey(s)) {
		if r := f.state.Table.Of(key(task, s)); r.Met {
			of[task] = r.Trust
		}
	}
	return of
}

// rows is a copy of all standings, to be gone through without holding up anybody.
func (f *Fold) rows() fold.Table[string, row] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Table.Clone()
}

// Change is what one attempt did to trust.
type Change struct {
	From, To  guild.Trust
	First     bool // nothing was there before
	Unfounded bool // and nothing is there now
}

// Change returns what an attempt did to trust, once that is decided, as long as it is one of the last 50,000.
func (f *Fold) Change(attempt nostr.ID) (Change, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	c, ok := f.state.Moved.Get(attempt.Hex())
	return c.Change, ok
}

// Last is the latest entry that moved trust for a job, 0 for none, or where that is as long ago as Change forgets.
func (f *Fold) Last(job guild.JobID) uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Lasts.Of(job).Seq
}

// Settled reports whether nothing is left to learn from what is known of the attempts of a job.
func (f *Fold) Settled(job guild.JobID) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Owing.Of(job) == 0 && len(f.state.Jobs.Of(job).Held) == 0
}

// UpToDate reports whether all evidence about a task has moved trust. Until then nobody should be chosen for it by
// trust (the partnership protocol, section 5.5.1).
func (f *Fold) UpToDate(task string) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.state.Owed.Of(task)) == 0
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prune(e.At)
	for _, one := range e.Facts {
		f.apply(one, e)
	}
}

// change takes over what was decided about trust.
func (f *Fold) change(c fact.TrustChanged, e fact.Entry) {
	k := key(c.Task, c.Service)
	r := f.state.Table.Of(k)
	at := max(e.At, r.Since)
	if c.Rule == fact.RuleMean {
		at = r.Since // together with the change that led to it
	}
	if o, ok := f.learned(c); ok {
		at = max(o.At, r.Since)
	}
	undone := f.contested(c, r, e, at)
	f.remember(c, e.Seq)
	if c.Unfounded && !r.Met || c.Rule == fact.RuleMerged && r.Met && c.To == r.Trust {
		return // nothing is there, or another guild only agrees
	}
	if !c.First {
		f.spend(c, &r, undone, at)
	}
	if r.Met {
		r.Areas = addArea(r.Areas, r.Trust, r.Since, at)
	}
	r.Task, r.Service, r.Since, r.Last = c.Task, c.Service, at, c.Attempt
	r.Standing = Standing{Trust: c.To, EMA: c.EMA, Runs: c.Runs, Met: !c.Unfounded, Samples: c.Samples, Wrong: c.Consecutive}
	if c.Samples == 0 {
		r.Samples = f.state.Table.Of(k).Samples
	}
	if outright(c.Rule) {
		r.Set = e.Seq
	}
	if c.Rule == fact.RuleRejudged {
		r.Past = without(r.Past, undone.Seq)
	}
	r.Past = append(r.Past[max(0, len(r.Past)+1-maxPast):], Past{Seq: e.Seq, At: at, From: c.From, To: c.To, Rule: c.Rule, Pattern: c.Pattern,
		First: c.First, Confidence: c.Confidence, Held: c.Held})
	f.state.Table.Set(k, r)
	f.index(c.Task, c.Service)
}

// outright reports whether a rule sets trust to a value that does not follow from the one before.
func outright(rule string) bool {
	switch rule {
	case fact.RuleMean, fact.RuleOwner, fact.RuleRollback, fact.RuleMerged, fact.RuleRestored:
		return true
	}
	return false
}

// without takes the outcome out of a change whose attempt was judged again: it is observed once.
func without(past []Past, seq uint64) []Past {
	past = slices.Clone(past)
	for i := range past {
		if past[i].Seq == seq {
			past[i].Pattern = ""
		}
	}
	return past
}

func (f *Fold) index(task string, s guild.Service) {
	k := serviceKey(s)
	if of := f.tasks.Of(k); !slices.Contains(of, task) {
		f.tasks.Set(k, append(slices.Clip(of), task))
	}
}

// spend charges the day of a task, or that of a service for a decrease that counts against its own. What sets trust outright is outside of the limit; what takes back a decrease frees
// what that took of the same day, and what judges again frees what the first verdict took.
func (f *Fold) spend(c fact.TrustChanged, r *row, undone verdict, at int64) {
	today, fell := f.today(c.Task, at), r.Fell.at(at)
	of := func(by guild.Trust) *day {
		if own(by, f.policy.Trust) {
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
			return // a first trust is free, and so is another in its place
		}
		now := c.To - (c.From - undone.Delta)
		of(now).Spent += abs(now)
		of(undone.direction()).Spent -= undone.refund(of(undone.direction()).Day)
	default:
		return
	}
	today.Spent, fell.Spent = max(0, today.Spent), max(0, fell.Spent)
	f.state.Days.Set(c.Task, today)
	if f.policy.Trust.DailyOf == policy.OfService {
		r.Fell = fell
	}
}

func abs(t guild.Trust) guild.Trust { return max(t, -t) }

// today is what trust in a task has moved on the UTC day of at. Evidence that is older than what was learned before it
// counts for that day.
func (f *Fold) today(task string, at int64) day {
	return f.state.Days.Of(task).at(at)
}

func (d day) at(at int64) day {
	if d.Day >= at/dayMs {
		return d
	}
	return day{Day: at / dayMs}
}

// remember keeps what an attempt changed, and forgets the oldest.
func (f *Fold) remember(c fact.TrustChanged, seq uint64) {
	if c.Attempt == nostr.ZeroID {
		return
	}
	id := c.Attempt.Hex()
	now := changed{Change{From: c.From, To: c.To, First: c.First, Unfounded: c.Unfounded}, c.Job, seq}
	before, known := f.state.Moved.Get(id)
	switch {
	case !known:
		f.state.Order = append(f.state.Order, id)
	case before.Seq == seq: // two rules in one decision
		now.From, now.First = before.From, before.First
	}
	f.state.Moved.Set(id, now)
	f.state.Lasts.Set(c.Job, last{seq, c.Attempt})
	if len(f.state.Order) > maxChanges {
		f.forget(f.state.Order[0])
		f.state.Order = f.state.Order[1:]
	}
}

func (f *Fold) forget(id string) {
	old := f.state.Moved.Of(id)
	f.state.Moved.Delete(id)
	if f.state.Lasts.Of(old.Job).Attempt.Hex() == id {
		f.state.Lasts.Delete(old.Job)
	}
}

// Freeze implements fold.Fold. Slices are only ever appended to, and cut at the front, so what a copy sees of them stays.
func (f *Fold) Freeze() func() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.state
	state := folded{
		Whole: true, Adopted: s.Adopted, Table: s.Table.Clone(), Days: s.Days.Clone(), Jobs: s.Jobs.Clone(), Asked: s.Asked.Clone(),
		Owed: s.Owed.Clone(), Owing: s.Owing.Clone(), Judged: s.Judged.Clone(), Young: s.Young, Moved: s.Moved.Clone(),
		Order: s.Order, Lasts: s.Lasts.Clone(), Latencies: s.Latencies.Clone(),
	}
	return func() ([]byte, error) { return fold.Encode(state) }
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh folded
	if err := fold.Decode(b, &fresh); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if !fresh.Whole {
		return errors.New("trust: the snapshot is incomplete")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.tasks = fresh, fold.Table[string, []string]{}
	for _, r := range f.state.Table.All() {
		f.index(r.Task, r.Service)
	}
	return nil
}
