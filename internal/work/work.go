// Package work is the provider's step: it announces services (NIP-89), takes requests (NIP-90), has each done by
// a worker in an empty directory, and returns a delivery bundle. It owns the facts request.*. A customer's bundle
// is as hostile as a provider's delivery: it is unpacked within limits, and the worker's command runs in the
// sandbox unless the owner said otherwise. It never works on a request twice and never leaves one unanswered.
package work

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/blob"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/nutshell/vault"
)

// Service is one thing that this node does for others.
type Service struct {
	Task  string
	D     string // the announcement's d tag; Task if empty
	Name  string // for people; the node's name if empty
	About string
	Kind  int // NIP-90 request kind; guild.KindOf(Task) if zero

	Slots int           // requests worked on at a time; 2 if zero
	Queue int           // requests that may wait; 32 if zero
	Limit time.Duration // for one request; 30 minutes if zero
	Price guild.Msat    // asked for first; nothing can be paid yet, so a price refuses

	Do func(ctx context.Context, a Assignment) error // the worker; an error is told to the customer
}

// Assignment is one request as a worker sees it.
type Assignment struct {
	Bundle   string // directory: the unpacked request bundle, which the worker may change
	Delivery string // directory: what the worker leaves here is delivered
	Vault    string // file: the credentials that came with it, in clear; empty without any
	Job      string // the customer's job id
	Limit    time.Duration
	Say      func(line string) // tells the customer how it goes

	// Hide takes the secrets of the credentials out of what is kept or shown of the worker; nil when there are none.
	Hide func(text string) string
}

// Config says what the step needs.
type Config struct {
	Journal  *journal.Journal
	Blobs    *blob.Store
	Keyer    nostr.Keyer
	PubKey   nostr.PubKey // Keyer's
	Node     string
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

	Log *slog.Logger // slog.Default() if nil
}

// Work is the step.
type Work struct {
	c        Config
	fold     *Fold
	services map[string]Service // by D

	mu       sync.Mutex
	draining bool
	running  map[nostr.ID]context.CancelFunc
	signed   sync.Map // nostr.ID → guild.Verified, from signing to publishing
	talk     chan told

	discarding int // directories that are being removed
}

// New returns the step on its fold. The zero fields of its services get their defaults.
func New(c Config, f *Fold) *Work {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	w := &Work{c: c, fold: f, services: map[string]Service{}, running: map[nostr.ID]context.CancelFunc{},
		talk: make(chan told, 256)}
	for _, s := range c.Services {
		s = s.withDefaults()
		w.services[s.D] = s
	}
	return w
}

func (s Service) withDefaults() Service {
	s.D = cmp.Or(s.D, s.Task)
	s.Kind = cmp.Or(s.Kind, guild.KindOf(s.Task))
	s.Slots = cmp.Or(s.Slots, 2)
	s.Queue = cmp.Or(s.Queue, 32)
	s.Limit = cmp.Or(s.Limit, 30*time.Minute)
	return s
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

// service finds the service that a request is for.
func (w *Work) service(task string, kind int) (Service, bool) {
	for _, s := range w.services {
		if s.Task == task && s.Kind == kind {
			return s, true
		}
	}
	return Service{}, false
}

// Status is one service with what it is doing.
type Status struct {
	Service
	Running, Queued, Delivered, Failed int
}

// Services lists the services and what they are doing.
func (w *Work) Services() []Status {
	var all []Status
	for _, s := range w.c.Services {
		s = s.withDefaults()
		st := w.fold.counts(s.D)
		st.Service, st.Running = s, w.busy(s.D)
		st.Queued = max(0, st.Queued-st.Running)
		all = append(all, st)
	}
	return all
}

// busy is the number of requests to a service that a worker is on right now.
func (w *Work) busy(d string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for id := range w.running {
		if r, ok := w.fold.request(id); ok && r.Service == d {
			n++
		}
	}
	return n
}
