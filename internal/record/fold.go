package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/fact"
	"guild/internal/fold"
)

// Fold keeps, for the jobs that go on, all that their records will say, and for the others where the records are.
type Fold struct {
	mu    sync.RWMutex
	state folded
}

type folded struct {
	Jobs     fold.Table[guild.JobID, trace]    `json:"jobs"`            // not yet recorded to the end
	Sessions fold.Table[string, session]       `json:"sessions"`        // attempts not yet recorded
	Stored   fold.Table[guild.JobID, []Stored] `json:"stored"`          // never changed in place
	Young    fold.Table[string, session]       `json:"young"`           // recorded, and may still be disputed
	Order    []string                          `json:"order,omitempty"` // of those, the oldest first
	Unsaid   fold.Table[string, unsaid]        `json:"unsaid"`          // receipts that are to be published, by id
}

// disputable is how long an attempt's session is kept after its record, in ms: longer than anybody may object.
const disputable = 48 * 60 * 60 * 1000

// trace is what happened to a job so far.
type trace struct {
	Task   string     `json:"task"`
	Bundle guild.Hash `json:"bundle"`
	Acts   []act      `json:"acts"`
	Closed bool       `json:"closed"`
}

// session is one attempt on its way to its record.
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
	Judged   *fact.AttemptJudged `json:"judged,omitempty"`
	State    guild.State         `json:"state"`
	Ended    int64               `json:"ended"`             // Unix ms, 0 while it goes on
	Earlier  string              `json:"earlier,omitempty"` // id of the receipt that the next one stands for
	Receipt  string              `json:"receipt,omitempty"` // the latest
	Acts     []act               `json:"acts,omitempty"`
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{} }

// Name implements fold.Fold.
func (*Fold) Name() string { return "record" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 4 }

// Of lists what is recorded of a job, the latest attempt last.
func (f *Fold) Of(job guild.JobID) []Stored {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.state.Stored.Of(job))
}

// Receipt finds what is recorded under a receipt's id or a prefix of it that fits only one, and of which job.
func (f *Fold) Receipt(id string) (guild.JobID, Stored, bool) {
	f.mu.Lock()
	stored := f.state.Stored.Clone() // nobody waits while all are looked through
	f.mu.Unlock()
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

// ended lists the attempts that are due for their record, the oldest first.
func (f *Fold) ended() []session {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var ended []session
	for _, s := range f.state.Sessions.All() {
		if s.Ended != 0 {
			ended = append(ended, s)
		}
	}
	slices.SortFunc(ended, func(a, b session) int { return int(a.Ended - b.Ended) })
	return ended
}

// unsaid lists the receipts that are to be published.
func (f *Fold) unsaid() []unsaid {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var all []unsaid
	for _, u := range f.state.Unsaid.All() {
		all = append(all, u)
	}
	return all
}

func (f *Fold) isUnsaid(receipt string) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Unsaid.Has(receipt)
}

func (f *Fold) due(attempt nostr.ID) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	s, ok := f.state.Sessions.Get(attempt.Hex())
	return ok && s.Ended != 0
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	if e.Subject.Noun() != "job" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e.At)
	}
}

func (f *Fold) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.JobOpened:
		t := trace{Task: one.Task, Bundle: one.Bundle}
		t.note(at, "bundle.pack", one, one.Bundle.String(), 0)
		f.state.Jobs.Set(one.Job, t)
	case fact.AttemptPlanned:
		t := f.state.Jobs.Of(one.Job)
		f.state.Sessions.Set(one.Attempt.Hex(), session{
			Job: one.Job, Attempt: one.Attempt, Provider: one.Provider, Task: t.Task, Bundle: t.Bundle,
			JobHash: one.JobHash, Key: one.Key,
		})
	case fact.JobClosed:
		t := f.state.Jobs.Of(one.Job)
		t.Closed = true
		f.state.Jobs.Set(one.Job, t)
		f.tidy(one.Job)
	case fact.AttemptRecorded:
		f.recorded(one, at)
	case fact.ReceiptPublished:
		f.state.Unsaid.Delete(one.Receipt)
	case fact.AttemptDisputed:
		f.disputed(one, at)
	default:
		f.happened(one, at)
	}
}

// happened notes what one fact adds to the trajectory of its attempt's job.
func (f *Fold) happened(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.AttemptRequested:
		f.act(one.Attempt, at, "nostr.publish", one, "OK from "+strings.Join(one.Relays, " "), 0)
	case fact.AttemptQuoted:
		f.act(one.Attempt, at, "nostr.quote", one, one.Amount.String(), 0)
	case fact.AttemptProgressed:
		f.act(one.Attempt, at, "nostr.feedback", one, one.Text, 0)
	case fact.AttemptDelivered:
		one.Answer = nil // its hash says which it was
		if one.Away != nil {
			one.Away = &fact.Place{URL: one.Away.URL} // the key would open it
		}
		f.act(one.Attempt, at, "nostr.result", one, one.Delivery.String(), 0)
		f.change(one.Attempt, func(s *session) { s.Result, s.Delivery = one.Result, one.Delivery })
	case fact.AttemptJudged:
		exit := 1
		if one.Verdict.Outcome == guild.Success {
			exit = 0
		}
		f.act(one.Attempt, at, "judge.run", summary{one.Attempt, one.Stored, one.Hash}, string(one.Verdict.Outcome), exit)
		f.change(one.Attempt, func(s *session) { s.Judged = &one })
		f.end(one.Attempt, at, guild.StateFor(one.Verdict.Outcome))
	case fact.AttemptRefused:
		f.act(one.Attempt, at, "nostr.refused", one, one.Reason, 1)
		f.end(one.Attempt, at, guild.Refused)
	case fact.AttemptExpired:
		f.act(one.Attempt, at, "wait", one, one.Reason, 1)
		f.end(one.Attempt, at, guild.Expired)
	case fact.AttemptCancelled:
		f.act(one.Attempt, at, "cancel", one, "", 0)
		f.end(one.Attempt, at, guild.Cancelled)
	case fact.AttemptParked:
		f.act(one.Attempt, at, "park", one, one.Reason, 1)
		f.end(one.Attempt, at, guild.Parked)
	}
}

