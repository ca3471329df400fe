// Package review is the step that publishes reviews of providers' work (kinds 2020 and 32020), reads the reviews of
// others, and handles objections. It owns the facts review.*, attempt.disputed and attempt.told. Others' reviews are
// kept in the journal's SEEN stream and never become facts. The step never moves trust and never judges.
package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/outbox"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/policy"
	"guild/nipreview"
)

// The kinds of events that the step handles.
const (
	Kind         = nipreview.Kind
	KindSet      = nipreview.KindSet
	KindDeletion = nostr.Kind(5)
)

// The reasons why a review cannot be published or retracted.
var (
	ErrOff     = errors.New("this node publishes no reviews")
	ErrNothing = errors.New("nothing is known to review")
	ErrHeld    = errors.New("held")
	ErrUnknown = errors.New("no published review of ours")
)

// Config configures the step.
type Config struct {
	Journal *journal.Journal
	Keyer   nostr.Keyer
	PubKey  nostr.PubKey // Keyer's
	Now     func() time.Time

	Policy  func() policy.Policy // returns the policy in force
	Relays  func() []string      // returns this node's relays
	Offer   func(guild.Service) (guild.Offer, bool)
	Publish func(ctx context.Context, e guild.Verified, relays []string) error // returns nil once a relay took the event

	Measured func(guild.Service) (p50, p95 int64) // latency in ms, 0 if not measured; optional
	// Receipt returns the bytes of a receipt by their hash, from here or elsewhere. If nil, no receipt is verified.
	Receipt func(ctx context.Context, hash guild.Hash) ([]byte, error)
	// Share uploads a receipt before a review names it, so that others can verify it. The review names the receipt even if
	// that fails. If nil, nothing is shared.
	Share     func(ctx context.Context, receipt guild.Hash) error
	Follow    []nostr.PubKey               // reviewers that count in full
	SameOwner func(a, b nostr.PubKey) bool // whether one verified owner (NIP-AE) has both keys: such reviews are self-reviews; optional
	Mirrors   bool                         // publish each review also as kind 31117 and as a label
	CID       string                       // IPFS reference to full logs, which each review names if not empty
	Off       bool                         // publish no reviews; published ones can still be retracted

	// Letterbox returns the relays at which p reads private messages (kind 10050), or nothing if that is unknown.
	Letterbox func(ctx context.Context, p nostr.PubKey) []string
	Quiet     bool // do not tell providers their verdicts
}

// Review is the step.
type Review struct {
	c      Config
	fold   *Fold
	outbox *outbox.Outbox
	others *others

	mu    sync.Mutex
	due   map[string][]due.Work      // by the key of a line: its due effects
	dates map[string]nostr.Timestamp // address of an opinion → the latest date of an event about it
}

// Open returns the step after reading others' reviews back from SEEN.
func Open(ctx context.Context, c Config, f *Fold) (*Review, error) {
	r := &Review{c: c, fold: f, outbox: outbox.New(c.Keyer, c.Now), due: map[string][]due.Work{}, dates: map[string]nostr.Timestamp{}}
	f.Change(func(s *state) { s.all = true })
	r.others = newOthers(c, f)
	if err := r.others.recall(ctx); err != nil {
		return nil, fmt.Errorf("load others' reviews: %w", err)
	}
	return r, nil
}

// Due lists the reviews and deletions to publish, and the receipts to verify. It implements due.Source.
func (r *Review) Due(time.Time) []due.Work {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, l := range r.fold.changed() {
		if work := r.next(l); len(work) > 0 {
			r.due[k] = work
		} else {
			delete(r.due, k)
		}
	}
	var work []due.Work
	for _, of := range r.due {
		work = append(work, of...)
	}
	slices.SortFunc(work, func(a, b due.Work) int { return cmp.Or(a.Ready.Compare(b.Ready), cmp.Compare(a.Key, b.Key)) })
	return append(work, r.others.due()...)
}

