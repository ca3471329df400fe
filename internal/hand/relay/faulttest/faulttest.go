// Package faulttest is a relay for tests that cannot be trusted. It forwards messages to and from a real relay, and loses,
// delays, repeats, forges, refuses and lies, each with a probability. Its decisions are drawn from a seed: the n-th
// connection draws the same ones for its messages, in their order, in each run. It has no key but those of strangers.
package faulttest

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/hand/key"
)

// Fault is one thing that a relay does wrong, or that strangers do through it.
type Fault string

// The faults. Each is drawn for each message.
const (
	Drop       Fault = "drop"          // an EVENT, in either direction, an OK, an EOSE or a CLOSED is lost
	Delay      Fault = "delay"         // a message, and all behind it, come up to 50 ms late
	Duplicate  Fault = "duplicate"     // a message comes twice
	Reorder    Fault = "reorder"       // a message is overtaken by others
	Forge      Fault = "forge"         // before an event come copies with a wrong id and with broken signatures
	Strangers  Fault = "strangers"     // others answer, copy and delete events that are not theirs, with their own key
	Unasked    Fault = "unasked"       // an event comes that no subscription asked for, or once more
	Ignore     Fault = "ignore limits" // since, until and limit of a subscription are ignored
	Withhold   Fault = "withhold"      // a stored event is not among those sent
	Refuse     Fault = "refuse"        // an event is not taken: "blocked:" or "rate-limited:"
	Deny       Fault = "deny"          // an event is taken, and the OK says that it was not
	Pretend    Fault = "pretend"       // an event is not taken, and the OK says that it was
	Disconnect Fault = "disconnect"    // the connection ends
	Cut        Fault = "cut"           // the connection ends in the middle of a message
	Auth       Fault = "auth"          // a connection must authenticate (NIP-42) before anything else
	Garbage    Fault = "garbage"       // a malformed or oversized message comes in between
)

// All lists the faults.
func All() []Fault {
	return []Fault{Drop, Delay, Duplicate, Reorder, Forge, Strangers, Unasked, Ignore, Withhold, Refuse, Deny,
		Pretend, Disconnect, Cut, Auth, Garbage}
}

// Mix gives faults their probabilities, 0 to 1.
type Mix map[Fault]float64

// Relay is a running fault relay.
type Relay struct {
	url     string
	backend string // ws://host:port of the real relay
	seed    uint64
	unsure  *key.Signer // the strangers' key

	mu        sync.Mutex
	mix       Mix
	serial    uint64
	sessions  map[*session]bool
	committed map[Fault]int
	heard     []nostr.Event // the latest that were published through us
}

// remembered bounds the published events that are kept, to be sent to clients that did not ask.
const remembered = 200

// Start runs a fault relay in front of a real one until the test ends. It commits no fault before Set.
func Start(t testing.TB, backend string, seed uint64) *Relay {
	t.Helper()
	r := &Relay{
		backend: backend, seed: seed, unsure: key.NewSigner(key.NewSecret(nostr.Generate())),
		sessions: map[*session]bool{}, committed: map[Fault]int{},
	}
	real, err := url.Parse("http" + strings.TrimPrefix(backend, "ws"))
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(real) }}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") == "" {
			pass.ServeHTTP(w, req) // blobs, and the relay information document
			return
		}
		r.serve(w, req)
	}))
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, below{}, c)
	}
	server.Start()
	r.url = "ws" + strings.TrimPrefix(server.URL, "http")
	t.Cleanup(func() {
		r.hangUp()
		server.CloseClientConnections()
		server.Close()
	})
	return r
}

// below finds the connection below a websocket.
type below struct{}

// URL returns the relay's address, ws://host:port.
func (r *Relay) URL() string { return r.url }

// Set sets the faults. It ends all connections, so that clients subscribe again.
func (r *Relay) Set(m Mix) {
	r.mu.Lock()
	r.mix = maps.Clone(m)
	r.mu.Unlock()
	r.hangUp()
}

// Heal ends all faults. Connections stay.
func (r *Relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mix = nil
}

// Committed counts how often each fault was committed.
func (r *Relay) Committed() map[Fault]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.committed)
}

func (r *Relay) hangUp() {
	r.mu.Lock()
	sessions := maps.Clone(r.sessions)
	r.mu.Unlock()
	for s := range sessions {
		s.hangUp()
	}
}

func (r *Relay) probability(f Fault) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mix[f]
}

func (r *Relay) commit(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed[f]++
}

// hear remembers an event.
func (r *Relay) hear(e nostr.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.heard) == remembered {
		r.heard = r.heard[1:]
	}
	r.heard = append(r.heard, e)
}

// recall returns one of the remembered events, by any number.
func (r *Relay) recall(n int) (e nostr.Event, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.heard) == 0 {
		return nostr.Event{}, false
	}
	return r.heard[n%len(r.heard)], true
}
