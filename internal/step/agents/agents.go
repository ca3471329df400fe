// Package agents is the step of the agents of this node (NIP-AE): it installs definitions, publishes what the owner and
// the agents sign, keeps the events of others that concern them, and composes how an agent behaves for a request
// (package nipae/behaviour). It owns the facts agent.*, nudge.* and lesson.*, but for those of package activity. It runs
// no worker and decides nothing about jobs.
package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nipae"
	"guild/nipae/behaviour"
)

// Config configures the step. All fields up to the gap are required.
type Config struct {
	Journal *journal.Journal
	Owner   nostr.Keyer // signs definitions, nudges, comments and claims: the node's identity
	PubKey  nostr.PubKey
	Now     func() time.Time
	Keys    Keys
	Relays  Relays
	Files   Files
	Count   func(text string) int64 // tokens of a text

	Owners  []nostr.PubKey        // other keys of the owner
	Allow   []nostr.PubKey        // others whose lessons, comments and nudges apply
	Asked   Asking                // which nudges of customers apply; AskedTrusted if empty
	Watched func() []nostr.PubKey // keys whose profiles and owners are read, too; optional
	// Works reports whether a service of this node has an agent of a name do its jobs; optional.
	Works func(name string) bool
	// Learn asks the owner's command what an agent learned from a judged request. An empty text means that nothing
	// was learned. nil if there is no command.
	Learn      func(ctx context.Context, j Judged) (text string, err error)
	AutoAccept bool  // drafts become lessons at once
	Budget     int64 // tokens of a prompt; behaviour.DefaultBudget if zero
}

// Keys holds the keys of the agents of this node, by their names.
type Keys interface {
	// Make makes a key, or takes the address of a remote signer. The error matches key.ErrExists if the name has one.
	Make(ctx context.Context, name, bunker string) (nostr.PubKey, error)
	Signer(ctx context.Context, name string) (nostr.Signer, error)
}

// Relays reads and publishes events.
type Relays interface {
	// Publish returns the relays that accepted an event, and those that could not be reached. It fails if none accepted it.
	Publish(ctx context.Context, v guild.Verified, relays []string) (took, missing []string, err error)
	Find(ctx context.Context, f nostr.Filter, relays []string) ([]guild.Verified, error)
	Ours() []string
	Of(ctx context.Context, p nostr.PubKey) []string           // where a key publishes (NIP-65), with ours; only ours if that is not known
	All(ctx context.Context, p nostr.PubKey) ([]string, error) // the same, without a limit
}

// Files moves the files of definitions between Blossom servers and the node's blobs.
type Files interface {
	Fetch(ctx context.Context, f File) error                            // to the blobs; the hash is checked
	Upload(ctx context.Context, content []byte) (url string, err error) // from memory
}

// Asking says which nudges that a customer asks for apply.
type Asking string

// The policies for a customer's nudges. None of them gives an agent more tools.
const (
	AskedTrusted Asking = "trusted" // those of trusted authors
	AskedAll     Asking = "all"
	AskedNone    Asking = "none"
)

// Step is the step.
type Step struct {
	c       Config
	fold    *Fold
	library *behaviour.Library

	acting sync.Mutex // held by what the owner has done: a decision and the events for it are made of one state

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when the filters may have changed by what the owner did
	heard   chan struct{} // the same, by what others wrote
	removed []nostr.ID    // from the library to make room, and still in SEEN

	deletions deletions
}

// Errors of the step.
var (
	ErrName    = errors.New("the name of an agent or a nudge is up to 64 letters, digits, dashes and underscores")
	ErrUnknown = errors.New("this node has no such agent")
	ErrTaken   = errors.New("this node has an agent of that name")
	ErrWorks   = errors.New("a service of this node has it do its jobs")
	ErrSilent  = errors.New("a newer list there would be lost")
)

// New returns the step on its fold. Open must be called before it is used.
func New(c Config, f *Fold) *Step {
	owners := append([]nostr.PubKey{c.PubKey}, c.Owners...)
	s := &Step{c: c, fold: f, changed: make(chan struct{}), heard: make(chan struct{}), deletions: deletions{by: map[deleted]nostr.ID{}}}
	s.library = behaviour.NewLibrary(behaviour.Config{Owners: owners, Keep: c.Allow, Count: c.Count, Removed: func(id nostr.ID) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.removed = append(s.removed, id)
	}})
	return s
}

// seenPrefix precedes the subjects of others' events in SEEN.
const seenPrefix = "agents"

// Open reads what is known of agents: our own events from the fold, and others' from SEEN.
func (s *Step) Open(ctx context.Context) error {
	for _, e := range s.fold.events() {
		v, err := guild.Verify(e)
		if err != nil {
			return fmt.Errorf("agents: %.8s: %w", e.ID.Hex(), err)
		}
		if err := s.add(v); err != nil {
			return fmt.Errorf("agents: %.8s: %w", e.ID.Hex(), err)
		}
	}
	for m, err := range s.c.Journal.Seen(ctx, seenPrefix) {
		if err != nil {
			return fmt.Errorf("agents: %w", err)
		}
		v, err := verified(m)
		if err != nil {
			continue // damaged; relays still have it
		}
		e := v.Event()
		switch {
		case e.Kind == kindDeletion:
			s.delete(ctx, e)
		case s.isDeleted(e) || s.library.Add(v) != nil:
			s.forget(ctx, e.ID) // there is no room for it any more
		}
	}
	s.forgetRemoved(ctx)
	return nil
}

