package control

import (
	"fmt"
	"net/http"
	"strings"

	"fiatjaf.com/nostr/nip19"

	"guild/internal/hand/mintd"
	"guild/internal/step/pay"
)

// Case is a provider's objection to what it gets of locked money, on which this node rules: an element of the answer to GET
// /v1/wallet/cases, and the answer to POST /v1/wallet/rule. All amounts are in the unit.
type Case struct {
	Case     string  `json:"case"` // the request's id
	At       int64   `json:"at_ms"`
	Provider string  `json:"provider"` // npub
	Customer string  `json:"customer"` // npub
	Amount   uint64  `json:"amount"`   // that is locked
	Released uint64  `json:"released"` // of it by the customer, the provider says
	Unit     string  `json:"unit"`
	Mint     string  `json:"mint"`
	Until    int64   `json:"until"`  // Unix ms: the locktime, after which the customer has the rest
	Reason   string  `json:"reason"` // the provider's
	Ruling   *Ruling `json:"ruling,omitempty"`

	Worthless bool `json:"worthless,omitempty"` // play money
}

// Ruling is a decision on a case: the body of POST /v1/wallet/rule.
type Ruling struct {
	Case   string `json:"case,omitempty"` // the beginning is enough if it is unique
	Amount uint64 `json:"amount"`         // that the provider gets of what is locked
	Unit   string `json:"unit"`
	Reason string `json:"reason,omitempty"` // both are told
	Sent   bool   `json:"sent,omitempty"`   // of an answer: both have been told
}

// PaymentObjection is the body of POST /v1/wallet/ask.
type PaymentObjection struct {
	Request string `json:"request"` // the beginning is enough if it is unique
	Reason  string `json:"reason"`
}

// ArbiterOffer is the body of POST /v1/wallet/arbiter, and its answer.
type ArbiterOffer struct {
	Off  bool   `json:"off"`            // the offer is taken back
	Npub string `json:"npub,omitempty"` // of an answer: what customers name
	Key  string `json:"key,omitempty"`  // of an answer: the third key of the locks, in hex
}

func (s *Server) postArbiter(r *http.Request, o ArbiterOffer) (ArbiterOffer, error) {
	offer, err := s.c.Pay.Announce(r.Context(), o.Off)
	if err != nil {
		return o, fmt.Errorf("announce that this node rules: %w", err)
	}
	o.Npub, o.Key = nip19.EncodeNpub(offer.PubKey), ""
	if !o.Off {
		o.Key = offer.Key.String()
	}
	return o, nil
}

func (s *Server) getCases(*http.Request) ([]Case, error) {
	all := []Case{}
	for _, c := range s.c.Pay.Cases() {
		all = append(all, shownCase(c))
	}
	return all, nil
}

func shownCase(c pay.Case) Case {
	shown := Case{
		Case: c.Request.Hex(), At: c.At.UnixMilli(), Provider: nip19.EncodeNpub(c.Provider), Customer: nip19.EncodeNpub(c.Customer),
		Amount: c.Total, Released: c.Released, Unit: c.Unit, Mint: c.Mint, Until: c.Locktime * 1000, Reason: c.Reason,
		Worthless: c.Unit == mintd.Unit,
	}
	if c.Ruled != nil {
		shown.Ruling = &Ruling{Amount: c.Ruled.Amount, Unit: c.Unit, Reason: c.Ruled.Reason, Sent: c.Sent}
	}
	return shown
}

func (s *Server) postRuling(r *http.Request, ruling Ruling) (Case, error) {
	const hint = "guild wallet judge cases lists what waits for you"
	c, err := one(s.c.Pay.Cases(), ruling.Case, func(c pay.Case) string { return c.Request.Hex() }, hint)
	switch {
	case err != nil:
		return Case{}, err
	case c.Unit != ruling.Unit:
		return Case{}, wrongUsage(hint, fmt.Errorf("%d %s: the money is in %s", ruling.Amount, ruling.Unit, c.Unit))
	}
	if err := s.c.Pay.Rule(r.Context(), c.Request, ruling.Amount, ruling.Reason); err != nil {
		return Case{}, refused(hint, err)
	}
	now, err := one(s.c.Pay.Cases(), c.Request.Hex(), func(c pay.Case) string { return c.Request.Hex() }, hint)
	return shownCase(now), err
}

func (s *Server) postAskArbiter(r *http.Request, o PaymentObjection) (Payment, error) {
	const hint = "guild wallet owed lists what customers have locked"
	owed, err := one(s.c.Pay.Owed(), o.Request, func(p pay.Open) string { return p.ID.Hex() }, hint)
	if err != nil {
		return Payment{}, err
	}
	if err := s.c.Pay.Object(r.Context(), owed.ID, o.Reason); err != nil {
		return Payment{}, refused(hint, err)
	}
	return shownPayment(owed), nil
}

// one returns the only element whose name begins so.
func one[T any](all []T, begin string, name func(T) string, hint string) (found T, err error) {
	n := 0
	for _, each := range all {
		if begin != "" && strings.HasPrefix(name(each), strings.ToLower(begin)) {
			found, n = each, n+1
		}
	}
	switch n {
	case 0:
		return found, missing(hint, fmt.Errorf("there is no money to decide on for %.64q", begin))
	case 1:
		return found, nil
	}
	return found, wrongUsage(hint, fmt.Errorf("%.64q is the beginning of %d: write more of it", begin, n))
}
