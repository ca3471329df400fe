package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/fact"
	"guild/internal/journal"
)

// Request is a request that this node was asked to work on, and what came of it.
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
}

// serveRequests registers what is shown of requests.
func (s *Server) serveRequests() {
	s.mux.HandleFunc("GET /v1/requests/{id}", func(w http.ResponseWriter, r *http.Request) {
		if view, ok := s.request(w, r); ok {
			answer(w, view)
		}
	})
	s.mux.HandleFunc("GET /v1/requests/{id}/replay", s.ofSession("application/x-ndjson", func(v Request) guild.Hash { return v.Replay }))
	s.mux.HandleFunc("GET /v1/requests/{id}/session", s.ofSession("application/json", func(v Request) guild.Hash { return v.Session }))
}

// ofSession answers with one of the documents of a worker's session.
func (s *Server) ofSession(mime string, which func(Request) guild.Hash) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		view, ok := s.request(w, r)
		if !ok {
			return
		}
		if which(view).IsZero() {
			refuse(w, http.StatusNotFound, "missing", "a session is recorded when a command has worked on a request",
				fmt.Errorf("no session of request %.8s", view.Request))
			return
		}
		s.document(w, which(view), mime)
	}
}

// request finds the one request whose id begins as the path says, in the journal and in its archive files: the states keep
// little of a request that is answered.
func (s *Server) request(w http.ResponseWriter, r *http.Request) (Request, bool) {
	prefix := strings.ToLower(r.PathValue("id"))
	found := map[fact.Subject]*Request{}
	err := collect(found, prefix, s.c.Journal.Of(r.Context(), requests))
	if err == nil && !whole(found) {
		archived := map[fact.Subject]*Request{} // what came first is there, and is taken first
		if err = collect(archived, prefix, s.c.Journal.Archived(r.Context(), requests)); err == nil {
			found = archived
			err = collect(found, prefix, s.c.Journal.Of(r.Context(), requests))
		}
	}
	if errors.Is(err, journal.ErrArchiveGone) {
		refuse(w, http.StatusNotFound, "missing", journal.Hint(err), err)
		return Request{}, false
	}
	if err != nil {
		fail(w, err)
		return Request{}, false
	}
	switch {
	case len(found) == 0 || prefix == "":
		refuse(w, http.StatusNotFound, "missing", "guild journal ls --subject request lists them", fmt.Errorf("no request %.64q", prefix))
		return Request{}, false
	case len(found) > 1:
		refuse(w, http.StatusConflict, "ambiguous", "give more digits", fmt.Errorf("%d requests begin with %.64q", len(found), prefix))
		return Request{}, false
	}
	for _, one := range found {
		return *one, true
	}
	return Request{}, false
}

// requests is the noun of all requests to us.
const requests fact.Subject = "request"

// collect adds what entries say of the requests whose ids begin so.
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

// take adds what one fact says.
func (v *Request) take(f fact.Fact, at int64) {
	switch f := f.(type) {
	case fact.RequestReceived:
		v.Customer, v.Task, v.Service, v.Job, v.At = nip19.EncodeNpub(f.Customer), f.Task, f.Service, f.Job, at
	case fact.RequestFinished:
		v.Ended, v.Ending, v.Reason, v.Bundle, v.Delivery, v.Replay, v.Session = at, f.Ending, f.Reason, f.Bundle, f.Delivery, f.Replay, f.Session
	case fact.RequestCancelled:
		v.Taken = true
	}
}

// Request is GET /v1/requests/{id}, for the beginning of an id.
func (c *Client) Request(ctx context.Context, id string) (Request, error) {
	return get[Request](ctx, c, "/v1/requests/"+url.PathEscape(id), nil)
}

// RequestReplay is GET /v1/requests/{id}/replay: REPLAY.jsonl of the worker's session.
func (c *Client) RequestReplay(ctx context.Context, id string) ([]byte, error) {
	return c.raw(ctx, "/v1/requests/"+url.PathEscape(id)+"/replay", nil)
}

// RequestSession is GET /v1/requests/{id}/session: RECEIPT.json of the worker's session.
func (c *Client) RequestSession(ctx context.Context, id string) ([]byte, error) {
	return c.raw(ctx, "/v1/requests/"+url.PathEscape(id)+"/session", nil)
}
