package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
	"guild/internal/step/agents"
	"guild/internal/step/partner"
	"guild/nip89"
)

// Provider is one known service: GET /v1/providers[?task=T].
type Provider struct {
	PubKey string `json:"pubkey"`
	Npub   string `json:"npub"`
	D      string `json:"d"`
	Name   string `json:"name"`
	State  string `json:"state"`
	Until  int64  `json:"until,omitempty"`

	Provisional bool `json:"provisional,omitempty"` // too few deliveries fix the state: unimportant work only

	// Encrypts says that it reads NIP-44. Recipient is its age key for credentials, if it announces one.
	Encrypts  bool   `json:"encrypts"`
	Recipient string `json:"age_recipient,omitempty"`

	Tasks      []string               `json:"tasks"`
	Kinds      []int                  `json:"kinds"`
	Seen       int64                  `json:"seen"`        // SeenMs in Unix s, deprecated
	SeenMs     int64                  `json:"seen_ms"`     // created_at of the announcement, Unix ms
	Trust      map[string]float64     `json:"trust"`       // TrustMicro in decimal form, deprecated
	TrustMicro map[string]guild.Trust `json:"trust_micro"` // by task

	Price           int64     `json:"price_msat,omitempty"` // of a job, as announced
	Slots           int       `json:"slots,omitempty"`      // jobs at a time, as announced
	Confidence      float64   `json:"confidence"`           // ConfidenceMicro in decimal form, deprecated
	ConfidenceMicro int64     `json:"confidence_micro"`     // that it does the task asked about: 1000000, 800000 or 600000
	Confirmed       bool      `json:"confirmed"`            // tags and content both name the kind asked about
	Recommended     int       `json:"recommended,omitempty"`
	Observed        *Observed `json:"observed,omitempty"` // absent when it was never asked
}

// Observed holds this node's measurements of a service. Times are in milliseconds.
type Observed struct {
	Since        int64    `json:"since"` // Unix ms: the first request
	Asked        int      `json:"asked"`
	Answered     int      `json:"answered"`
	Delivered    int      `json:"delivered"`
	Accepted     int      `json:"accepted"`
	Expired      int      `json:"expired"`
	Refused      int      `json:"refused"`
	Faults       int      `json:"faults"`
	SuccessRate  *float64 `json:"success_rate,omitempty"`       // SuccessMicro in decimal form, deprecated
	SuccessMicro *int64   `json:"success_rate_micro,omitempty"` // absent before the first end
	P50          int64    `json:"p50_ms"`
	P95          int64    `json:"p95_ms"`
	Quoted       int64    `json:"quoted_msat,omitempty"`
	Encrypted    int      `json:"encrypted"`
	InClear      int      `json:"in_clear"` // answers in clear to encrypted requests
	Kinds        []int    `json:"kinds"`
	Relays       []Path   `json:"relays"`
}

// Path counts the answers of a provider over one relay.
type Path struct {
	URL    string `json:"url"`
	Worked int    `json:"worked"`
	Lost   int    `json:"lost"`
}

func (s *Server) getProviders(r *http.Request) ([]Provider, error) {
	task := r.URL.Query().Get("task")
	kind := 0
	if task != "" {
		kind = s.c.Kind(task)
	}
	views := []Provider{}
	for o := range s.c.Registry.Offers(task, kind) {
		views = append(views, s.offer(o))
	}
	return views, nil
}

// offer shows one service.
func (s *Server) offer(o guild.Offer) Provider {
	view := Provider{
		PubKey: o.Service.PubKey.Hex(), Npub: nip19.EncodeNpub(o.Service.PubKey), D: o.Service.D, Name: o.Name,
		State: string(o.State), Until: o.Until, Provisional: o.Provisional, Tasks: o.Tasks, Kinds: o.Kinds, Seen: o.Announced, SeenMs: o.Announced * 1000,
		Encrypts: o.Encrypts, Recipient: o.Recipient, Price: int64(o.Price), Slots: o.Slots,
		Confidence: o.Confidence, ConfidenceMicro: micro(o.Confidence), Confirmed: o.Confirmed, Recommended: o.Recommended,
		Trust: map[string]float64{}, TrustMicro: map[string]guild.Trust{},
	}
	for task, t := range s.c.Trust.Of(o.Service) {
		view.Trust[task], view.TrustMicro[task] = t.Float(), t
	}
	if m, ok := s.c.Observed.Of(o.Service); ok {
		view.Observed = observed(m)
	}
	return view
}

