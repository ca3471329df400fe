package review

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/nipreview"
)

// Fold holds this node's knowledge of services and the reviews that it has published of them.
type Fold struct{ *fold.State[state] }

type state struct {
	Lines    fold.Table[string, line]     `json:"lines"`    // by lineKey(task, service)
	Jobs     fold.Table[guild.JobID, job] `json:"jobs"`     // the open ones
	Attempts fold.Table[string, attempt]  `json:"attempts"` // by the id in hex: open ones, and the latest judged ones of each line
	Keys     fold.Table[string, []string] `json:"keys"`     // provider's key in hex → the keys of its lines with trust
	Removed  fold.Table[string, bool]     `json:"removed"`  // provider's key in hex
	Dates    fold.Table[string, dates]    `json:"dates"`    // by the address of an opinion
	Reviews  fold.Table[string, string]   `json:"reviews"`  // review id in hex → the key of its line
	Undoing  fold.Table[string, string]   `json:"undoing"`  // key of the effect that publishes a deletion → the key of its line

	dirty map[string]bool // lines that changed since changed was last called
	all   bool            // every line counts as changed
}

// Derive marks all lines as changed, so that the step looks at each of them once after a start.
func (s *state) Derive() { s.all, s.dirty = true, map[string]bool{} }

// job holds the properties of an open job that a review needs.
type job struct {
	Task    string `json:"task"`
	Private bool   `json:"private,omitempty"` // encrypted, or with credentials
}

// attempt is an open attempt, or a judged one.
type attempt struct {
	Line    string        `json:"line"`
	Kind    int           `json:"kind"`
	Reached bool          `json:"reached,omitempty"` // a relay took the request, or the provider answered
	Outcome guild.Outcome `json:"outcome,omitempty"`
	Score   guild.Score   `json:"score,omitempty"`
	Verdict guild.Hash    `json:"verdict,omitzero"`
	Private bool          `json:"private,omitempty"` // no review may mention it
}

// dates holds the dates of this node's latest events about an opinion, including drafts.
type dates struct {
	Last nostr.Timestamp `json:"last"` // of reviews and deletions
	Said nostr.Timestamp `json:"said"` // of reviews
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("review", 2)} }

func lineKey(task string, s guild.Service) string {
	return task + "\x00" + s.PubKey.Hex() + "\x00" + s.D
}

// line returns the line with the key k.
func (f *Fold) line(k string) (found line, ok bool) {
	f.View(func(s *state) { found, ok = s.Lines.Get(k) })
	return found, ok
}

// lines returns all lines.
func (f *Fold) lines() (all []line) {
	f.View(func(s *state) {
		all = make([]line, 0, s.Lines.Len())
		for _, l := range s.Lines.All() {
			all = append(all, l)
		}
	})
	return all
}

// changed returns the lines that have changed since its last call, by their key.
func (f *Fold) changed() (lines map[string]line) {
	f.Change(func(s *state) {
		lines = make(map[string]line, len(s.dirty))
		if s.all {
			for k, l := range s.Lines.All() {
				lines[k] = l
			}
		} else {
			for k := range s.dirty {
				lines[k] = s.Lines.Of(k)
			}
		}
		s.all, s.dirty = false, map[string]bool{}
	})
	return lines
}

// of finds the line that a review of this node belongs to.
func (f *Fold) of(review nostr.ID) (found line, ok bool) {
	f.View(func(s *state) {
		var k string
		k, ok = s.Reviews.Get(review.Hex())
		if ok {
			found, ok = s.Lines.Get(k)
		}
	})
	return found, ok
}

// dated returns the dates of an opinion.
func (f *Fold) dated(address string) dates {
	return fold.Read(f.State, func(s *state) dates { return s.Dates.Of(address) })
}

// Esteem returns how far a key is trusted as a provider: the most that it is trusted with any task, and 0 once it was
// removed.
func (f *Fold) Esteem(p nostr.PubKey) (most guild.Trust) {
	f.View(func(s *state) {
		if s.Removed.Has(p.Hex()) {
			return
		}
		for _, k := range s.Keys.Of(p.Hex()) {
			most = max(most, s.Lines.Of(k).Trust)
		}
	})
	return most
}

