package control

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// Request is a request for this node to work on, and its result.
type Request struct {
	Request  string     `json:"request"`  // id of the event, hex
	Customer string     `json:"customer"` // npub
	Task     string     `json:"task"`
	Service  string     `json:"service"` // our announcement's d
	Job      string     `json:"job,omitempty"`
	At       int64      `json:"at"`                  // Unix ms when it came
	Ended    int64      `json:"ended,omitempty"`     // Unix ms
	Ending   string     `json:"ending,omitempty"`    // delivered, refused or failed; empty while it is not finished
	Reason   string     `json:"reason,omitempty"`    // why nothing was delivered
	Bundle   guild.Hash `json:"bundle,omitzero"`     // blob
	Delivery guild.Hash `json:"delivery,omitzero"`   // blob
	Replay   guild.Hash `json:"replay,omitzero"`     // blob: REPLAY.jsonl of the worker's session
	Session  guild.Hash `json:"session,omitzero"`    // blob: its RECEIPT.json
	Taken    bool       `json:"taken_back,omitzero"` // the customer did not want it any more

	Locked *Payment      `json:"locked,omitempty"` // for it, and not ours yet
	Payout *nip90.Payout `json:"payout,omitempty"` // that the order promises by its verdict; nil if it does not say
}

func (s *Server) getRequestReplay(r *http.Request) ([]byte, error) {
	v, err := s.getRequest(r)
	return s.ofSession(v, v.Replay, err)
}

func (s *Server) getRequestSession(r *http.Request) ([]byte, error) {
	v, err := s.getRequest(r)
	return s.ofSession(v, v.Session, err)
}

func (s *Server) getRequestDelivery(r *http.Request) ([]byte, error) {
	v, err := s.getRequest(r)
	if err != nil {
		return nil, err
	}
	if v.Delivery.IsZero() {
		return nil, missing("guild work show REQUEST says how it ended", fmt.Errorf("nothing was delivered for request %.8s", v.Request))
	}
	packed, err := s.c.Blobs.ReadAll(v.Delivery, maxBundle)
	if errors.Is(err, blob.ErrMissing) {
		err = missing("", fmt.Errorf("the delivery for request %.8s is not here any more", v.Request))
	}
	return packed, err
}

// ofSession returns one of the documents of the worker's session for a request that was found, unless err.
func (s *Server) ofSession(v Request, document guild.Hash, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if document.IsZero() {
		return nil, missing("a session is recorded when a command has worked on a request", fmt.Errorf("no session of request %.8s", v.Request))
	}
	return s.c.Blobs.ReadAll(document, maxDocument)
}

// getRequest finds the one request whose id begins as the path says, in the journal and in its archive files: the states
// keep little of a request that is answered.
func (s *Server) getRequest(r *http.Request) (Request, error) {
	prefix := strings.ToLower(r.PathValue("id"))
	found := map[fact.Subject]*Request{}
	err := collect(found, prefix, s.c.Journal.Of(r.Context(), requests))
	if err == nil && !whole(found) {
		archived := map[fact.Subject]*Request{} // the earlier entries are there, and are read first
		if err = collect(archived, prefix, s.c.Journal.Archived(r.Context(), requests)); err == nil {
			found = archived
			err = collect(found, prefix, s.c.Journal.Of(r.Context(), requests))
		}
	}
	if errors.Is(err, journal.ErrArchiveGone) {
		err = missing(journal.Hint(err), err)
	}
	if err != nil {
		return Request{}, err
	}
	if len(found) > 1 {
		return Request{}, ambiguous("give more digits", fmt.Errorf("%d requests begin with %.64q", len(found), prefix))
	}
	for _, one := range found {
		if s.c.Pay != nil {
			for _, p := range s.c.Pay.Owed() {
				if p.ID.Hex() == one.Request {
					locked := shownPayment(p)
					one.Locked = &locked
				}
			}
		}
		return *one, nil
	}
	return Request{}, missing("guild journal ls --subject request lists them", fmt.Errorf("no request %.64q", prefix))
}

// requests is the noun of all requests to us.
const requests fact.Subject = "request"

// collect adds entries about the requests whose ids begin with a prefix.
func collect(found map[fact.Subject]*Request, prefix string, entries iter.Seq2[fact.Entry, error]) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		id, ok := strings.CutPrefix(string(e.Subject), string(requests)+".")
		if !ok || !strings.HasPrefix(id, prefix) {
			continue
		}
		if found[e.Subject] == nil {
			found[e.Subject] = &Request{Request: id}
		}
		for _, f := range e.Facts {
			found[e.Subject].take(f, e.At)
		}
	}
	return nil
}

// whole reports whether something was found, and of each the beginning: then nothing of it is archived.
func whole(found map[fact.Subject]*Request) bool {
	for _, one := range found {
		if one.At == 0 {
			return false
		}
	}
	return len(found) > 0
}

// take adds a fact.
func (v *Request) take(f fact.Fact, at int64) {
	switch f := f.(type) {
	case fact.RequestReceived:
		v.Customer, v.Task, v.Service, v.Job, v.At = nip19.EncodeNpub(f.Customer), f.Task, f.Service, f.Job, at
		v.Payout = f.Payout
	case fact.RequestFinished:
		v.Ended, v.Ending, v.Reason, v.Bundle, v.Delivery, v.Replay, v.Session = at, f.Ending, f.Reason, f.Bundle, f.Delivery, f.Replay, f.Session
	case fact.RequestCancelled:
		v.Taken = true
	}
}
