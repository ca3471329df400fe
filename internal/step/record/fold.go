package record

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Fold holds the future content of the records of open jobs, and the places of the other records.
type Fold struct{ *fold.State[state] }

type state struct {
	Jobs        fold.Table[guild.JobID, trace]    `json:"jobs"`     // open jobs, and closed ones with attempts without a record
	Sessions    fold.Table[string, session]       `json:"sessions"` // attempts without a record, by id
	Stored      fold.Table[guild.JobID, []Stored] `json:"stored"`   // never changed in place
	Young       fold.Table[string, session]       `json:"young"`    // recorded attempts that can still be disputed, by id
	Order       []string                          `json:"order"`    // of these, the oldest first; only appended to and cut at the front
	Unpublished fold.Table[string, unpublished]   `json:"unsaid"`   // receipts to publish, by id
}

// disputable is the time in ms for which an attempt's session is kept after its end. It is longer than the time to
// object.
const disputable = 48 * 60 * 60 * 1000

// trace holds what has happened to a job so far.
type trace struct {
	Task   string     `json:"task"`
	Bundle guild.Hash `json:"bundle"`
	Acts   []act      `json:"acts"`
	Closed bool       `json:"closed"`
}

// session is an attempt whose record is not written yet, or can still be disputed.
type session struct {
	Job      guild.JobID         `json:"job"`
	Attempt  nostr.ID            `json:"attempt"`
	Provider guild.Service       `json:"provider"`
	Task     string              `json:"task"`
	Bundle   guild.Hash          `json:"bundle"`
	JobHash  guild.Hash          `json:"job_hash"`
	Key      string              `json:"key,omitempty"` // idempotency key
	Result   nostr.ID            `json:"result"`
	Delivery guild.Hash          `json:"delivery"`
	Claimed  guild.Hash          `json:"behaviour,omitzero"` // the behaviour that did the work, as the provider claims
	Judged   *fact.AttemptJudged `json:"judged,omitempty"`
	State    guild.State         `json:"state"`
	Ended    int64               `json:"ended"`             // Unix ms; 0 before the end
	Plain    bool                `json:"plain,omitempty"`   // the provider speaks plain NIP-90
	Earlier  string              `json:"earlier,omitempty"` // id of the receipt that the next one supersedes
	Receipt  string              `json:"receipt,omitempty"` // the latest
	Acts     []act               `json:"acts,omitempty"`
	Held     *fact.AttemptHeld   `json:"held,omitempty"`    // money that is locked or paid for it
	Paid     *payment            `json:"payment,omitempty"` // what became of that
}

// payment is what became of the money for an attempt.
type payment struct {
	Amount guild.Msat `json:"amount_msats"`
	Rule   string     `json:"rule"`
	Proof  string     `json:"proof,omitempty"`
}

// due reports whether the attempt's record has to be written now: it has ended, and nothing is owed for it.
func (s session) due() bool {
	return s.Ended != 0 && s.State.Settled() && (s.Held == nil || s.Paid != nil)
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("record", 6)} }

// Of returns the places of a job's records, the latest last.
func (f *Fold) Of(job guild.JobID) []Stored {
	return slices.Clone(fold.Read(f.State, func(st *state) []Stored { return st.Stored.Of(job) }))
}

// Receipt returns the job and the places of a record by the receipt's id, or by a prefix of the id that is unique.
func (f *Fold) Receipt(id string) (guild.JobID, Stored, bool) {
	var stored fold.Table[guild.JobID, []Stored]
	f.Change(func(st *state) { stored = st.Stored.Clone() }) // the search holds no lock
	var of guild.JobID
	var found []Stored
	for job, all := range stored.All() {
		for _, s := range all {
			if s.Receipt != "" && strings.HasPrefix(s.Receipt, id) {
				of, found = job, append(found, s)
			}
		}
	}
	if len(found) != 1 {
		return guild.JobID{}, Stored{}, false
	}
	return of, found[0], true
}

// ended returns the attempts whose record has to be written now, the oldest first.
func (f *Fold) ended() []session {
	var ended []session
	f.View(func(st *state) {
		for _, s := range st.Sessions.All() {
			if s.due() {
				ended = append(ended, s)
			}
		}
	})
	slices.SortStableFunc(ended, func(a, b session) int { return cmp.Compare(a.Ended, b.Ended) })
	return ended
}

// unpublished returns the receipts to publish.
func (f *Fold) unpublished() []unpublished {
	var all []unpublished
	f.View(func(st *state) {
		for _, u := range st.Unpublished.All() {
			all = append(all, u)
		}
	})
	return all
}

func (f *Fold) isUnpublished(receipt string) bool {
	return fold.Read(f.State, func(st *state) bool { return st.Unpublished.Has(receipt) })
}