// change changes the line of a task and a service, and creates it if necessary.
func (s *state) change(task string, service guild.Service, by func(*line)) {
	k := lineKey(task, service)
	l, ok := s.Lines.Get(k)
	if !ok {
		l = line{Service: service, Task: task}
	}
	by(&l)
	s.Lines.Set(k, l)
	s.dirty[k] = true
}

// changeKnown changes the line with the key k, if it exists.
func (s *state) changeKnown(k string, by func(*line)) {
	if l, ok := s.Lines.Get(k); ok {
		s.change(l.Task, l.Service, by)
	}
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.Change(func(s *state) {
		for _, one := range e.Facts {
			s.apply(one, e)
		}
	})
}

func (s *state) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.ReviewDrafted, fact.ReviewPublished, fact.ReviewDropped, fact.ReviewHeld, fact.ReviewResumed, fact.EffectSettled, fact.EffectParked:
		s.said(one, e)
	case fact.TrustChanged:
		s.learned(one, e)
	case fact.MeetingBegan:
		s.change(one.Task, one.Service, func(l *line) { l.Meeting = one.Meeting })
	case fact.MeetingEnded:
		s.ended(one, e)
	case fact.ProviderMoved:
		s.moved(one)
	case fact.PolicyAdopted:
		s.all = true
	default:
		s.happened(one, e)
	}
}

// learned applies a change of trust.
func (s *state) learned(c fact.TrustChanged, e fact.Entry) {
	s.change(c.Task, c.Service, func(l *line) {
		if l.Latest.Attempt == c.Attempt {
			l.Latest.Learned = true
		}
		if c.Unfounded {
			return
		}
		if !l.Met && c.First && c.Rule == "" && l.Waiting == nil && l.Public == nil {
			l.Waiting = &cause{Why: causeFirst, At: e.At, Seq: e.Seq}
		}
		l.Trust, l.Met, l.Merged = c.To, true, c.Rule == fact.RuleMerged
	})
	if c.Unfounded {
		return
	}
	p, k := c.Service.PubKey.Hex(), lineKey(c.Task, c.Service)
	if known := s.Keys.Of(p); !slices.Contains(known, k) {
		s.Keys.Set(p, append(slices.Clip(known), k))
	}
}

// ended applies the end of a meeting. A violation waits for nothing here: its verdict has raised an alarm already.
func (s *state) ended(m fact.MeetingEnded, e fact.Entry) {
	s.change(m.Task, m.Service, func(l *line) {
		l.Meeting = ""
		if m.To == "" {
			return
		}
		l.Concluded = &concluded{Meeting: m.Meeting, To: m.To, Score: m.Score, Runs: m.Runs}
		if m.To != guild.Removed {
			l.Waiting = &cause{Why: causeBenchmark, At: e.At, Seq: e.Seq, Meeting: m.Meeting}
		}
	})
}

func (s *state) moved(m fact.ProviderMoved) {
	p := m.Service.PubKey.Hex()
	switch {
	case m.To == guild.Removed:
		s.Removed.Set(p, true)
	case m.From == guild.Removed:
		s.Removed.Delete(p)
	}
}

// happened applies the facts of jobs and attempts.
func (s *state) happened(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.JobOpened:
		s.Jobs.Set(one.Job, job{one.Task, one.Private || one.Release != nil})
	case fact.JobClosed:
		s.Jobs.Delete(one.Job)
	case fact.AttemptPlanned:
		of := s.Jobs.Of(one.Job)
		k := lineKey(of.Task, one.Provider)
		if !s.Lines.Has(k) {
			s.change(of.Task, one.Provider, func(*line) {})
		}
		s.Attempts.Set(one.Attempt.Hex(), attempt{Line: k, Kind: int(one.Request.Kind), Private: of.Private})
	case fact.AttemptRequested:
		s.reached(one.Attempt)
	case fact.AttemptProgressed:
		s.reached(one.Attempt)
	case fact.AttemptJudged:
		s.judged(one, e)
	case fact.AttemptDisputed:
		s.changeKnown(s.Attempts.Of(one.Attempt.Hex()).Line, func(l *line) {
			if id := one.Attempt.Hex(); !slices.Contains(l.Disputed, id) {
				l.Disputed = append(slices.Clip(l.Disputed), id)
			}
		})
	case fact.AttemptRecorded:
		s.recorded(one)
	case fact.AttemptExpired:
		s.over(one.Attempt, func(a attempt, l *line) {
			if a.Reached {
				l.Tally.Expired++
				l.Open = l.Open || !a.Private
			}
		})
	case fact.AttemptRefused:
		s.over(one.Attempt, func(a attempt, l *line) {
			if one.Fault {
				l.Tally.Faults++
				l.Open = l.Open || !a.Private
			}
		})
	case fact.AttemptCancelled:
		s.over(one.Attempt, nil)
	case fact.AttemptParked:
		s.over(one.Attempt, nil)
		s.undisputed(one.Attempt)
	}
}

