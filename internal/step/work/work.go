// Package work is the provider's step: it announces services (NIP-89), takes requests (NIP-90), has a worker do each in an
// empty directory, and answers with a delivery bundle, or with plain text if the customer knows no bundles. It owns the
// facts request.* and service.*. It never finishes a request twice, and never leaves one that it took unanswered.
//
// A customer's bundle is as hostile as a provider's delivery. It is unpacked within limits, and the worker's command runs
// in the sandbox unless the owner said otherwise.
package work

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/hand/fetch"
	"guild/internal/hand/outbox"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// Assignment is one request as a worker sees it.
type Assignment struct {
	Bundle   string // directory with the unpacked request bundle, which the worker may change
	Delivery string // directory whose files are delivered
	Inputs   string // directory with the inputs beside the bundle, and inputs.json; empty without any
	Vault    string // file with the credentials that came with the request, in clear; empty without any
	Hints    string // directory with the customer's advice: hints.json, and constraints.txt; empty without any
	Job      string // the customer's job id
	Limit    time.Duration
	Harness  nutshell.Harness // the content of Hints, which is a stranger's text

	Behaviour *Behaviour // to be enforced by the worker; nil without one

	Say func(line string) // tells the customer about the progress

	// Hide removes the secrets that the worker knows from text that is stored or shown. Nothing is hidden if it is nil.
	Hide func(text string) string

	recording *recording // records what the worker does; nil for no recording
}

// Config says what the step needs.
type Config struct {
	Journal  *journal.Journal
	Blobs    *blob.Store
	Keyer    nostr.Keyer
	PubKey   nostr.PubKey // Keyer's
	Node     string
	Owners   []nostr.PubKey // that its profile names (NIP-AE)
	Producer string         // of trajectories, as "guild@1.2.3"
	Now      func() time.Time
	Services []Service
	Scratch  string // directory for unpacked bundles
	Secrets  string // directory for opened vaults, best in memory; Scratch if empty

	Relays     Relays
	Payloads   Payloads
	Inputs     fetch.Client // downloads the URLs among a request's inputs
	Judgements *Judgements  // what customers say of our deliveries
	Customers  *Customers   // what was seen of the customers; none is scored if nil

	Money Money // locks what services cost before the work begins; nil if nothing can be paid

	Recipient string                                                         // the age recipient that credentials are encrypted for, as announced; none are taken if empty
	Unseal    func(ctx context.Context, sealed []byte) (vault.Secret, error) // decrypts what was encrypted for Recipient

	Watch func(Update) // called from many goroutines, must not block; may be nil
	Log   *slog.Logger // slog.Default() if nil
}

// Relays reaches the customers.
type Relays interface {
	// Publish returns nil when a relay took the event.
	Publish(ctx context.Context, e guild.Verified, relays []string) error
	// Ours returns the relays where we read requests.
	Ours() []string
	// Find asks relays for stored events.
	Find(ctx context.Context, f nostr.Filter, relays []string) ([]guild.Verified, error)
	// InboxOf returns the relays where p reads private messages (kind 10050), if they are known.
	InboxOf(ctx context.Context, p nostr.PubKey) []string
}

// Money is how customers pay (the step pay).
type Money interface {
	// Quote returns how a customer may pay an amount in a unit for a request to us: a payment request (NUT-18), a Lightning invoice that
	// is valid until a time, or both. Either pays ahead of the work, whatever becomes of it, if that is asked for. The invoice is for the
	// payment hash that the request names, if it does and the owner's wallet can hold its payment.
	Quote(ctx context.Context, r fact.RequestReceived, until time.Time, amount uint64, unit string, ahead bool) (terms, invoice string, err error)
	// Address returns the URI by which a customer may pay an amount in a unit on the Bitcoin chain before the work (BIP 21), with an
	// address for this request alone.
	Address(ctx context.Context, request nostr.ID, deadline time.Time, amount uint64, unit string) (uri string, err error)
	// Takes reports whether a price in a unit can be paid to us.
	Takes(unit string) bool
	// Funded reports whether the customer has locked or paid what Quote asked for.
	Funded(request nostr.ID) bool
}

// Payloads moves bundles that are too large for an event.
type Payloads interface {
	// Upload puts a bundle where its customer can fetch it, encrypted with a new key if seal is set.
	Upload(ctx context.Context, bundle []byte, seal bool) (url string, key *[32]byte, err error)
	// Fetch reads a bundle of size bytes with the hash want. The caller closes it.
	Fetch(ctx context.Context, p fact.Place, want guild.Hash, size int64) (io.ReadCloser, error)
}

// Work is the step.
type Work struct {
	c        Config
	fold     *Fold
	services map[string]Service // by D
	order    []string           // their Ds, as they were configured
	limits   *limits
	refused  refusedRequests
	outbox   *outbox.Outbox
	turned   chan struct{} // receives when a service was paused or resumed

	receiving sync.Mutex // held while a request is received

	mu       sync.Mutex
	draining bool
	running  map[nostr.ID]run
	served   map[visitor]int64 // Unix ms when work for a customer last ended
	queue    chan answer       // what is to be published once and is not recorded

	discarding int // directories that are being removed
}

// run is a worker that is on a request.
type run struct {
	since time.Time
	stop  context.CancelFunc
}

// New returns the step on its fold. Zero fields of the services get their defaults.
func New(c Config, f *Fold) *Work {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	w := &Work{
		c: c, fold: f, services: map[string]Service{}, limits: newLimits(), outbox: outbox.New(c.Keyer, c.Now), turned: make(chan struct{}, 1),
		running: map[nostr.ID]run{}, served: map[visitor]int64{}, queue: make(chan answer, 256),
	}
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
