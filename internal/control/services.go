package control

import (
	"errors"
	"fmt"
	"net/http"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/step/work"
)

// Service is one service that this node offers: GET /v1/services lists them, GET /v1/services/{d} shows one. POST
// /v1/services/{d}/pause, /resume and /drain answer it as it is then. /v1/status has the first fields alone.
type Service struct {
	Task    string `json:"task"`
	D       string `json:"d"`
	State   string `json:"state"` // open, paused or draining
	Running int    `json:"running"`
	Queued  int    `json:"queued"`
	Unpaid  int    `json:"unpaid,omitempty"` // requests that wait for their price
	Slots   int    `json:"slots"`
	Done    int    `json:"done"`
	Failed  int    `json:"failed"`
	Network string `json:"network"` // of its command: none or full
	Walls   string `json:"sandbox"` // the tier, or none

	Settings     *ServiceSettings `json:"settings,omitempty"`
	Customers    []Customer       `json:"customers,omitempty"`     // that are served or wait, the next one first
	Success      *float64         `json:"success,omitempty"`       // SuccessMicro in decimal form, deprecated
	SuccessMicro *int64           `json:"success_micro,omitempty"` // delivered of all that is finished
	LatencyMs    int64            `json:"latency_ms,omitempty"`
}

// ServiceSettings is the configuration of a service, with defaults filled in.
type ServiceSettings struct {
	Tasks     []string    `json:"tasks"`
	Kinds     []int       `json:"kinds"`
	Name      string      `json:"name,omitempty"`
	About     string      `json:"about,omitempty"`
	Schema    string      `json:"schema,omitempty"`
	Open      bool        `json:"open"` // for requests that name nobody
	Queue     int         `json:"queue"`
	Each      int         `json:"each"` // unfinished requests of one customer
	TimeLimit int64       `json:"time_limit_ms"`
	Price     int64       `json:"price_msat"`
	Unit      string      `json:"price_unit"`           // of ecash; of one that is not bitcoin, the price is in its thousandths
	PriceText string      `json:"price_text,omitempty"` // of a price by usage, for people
	Rates     *Rates      `json:"rates,omitempty"`      // of a price by usage, of which Price is the most
	Allow     []string    `json:"allow"`                // npubs; everybody if empty
	Judges    []string    `json:"judges"`               // npubs whose rulings on escrow are accepted
	MinBid    int64       `json:"min_bid_msat"`
	PoW       int         `json:"pow"`
	PerMinute int         `json:"per_minute"`
	Prepaid   guild.Trust `json:"prepaid_below_micro"` // score of a customer below which it pays before the work
}

// Rates is a price by usage. It is in thousandths of the unit; of sat and msat in millisatoshis.
type Rates struct {
	Price     int64 `json:"price_msat"` // the fixed part
	Per1k     int64 `json:"per_1k_tokens_msat"`
	PerMinute int64 `json:"per_minute_msat"`
}

// Customer counts the requests of one customer at a service now.
type Customer struct {
	Npub    string `json:"npub"`
	Running int    `json:"running"`
	Queued  int    `json:"queued"`
}

// ServiceLine shows a service as /v1/status has it.
func ServiceLine(st work.Status) Service {
	return Service{
		Task: st.Task, D: st.D, State: string(st.State), Running: st.Running, Queued: st.Queued, Unpaid: st.Unpaid, Slots: st.Slots,
		Done: st.Delivered, Failed: st.Failed, Network: string(st.Network), Walls: st.Walls,
	}
}

// service shows all of a service.
func service(st work.Status) Service {
	view := ServiceLine(st)
	view.Settings = &ServiceSettings{
		Tasks: st.Tasks, Kinds: st.Kinds, Name: st.Name, About: st.About, Schema: st.Schema, Open: st.Open, Queue: st.Queue,
		Each: st.Terms.Each, TimeLimit: st.Limit.Milliseconds(), Price: int64(st.Price), Unit: st.Unit, Allow: npubs(st.Terms.Allow), Judges: npubs(st.Terms.Judges),
		MinBid: int64(st.Terms.MinBid), PoW: st.Terms.PoW, PerMinute: st.Terms.PerMinute, Prepaid: st.Terms.Prepaid,
	}
	if r := st.Rates; r != nil {
		view.Settings.PriceText = st.PriceText()
		view.Settings.Rates = &Rates{Price: int64(r.Price), Per1k: int64(r.Per1kTokens), PerMinute: int64(r.PerMinute)}
	}
	view.LatencyMs = st.Latency.Milliseconds()
	if success, any := st.Success(); any {
		whole := micro(success)
		view.Success, view.SuccessMicro = &success, &whole
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

func (s *Server) getServices(*http.Request) ([]Service, error) {
	views := []Service{}
	for _, st := range s.c.Work.Services() {
		views = append(views, service(st))
	}
	return views, nil
}

func (s *Server) getService(r *http.Request) (Service, error) { return s.namedService(r, nil) }

func (s *Server) pauseService(r *http.Request) (Service, error) {
	return s.namedService(r, s.c.Work.Pause(r.Context(), r.PathValue("d"), false))
}

func (s *Server) drainService(r *http.Request) (Service, error) {
	return s.namedService(r, s.c.Work.Pause(r.Context(), r.PathValue("d"), true))
}

func (s *Server) resumeService(r *http.Request) (Service, error) {
	return s.namedService(r, s.c.Work.Resume(r.Context(), r.PathValue("d")))
}

// namedService returns the service that the path names, unless pausing or resuming it failed with err.
func (s *Server) namedService(r *http.Request, err error) (Service, error) {
	d := r.PathValue("d")
	if err == nil {
		for _, st := range s.c.Work.Services() {
			if st.D == d {
				return service(st), nil
			}
		}
		err = fmt.Errorf("%.80q: %w", d, work.ErrNoService)
	}
	if errors.Is(err, work.ErrNoService) {
		err = missing("guild work ls lists the services", err)
	}
	return Service{}, err
}