// micro returns a fraction of 1 in millionths.
func micro(f float64) int64 { return int64(math.Round(f * guild.Micro)) }

func observed(m partner.Measured) *Observed {
	view := &Observed{
		Since: m.Since, Asked: m.Asked, Answered: m.Answered, Delivered: m.Delivered, Accepted: m.Accepted, Expired: m.Expired,
		Refused: m.Refused, Faults: m.Faults, P50: m.P50, P95: m.P95, Quoted: int64(m.Quoted),
		Encrypted: m.Encrypted, InClear: m.InClear, Kinds: m.Kinds, Relays: []Path{},
	}
	if rate, ok := m.SuccessRate(); ok {
		whole := micro(rate)
		view.SuccessRate, view.SuccessMicro = &rate, &whole
	}
	for _, path := range m.Relays {
		view.Relays = append(view.Relays, Path(path))
	}
	return view
}

// Card is one service in full: GET /v1/providers/{key}[?d=D], the key as hex, an npub, or the start of an npub.
type Card struct {
	Provider
	Display      string             `json:"display"` // the d tag for people, told apart from others' of the same form
	About        string             `json:"about,omitempty"`
	Version      string             `json:"version,omitempty"`
	Event        string             `json:"event"`      // id of the announcement
	FirstSeen    int64              `json:"first_seen"` // Unix ms
	SeenOn       []string           `json:"seen_on"`    // relays that it came from
	Recommenders []string           `json:"recommenders"`
	Owners       []agents.Ownership `json:"owners,omitempty"` // that its profile names (NIP-AE)
	Claimed      Claimed            `json:"claimed"`
	// Contradictions lists where its tags and its content differ, a sentence each.
	Contradictions []string `json:"contradictions"`
}

// Claimed holds the claims of an announcement. What it does not claim is absent.
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
	Behaviour     string   `json:"behaviour,omitempty"` // hash of its agent's behaviour (NIP-AE), as sha256:…
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

// getCards shows the services of a provider, named by its key or its npub, shortened or only begun.
func (s *Server) getCards(r *http.Request) ([]Card, error) {
	name, d := r.PathValue("key"), r.URL.Query().Get("d")
	key, err := s.keyStarting(name)
	if err != nil {
		return nil, err
	}
	cards, others := []Card{}, []string{}
	for _, o := range s.c.Registry.OffersOf(key, "", 0) {
		if d != "" && o.Service.D != nip89.CanonicalD(d) {
			others = append(others, strconv.Quote(guild.Cut(o.Service.D, 80)))
			continue
		}
		card, ok, err := s.c.Registry.Card(r.Context(), o.Service)
		if err != nil {
			return nil, err
		}
		if ok {
			view := s.card(o, card)
			view.Owners = s.owners(r.Context(), key)
			cards = append(cards, view)
		}
	}
	switch {
	case len(cards) > 0:
		return cards, nil
	case len(others) > 0:
		slices.Sort(others)
		return nil, missing("", fmt.Errorf("no service %.80q of %s; it has: %s", d, shortNpub(key), strings.Join(others, ", ")))
	}
	return nil, missing("guild market ls lists the providers", fmt.Errorf("no provider %.80q", name))
}

// owners returns the owners that the profile of a key names. A running node looks them up.
func (s *Server) owners(ctx context.Context, key nostr.PubKey) []agents.Ownership {
	if s.c.Agents == nil {
		return nil
	}
	if s.c.Jobs != nil {
		const patience = 3 * time.Second
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, _ = s.c.Agents.Verify(ctx, key) // if nothing answers, Ownership returns what was seen before
	}
	return s.c.Agents.Ownership(key)
}

