package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild/internal/work"
)

// Service is one service that this node offers: GET /v1/services lists them, GET /v1/services/{d} shows one. POST
// /v1/services/{d}/pause, /resume and /drain answer it as it is then. /v1/status has the first fields alone.
type Service struct {
	Task    string `json:"task"`
	D       string `json:"d"`
	State   string `json:"state"` // open, paused or draining
	Running int    `json:"running"`
	Queued  int    `json:"queued"`
	Slots   int    `json:"slots"`
	Done    int    `json:"done"`
	Failed  int    `json:"failed"`
	Network string `json:"network"` // what its command reaches: none or full
	Walls   string `json:"sandbox"` // the tier, or none

	Settings  *ServiceSettings `json:"settings,omitempty"`
	Customers []Customer       `json:"customers,omitempty"` // who is served or waits, the next one first
	Success   *float64         `json:"success,omitempty"`   // delivered of all that is finished, from 0 to 1
	LatencyMs int64            `json:"latency_ms,omitempty"`
}

// ServiceSettings is how a service is configured, with its defaults.
type ServiceSettings struct {
	Tasks     []string `json:"tasks"`
	Kinds     []int    `json:"kinds"`
	Name      string   `json:"name,omitempty"`
	About     string   `json:"about,omitempty"`
	Schema    string   `json:"schema,omitempty"`
	Open      bool     `json:"open"` // for requests that name nobody
	Queue     int      `json:"queue"`
	Each      int      `json:"each"` // unfinished requests of one customer
	TimeLimit int64    `json:"time_limit_ms"`
	Price     int64    `json:"price_msat"`
	Allow     []string `json:"allow"` // npubs; everybody if empty
	MinBid    int64    `json:"min_bid_msat"`
	PoW       int      `json:"pow"`
	PerMinute int      `json:"per_minute"`
}

// Customer is what a service does for one customer right now.
type Customer struct {
	Npub    string `json:"npub"`
	Running int    `json:"running"`
	Queued  int    `json:"queued"`
}

// ServiceLine shows a service as /v1/status has it.
func ServiceLine(st work.Status) Service {
	return Service{
		Task: st.Task, D: st.D, State: string(st.State), Running: st.Running, Queued: st.Queued, Slots: st.Slots,
		Done: st.Delivered, Failed: st.Failed, Network: string(st.Network), Walls: st.Walls,
	}
}

// service shows all of a service.
func service(st work.Status) Service {
	view := ServiceLine(st)
	view.Settings = &ServiceSettings{
		Tasks: st.Tasks, Kinds: st.Kinds, Name: st.Name, About: st.About, Schema: st.Schema, Open: st.Open, Queue: st.Queue,
		Each: st.Terms.Each, TimeLimit: st.Limit.Milliseconds(), Price: int64(st.Price), Allow: npubs(st.Terms.Allow),
		MinBid: int64(st.Terms.MinBid), PoW: st.Terms.PoW, PerMinute: st.Terms.PerMinute,
	}
	view.LatencyMs = st.Latency.Milliseconds()
	if success, any := st.Success(); any {
		view.Success = &success
	}
	for _, c := range st.Customers {
		view.Customers = append(view.Customers, Customer{nip19.EncodeNpub(c.PubKey), c.Running, c.Queued})
	}
	return view
}

func npubs(keys []nostr.PubKey) []string {
	all := []string{}
	for _, p := range keys {
		all = append(all, nip19.EncodeNpub(p))
	}
	return all
}

// serveServices adds the routes of what this node offers.
func (s *Server) serveServices() {
	s.mux.HandleFunc("GET /v1/services", s.getServices)
	s.mux.HandleFunc("GET /v1/services/{d}", s.getService)
	s.mux.HandleFunc("POST /v1/services/{d}/pause", s.turnService(func(ctx context.Context, d string) error {
		return s.c.Work.Pause(ctx, d, false)
	}))
	s.mux.HandleFunc("POST /v1/services/{d}/drain", s.turnService(func(ctx context.Context, d string) error {
		return s.c.Work.Pause(ctx, d, true)
	}))
	s.mux.HandleFunc("POST /v1/services/{d}/resume", s.turnService(func(ctx context.Context, d string) error {
		return s.c.Work.Resume(ctx, d)
	}))
}

func (s *Server) getServices(w http.ResponseWriter, _ *http.Request) {
	views := []Service{}
	for _, st := range s.c.Work.Services() {
		views = append(views, service(st))
	}
	answer(w, views)
}

func (s *Server) getService(w http.ResponseWriter, r *http.Request) {
	for _, st := range s.c.Work.Services() {
		if st.D == r.PathValue("d") {
			answer(w, service(st))
			return
		}
	}
	refuseService(w, fmt.Errorf("%.80q: %w", r.PathValue("d"), work.ErrNoService))
}

// turnService answers a request to pause, resume or drain a service.
func (s *Server) turnService(turn func(ctx context.Context, d string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := turn(r.Context(), r.PathValue("d")); err != nil {
			refuseService(w, err)
			return
		}
		s.getService(w, r)
	}
}

func refuseService(w http.ResponseWriter, err error) {
	if errors.Is(err, work.ErrNoService) {
		refuse(w, http.StatusNotFound, "missing", "guild work ls lists the services", err)
		return
	}
	fail(w, err)
}

// Services is GET /v1/services: what the node offers, in the order of its configuration.
func (c *Client) Services(ctx context.Context) ([]Service, error) {
	return get[[]Service](ctx, c, "/v1/services", nil)
}

// Service is GET /v1/services/{d}.
func (c *Client) Service(ctx context.Context, d string) (Service, error) {
	return get[Service](ctx, c, servicePath(d), nil)
}

// PauseService is POST /v1/services/{d}/pause: nothing new is taken, and what waits, waits on.
func (c *Client) PauseService(ctx context.Context, d string) (Service, error) {
	return call[Service](ctx, c, http.MethodPost, servicePath(d)+"/pause", nil, nil)
}

// DrainService is POST /v1/services/{d}/drain: nothing new is taken, and what waits is done.
func (c *Client) DrainService(ctx context.Context, d string) (Service, error) {
	return call[Service](ctx, c, http.MethodPost, servicePath(d)+"/drain", nil, nil)
}

// ResumeService is POST /v1/services/{d}/resume.
func (c *Client) ResumeService(ctx context.Context, d string) (Service, error) {
	return call[Service](ctx, c, http.MethodPost, servicePath(d)+"/resume", nil, nil)
}

func servicePath(d string) string { return "/v1/services/" + url.PathEscape(d) }
