package control

import (
	"net/http"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/registry"
)

// Provider is one known service: GET /v1/providers[?task=T].
type Provider struct {
	PubKey string `json:"pubkey"`
	Npub   string `json:"npub"`
	D      string `json:"d"`
	Name   string `json:"name"`
	State  string `json:"state"`
	Until  int64  `json:"until,omitempty"`
	// Encrypts says that it reads NIP-44, Recipient whom of its to seal credentials for with age, if it announces that.
	Encrypts  bool   `json:"encrypts"`
	Recipient string `json:"age_recipient,omitempty"`

	Tasks []string           `json:"tasks"`
	Kinds []int              `json:"kinds"`
	Seen  int64              `json:"seen"`  // created_at of the announcement, Unix s
	Trust map[string]float64 `json:"trust"` // task → trust

	Price       int64     `json:"price_msat,omitempty"` // of a job, as announced
	Slots       int       `json:"slots,omitempty"`      // jobs at a time, as announced
	Confidence  float64   `json:"confidence"`           // that it does the task asked about: 1, 0.8 or 0.6
	Confirmed   bool      `json:"confirmed"`            // tags and content both name the kind asked about
	Recommended int       `json:"recommended,omitempty"`
	Observed    *Observed `json:"observed,omitempty"` // absent when it was never asked
}

// Observed is what this node has measured of a service. Times are in milliseconds.
type Observed struct {
	Since       int64    `json:"since"` // Unix ms: the first request
	Asked       int      `json:"asked"`
	Answered    int      `json:"answered"`
	Delivered   int      `json:"delivered"`
	Accepted    int      `json:"accepted"`
	Expired     int      `json:"expired"`
	Refused     int      `json:"refused"`
	Faults      int      `json:"faults"`
	SuccessRate *float64 `json:"success_rate,omitempty"` // 0 to 1; absent before the first end
	P50         int64    `json:"p50_ms"`
	P95         int64    `json:"p95_ms"`
	Quoted      int64    `json:"quoted_msat,omitempty"`
	Encrypted   int      `json:"encrypted"`
	InClear     int      `json:"in_clear"` // answers in clear to encrypted requests
	Kinds       []int    `json:"kinds"`
	Relays      []Path   `json:"relays"`
}

// Path is how well a provider was reached over one relay.
type Path struct {
	URL    string `json:"url"`
	Worked int    `json:"worked"`
	Lost   int    `json:"lost"`
}

func (s *Server) getProviders(w http.ResponseWriter, r *http.Request) {
	task := r.URL.Query().Get("task")
	kind := 0
	if task != "" {
		kind = s.c.Kind(task)
	}
	views := []Provider{}
	for _, o := range s.c.Registry.Offers(task, kind) {
		views = append(views, s.offer(o))
	}
	answer(w, views)
}

// offer shows one service.
func (s *Server) offer(o guild.Offer) Provider {
	view := Provider{
		PubKey: o.Service.PubKey.Hex(), Npub: nip19.EncodeNpub(o.Service.PubKey), D: o.Service.D, Name: o.Name,
		State: string(o.State), Until: o.Until, Tasks: o.Tasks, Kinds: o.Kinds, Seen: o.Announced,
		Encrypts: o.Encrypts, Recipient: o.Recipient, Price: int64(o.Price), Slots: o.Slots,
		Confidence: o.Confidence, Confirmed: o.Confirmed, Recommended: o.Recommended,
		Trust: map[string]float64{},
	}
	for task, t := range s.c.Trust.Of(o.Service) {
		view.Trust[task] = t.Float()
	}
	if m, ok := s.c.Observed.Of(o.Service); ok {
		view.Observed = observed(m)
	}
	return view
}

func observed(m registry.Measured) *Observed {
	view := &Observed{
		Since: m.Since, Asked: m.Asked, Answered: m.Answered, Delivered: m.Delivered, Accepted: m.Accepted, Expired: m.Expired,
		Refused: m.Refused, Faults: m.Faults, P50: m.P50, P95: m.P95, Quoted: int64(m.Quoted),
		Encrypted: m.Encrypted, InClear: m.InClear, Kinds: m.Kinds, Relays: []Path{},
	}
	if rate, ok := m.SuccessRate(); ok {
		view.SuccessRate = &rate
	}
	for _, path := range m.Relays {
		view.Relays = append(view.Relays, Path(path))
	}
	return view
}

// Card is one service in full: GET /v1/providers/{key}[?d=D], the key as hex, an npub, or the start of an npub.
type Card struct {
	Provider
	Display      string   `json:"display"` // the d tag for people, told apart from others' of the same form
	About        string   `json:"about,omitempty"`
	Version      string   `json:"version,omitempty"`
	Event        string   `json:"event"`      // id of the announcement
	FirstSeen    int64    `json:"first_seen"` // Unix ms
	SeenOn       []string `json:"seen_on"`    // relays that it came from
	Recommenders []string `json:"recommenders"`
	Claimed      Claimed  `json:"claimed"`
	// Contradictions is what its tags and its content say differently, a sentence each.
	Contradictions []string `json:"contradictions"`
}

// Claimed is what an announcement says. What it does not say is absent.
type Claimed struct {
	SuccessRate   *float64 `json:"success_rate,omitempty"` // 0 to 1
	LatencyMs     *float64 `json:"latency_ms,omitempty"`
	JobsCompleted *float64 `json:"jobs_completed,omitempty"`
	Price         int64    `json:"price_msat,omitempty"`
	PriceText     string   `json:"price_text,omitempty"`
	Kinds         []int    `json:"kinds"`
	Encryption    []string `json:"encryption"`
	Relays        []string `json:"relays"`
	SupplyClass   string   `json:"supply_class,omitempty"`
	Models        []string `json:"models,omitempty"`
}

// Change is one line of GET /v1/market/watch (application/x-ndjson): something about a provider is new.
type Change struct {
	At     int64  `json:"at"`    // Unix ms
	Event  string `json:"event"` // announced, updated, retracted, or the state that it moved to
	PubKey string `json:"pubkey"`
	Npub   string `json:"npub"`
	D      string `json:"d"`
	Name   string `json:"name,omitempty"`
	Text   string `json:"text"` // for a person, one line
}