// next returns the effects that a line makes due: its deletions, and either its draft or the next draft. A node does
// not review itself.
func (r *Review) next(l line) (work []due.Work) {
	for _, e := range l.Undone {
		work = append(work, r.send(l, e.ID, []nostr.Event{e}, nil, nil))
	}
	if r.c.Off || l.Service.PubKey == r.c.PubKey {
		return work
	}
	rules := r.c.Policy().Review
	if l.Draft != nil {
		if reason := l.outdated(rules); reason != "" {
			return append(work, r.drop(l, reason))
		}
		return append(work, r.publish(l))
	}
	if why, ready, ok := l.wants(rules); ok && l.quiet() == "" {
		work = append(work, r.write(l, why, ready))
	}
	return work
}

// drop gives up an outdated draft. If a relay took the draft nevertheless, it is public, and the next review corrects
// it.
func (r *Review) drop(l line, reason string) due.Work {
	return due.Decide("drop review "+l.Draft.Review.Hex(), l.subject(), time.Time{}, func(tx *journal.Tx) error {
		now, _ := r.fold.line(lineKey(l.Task, l.Service))
		if now.Draft != nil && now.Draft.Review == l.Draft.Review && now.outdated(r.c.Policy().Review) != "" {
			tx.Append(fact.ReviewDropped{Review: l.Draft.Review, Reason: guild.Cut(reason, 500)})
		}
		return nil
	})
}

// write signs a review and records it as a draft before anything is sent. After a crash the same events are published
// again, so that relays do not get two reviews for one cause.
//
// Signing happens before the decision, which checks again that this review is still due: facts can change meanwhile.
func (r *Review) write(l line, why string, ready time.Time) due.Work {
	return due.Work{Key: "write " + string(l.subject()), Guard: l.subject(), Ready: ready, Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			drafted, err := r.draft(ctx, l, why)
			if err != nil {
				return nil, err
			}
			return func(tx *journal.Tx) error {
				now, _ := r.fold.line(lineKey(l.Task, l.Service))
				wanted, when, ok := now.wants(r.c.Policy().Review)
				rating, _ := now.rating()
				if ok && wanted == why && !when.After(tx.Now()) && now.Draft == nil && now.quiet() == "" && rating == drafted.Trust {
					tx.Append(drafted)
				}
				return nil
			}, nil
		}}
}

// publish sends a draft to this node's relays and to the provider's.
func (r *Review) publish(l line) due.Work {
	review := l.Draft.Review
	return r.send(l, review, l.Draft.Events, func(tx *journal.Tx, relays []string) {
		if now, _ := r.fold.line(lineKey(l.Task, l.Service)); now.Draft != nil && now.Draft.Review == review {
			tx.Append(fact.ReviewPublished{Review: review, Relays: relays})
		}
	}, func(tx *journal.Tx, reason string) {
		if now, _ := r.fold.line(lineKey(l.Task, l.Service)); now.Draft != nil && now.Draft.Review == review {
			tx.Append(fact.ReviewDropped{Review: review, Reason: guild.Cut("no relay took it: "+reason, 500), Failed: true})
		}
	})
}

// patience limits the time for one event at the relays.
const patience = 20 * time.Second

// send publishes events that belong together. After a failure it publishes all of them again, which is harmless because
// they are the same events.
func (r *Review) send(l line, id nostr.ID, events []nostr.Event, done func(*journal.Tx, []string), park func(*journal.Tx, string)) due.Work {
	return due.Work{Key: due.Publishing(id), Guard: l.subject(), Lease: 2 * time.Minute, Park: park,
		Act: func(ctx context.Context) (due.Decision, error) {
			r.share(ctx, events[0])
			relays := r.relays(l.Service)
			for _, e := range events {
				v, err := r.outbox.Own(e)
				if err != nil {
					return nil, fmt.Errorf("review of %.8s: %w", l.Service.PubKey.Hex(), err)
				}
				if err := r.pass(ctx, v, relays); err != nil {
					return nil, fmt.Errorf("publish kind %d about %.8s: %w", e.Kind, l.Service.PubKey.Hex(), err)
				}
			}
			return func(tx *journal.Tx) error {
				if done != nil {
					done(tx, relays)
				}
				return nil
			}, nil
		}}
}

