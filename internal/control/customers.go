package control

import (
	"net/http"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/step/work"
)

// KnownCustomer is one customer as this node, as a provider, knows it: GET /v1/customers, the latest first.
type KnownCustomer struct {
	Npub  string      `json:"npub"`
	Score float64     `json:"score"`       // Micro in decimal form, deprecated
	Micro guild.Trust `json:"score_micro"` // 500000 is a stranger's
	work.Known
}

func (s *Server) getCustomers(*http.Request) ([]KnownCustomer, error) {
	all := []KnownCustomer{}
	for _, known := range s.c.Customers.All() {
		key, err := nostr.PubKeyFromHex(known.PubKey)
		if err != nil {
			continue // only keys are counted
		}
		score := s.c.Customers.Score(known.Standing, 0)
		all = append(all, KnownCustomer{Npub: nip19.EncodeNpub(key), Score: score.Float(), Micro: score, Known: known})
	}
	return all, nil
}
