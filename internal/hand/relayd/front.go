package relayd

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// maxConnections bounds the requests and sessions at a time.
const maxConnections = 512

// connections counts the requests and sessions, so that the store is closed after the last one has ended.
type connections struct {
	mu     sync.Mutex
	open   int
	closed bool
	empty  sync.WaitGroup
}

func (c *connections) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.open == maxConnections {
		return false
	}
	c.open++
	c.empty.Add(1)
	return true
}

func (c *connections) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.empty.Done()
}

// close refuses new connections and waits for the end of the open ones.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.empty.Wait()
}

func (r *Relay) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if status := r.front.Refuses(req); status != 0 {
			http.Error(w, http.StatusText(status), status)
			return
		}
		if !r.connections.enter() {
			http.Error(w, "too many connections", http.StatusServiceUnavailable)
			return
		}
		defer r.connections.leave()
		allowOrigin(w.Header(), req)
		r.route(w, req)
	})
}

// allowOrigin adds the CORS headers. The front has checked the origin.
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

// maxMessage returns the largest message, an event and its envelope, in bytes.
func (r *Relay) maxMessage() int { return r.config.MaxEvent + 1024 }

// isHere reports whether the relay tag of a proof (NIP-42) names this relay.
func (r *Relay) isHere(relayURL string) bool {
	u, err := url.Parse(relayURL)
	return err == nil && u.Scheme == r.scheme("ws") && strings.Trim(u.Path, "/") == "" &&
		r.front.Leads(u)
}
