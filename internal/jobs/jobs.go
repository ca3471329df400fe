// Package jobs is the customer's step: it opens jobs, asks providers one after the other (NIP-90), follows
// their feedback, and takes a result from the provider that was asked and from nobody else. It owns the facts
// job.* and attempt.* up to attempt.delivered, and attempt.refused, expired and cancelled. It never judges a
// delivery and never pays.
package jobs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/blob"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/nutshell/vault"
)

// Config says what the step needs.
type Config struct {
	Journal *journal.Journal
	Blobs   *blob.Store
	Keyer   nostr.Keyer
	PubKey  nostr.PubKey // Keyer's
	Node    string
	Now     func() time.Time

	Offers  func(task string, kind int) []guild.Offer                          // who offers a task
	Trust   func(task string, s guild.Service) (t guild.Trust, met bool)       // how far it is trusted
	Publish func(ctx context.Context, e guild.Verified, relays []string) error // nil when a relay took it
	Relays  func() []string                                                    // where answers reach us
	// Upload puts what is too large for an event where a provider can fetch it, sealed with a key if asked to.
	Upload func(ctx context.Context, bundle []byte, seal bool) (url string, key *[32]byte, err error)
	// Unseal opens a vault that was sealed for this node; SealFor seals one for an age recipient.
	Unseal  func(ctx context.Context, sealed []byte) (vault.Secret, error)
	SealFor func(ctx context.Context, recipient string, document vault.Secret) ([]byte, error)
	// Fetch is the other direction of Upload.
	Fetch func(ctx context.Context, p fact.Place, want guild.Hash, size int64) (io.ReadCloser, error)

	Patience Patience
	Limits   Limits
}

// Limits is how much one provider is asked by us. A zero field is the value given beside it.
type Limits struct {
	AtOnce    int // requests that it has not answered: 8
	PerMinute int // new requests: 30
}

// Patience is how long things may take. A zero field is the value given beside it.
type Patience struct {
	Discover time.Duration    // for a provider to appear: 10 s
	Ladder   [3]time.Duration // for a relay to take the request: 10, 15 and 20 s
	Silence  time.Duration    // for the first feedback after the request: 300 s
	Extend   time.Duration    // that each feedback adds at least: 60 s
	Job      time.Duration    // for the whole job: 1 h
}

func (p Patience) orDefaults() Patience {
	p.Discover = cmp.Or(p.Discover, 10*time.Second)
	p.Ladder = cmp.Or(p.Ladder, [3]time.Duration{10 * time.Second, 15 * time.Second, 20 * time.Second})
	p.Silence = cmp.Or(p.Silence, 300*time.Second)
	p.Extend = cmp.Or(p.Extend, 60*time.Second)
	p.Job = cmp.Or(p.Job, time.Hour)
	return p
}

// Jobs is the step.
type Jobs struct {
	c      Config
	fold   *Fold
	signed sync.Map // nostr.ID → guild.Verified, from signing to publishing
	born   uint64   // last entry about an open job before this process
	whole  sync.Map // nostr.ID → true: deliveries of before that were seen to be whole
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Jobs {
	c.Patience = c.Patience.orDefaults()
	j := &Jobs{c: c, fold: f}
	for _, job := range f.active() {
		j.born = max(j.born, job.Last)
	}
	return j
}

// Order is what a customer asks for.
type Order struct {
	Task    string
	Title   string
	Bundle  []byte // packed
	Hidden  []byte // hidden tests as the files of a packed bundle, which never leaves this machine; nil without any
	Kind    int    // NIP-90 request kind
	Bid     guild.Msat
	Timeout time.Duration // for the whole job; Patience.Job if zero
	Tries   int           // providers asked in turn; 3 if zero, or as many as Providers
	Private bool

	Providers []nostr.PubKey // only these, in this order, whatever we think of them
	Release   *fact.Release  // credentials for whoever is asked, whose blobs are kept already; nil without any

	ID          guild.JobID       // opening the same one again does nothing; a random one if zero
	Criticality guild.Criticality // low if empty
	Compare     string            // how the deliveries of several providers are compared; see Compare
	Open        bool              // ask everybody for an offer first
	Inputs      []fact.Input      // beside the bundle
	Meeting     *fact.Benchmark   // the job is a benchmark: the provider's state does not matter
}

// Open takes an order. The job is due from here on, through any restart.
func (j *Jobs) Open(ctx context.Context, o Order) (guild.JobID, error) {
	if err := j.c.Journal.Free(); err != nil {
		return guild.JobID{}, fmt.Errorf("open a job: %w", err)
	}
	hash, err := j.c.Blobs.PutBytes(ctx, o.Bundle)
	if err != nil {
		return guild.JobID{}, fmt.Errorf("open a job: keep the bundle: %w", err)
	}
	var hidden guild.Hash
	if len(o.Hidden) > 0 {
		if hidden, err = j.c.Blobs.PutBytes(ctx, o.Hidden); err != nil {
			return guild.JobID{}, fmt.Errorf("open a job: keep the hidden tests: %w", err)
		}
	}
	id := o.ID
	if id == (guild.JobID{}) {
		id = guild.NewJobID()
	}
	opened := fact.JobOpened{
		Job: id, Task: o.Task, Title: o.Title, Bundle: hash, Hidden: hidden, Size: int64(len(o.Bundle)), Kind: o.Kind, Bid: o.Bid,
		Tries: cmp.Or(o.Tries, len(o.Providers), 3), Private: o.Private, Providers: o.Providers, Release: o.Release,
		Criticality: o.Criticality, Compare: o.Compare, Open: o.Open, Inputs: o.Inputs, Meeting: o.Meeting,
	}
	err = j.c.Journal.Do(ctx, fact.JobSubject(id), "", func(tx *journal.Tx) error {
		opened.Deadline = tx.Now().Add(cmp.Or(o.Timeout, j.c.Patience.Job)).UnixMilli()
		if _, known := j.fold.Job(id); !known {
			tx.Append(opened)
		}
		return nil
	})
	if err != nil {
		return guild.JobID{}, fmt.Errorf("open a job: %w", err)
	}
	return id, nil
}

// Cancel asks for nothing more: the provider is told by a kind 5, and what it still sends is kept, never
// judged, never paid. A job that has ended stays as it is.
func (j *Jobs) Cancel(ctx context.Context, id guild.JobID) error {
	err := j.c.Journal.Do(ctx, fact.JobSubject(id), "", func(tx *journal.Tx) error {
		if job, ok := j.fold.Job(id); ok && job.Ending == guild.Open && !job.Cancelled {
			tx.Append(fact.JobCancelled{Job: id})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cancel job %s: %w", id.Short(), err)
	}
	return nil
}