// undisputed ends a dispute without a new verdict. The old verdict stays.
func (s *state) undisputed(id nostr.ID) {
	s.changeKnown(s.Attempts.Of(id.Hex()).Line, func(l *line) {
		l.Disputed = slices.DeleteFunc(slices.Clone(l.Disputed), func(d string) bool { return d == id.Hex() })
	})
}

func (s *state) reached(id nostr.ID) {
	if a, ok := s.Attempts.Get(id.Hex()); ok && !a.Reached {
		a.Reached = true
		s.Attempts.Set(id.Hex(), a)
	}
}

// over forgets an attempt that ended without a verdict.
func (s *state) over(id nostr.ID, count func(attempt, *line)) {
	a, ok := s.Attempts.Get(id.Hex())
	if !ok || a.Outcome != "" {
		return
	}
	s.Attempts.Delete(id.Hex())
	if count != nil {
		s.changeKnown(a.Line, func(l *line) { count(a, l) })
	}
}

// judged applies a verdict. A second verdict on the same delivery replaces the first one in the tally and ends a
// dispute. A verdict that tells nothing about the provider is not in the tally.
func (s *state) judged(j fact.AttemptJudged, e fact.Entry) {
	id := j.Attempt.Hex()
	a, ok := s.Attempts.Get(id)
	if !ok {
		return
	}
	outcome := j.Verdict.Outcome
	if !j.Verdict.Counts() {
		outcome = ""
	}
	s.changeKnown(a.Line, func(l *line) {
		l.Tally.count(a.Outcome, a.Score, -1)
		l.Tally.count(outcome, j.Verdict.Score, 1)
		l.Disputed = slices.DeleteFunc(slices.Clone(l.Disputed), func(d string) bool { return d == id })
		l.Latest = latest{Attempt: j.Attempt, At: e.At}
		l.Open = l.Open || !a.Private
		if outcome == guild.Violation && a.Outcome != guild.Violation {
			l.Alarm = &cause{Why: causeViolation, At: e.At, Seq: e.Seq}
		}
		if l.Tally.Violated == 0 && a.Outcome == guild.Violation { // the verdict that raised the alarm was overturned
			l.Alarm = nil
			// An alert that was published is corrected at once by another review.
			if slices.ContainsFunc(l.Said, func(review said) bool { return review.Why == causeViolation }) {
				l.False = &cause{Why: causeChange, At: e.At, Seq: e.Seq}
			}
		}
		// At most maxRecent judged attempts are kept. A disputed one is not dropped, because its next verdict has to replace
		// the present one in the tally.
		l.Recent = append(slices.DeleteFunc(slices.Clone(l.Recent), func(r string) bool { return r == id }), id)
		oldest := slices.IndexFunc(l.Recent, func(r string) bool { return !slices.Contains(l.Disputed, r) })
		if len(l.Recent) > maxRecent && oldest >= 0 {
			s.Attempts.Delete(l.Recent[oldest])
			l.Recent = slices.Delete(l.Recent, oldest, oldest+1)
		}
	})
	a.Outcome, a.Score, a.Verdict = outcome, j.Verdict.Score, j.Hash
	s.Attempts.Set(id, a)
}

// recorded applies the receipt of a verdict. The receipt of a private job must not be named in public.
func (s *state) recorded(r fact.AttemptRecorded) {
	a, ok := s.Attempts.Get(r.Attempt.Hex())
	if !ok || r.Receipt == "" || r.Unjudged {
		return
	}
	s.changeKnown(a.Line, func(l *line) {
		if !a.Private {
			l.Proof = &proof{Attempt: r.Attempt, Kind: a.Kind, Receipt: r.Receipt, Stored: r.Stored, Verdict: a.Verdict}
		}
		if l.Latest.Attempt == r.Attempt {
			l.Latest.Recorded = true
		}
	})
}