// verified reads an event of others from SEEN.
func verified(m journal.SeenMessage) (guild.Verified, error) {
	var e nostr.Event
	if err := e.UnmarshalJSON(m.Data); err != nil {
		return guild.Verified{}, err
	}
	return guild.Verify(e)
}

// add adds an event of ours, or one that the owner chose.
func (s *Step) add(v guild.Verified) error {
	s.library.Keep(v.Event().PubKey)
	if err := s.library.Add(v); err != nil {
		return err
	}
	s.refilter(&s.changed)
	return nil
}

// refilter says that the filters may have changed: on s.changed or s.heard.
func (s *Step) refilter(on *chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(*on)
	*on = make(chan struct{})
}

// forget removes an event from SEEN. If that fails, it is left out at the next start.
func (s *Step) forget(ctx context.Context, id nostr.ID) {
	_ = s.c.Journal.Unsee(ctx, seenPrefix+"."+id.Hex())
}

// forgetRemoved removes the events from SEEN that made room for others in the library.
func (s *Step) forgetRemoved(ctx context.Context) {
	s.mu.Lock()
	removed := s.removed
	s.removed = nil
	s.mu.Unlock()
	for _, id := range removed {
		s.forget(ctx, id)
	}
}

// Observe takes an event of others, unless its author deleted it. It changes no behaviour unless the owner trusts its
// author.
func (s *Step) Observe(ctx context.Context, v guild.Verified) error {
	e := v.Event()
	if _, known := s.library.Author(e.ID); known || s.isDeleted(e) {
		return nil
	}
	if c, err := nipae.ParseComment(e); err == nil && !s.library.Keeps(e.PubKey) {
		if _, known := s.library.Author(c.Lesson.ID); !known {
			return nil // a stranger's comment on an unknown lesson never applies, and would only take room
		}
	}
	before, replaces := s.replaced(e)
	err := s.library.Add(v)
	s.forgetRemoved(ctx)
	if errors.Is(err, behaviour.ErrFull) {
		return guild.Drop(guild.Flood, "%v", err)
	}
	if err != nil {
		return guild.Drop(guild.Malformed, "%v", err)
	}
	if _, kept := s.library.Author(e.ID); !kept {
		return nil // an older version
	}
	raw, err := e.MarshalJSON()
	if err == nil {
		err = s.c.Journal.See(ctx, seenPrefix+"."+e.ID.Hex(), raw)
	}
	if err != nil {
		s.library.Remove(e.ID) // else it would count as known the next time
		return err
	}
	if replaces {
		s.forget(ctx, before)
	}
	if s.changesFilters(e) {
		s.refilter(&s.heard)
	}
	return nil
}

// changesFilters reports whether an event of others may change the filters.
func (s *Step) changesFilters(e nostr.Event) bool {
	switch e.Kind {
	case nipae.KindClaims, nipae.KindProfile:
		return slices.Contains(s.people(), e.PubKey)
	case nipae.KindDefinition:
		d, err := nipae.ParseDefinition(e)
		return err == nil && slices.ContainsFunc(s.fold.agents(), func(a fact.AgentInstalled) bool {
			installed, err := nipae.ParseDefinition(a.Definition)
			return err == nil && installed.Address() == d.Address()
		})
	}
	return false
}

// replaced returns the known event that one of a replaceable kind takes the place of.
func (s *Step) replaced(e nostr.Event) (nostr.ID, bool) {
	switch e.Kind {
	case nipae.KindProfile:
		p, ok := s.library.Profile(e.PubKey)
		return p.ID, ok
	case nipae.KindClaims:
		c, ok := s.library.Claims(e.PubKey)
		return c.ID, ok
	}
	return nostr.ID{}, false
}

// Filters returns what to ask relays for, and two channels: changed is closed once that may have changed by what the
// owner did, and heard once it may have changed by what others wrote.
func (s *Step) Filters() (filters []nostr.Filter, changed, heard <-chan struct{}) {
	s.mu.Lock()
	changed, heard = s.changed, s.heard
	s.mu.Unlock()
	const most = 2000       // stored events of each kind that are read
	const maxVersions = 100 // of a definition whose lessons are read, beside the installed one
	var publishers []nostr.PubKey
	var slugs, versions []string
	for _, a := range s.fold.agents() {
		d, err := nipae.ParseDefinition(a.Definition)
		if err != nil {
			continue // it was parsed before it was recorded
		}
		publishers, slugs = append(publishers, d.PubKey), append(slugs, d.D)
		versions = append(versions, d.ID.Hex())
		all := s.library.Versions(d.Address())
		for _, v := range all[:min(len(all), maxVersions)] {
			if v.ID != d.ID {
				versions = append(versions, v.ID.Hex())
			}
		}
	}
	filters = []nostr.Filter{{Kinds: []nostr.Kind{nipae.KindProfile, nipae.KindClaims, kindDeletion}, Authors: s.people(), Limit: most}}
	if len(versions) > 0 {
		filters = append(filters,
			nostr.Filter{Kinds: []nostr.Kind{nipae.KindDefinition}, Authors: publishers, Tags: nostr.TagMap{"d": slugs}, Limit: most},
			nostr.Filter{Kinds: []nostr.Kind{nipae.KindLesson}, Tags: nostr.TagMap{"e": versions}, Limit: most},
			nostr.Filter{Kinds: []nostr.Kind{nipae.KindComment}, Tags: nostr.TagMap{"K": {"4129"}}, Limit: most})
	}
	return filters, changed, heard
}