type summary struct {
	Attempt nostr.ID   `json:"attempt"`
	Verdict guild.Hash `json:"verdict"`
	Hash    guild.Hash `json:"hash"`
}

func (f *Fold) act(attempt nostr.ID, at int64, tool string, params any, output string, exit int) {
	job := f.state.Sessions.Of(attempt.Hex()).Job
	if t, ok := f.state.Jobs.Get(job); ok {
		t.note(at, tool, params, output, exit)
		f.state.Jobs.Set(job, t)
	}
}

// note appends an act. A fact is made of values that always marshal.
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

func (f *Fold) change(attempt nostr.ID, by func(*session)) {
	if s, ok := f.state.Sessions.Get(attempt.Hex()); ok {
		by(&s)
		f.state.Sessions.Set(attempt.Hex(), s)
	}
}

func (f *Fold) end(attempt nostr.ID, at int64, state guild.State) {
	f.change(attempt, func(s *session) {
		s.State, s.Ended, s.Acts = state, at, f.state.Jobs.Of(s.Job).Acts
	})
}

func (f *Fold) recorded(r fact.AttemptRecorded, at int64) {
	s, ok := f.state.Sessions.Get(r.Attempt.Hex())
	if !ok {
		return
	}
	f.state.Sessions.Delete(r.Attempt.Hex())
	before := f.state.Stored.Of(s.Job)
	stored := Stored{r.Attempt, r.Receipt, r.Stored, r.Replay}
	f.state.Stored.Set(s.Job, append(before[:len(before):len(before)], stored))
	if r.Public {
		f.state.Unsaid.Set(r.Receipt, unsaid{s.Job, stored})
	}
	if s.Judged != nil {
		f.keep(s, r.Receipt, at)
	}
	f.tidy(s.Job)
}

// keep puts a session aside that may still be disputed, and lets those go that nobody may dispute any more.
func (f *Fold) keep(s session, receipt string, at int64) {
	for len(f.state.Order) > 0 && at-f.state.Young.Of(f.state.Order[0]).Ended >= disputable {
		f.state.Young.Delete(f.state.Order[0])
		f.state.Order = f.state.Order[1:]
	}
	s.Receipt = receipt
	f.state.Young.Set(s.Attempt.Hex(), s)
	f.state.Order = append(f.state.Order, s.Attempt.Hex())
}

// disputed takes a session up again: its next record stands for the one before.
func (f *Fold) disputed(d fact.AttemptDisputed, at int64) {
	s, ok := f.state.Young.Get(d.Attempt.Hex())
	if !ok {
		return
	}
	f.state.Young.Delete(d.Attempt.Hex())
	if _, going := f.state.Jobs.Get(s.Job); !going {
		f.state.Jobs.Set(s.Job, trace{Task: s.Task, Bundle: s.Bundle, Acts: s.Acts, Closed: true})
	}
	s.Earlier, s.Ended = s.Receipt, 0
	f.state.Sessions.Set(d.Attempt.Hex(), s)
	f.act(d.Attempt, at, "nostr.objection", d, d.Reason, 1)
}

// tidy forgets the acts of a job that is closed and recorded to the end.
func (f *Fold) tidy(job guild.JobID) {
	if !f.state.Jobs.Of(job).Closed {
		return
	}
	for _, s := range f.state.Sessions.All() {
		if s.Job == job {
			return
		}
	}
	f.state.Jobs.Delete(job)
}

// Freeze implements fold.Fold.
func (f *Fold) Freeze() func() ([]byte, error) {
	f.mu.Lock()
	state := folded{f.state.Jobs.Clone(), f.state.Sessions.Clone(), f.state.Stored.Clone(), f.state.Young.Clone(), slices.Clone(f.state.Order),
		f.state.Unsaid.Clone()}
	f.mu.Unlock()
	return func() ([]byte, error) { return fold.Encode(state) }
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh struct {
		Jobs     *fold.Table[guild.JobID, trace]    `json:"jobs"`
		Sessions *fold.Table[string, session]       `json:"sessions"`
		Stored   *fold.Table[guild.JobID, []Stored] `json:"stored"`
		Young    *fold.Table[string, session]       `json:"young"`
		Order    []string                           `json:"order"`
		Unsaid   *fold.Table[string, unsaid]        `json:"unsaid"`
	}
	if err := fold.Decode(b, &fresh); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if fresh.Jobs == nil || fresh.Sessions == nil || fresh.Stored == nil || fresh.Young == nil || fresh.Unsaid == nil {
		return errors.New("record: the snapshot is incomplete")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = folded{*fresh.Jobs, *fresh.Sessions, *fresh.Stored, *fresh.Young, fresh.Order, *fresh.Unsaid}
	return nil
}

// step is the part of the loop that an act belongs to.
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

func paramsHash(raw json.RawMessage) (string, error) {
	h, err := canon.Hash(raw)
	if err != nil {
		return "", err
	}
	return h.String(), nil
}
