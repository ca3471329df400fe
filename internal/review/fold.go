package review

import (
	"fmt"
	"slices"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/fold"
	"guild/nipreview"
)

// Fold is what this node knows and has said of services.
type Fold struct {
	mu    sync.RWMutex
	state folded

	dirty map[string]bool // derived: lines that changed since they were looked at
	all   bool            // derived: all are to be looked at
}

type folded struct {
	Lines    fold.Table[string, line]     `json:"lines"`    // by lineKey(task, service)
	Jobs     fold.Table[guild.JobID, job] `json:"jobs"`     // open ones
	Attempts fold.Table[string, attempt]  `json:"attempts"` // by the hex of its id; those that go on, and the latest judged of each line
	Keys     fold.Table[string, []string] `json:"keys"`     // provider's key in hex → its lines with trust
	Removed  fold.Table[string, bool]     `json:"removed"`  // provider's key in hex
	Dates    fold.Table[string, dates]    `json:"dates"`    // by the address of an opinion
	Reviews  fold.Table[string, string]   `json:"reviews"`  // review in hex → its line
	Undoing  fold.Table[string, string]   `json:"undoing"`  // effect that publishes a deletion → its line
}

// job is what a review needs of an open one.
type job struct {
	Task    string `json:"task"`
	Private bool   `json:"private,omitempty"` // never in clear, or with credentials
}

// attempt is one on its way, or one that was judged.
type attempt struct {
	Line    string        `json:"line"`
	Kind    int           `json:"kind"`
	Reached bool          `json:"reached,omitempty"` // a relay took the request, or the provider spoke
	Outcome guild.Outcome `json:"outcome,omitempty"`
	Score   guild.Score   `json:"score,omitempty"`
	Verdict guild.Hash    `json:"verdict,omitzero"`
	Private bool          `json:"private,omitempty"` // nothing of it is ever said
}

// dates are those of our latest events about an opinion, drafts among them.
type dates struct {
	Last nostr.Timestamp `json:"last"` // of opinions and deletions
	Said nostr.Timestamp `json:"said"` // of opinions
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{dirty: map[string]bool{}} }

// Name implements fold.Fold.
func (*Fold) Name() string { return "review" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 2 }

func lineKey(task string, s guild.Service) string {
	return task + "\x00" + s.PubKey.Hex() + "\x00" + s.D
}

// line returns a line.
func (f *Fold) line(k string) (line, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Lines.Get(k)
}

// lines returns all lines.
func (f *Fold) lines() []line {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := make([]line, 0, f.state.Lines.Len())
	for _, l := range f.state.Lines.All() {
		all = append(all, l)
	}
	return all
}

// changed returns the lines that have changed since it was last called, by their key.
func (f *Fold) changed() map[string]line {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := make(map[string]line, len(f.dirty))
	if f.all {
		for k, l := range f.state.Lines.All() {
			lines[k] = l
		}
	} else {
		for k := range f.dirty {
			lines[k] = f.state.Lines.Of(k)
		}
	}
	f.all, f.dirty = false, map[string]bool{}
	return lines
}

// of finds the line of a review of ours.
func (f *Fold) of(review nostr.ID) (line, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	k, ok := f.state.Reviews.Get(review.Hex())
	if !ok {
		return line{}, false
	}
	return f.state.Lines.Get(k)
}

// dated returns the dates of an opinion.
func (f *Fold) dated(address string) dates {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Dates.Of(address)
}

// Esteem is how far a key is trusted as a provider: for the task that it is trusted with most, and not at all once it
// was removed.
func (f *Fold) Esteem(p nostr.PubKey) (most guild.Trust) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.state.Removed.Has(p.Hex()) {
		return 0
	}
	for _, k := range f.state.Keys.Of(p.Hex()) {
		most = max(most, f.state.Lines.Of(k).Trust)
	}
	return most
}

