// Package jobs is the customer's step: it opens jobs, asks as many providers at once as a job's criticality wants, and
// others in place of those that fail (NIP-90). It follows their feedback, takes results only from providers that were
// asked, and finds out which accepted deliveries agree. It computes bids and keeps them within the budgets. It owns the
// facts job.* and bid.*, and all attempt.* but judged and undecided (judge), recorded (record), disputed and told
// (review); parked is written by the step that gives up. It never judges a delivery and never pays.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/hand/outbox"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/market/route"
	"guild/internal/policy"
	"guild/nutshell/vault"
)

// Config configures the step.
type Config struct {
	Journal *journal.Journal
	Blobs   *blob.Store
	Keyer   nostr.Keyer
	PubKey  nostr.PubKey // Keyer's
	Node    string
	Now     func() time.Time

	Market  Market
	Network Network
	Trust   func(task string, s guild.Service) (t guild.Trust, met bool) // trust in a service for a task

	// Upload stores a bundle that is too large for an event where a provider can fetch it, encrypted with the returned key
	// if seal is set. Fetch reads what a provider stored.
	Upload func(ctx context.Context, bundle []byte, seal bool) (url string, key *[32]byte, err error)
	Fetch  func(ctx context.Context, p fact.Place, want guild.Hash, size int64) (io.ReadCloser, error)

	// Unseal opens a vault that was sealed for this node. SealFor seals one for an age recipient.
	Unseal  func(ctx context.Context, sealed []byte) (vault.Secret, error)
	SealFor func(ctx context.Context, recipient string, document vault.Secret) ([]byte, error)

	// NewHold returns a payment hash by which a provider can be paid from escrow over Lightning in a unit; nil if we cannot pay so.
	// Locks reports whether ecash can be locked as a quote asks. Both may be nil.
	NewHold func(unit string) *fact.Hold
	Locks   func(terms string) bool

	Patience   Patience
	Limits     Limits
	Budgets    map[string]Budget      // by task, and Others for every task without its own; no limit if empty
	Thresholds map[string]guild.Trust // by task: trust below which its ordinary work is not given; the policy's if 0

	Variables Variables                          // numbers changed by experience; none if nil
	Policy    func() (policy.Policy, guild.Hash) // in force, and its hash; policy.Default() if nil
	UpToDate  func(task string) bool             // trust has learned from all facts about a task; always if nil
	// OfferOf returns the offer of one service as in Market.Offers; ok is false if that does not have it. With it, Touch
	// must be called whenever an answer may change for another reason than time and the journal's facts. Without it all
	// offers are read for each decision.
	OfferOf func(s guild.Service, task string, kind int) (o guild.Offer, ok bool)
}

// Market knows the providers.
type Market interface {
	Offers(task string, kind int) iter.Seq[guild.Offer]
	OffersOf(p nostr.PubKey, task string, kind int) []guild.Offer // all services of a provider, whether they offer the task or not
	Provider(guild.Service) guild.Provider                        // announced or not
	Measured(s guild.Service, now time.Time) route.Measured
}

// Network reaches the providers.
type Network interface {
	// Publish returns nil when a relay took the event.
	Publish(ctx context.Context, e guild.Verified, relays []string) error
	// Relays returns where answers reach us.
	Relays() []string
	// Rank returns relays in the order of their measured quality. Those that are about as good keep their order.
	Rank(relays []string) []string
	// Look asks relays for the events of a kind with which a provider answered a request. It fails if no relay answers.
	Look(ctx context.Context, provider nostr.PubKey, request nostr.ID, kind nostr.Kind, relays []string) ([]guild.Verified, error)
	// Hears returns the time since which answers of providers reach us, zero while they do not.
	Hears() time.Time
}

// Variables are the numbers that change with experience (the partnership protocol, section 5.3).
type Variables interface {
	Budget(task string) guild.Msat               // COST_BUDGET: added to a month's budget
	Timeout(task string) guild.Trust             // TIMEOUT_CONFIGURATION: factor of Patience.Silence, in micro-units; 0 for one
	Parallelism(p nostr.PubKey) (n int, ok bool) // PARALLELISM_LIMIT of a provider, instead of Limits.AtOnce
	AtOnce() (n int, ok bool)                    // PARALLELISM_LIMIT of all providers together
}

