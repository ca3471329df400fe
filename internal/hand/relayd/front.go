package relayd

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"guild/internal/hand/dial"
)

// front decides who may speak to the relay at all. A page in the user's browser can reach loopback: by name,
// after its own name was rebound to 127.0.0.1, which shows in Host; or across origins, which shows in Origin.
type front struct {
	hosts   []string
	origins []string
}

// newFront lets in who names the loopback address that is listened on, or one of the usual names of loopback.
func newFront(listens net.Addr, c Config) front {
	f := front{hosts: lower(c.Hosts), origins: lower(c.Origins)}
	host, port, _ := net.SplitHostPort(listens.String()) // the listener wrote it
	names := []string{"127.0.0.1", "localhost", "::1"}
	if dial.IsLoopback(host) && !slices.Contains(names, host) {
		names = append(names, host)
	}
	for _, name := range names {
		at := net.JoinHostPort(name, port)
		f.hosts = append(f.hosts, at)
		f.origins = append(f.origins, "http://"+at, "https://"+at)
	}
	return f
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.ToLower(name)
	}
	return out
}

// refuses returns the status for a request that may not come in, or 0.
func (f front) refuses(r *http.Request) int {
	if !slices.Contains(f.hosts, strings.ToLower(r.Host)) {
		return http.StatusMisdirectedRequest
	}
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(f.origins, strings.ToLower(origin)) {
			return http.StatusForbidden
		}
	}
	return 0
}

// maxConnections are the requests and sessions served at one time.
const maxConnections = 512

// gate counts who is inside, so that the store is closed after the last one has left.
type gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	empty  sync.WaitGroup
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.inside == maxConnections {
		return false
	}
	g.inside++
	g.empty.Add(1)
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.empty.Done()
}

// close lets nobody in any more and waits for those inside.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.empty.Wait()
}

func (r *Relay) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if status := r.front.refuses(req); status != 0 {
			http.Error(w, http.StatusText(status), status)
			return
		}
		if !r.gate.enter() {
			http.Error(w, "too many connections", http.StatusServiceUnavailable)
			return
		}
		defer r.gate.leave()
		allowOrigin(w.Header(), req)
		r.route(w, req)
	})
}

// allowOrigin tells a browser what the front has already decided.
func allowOrigin(h http.Header, r *http.Request) {
	h.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, PUT, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-SHA-256")
		h.Set("Access-Control-Expose-Headers", "X-Reason")
	}
}

func (r *Relay) route(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	case req.URL.Path != "/":
		r.blobs.ServeHTTP(w, req)
	case strings.EqualFold(req.Header.Get("Upgrade"), "websocket"):
		r.serveSession(w, req)
	case strings.Contains(req.Header.Get("Accept"), "application/nostr+json"):
		r.describe(w)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "This is "+r.config.Name+", a Nostr relay. Connect with a Nostr client.\n")
	}
}

// description is the relay information document of NIP-11.
type description struct {
	Name          string     `json:"name"`
	Description   string     `json:"description"`
	SupportedNIPs []int      `json:"supported_nips"`
	Software      string     `json:"software"`
	Limitation    limitation `json:"limitation"`
}

type limitation struct {
	MaxMessageLength int  `json:"max_message_length"`
	MaxSubscriptions int  `json:"max_subscriptions"`
	MaxFilters       int  `json:"max_filters"`
	MaxLimit         int  `json:"max_limit"`
	DefaultLimit     int  `json:"default_limit"`
	MaxSubIDLength   int  `json:"max_subid_length"`
	AuthRequired     bool `json:"auth_required"`
}

func (r *Relay) describe(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/nostr+json")
	json.NewEncoder(w).Encode(description{
		Name:          r.config.Name,
		Description:   "the relay of a guild node",
		SupportedNIPs: []int{1, 9, 11, 40, 42, 45, 70},
		Software:      "guild",
		Limitation: limitation{
			MaxMessageLength: r.maxMessage(),
			MaxSubscriptions: maxSubscriptions,
			MaxFilters:       maxFilters,
			MaxLimit:         maxResults,
			DefaultLimit:     maxResults,
			MaxSubIDLength:   maxSubID,
			AuthRequired:     r.config.RequireAuth,
		},
	})
}

// maxMessage is one event and what stands around it.
func (r *Relay) maxMessage() int { return r.config.MaxEvent + 1024 }

// isHere reports whether the relay tag of a proof (NIP-42) means this relay.
func (r *Relay) isHere(relayURL string) bool {
	u, err := url.Parse(relayURL)
	return err == nil && u.Scheme == r.scheme("ws") && strings.Trim(u.Path, "/") == "" &&
		slices.Contains(r.front.hosts, strings.ToLower(u.Host))
}