func (s *Server) card(o guild.Offer, c registry.Card) Card {
	view := Card{
		Provider: s.offer(o), Display: c.Display, About: c.About, Version: c.Version, Event: c.ID.Hex(), FirstSeen: c.First,
		SeenOn: append([]string{}, c.From...), Recommenders: []string{}, Contradictions: append([]string{}, c.Contradictions...),
		Claimed: Claimed{
			SuccessRate: c.Stability.SuccessRate, LatencyMs: c.Stability.AvgLatencyMs, JobsCompleted: c.Stability.JobsCompleted,
			Price: int64(c.Price), PriceText: c.PriceText, Kinds: append([]int{}, c.Kinds...),
			Encryption: append([]string{}, c.Encryption...), Relays: append([]string{}, c.Relays...),
			SupplyClass: c.SupplyClass, Models: c.Models,
		},
	}
	if !c.Behaviour.IsZero() {
		view.Claimed.Behaviour = c.Behaviour.String()
	}
	if view.Claimed.LatencyMs == nil {
		view.Claimed.LatencyMs = c.Performance.TypicalLatencyMs
	}
	for _, key := range c.Recommenders {
		view.Recommenders = append(view.Recommenders, nip19.EncodeNpub(key))
	}
	return view
}

// watchMarket streams changes of providers until the client leaves: their announcements, and their states here.
func (s *Server) watchMarket(w http.ResponseWriter, r *http.Request) {
	lines := newStream(w)
	lines.flush.Flush()
	ctx, stop := context.WithCancelCause(r.Context())
	changes := make(chan Change)
	tell := func(c Change) bool {
		select {
		case changes <- c:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var sources sync.WaitGroup
	defer sources.Wait()
	defer stop(nil)
	sources.Go(func() { s.announced(ctx, tell); stop(nil) })
	sources.Go(func() { stop(s.moved(ctx, tell)) })
	for {
		select {
		case <-ctx.Done():
			err := context.Cause(ctx)
			if !errors.Is(err, context.Canceled) && !errors.Is(err, journal.ErrClosed) {
				lines.fail(err)
			}
			return
		case c := <-changes:
			if lines.out.Encode(c) != nil || lines.flush.Flush() != nil {
				return
			}
		}
	}
}

func (s *Server) announced(ctx context.Context, tell func(Change) bool) {
	for c := range s.c.Registry.Watch(ctx) {
		change := s.change(c.Service, c.At.UnixMilli(), string(c.What))
		change.Name = c.Name
		change.Text = cmp.Or(guild.Clean(c.Name), c.Service.D)
		if o, ok := s.c.Registry.Offer(c.Service); ok {
			change.Text += ": " + strings.Join(o.Tasks, ", ")
		}
		if c.Missed > 0 {
			change.Text += fmt.Sprintf(" (%d changes before it were too many to show)", c.Missed)
		}
		if !tell(change) {
			return
		}
	}
}

// moved returns an error if the journal cannot be read any more.
func (s *Server) moved(ctx context.Context, tell func(Change) bool) error {
	for e, err := range s.c.Journal.Watch(ctx, s.c.Journal.Last()+1) {
		if err != nil {
			return err
		}
		for _, f := range e.Facts {
			m, ok := f.(fact.ProviderMoved)
			if !ok {
				continue
			}
			change := s.change(m.Service, e.At, string(m.To))
			change.Name = s.c.Registry.Name(m.Service)
			change.Text = fmt.Sprintf("was %s: %s", m.From, m.Cause)
			if !tell(change) {
				return nil
			}
		}
	}
	return nil
}

func (s *Server) change(p guild.Service, at int64, event string) Change {
	return Change{At: at, Event: event, PubKey: p.PubKey.Hex(), Npub: nip19.EncodeNpub(p.PubKey), D: p.D}
}
