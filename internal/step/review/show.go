package review

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nipreview"
)

// The states of one of this node's reviews.
const (
	Waiting   = "waiting"   // it will be written
	Held      = "held"      // it will be written when a hold ends
	Drafted   = "drafted"   // it is not published yet
	Published = "published" // a relay took it
	Retracted = "retracted" // a deletion of it was published or is due
)

// Ours is one of this node's reviews, or one that is due later.
type Ours struct {
	Review  nostr.ID // zero for one that is not written yet
	Service guild.Service
	Task    string
	State   string
	Stars   nipreview.Stars
	At      int64  // Unix ms: when it was drafted or published, or will be
	Cause   string // benchmark, first, change, violation or owner
	Summary string
	Reason  string // why it is held
}

// Ours lists this node's latest and coming reviews of a task, or of all tasks if task is "". The latest come first.
func (r *Review) Ours(task string) (all []Ours) {
	for _, l := range r.fold.lines() {
		if (task == "" || l.Task == task) && l.Service.PubKey != r.c.PubKey {
			all = append(all, r.ours(l)...)
		}
	}
	slices.SortFunc(all, func(a, b Ours) int {
		return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(lineKey(a.Task, a.Service), lineKey(b.Task, b.Service)))
	})
	return all
}

// OursOf lists the reviews of one service's work on a task.
func (r *Review) OursOf(s guild.Service, task string) []Ours {
	l, ok := r.fold.line(lineKey(task, s))
	if !ok {
		return nil
	}
	return r.ours(l)
}

// ours lists the reviews of one line: the one that is due or held, the draft, and the published ones, the latest first.
func (r *Review) ours(l line) (all []Ours) {
	one := Ours{Service: l.Service, Task: l.Task, Reason: l.quiet()}
	if why, ready, ok := l.wants(r.c.Policy().Review); ok && l.Draft == nil || l.Held != nil {
		next := one
		rating, _ := l.rating()
		next.State, next.Cause, next.Stars = Waiting, why, nipreview.StarsOf(rating)
		if !ready.IsZero() {
			next.At = ready.UnixMilli()
		}
		if next.Reason != "" {
			next.State = Held
		}
		all = append(all, next)
	}
	if l.Draft != nil {
		all = append(all, one.of(l.Draft.said, Drafted))
	}
	for _, s := range slices.Backward(l.Said) {
		state := Published
		if s.Retracted {
			state = Retracted
		}
		all = append(all, one.of(s, state))
	}
	return all
}

func (o Ours) of(s said, state string) Ours {
	o.Review, o.State, o.Stars, o.At, o.Cause, o.Summary, o.Reason = s.Review, state, nipreview.StarsOf(s.Trust), s.At, s.Why, s.Summary, ""
	return o
}

// Events returns the signed events of one of this node's latest reviews, kind 2020 first. Errors match ErrUnknown.
func (r *Review) Events(ctx context.Context, review nostr.ID) ([]nostr.Event, error) {
	l, _ := r.fold.of(review)
	s, ok := l.find(review)
	if l.Draft != nil && l.Draft.Review == review {
		s, ok = l.Draft.said, true
	}
	if !ok {
		return nil, fmt.Errorf("review %.8s: %w", review.Hex(), ErrUnknown)
	}
	e, err := r.c.Journal.Entry(ctx, s.Seq)
	if err != nil {
		return nil, fmt.Errorf("review %.8s: %w", review.Hex(), err)
	}
	for _, f := range e.Facts {
		if d, ok := f.(fact.ReviewDrafted); ok && d.Review == review {
			return d.Events, nil
		}
	}
	return nil, fmt.Errorf("review %.8s: %w", review.Hex(), ErrUnknown)
}