// share uploads the receipt that a review names. If that fails the review is published anyway, and readers cannot
// verify it.
func (r *Review) share(ctx context.Context, e nostr.Event) {
	said, err := nipreview.Parse(e)
	if err != nil || r.c.Share == nil || said.Evidence.ReceiptHash.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = r.c.Share(ctx, said.Evidence.ReceiptHash)
}

func (r *Review) pass(ctx context.Context, v guild.Verified, relays []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.c.Publish(ctx, v, relays)
}

// relays returns the provider's relays and this node's, each once.
func (r *Review) relays(s guild.Service) (urls []string) {
	offer, _ := r.c.Offer(s)
	for _, url := range slices.Concat(offer.Relays, r.c.Relays()) {
		if !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	return urls
}

// draft writes and signs the events of a review.
func (r *Review) draft(ctx context.Context, l line, why string) (fact.ReviewDrafted, error) {
	rating, ok := l.rating()
	if !ok {
		return fact.ReviewDrafted{}, ErrNothing
	}
	what := figures{line: l, rating: rating, alert: why == causeViolation || l.Alarm != nil}
	if r.c.Measured != nil {
		what.p50, what.p95 = r.c.Measured(l.Service)
	}
	said := nipreview.Review{Kind: Kind, Subject: l.Service.PubKey, Stars: nipreview.StarsOf(rating), Task: l.Task,
		Service: l.Service.D, Content: what.content()}
	if offer, ok := r.c.Offer(l.Service); ok && len(offer.Relays) > 0 {
		said.Relay = offer.Relays[0]
	}
	drafted := fact.ReviewDrafted{Service: l.Service, Task: l.Task, Trust: rating, Cause: why}
	if p := l.Proof; p != nil {
		said.Request, said.JobKind, drafted.Attempt = p.Attempt, p.Kind, p.Attempt
	}
	if l.Concluded != nil && why == causeBenchmark {
		drafted.Meeting = l.Concluded.Meeting
	}
	said.Evidence.CID = r.c.CID
	current := said
	current.Kind = KindSet
	events := []nostr.Event{said.Event(), current.Event()}
	if r.c.Mirrors {
		if job, ok := said.JobReview(); ok {
			events = append(events, job)
		}
		events = append(events, said.Label())
	}
	at := r.date(nipreview.Address(l.Service.PubKey, l.Task))
	for _, e := range events {
		e.CreatedAt = at
		signed, err := r.outbox.SignDated(ctx, e)
		if err != nil {
			return fact.ReviewDrafted{}, fmt.Errorf("review of %.8s: %w", l.Service.PubKey.Hex(), err)
		}
		drafted.Events = append(drafted.Events, signed)
	}
	drafted.Review = drafted.Events[0].ID
	return drafted, nil
}

// date returns the date of the next event about an opinion. It is now, but later than all earlier ones, because relays
// keep the event with the latest date.
func (r *Review) date(address string) nostr.Timestamp {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := max(r.fold.dated(address).Last, r.dates[address])
	maps.DeleteFunc(r.dates, func(a string, at nostr.Timestamp) bool { return r.fold.dated(a).Last >= at })
	at := max(nostr.Timestamp(r.c.Now().Unix()), before+1)
	r.dates[address] = at
	return at
}

// Publish drafts a review of a service's work on a task at once, and replaces a draft that is not published yet. Errors
// match ErrOff, ErrNothing or ErrHeld.
func (r *Review) Publish(ctx context.Context, s guild.Service, task string) error {
	l, known := r.fold.line(lineKey(task, s))
	switch {
	case r.c.Off:
		return fmt.Errorf("review %.8s: %w", s.PubKey.Hex(), ErrOff)
	case !known || s.PubKey == r.c.PubKey:
		return fmt.Errorf("review %.8s for %q: %w", s.PubKey.Hex(), task, ErrNothing)
	}
	drafted, err := r.draft(ctx, l, causeOwner)
	if err != nil {
		return fmt.Errorf("review %.8s for %q: %w", s.PubKey.Hex(), task, err)
	}
	return r.c.Journal.Do(ctx, l.subject(), "", func(tx *journal.Tx) error {
		now, _ := r.fold.line(lineKey(task, s))
		if rest := now.rest(); rest != "" {
			return fmt.Errorf("review %.8s for %q: %w: %s", s.PubKey.Hex(), task, ErrHeld, rest)
		}
		if now.Draft != nil {
			tx.Append(fact.ReviewDropped{Review: now.Draft.Review, Reason: "the owner has it said anew"})
		}
		tx.Append(drafted)
		return nil
	})
}

// Hold stops all reviews of a service's work on a task until Resume.
func (r *Review) Hold(ctx context.Context, s guild.Service, task, reason string) error {
	return r.c.Journal.Do(ctx, fact.ReviewSubject(task, s), "", func(tx *journal.Tx) error {
		if l, _ := r.fold.line(lineKey(task, s)); l.Held == nil {
			tx.Append(fact.ReviewHeld{Service: s, Task: task, By: "owner", Reason: guild.Cut(reason, 500)})
		}
		return nil
	})
}

// Resume ends every hold, including that of a dispute, because the owner decides. A review that became due meanwhile is
// published at once, with the present numbers.
func (r *Review) Resume(ctx context.Context, s guild.Service, task, reason string) error {
	return r.c.Journal.Do(ctx, fact.ReviewSubject(task, s), "", func(tx *journal.Tx) error {
		if l, _ := r.fold.line(lineKey(task, s)); l.rest() != "" {
			tx.Append(fact.ReviewResumed{Service: s, Task: task, Reason: guild.Cut(reason, 500)})
		}
		return nil
	})
}

// Retract takes one of this node's latest reviews back (NIP-09). Later changes are still measured against it, so that
// the same review does not become due at once. Errors match ErrUnknown.
func (r *Review) Retract(ctx context.Context, review nostr.ID, reason string) error {
	l, _ := r.fold.of(review)
	said, ok := l.find(review)
	if !ok || said.Retracted {
		return fmt.Errorf("take review %.8s back: %w", review.Hex(), ErrUnknown)
	}
	address := nipreview.Address(l.Service.PubKey, l.Task)
	deletion := nostr.Event{Kind: KindDeletion, Content: guild.Cut(guild.Clean(reason), 500)}
	newest := r.fold.dated(address).Said == said.Date
	for _, e := range said.Events {
		deletion.Tags = append(deletion.Tags, nostr.Tag{"e", e.ID.Hex()})
		if e.Kind == KindSet && newest { // else the address would retract a later review, too
			deletion.Tags = append(deletion.Tags, nostr.Tag{"a", fmt.Sprintf("%d:%s:%s", KindSet, r.c.PubKey.Hex(), address)})
		}
	}
	for _, e := range said.Events {
		deletion.Tags = append(deletion.Tags, nostr.Tag{"k", strconv.Itoa(int(e.Kind))})
	}
	deletion.CreatedAt = r.date(address)
	signed, err := r.outbox.SignDated(ctx, deletion)
	if err != nil {
		return fmt.Errorf("take review %.8s back: %w", review.Hex(), err)
	}
	return r.c.Journal.Do(ctx, l.subject(), "", func(tx *journal.Tx) error {
		now, _ := r.fold.of(review)
		if said, ok := now.find(review); ok && !said.Retracted {
			tx.Append(fact.ReviewDropped{Review: review, Reason: guild.Cut(reason, 500), Deletion: &signed})
		}
		return nil
	})
}
