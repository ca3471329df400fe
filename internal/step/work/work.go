// Package work is the provider's step: it announces services (NIP-89), takes requests (NIP-90), has each done by
// a worker in an empty directory, and returns a delivery bundle, or to who knows no bundles the text in it. It owns the
// facts request.* and service.*. A customer's bundle is as hostile as a provider's delivery: it is unpacked within
// limits, and the worker's command runs in the sandbox unless the owner said otherwise. It never works on a request
// twice, and never leaves one that it took unanswered.
package work

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/time/rate"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/hand/fetch"
	"guild/internal/hand/outbox"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/nutshell/vault"
)

// Assignment is one request as a worker sees it.
type Assignment struct {
	Bundle   string // directory: the unpacked request bundle, which the worker may change
	Delivery string // directory: what the worker leaves here is delivered
	Inputs   string // directory: what was given beside the bundle, and inputs.json; empty without any
	Vault    string // file: the credentials that came with it, in clear; empty without any
	Job      string // the customer's job id
	Limit    time.Duration
	Say      func(line string) // tells the customer how it goes

	// Hide takes the secrets that the worker knows out of what is kept or shown of it; nothing is hidden if nil.
	Hide func(text string) string

	recording *recording // hears what the worker does; nobody does if nil
}

// Config says what the step needs.
type Config struct {
	Journal  *journal.Journal
	Blobs    *blob.Store
	Keyer    nostr.Keyer
	PubKey   nostr.PubKey // Keyer's
	Node     string
	Producer string // of trajectories, as "guild@1.2.3"
	Now      func() time.Time
	Services []Service
	Scratch  string // directory for unpacked bundles
	Secrets  string // directory for opened vaults, best in memory; Scratch if empty

	Recipient string                                                         // whom to seal credentials for, as announced; nobody if empty
	Unseal    func(ctx context.Context, sealed []byte) (vault.Secret, error) // opens what is sealed for Recipient

	Publish func(ctx context.Context, e guild.Verified, relays []string) error
	Relays  func() []string // where we read requests
	Upload  func(ctx context.Context, bundle []byte, seal bool) (url string, key *[32]byte, err error)
	Fetch   func(ctx context.Context, p fact.Place, want guild.Hash, size int64) (io.ReadCloser, error)

	Inputs    fetch.Client                                                                         // brings what inputs point to
	Find      func(ctx context.Context, f nostr.Filter, relays []string) ([]guild.Verified, error) // asks relays for stored events
	Published func(ctx context.Context, kinds ...nostr.Kind) ([]guild.Verified, error)             // the newest of our own that relays have; nobody else uses our key if nil

	Log *slog.Logger // slog.Default() if nil

	Customers *Customers // what was seen of those who ask; nobody is scored if nil

	Judgements *Judgements // what customers say of our deliveries; nobody is listened to if nil
	// Letterbox says at which relays somebody reads private messages (kind 10050), if that is known.
	Letterbox func(ctx context.Context, p nostr.PubKey) []string
}

// Work is the step.
type Work struct {
	c        Config
	fold     *Fold
	services map[string]Service // by D
	order    []string           // their Ds, as they were configured
	doors    *doors
	offers   *rate.Limiter
	outbox   *outbox.Outbox
	turned   chan struct{} // what open says has changed

	receiving sync.Mutex // held while a request is taken on

	mu       sync.Mutex
	draining bool
	running  map[nostr.ID]run
	served   map[visitor]int64 // Unix ms when work for a customer last ended
	talk     chan told

	discarding int // directories that are being removed
}

// run is a worker on a request.
type run struct {
	since time.Time
	stop  context.CancelFunc
}

// New returns the step on its fold. The zero fields of its services get their defaults.
func New(c Config, f *Fold) *Work {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	w := &Work{c: c, fold: f, services: map[string]Service{}, doors: newDoors(), offers: newOffers(), outbox: outbox.New(c.Keyer, c.Now), turned: make(chan struct{}, 1),
		running: map[nostr.ID]run{}, served: map[visitor]int64{}, talk: make(chan told, 256)}
	for _, s := range c.Services {
		s = s.withDefaults()
		if _, twice := w.services[s.D]; !twice {
			w.order = append(w.order, s.D)
		}
		w.services[s.D] = s
	}
	return w
}

// Classes gives each service's limit on requests worked on at a time, for due.Runner.
func (w *Work) Classes() map[string]int {
	limits := map[string]int{}
	for d, s := range w.services {
		limits[class(d)] = s.Slots
	}
	return limits
}

func class(d string) string { return "work " + d }