// due reports whether an attempt's record has to be written now.
func (f *Fold) due(attempt nostr.ID) bool {
	return fold.Read(f.State, func(st *state) bool { return st.Sessions.Of(attempt.Hex()).due() })
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	if e.Subject.Noun() != "job" {
		return
	}
	f.Change(func(st *state) {
		for _, one := range e.Facts {
			st.apply(one, e.At)
		}
	})
}

// apply applies one fact of a job. It reports whether a record contains facts of this type. TestRecordedFacts lists the
// types that records leave out.
func (st *state) apply(one fact.Fact, at int64) bool {
	switch one := one.(type) {
	case fact.JobOpened:
		t := trace{Task: one.Task, Bundle: one.Bundle}
		t.note(at, "bundle.pack", one, one.Bundle.String(), 0)
		st.Jobs.Set(one.Job, t)
	case fact.AttemptPlanned:
		t := st.Jobs.Of(one.Job)
		st.Sessions.Set(one.Attempt.Hex(), session{
			Job: one.Job, Attempt: one.Attempt, Provider: one.Provider, Task: t.Task, Bundle: t.Bundle,
			JobHash: one.JobHash, Key: one.Key, Plain: one.Plain,
		})
	case fact.JobClosed:
		t := st.Jobs.Of(one.Job)
		t.Closed = true
		st.Jobs.Set(one.Job, t)
		st.tidy(one.Job)
	case fact.AttemptRecorded:
		st.recorded(one, at)
	case fact.JobShredded:
		st.forget(one.Job)
	case fact.ReceiptPublished:
		st.Unpublished.Delete(one.Receipt)
	case fact.AttemptDisputed:
		st.disputed(one, at)
	case fact.AttemptRequested:
		st.act(one.Attempt, at, "nostr.publish", one, "OK from "+strings.Join(one.Relays, " "), 0)
	case fact.AttemptQuoted:
		st.act(one.Attempt, at, "nostr.quote", one, one.Amount.String(), 0)
	case fact.AttemptHeld:
		if one.Amount == 0 {
			st.act(one.Attempt, at, "pay.fail", one, "nothing is held", 1)
			st.change(one.Attempt, func(s *session) { s.Held = nil })
			break
		}
		st.act(one.Attempt, at, "pay.lock", one, one.Amount.String(), 0)
		st.change(one.Attempt, func(s *session) { s.Held = &one })
	case fact.AttemptReleased:
		st.paid(one.Attempt, at, "pay.release", payment{Amount: one.Amount, Rule: one.Rule, Proof: one.Proof})
	case fact.AttemptRefunded:
		st.paid(one.Attempt, at, "pay.refund", payment{Rule: one.Rule, Proof: one.Proof})
	case fact.AttemptProgressed:
		st.act(one.Attempt, at, "nostr.feedback", one, one.Text, 0)
	case fact.AttemptDelivered:
		one.Answer = nil // its hash is enough
		if one.Away != nil {
			one.Away = &fact.Place{URL: one.Away.URL} // its key is a secret
		}
		st.act(one.Attempt, at, "nostr.result", one, one.Delivery.String(), 0)
		st.change(one.Attempt, func(s *session) {
			s.Result, s.Delivery, s.Claimed = one.Result, one.Delivery, one.Behaviour
			if one.Bill != nil {
				s.Held = one.Bill.Held(one.Attempt)
			}
		})
	case fact.AttemptJudged:
		exit := 1
		if one.Verdict.Outcome == guild.Success {
			exit = 0
		}
		st.act(one.Attempt, at, "judge.run", verdictParams{Attempt: one.Attempt, Verdict: one.Stored, Hash: one.Hash}, string(one.Verdict.Outcome), exit)
		st.change(one.Attempt, func(s *session) { s.Judged = &one })
		st.end(one.Attempt, at, guild.StateFor(one.Verdict.Outcome))
	case fact.AttemptRefused:
		st.act(one.Attempt, at, "nostr.refused", one, one.Reason, 1)
		st.end(one.Attempt, at, guild.Refused)
	case fact.AttemptExpired:
		st.act(one.Attempt, at, "wait", one, one.Reason, 1)
		st.end(one.Attempt, at, guild.Expired)
	case fact.AttemptCancelled:
		st.act(one.Attempt, at, "cancel", one, "", 0)
		st.end(one.Attempt, at, guild.Cancelled)
	case fact.AttemptParked:
		st.act(one.Attempt, at, "park", one, one.Reason, 1)
		st.end(one.Attempt, at, guild.Parked)
	default:
		return false
	}
	return true
}

// verdictParams stands for a verdict in a trajectory. The verdict itself may be too large.
type verdictParams struct {
	Attempt nostr.ID   `json:"attempt"`
	Verdict guild.Hash `json:"verdict"`
	Hash    guild.Hash `json:"hash"`
}