// said applies the facts about this node's own reviews.
func (s *state) said(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.ReviewDrafted:
		s.drafted(one, e)
	case fact.ReviewPublished:
		s.published(one, e)
	case fact.ReviewDropped:
		s.dropped(one, e)
	case fact.ReviewHeld:
		s.change(one.Task, one.Service, func(l *line) { l.Held = &held{By: one.By, Reason: one.Reason, At: e.At} })
	case fact.ReviewResumed:
		s.change(one.Task, one.Service, func(l *line) { l.Held, l.Disputed = nil, nil })
	case fact.EffectSettled:
		s.undone(one.Effect)
	case fact.EffectParked:
		s.undone(one.Effect)
	}
}

// drafted applies a draft. Its date is remembered for the address, because another service of the same key and task has
// the same address and must not get an earlier date.
func (s *state) drafted(d fact.ReviewDrafted, e fact.Entry) {
	address := nipreview.Address(d.Service.PubKey, d.Task)
	made := said{Review: d.Review, Trust: d.Trust, Why: d.Cause, Seq: e.Seq, At: e.At}
	for _, event := range d.Events {
		made.Events = append(made.Events, written{event.ID, event.Kind})
		made.Date = event.CreatedAt
		if r, err := nipreview.Parse(event); err == nil {
			made.Summary = guild.Cut(r.Summary, nipreview.MaxItem)
		}
	}
	before := s.Dates.Of(address)
	s.Dates.Set(address, dates{Last: max(before.Last, made.Date), Said: max(before.Said, made.Date)})
	s.Reviews.Set(d.Review.Hex(), lineKey(d.Task, d.Service))
	s.change(d.Task, d.Service, func(l *line) { l.Draft = &draft{made, d.Events} })
}

// published ends a draft and the causes that it was written for. Causes that came after the draft stay. A change of
// trust needs no end: wants compares the trust with the last published one.
func (s *state) published(p fact.ReviewPublished, e fact.Entry) {
	s.changeKnown(s.Reviews.Of(p.Review.Hex()), func(l *line) {
		if l.Draft == nil || l.Draft.Review != p.Review {
			return
		}
		now := l.Draft.said
		now.At = e.At
		trust := now.Trust
		l.Draft, l.Public, l.Failed = nil, &trust, 0
		l.Said = append(slices.Clip(l.Said), now)
		if len(l.Said) > maxSaid {
			s.Reviews.Delete(l.Said[0].Review.Hex())
			l.Said = l.Said[1:]
		}
		if l.Alarm != nil && l.Alarm.Seq < now.Seq {
			l.Alarm = nil
		}
		if l.False != nil && l.False.Seq < now.Seq {
			l.False = nil
		}
		if l.Waiting != nil && l.Waiting.Seq < now.Seq && now.Why != causeChange {
			l.Waiting = nil
		}
	})
}

// dropped applies a dropped draft, or the retraction of a published review. A deletion stays in the line until it is
// published or given up.
func (s *state) dropped(d fact.ReviewDropped, e fact.Entry) {
	k := s.Reviews.Of(d.Review.Hex())
	s.changeKnown(k, func(l *line) {
		if l.Draft != nil && l.Draft.Review == d.Review {
			l.Draft = nil
			s.Reviews.Delete(d.Review.Hex())
			if d.Failed {
				l.Failed = e.At
			}
			return
		}
		l.Said = slices.Clone(l.Said)
		for i := range l.Said {
			l.Said[i].Retracted = l.Said[i].Retracted || l.Said[i].Review == d.Review
		}
		if d.Deletion != nil {
			l.Undone = append(slices.Clip(l.Undone), *d.Deletion)
			s.Undoing.Set(due.Publishing(d.Deletion.ID), k)
			address := nipreview.Address(l.Service.PubKey, l.Task)
			before := s.Dates.Of(address)
			s.Dates.Set(address, dates{Last: max(before.Last, d.Deletion.CreatedAt), Said: before.Said})
		}
	})
}

// undone forgets a deletion that was published or that no relay accepts.
func (s *state) undone(effect string) {
	k, ok := s.Undoing.Get(effect)
	if !ok {
		return
	}
	s.Undoing.Delete(effect)
	s.changeKnown(k, func(l *line) {
		l.Undone = slices.DeleteFunc(slices.Clone(l.Undone), func(e nostr.Event) bool { return due.Publishing(e.ID) == effect })
	})
}