// Patience bounds the time that things may take. A zero field means the value given beside it.
type Patience struct {
	Discover time.Duration    // for a provider to appear: 10 s
	Offers   time.Duration    // for offers for an open job: 10 s
	Ladder   [3]time.Duration // for a relay to take the request: 10, 15 and 20 s
	Silence  time.Duration    // until the first feedback after the request: 300 s
	Extend   time.Duration    // from each feedback to the next, at least: 60 s
	Job      time.Duration    // for the whole job: 1 h
	Retries  [3]time.Duration // before the request to a silent provider is published again: 5, 10 and 20 s, ± 20 %
	Result   time.Duration    // for the result after the provider said that it was done: 60 s
	Busy     time.Duration    // before a provider without capacity is asked again, doubled each time: 60 s
}

func (p Patience) orDefaults() Patience {
	p.Discover = cmp.Or(p.Discover, 10*time.Second)
	p.Offers = cmp.Or(p.Offers, 10*time.Second)
	p.Ladder = cmp.Or(p.Ladder, [3]time.Duration{10 * time.Second, 15 * time.Second, 20 * time.Second})
	p.Silence = cmp.Or(p.Silence, 300*time.Second)
	p.Extend = cmp.Or(p.Extend, 60*time.Second)
	p.Job = cmp.Or(p.Job, time.Hour)
	p.Retries = cmp.Or(p.Retries, [3]time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second})
	p.Result = cmp.Or(p.Result, 60*time.Second)
	p.Busy = cmp.Or(p.Busy, 60*time.Second)
	return p
}

// Jobs is the step.
type Jobs struct {
	c      Config
	fold   *Fold
	outbox *outbox.Outbox
	born   uint64               // last entry about an open job before this process
	older  map[guild.JobID]bool // jobs that were open before this process
	whole  sync.Map             // nostr.ID → true: older deliveries that were checked to be whole

	storing  sync.RWMutex        // held, for reading, from the storing of a blob until a fact names it; for writing, while blobs are erased
	plainly  sync.Mutex          // locked after choosing
	unplains map[question]string // see unplain

	matrix   *route.Matrix
	choosing sync.Mutex // providers are chosen one after the other; it is locked before all other locks
	slots    takenSlots
	looks    map[guild.JobID]look // the latest search for a job, see field

	lining sync.Mutex
	lines  map[string]line // by task
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Jobs {
	c.Patience, c.Limits = c.Patience.orDefaults(), c.Limits.orDefaults()
	if c.Policy == nil {
		c.Policy = defaultPolicy()
	}
	j := &Jobs{c: c, fold: f, outbox: outbox.New(c.Keyer, c.Now), older: map[guild.JobID]bool{},
		slots: newSlots(), looks: map[guild.JobID]look{}, lines: map[string]line{}, unplains: map[question]string{}}
	source := route.Source{One: c.OfferOf, Facts: j.facts}
	if c.Market != nil {
		source.All = c.Market.Offers
	}
	j.matrix = route.New(source, c.PubKey[:])
	f.matrix.Store(j.matrix)
	for _, job := range f.active() {
		j.born = max(j.born, job.Last)
		j.older[job.Job] = true
	}
	return j
}

// defaultPolicy returns the policy of a node that configures none.
func defaultPolicy() func() (policy.Policy, guild.Hash) {
	p := policy.Default()
	hash, err := p.Hash()
	if err != nil {
		panic(err) // the default policy always has a hash
	}
	return func() (policy.Policy, guild.Hash) { return p, hash }
}

// Cancel ends a job. Its providers are told to stop by a kind 5; what they still send is kept, but not judged and not
// paid. A delivery that is being judged or waits for a person gets no verdict. A job that has ended does not change.
//
// A job in quarantine is closed there: it ends, if it has not, and nothing more is ever done for it. Its providers are not told.
func (j *Jobs) Cancel(ctx context.Context, id guild.JobID) error {
	guard := fact.JobSubject(id)
	decide := func(tx *journal.Tx) error {
		if job, ok := j.fold.Job(id); ok && job.Ending == guild.Open && !job.Cancelled {
			tx.Append(fact.JobCancelled{Job: id})
		}
		return nil
	}
	err := j.c.Journal.Do(ctx, guard, "", decide)
	if errors.Is(err, journal.ErrQuarantined) {
		err = j.c.Journal.CloseGuard(ctx, guard, decide)
	}
	if err != nil {
		return fmt.Errorf("cancel job %s: %w", id.Short(), err)
	}
	return nil
}