func (st *state) act(attempt nostr.ID, at int64, tool string, params any, output string, exit int) {
	job := st.Sessions.Of(attempt.Hex()).Job
	if t, ok := st.Jobs.Get(job); ok {
		t.note(at, tool, params, output, exit)
		st.Jobs.Set(job, t)
	}
}

// note appends an act. All facts can be marshaled.
//
// The slice is copied on append, because sessions and snapshots share the old one.
func (t *trace) note(at int64, tool string, params any, output string, exit int) {
	raw, err := json.Marshal(params)
	if err != nil {
		raw = []byte("{}")
	}
	a := act{At: at, Tool: tool, Params: raw, Output: output, Exit: exit}
	if n := len(t.Acts); n > 0 {
		a.Ms = at - t.Acts[n-1].At
	}
	t.Acts = append(t.Acts[:len(t.Acts):len(t.Acts)], a)
}

func (st *state) change(attempt nostr.ID, by func(*session)) {
	s, ok := st.Sessions.Get(attempt.Hex())
	if !ok {
		return
	}
	by(&s)
	st.Sessions.Set(attempt.Hex(), s)
}

// end records the end of an attempt. The acts up to now are kept with the attempt: a record that is written late must
// not contain later acts, because writing it again must give the same bytes.
func (st *state) end(attempt nostr.ID, at int64, as guild.State) {
	st.change(attempt, func(s *session) {
		s.State, s.Ended, s.Acts = as, at, st.Jobs.Of(s.Job).Acts
	})
}

// paid records what became of the money for an attempt.
func (st *state) paid(attempt nostr.ID, at int64, tool string, p payment) {
	st.act(attempt, at, tool, payment{Amount: p.Amount, Rule: p.Rule}, p.Amount.String(), 0)
	st.change(attempt, func(s *session) {
		s.Paid = &p
		if s.Ended != 0 {
			s.Acts = st.Jobs.Of(s.Job).Acts
		}
	})
}

// recorded applies the end of an attempt's record. An attempt with a verdict is kept for a while, because a dispute
// opens it again.
func (st *state) recorded(r fact.AttemptRecorded, at int64) {
	s, ok := st.Sessions.Get(r.Attempt.Hex())
	if !ok {
		return
	}
	st.Sessions.Delete(r.Attempt.Hex())
	before := st.Stored.Of(s.Job)
	stored := Stored{Attempt: r.Attempt, Receipt: r.Receipt, Blob: r.Stored, Replay: r.Replay, Unjudged: r.Unjudged}
	st.Stored.Set(s.Job, append(before[:len(before):len(before)], stored))
	if r.Public {
		st.Unpublished.Set(r.Receipt, unpublished{Job: s.Job, Stored: stored})
	}
	if s.Judged != nil {
		st.keep(s, r.Receipt, at)
	}
	st.tidy(s.Job)
}

// keep keeps a session for as long as it can be disputed, and forgets older ones.
func (st *state) keep(s session, receipt string, at int64) {
	for len(st.Order) > 0 && at-st.Young.Of(st.Order[0]).Ended >= disputable {
		st.Young.Delete(st.Order[0])
		st.Order = st.Order[1:]
	}
	s.Receipt = receipt
	st.Young.Set(s.Attempt.Hex(), s)
	st.Order = append(st.Order, s.Attempt.Hex())
}

// disputed opens a session again. Its next record supersedes the present one.
func (st *state) disputed(d fact.AttemptDisputed, at int64) {
	s, ok := st.Young.Get(d.Attempt.Hex())
	if !ok {
		return
	}
	st.Young.Delete(d.Attempt.Hex())
	if !st.Jobs.Has(s.Job) {
		st.Jobs.Set(s.Job, trace{Task: s.Task, Bundle: s.Bundle, Acts: s.Acts, Closed: true})
	}
	s.Earlier, s.Ended = s.Receipt, 0
	st.Sessions.Set(d.Attempt.Hex(), s)
	st.act(d.Attempt, at, "nostr.objection", d, d.Reason, 1)
}

// forget drops what was done for a shredded job, which can be disputed no more. The places of its receipts stay.
func (st *state) forget(job guild.JobID) {
	st.Jobs.Delete(job)
	for _, sessions := range []*fold.Table[string, session]{&st.Sessions, &st.Young} {
		before := sessions.Clone()
		for id, s := range before.All() {
			if s.Job == job {
				sessions.Delete(id)
			}
		}
	}
}

// tidy forgets the acts of a closed job once all its attempts have a record.
func (st *state) tidy(job guild.JobID) {
	if !st.Jobs.Of(job).Closed {
		return
	}
	for _, s := range st.Sessions.All() {
		if s.Job == job {
			return
		}
	}
	st.Jobs.Delete(job)
}

// step returns the name of the trajectory's step to which an act belongs.
func (a act) step() string {
	switch a.Tool {
	case "bundle.pack":
		return "bundle"
	case "nostr.publish":
		return "request"
	case "judge.run":
		return "judge"
	}
	return "work"
}