// change changes a line, which may not be there yet.
func (f *Fold) change(task string, s guild.Service, by func(*line)) {
	k := lineKey(task, s)
	l, ok := f.state.Lines.Get(k)
	if !ok {
		l = line{Service: s, Task: task}
	}
	by(&l)
	f.state.Lines.Set(k, l)
	f.dirty[k] = true
}

// changeKnown changes a line that is there.
func (f *Fold) changeKnown(k string, by func(*line)) {
	if l, ok := f.state.Lines.Get(k); ok {
		f.change(l.Task, l.Service, by)
	}
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.ReviewDrafted, fact.ReviewPublished, fact.ReviewDropped, fact.ReviewHeld, fact.ReviewResumed, fact.EffectSettled, fact.EffectParked:
			f.said(one, e)
		case fact.TrustChanged:
			f.learned(one, e)
		case fact.MeetingBegan:
			f.change(one.Task, one.Service, func(l *line) { l.Meeting = one.Meeting })
		case fact.MeetingEnded:
			f.ended(one, e)
		case fact.ProviderMoved:
			f.moved(one)
		case fact.PolicyAdopted:
			f.all = true
		default:
			f.happened(one, e)
		}
	}
}

// learned takes what trust came to.
func (f *Fold) learned(c fact.TrustChanged, e fact.Entry) {
	f.change(c.Task, c.Service, func(l *line) {
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
	if known := f.state.Keys.Of(p); !slices.Contains(known, k) {
		f.state.Keys.Set(p, append(slices.Clip(known), k))
	}
}

// ended takes what a meeting came to. What broke out is said at once, by its verdict.
func (f *Fold) ended(m fact.MeetingEnded, e fact.Entry) {
	f.change(m.Task, m.Service, func(l *line) {
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

func (f *Fold) moved(m fact.ProviderMoved) {
	switch p := m.Service.PubKey.Hex(); {
	case m.To == guild.Removed:
		f.state.Removed.Set(p, true)
	case m.From == guild.Removed:
		f.state.Removed.Delete(p)
	}
}

// happened follows an attempt.
func (f *Fold) happened(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.JobOpened:
		f.state.Jobs.Set(one.Job, job{one.Task, one.Private || one.Release != nil})
	case fact.JobClosed:
		f.state.Jobs.Delete(one.Job)
	case fact.AttemptPlanned:
		of := f.state.Jobs.Of(one.Job)
		k := lineKey(of.Task, one.Provider)
		if !f.state.Lines.Has(k) {
			f.change(of.Task, one.Provider, func(*line) {})
		}
		f.state.Attempts.Set(one.Attempt.Hex(), attempt{Line: k, Kind: int(one.Request.Kind), Private: of.Private})
	case fact.AttemptRequested:
		f.reached(one.Attempt)
	case fact.AttemptProgressed:
		f.reached(one.Attempt)
	case fact.AttemptJudged:
		f.judged(one, e)
	case fact.AttemptDisputed:
		f.changeKnown(f.state.Attempts.Of(one.Attempt.Hex()).Line, func(l *line) {
			if id := one.Attempt.Hex(); !slices.Contains(l.Disputed, id) {
				l.Disputed = append(slices.Clip(l.Disputed), id)
			}
		})
	case fact.AttemptRecorded:
		f.recorded(one)
	case fact.AttemptExpired:
		f.over(one.Attempt, func(a attempt, l *line) {
			if a.Reached {
				l.Tally.Expired++
				l.Open = l.Open || !a.Private
			}
		})
	case fact.AttemptRefused:
		f.over(one.Attempt, func(a attempt, l *line) {
			if one.Fault {
				l.Tally.Faults++
				l.Open = l.Open || !a.Private
			}
		})
	case fact.AttemptCancelled:
		f.over(one.Attempt, nil)
	case fact.AttemptParked:
		f.over(one.Attempt, nil)
		f.undisputed(one.Attempt)
	}
}

// undisputed ends a dispute: the verdict stands.
func (f *Fold) undisputed(id nostr.ID) {
	f.changeKnown(f.state.Attempts.Of(id.Hex()).Line, func(l *line) {
		l.Disputed = slices.DeleteFunc(slices.Clone(l.Disputed), func(d string) bool { return d == id.Hex() })
	})
}

func (f *Fold) reached(id nostr.ID) {
	if a, ok := f.state.Attempts.Get(id.Hex()); ok && !a.Reached {
		a.Reached = true
		f.state.Attempts.Set(id.Hex(), a)
	}
}

// over forgets an attempt that ended without a verdict.
func (f *Fold) over(id nostr.ID, count func(attempt, *line)) {
	a, ok := f.state.Attempts.Get(id.Hex())
	if !ok || a.Outcome != "" {
		return
	}
	f.state.Attempts.Delete(id.Hex())
	if count != nil {
		f.changeKnown(a.Line, func(l *line) { count(a, l) })
	}
}

// judged takes a verdict, or another one on the same delivery, which ends a dispute.
func (f *Fold) judged(j fact.AttemptJudged, e fact.Entry) {
	id := j.Attempt.Hex()
	a, ok := f.state.Attempts.Get(id)
	if !ok {
		return
	}
	f.changeKnown(a.Line, func(l *line) {
		l.Tally.count(a.Outcome, a.Score, -1)
		l.Tally.count(j.Verdict.Outcome, j.Verdict.Score, 1)
		l.Disputed = slices.DeleteFunc(slices.Clone(l.Disputed), func(d string) bool { return d == id })
		l.Latest = latest{Attempt: j.Attempt, At: e.At}
		l.Open = l.Open || !a.Private
		if j.Verdict.Outcome == guild.Violation && a.Outcome != guild.Violation {
			l.Alarm = &cause{Why: causeViolation, At: e.At, Seq: e.Seq}
		}
		if l.Tally.Violated == 0 && a.Outcome == guild.Violation { // the verdict that raised an alarm does not stand
			l.Alarm = nil
			if slices.ContainsFunc(l.Said, func(s said) bool { return s.Why == causeViolation }) {
				l.False = &cause{Why: causeChange, At: e.At, Seq: e.Seq}
			}
		}
		l.Recent = append(slices.DeleteFunc(slices.Clone(l.Recent), func(r string) bool { return r == id }), id)
		oldest := slices.IndexFunc(l.Recent, func(r string) bool { return !slices.Contains(l.Disputed, r) })
		if len(l.Recent) > maxRecent && oldest >= 0 {
			f.state.Attempts.Delete(l.Recent[oldest])
			l.Recent = slices.Delete(l.Recent, oldest, oldest+1)
		}
	})
	a.Outcome, a.Score, a.Verdict = j.Verdict.Outcome, j.Verdict.Score, j.Hash
	f.state.Attempts.Set(id, a)
}

// recorded takes the receipt of a verdict. That of a private job proves nothing in public.
func (f *Fold) recorded(r fact.AttemptRecorded) {
	a, ok := f.state.Attempts.Get(r.Attempt.Hex())
	if !ok || r.Receipt == "" {
		return
	}
	f.changeKnown(a.Line, func(l *line) {
		if !a.Private {
			l.Proof = &proof{Attempt: r.Attempt, Kind: a.Kind, Receipt: r.Receipt, Stored: r.Stored, Verdict: a.Verdict}
		}
		if l.Latest.Attempt == r.Attempt {
			l.Latest.Recorded = true
		}
	})
}

// said follows what we say.
func (f *Fold) said(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.ReviewDrafted:
		f.drafted(one, e)
	case fact.ReviewPublished:
		f.published(one, e)
	case fact.ReviewDropped:
		f.dropped(one, e)
	case fact.ReviewHeld:
		f.change(one.Task, one.Service, func(l *line) { l.Held = &held{By: one.By, Reason: one.Reason, At: e.At} })
	case fact.ReviewResumed:
		f.change(one.Task, one.Service, func(l *line) { l.Held, l.Disputed = nil, nil })
	case fact.EffectSettled:
		f.undone(one.Effect)
	case fact.EffectParked:
		f.undone(one.Effect)
	}
}

func (f *Fold) drafted(d fact.ReviewDrafted, e fact.Entry) {
	address := nipreview.Address(d.Service.PubKey, d.Task)
	made := said{Review: d.Review, Trust: d.Trust, Why: d.Cause, Seq: e.Seq, At: e.At}
	for _, event := range d.Events {
		made.Events = append(made.Events, written{event.ID, event.Kind})
		made.Date = event.CreatedAt
		if r, err := nipreview.Parse(event); err == nil {
			made.Summary = guild.Cut(r.Summary, nipreview.MaxItem)
		}
	}
	before := f.state.Dates.Of(address)
	f.state.Dates.Set(address, dates{Last: max(before.Last, made.Date), Said: max(before.Said, made.Date)})
	f.state.Reviews.Set(d.Review.Hex(), lineKey(d.Task, d.Service))
	f.change(d.Task, d.Service, func(l *line) { l.Draft = &draft{made, d.Events} })
}

// published ends a draft and what it was written for. A change is judged by what is public, and needs no end.
func (f *Fold) published(p fact.ReviewPublished, e fact.Entry) {
	f.changeKnown(f.state.Reviews.Of(p.Review.Hex()), func(l *line) {
		if l.Draft == nil || l.Draft.Review != p.Review {
			return
		}
		now := l.Draft.said
		now.At = e.At
		trust := now.Trust
		l.Draft, l.Public, l.Failed = nil, &trust, 0
		if l.Said = append(slices.Clip(l.Said), now); len(l.Said) > maxSaid {
			f.state.Reviews.Delete(l.Said[0].Review.Hex())
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

func (f *Fold) dropped(d fact.ReviewDropped, e fact.Entry) {
	k := f.state.Reviews.Of(d.Review.Hex())
	f.changeKnown(k, func(l *line) {
		if l.Draft != nil && l.Draft.Review == d.Review {
			l.Draft = nil
			f.state.Reviews.Delete(d.Review.Hex())
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
			f.state.Undoing.Set(due.Publishing(d.Deletion.ID), k)
			address := nipreview.Address(l.Service.PubKey, l.Task)
			before := f.state.Dates.Of(address)
			f.state.Dates.Set(address, dates{Last: max(before.Last, d.Deletion.CreatedAt), Said: before.Said})
		}
	})
}

// undone forgets a deletion that was published, or that no relay will take.
func (f *Fold) undone(effect string) {
	k, ok := f.state.Undoing.Get(effect)
	if !ok {
		return
	}
	f.state.Undoing.Delete(effect)
	f.changeKnown(k, func(l *line) {
		l.Undone = slices.DeleteFunc(slices.Clone(l.Undone), func(e nostr.Event) bool { return due.Publishing(e.ID) == effect })
	})
}

// Freeze implements fold.Fold.
func (f *Fold) Freeze() func() ([]byte, error) {
	f.mu.Lock() // a table notes that it was copied
	s := &f.state
	state := folded{s.Lines.Clone(), s.Jobs.Clone(), s.Attempts.Clone(), s.Keys.Clone(), s.Removed.Clone(), s.Dates.Clone(),
		s.Reviews.Clone(), s.Undoing.Clone()}
	f.mu.Unlock()
	return func() ([]byte, error) { return fold.Encode(state) }
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh *folded
	if err := fold.Decode(b, &fresh); err != nil {
		return fmt.Errorf("review: %w", err)
	}
	if fresh == nil {
		return fmt.Errorf("review: the snapshot is empty")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.all, f.dirty = *fresh, true, map[string]bool{}
	return nil
}
