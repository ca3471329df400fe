package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/market/registry"
	"guild/nip89"
)

// Recommend is the body of POST /v1/recommendations: a provider that the owner of this node recommends to all.
type Recommend struct {
	Provider string  `json:"provider"`       // npub, also shortened as lists show it, or hex
	D        *string `json:"d,omitempty"`    // of its service; the only one that fits when absent
	Task     string  `json:"task,omitempty"` // for the kind of this task; for all kinds that it takes when there is neither
	Kind     int     `json:"kind,omitempty"` // for this kind of request
}

// Recommendation is one recommendation (NIP-89, kind 31989) that was published. POST /v1/recommendations answers with a
// list of them, one for each kind of request.
type Recommendation struct {
	Event  string `json:"event"` // id
	Kind   int    `json:"kind"`  // of requests
	Npub   string `json:"npub"`
	PubKey string `json:"pubkey"`
	D      string `json:"d"`
	Name   string `json:"name,omitempty"`
	Others int    `json:"others"` // announcements that the owner recommends for the same kind beside this one
}

// postRecommendation recommends a service that was announced: a recommendation names its announcement.
func (s *Server) postRecommendation(r *http.Request, asked Recommend) ([]Recommendation, error) {
	card, err := s.recommended(r.Context(), asked)
	if err != nil {
		return nil, err
	}
	all := []Recommendation{}
	for _, kind := range s.kindsFor(asked, card) {
		event, others, err := s.c.Recommend(r.Context(), kind, nip89.Recommended{PubKey: card.PubKey, D: card.D, Relay: first(card.Relays)})
		if err != nil {
			err = fmt.Errorf("recommendation for kind %d: %w", kind, err)
			return nil, &refusal{error: err, status: http.StatusBadGateway, code: "unpublished", hint: "guild status shows the relays"}
		}
		all = append(all, Recommendation{
			Event: event.Hex(), Kind: kind, Npub: nip19.EncodeNpub(card.PubKey), PubKey: card.PubKey.Hex(), D: card.D, Name: card.Name, Others: others,
		})
	}
	return all, nil
}

// recommended finds the service that a request names.
func (s *Server) recommended(ctx context.Context, asked Recommend) (registry.Card, error) {
	if asked.Kind != 0 && (asked.Kind < 5000 || asked.Kind > 5999) {
		return registry.Card{}, wrongUsage("", fmt.Errorf("kind %d is not a job request (5000 to 5999)", asked.Kind))
	}
	key, err := s.keyNamed(asked.Provider)
	if err != nil {
		return registry.Card{}, err
	}
	var found []guild.Offer
	var ds []string
	for o := range s.c.Registry.Offers(asked.Task, asked.Kind) {
		if o.Service.PubKey != key || asked.D != nil && o.Service.D != nip89.CanonicalD(*asked.D) ||
			asked.Kind != 0 && !slices.Contains(o.Kinds, asked.Kind) {
			continue
		}
		found, ds = append(found, o), append(ds, strconv.Quote(o.Service.D))
	}
	if len(found) == 0 {
		what := fmt.Sprintf("no service of %.80q is known", asked.Provider)
		if asked.Task != "" || asked.Kind != 0 || asked.D != nil {
			what += " that fits"
		}
		return registry.Card{}, missing("guild market ls lists what is announced", errors.New(what))
	}
	if len(found) > 1 {
		slices.Sort(ds)
		return registry.Card{}, ambiguous("say which with --d: "+strings.Join(slices.Compact(ds), ", "),
			fmt.Errorf("%d services of %.80q fit", len(found), asked.Provider))
	}
	card, ok, err := s.c.Registry.Card(ctx, found[0].Service)
	if err == nil && !ok {
		err = missing("", errors.New("the announcement was just taken back"))
	}
	return card, err
}

// kindsFor returns the kinds of requests for which a service is recommended: the given one, else all that it announces.
func (s *Server) kindsFor(asked Recommend, card registry.Card) []int {
	if asked.Kind != 0 {
		return []int{asked.Kind}
	}
	const most = 16
	var kinds []int
	for _, kind := range card.Kinds {
		if kind >= 5000 && kind <= 5999 && len(kinds) < most {
			kinds = append(kinds, kind)
		}
	}
	if usual := s.c.Kind(asked.Task); asked.Task != "" && (len(kinds) == 0 || slices.Contains(kinds, usual)) {
		return []int{usual}
	}
	return kinds
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}