// people returns the keys whose profiles, claims and deletions are read, in order.
func (s *Step) people() []nostr.PubKey {
	people := append([]nostr.PubKey{s.c.PubKey}, s.c.Owners...)
	for _, owner := range people[:len(people):len(people)] {
		if claims, ok := s.library.Claims(owner); ok {
			people = append(people, claims.Agents()...)
		}
	}
	people = append(people, s.c.Allow...)
	if s.c.Watched != nil {
		for _, key := range s.c.Watched() {
			profile, _ := s.library.Profile(key)
			people = append(append(people, key), profile.Owners[:min(len(profile.Owners), maxOwners)]...)
		}
	}
	slices.SortFunc(people, func(a, b nostr.PubKey) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(people)
}

// maxOwners limits the owners of one key whose claims are read.
const maxOwners = 4

// Due lists the signed events that no relay has yet, and those that some relays did not get; and profiles that name other
// owners than the configuration. It implements due.Source.
func (s *Step) Due(time.Time) []due.Work {
	var work []due.Work
	for _, e := range s.fold.unpublished() {
		work = append(work, due.Work{
			Key: due.Publishing(e.ID), Guard: fact.AgentsSubject,
			Act: func(ctx context.Context) (due.Decision, error) {
				took, missing, err := s.publish(ctx, e, s.c.Relays.Of(ctx, e.PubKey))
				return s.published(e, took, missing), err
			},
		})
	}
	for _, m := range s.fold.gaps() {
		e := m.event
		work = append(work, due.Work{
			Key: fmt.Sprintf("%s again %d", due.Publishing(e.ID), m.Times), Guard: fact.AgentsSubject, Ready: m.ready(), Free: true,
			Act: func(ctx context.Context) (due.Decision, error) {
				took, missing, err := s.publish(ctx, e, m.Relays)
				if errors.Is(err, due.ErrLater) {
					return nil, err
				}
				return s.published(e, took, missing), nil // if no relay took it: after a longer time
			},
		})
	}
	return slices.Concat(work, s.renaming(), s.learning())
}

// published returns the decision that relays have an event.
func (s *Step) published(e nostr.Event, took, missing []string) due.Decision {
	return func(tx *journal.Tx) error {
		tx.Append(fact.AgentPublished{Event: e.ID, Relays: took, Missing: missing, At: tx.Now().UnixMilli()})
		return nil
	}
}

// Settle returns once relays have everything that was signed within the last minute, or ctx ends. Older events have been
// refused by relays.
func (s *Step) Settle(ctx context.Context) {
	changed, stop := s.c.Journal.Changed()
	defer stop()
	since := nostr.Timestamp(s.c.Now().Add(-time.Minute).Unix())
	for slices.ContainsFunc(s.fold.unpublished(), func(e nostr.Event) bool { return e.CreatedAt >= since }) {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// publish sends an event to relays.
func (s *Step) publish(ctx context.Context, e nostr.Event, relays []string) (took, missing []string, err error) {
	v, err := guild.Verify(e)
	if err != nil {
		return nil, nil, fmt.Errorf("publish an agent's event: %w", err)
	}
	took, missing, err = s.c.Relays.Publish(ctx, v, relays)
	if err != nil {
		return took, missing, fmt.Errorf("publish kind %d: %w", e.Kind, err)
	}
	return took, missing, nil
}

// sign signs an event of now. A replaceable one is later than the one before, which relays would keep otherwise.
func (s *Step) sign(ctx context.Context, by nostr.Signer, e nostr.Event, after nostr.Timestamp) (guild.Verified, error) {
	e.CreatedAt = max(nostr.Timestamp(s.c.Now().Unix()), after+1)
	return guild.Sign(ctx, by, e)
}

// record records a decision, and adds its events to the library.
func (s *Step) record(ctx context.Context, check func() error, events []guild.Verified, facts ...fact.Fact) error {
	err := s.c.Journal.Do(ctx, fact.AgentsSubject, "", func(tx *journal.Tx) error {
		if check != nil {
			if err := check(); err != nil {
				return err
			}
		}
		for _, f := range facts {
			tx.Append(f)
		}
		for _, v := range events {
			tx.Append(fact.AgentSigned{Event: v.Event()})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, v := range events {
		if isBeside(v.Event().Kind) {
			continue
		}
		if err := s.add(v); err != nil {
			return err
		}
	}
	return nil
}
