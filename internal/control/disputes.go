package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild/internal/review"
	"guild/internal/work"
)

// Judgement is what a customer says of a delivery of ours: GET /v1/judgements, the latest first.
type Judgement struct {
	Request   string  `json:"request"`
	Customer  string  `json:"customer"` // npub
	Task      string  `json:"task"`
	At        int64   `json:"at"` // Unix ms
	Outcome   string  `json:"outcome"`
	Score     float64 `json:"score"`
	Before    string  `json:"before,omitempty"` // the first outcome, when it was judged again
	Text      string  `json:"text,omitempty"`
	Until     int64   `json:"until,omitempty"`     // Unix s: until then the customer hears an objection
	Objection string  `json:"objection,omitempty"` // our reason
	State     string  `json:"state,omitempty"`     // of the objection: sending, sent or failed
}

// Reason is what POST /v1/judgements/{request}/object and POST /v1/jobs/{id}/dispute take.
type Reason struct {
	Reason  string `json:"reason"`
	Attempt string `json:"attempt,omitempty"` // of the job, or its beginning; the last that has a verdict when empty
}

func (s *Server) serveDisputes() {
	if s.c.Judgements != nil {
		s.mux.HandleFunc("GET /v1/judgements", s.getJudgements)
	}
	if s.c.Work != nil {
		s.mux.HandleFunc("POST /v1/judgements/{request}/object", s.postObjection)
	}
	if s.c.Mail != nil {
		s.mux.HandleFunc("POST /v1/jobs/{id}/dispute", s.postDispute)
	}
}

func (s *Server) getJudgements(w http.ResponseWriter, r *http.Request) { answer(w, s.judgements()) }

func (s *Server) judgements() []Judgement {
	all := []Judgement{}
	for _, j := range s.c.Judgements.Latest() {
		all = append(all, judgement(j))
	}
	return all
}

func judgement(j work.Judgement) Judgement {
	view := Judgement{
		Request: j.Request.Hex(), Customer: nip19.EncodeNpub(j.Customer), Task: j.Task, At: j.At, Outcome: string(j.Outcome),
		Score: j.Score.Float(), Before: string(j.Before), Text: j.Text, Until: j.Until, Objection: j.Objection,
	}
	switch {
	case j.Objection == "":
	case j.Sent:
		view.State = "sent"
	case j.Failed != "":
		view.State = "failed"
	default:
		view.State = "sending"
	}
	return view
}

// postObjection says to a customer that its verdict on a delivery of ours is wrong.
func (s *Server) postObjection(w http.ResponseWriter, r *http.Request) {
	var why Reason
	if !decode(w, r, maxWords, &why) {
		return
	}
	prefix := strings.ToLower(r.PathValue("request"))
	var found []work.Judgement
	for _, j := range s.c.Judgements.Latest() {
		if prefix != "" && strings.HasPrefix(j.Request.Hex(), prefix) {
			found = append(found, j)
		}
	}
	if len(found) != 1 {
		refuse(w, http.StatusNotFound, "missing", "guild work judged lists what customers said", fmt.Errorf("%d verdicts on requests that begin with %.40q", len(found), prefix))
		return
	}
	err := s.c.Work.Object(r.Context(), found[0].Request, why.Reason)
	if errors.Is(err, work.ErrUnjudged) || errors.Is(err, work.ErrObjected) || errors.Is(err, work.ErrFinal) {
		refuse(w, http.StatusConflict, "refused", "guild work judged shows until when an objection is heard", err)
		return
	}
	if err != nil {
		fail(w, err)
		return
	}
	for _, j := range s.c.Judgements.Latest() {
		if j.Request == found[0].Request {
			answer(w, judgement(j))
			return
		}
	}
}

// postDispute has the verdict on one attempt of a job given again.
func (s *Server) postDispute(w http.ResponseWriter, r *http.Request) {
	var why Reason
	if !decode(w, r, maxWords, &why) {
		return
	}
	job, ok := s.find(w, r)
	if !ok {
		return
	}
	attempt := nostr.ZeroID
	for _, a := range job.Attempts {
		if a.Outcome().Judged() && strings.HasPrefix(a.ID.Hex(), strings.ToLower(why.Attempt)) {
			attempt = a.ID
		}
	}
	err := s.c.Mail.Dispute(r.Context(), attempt, why.Reason)
	switch {
	case errors.Is(err, review.ErrNoVerdict) || errors.Is(err, review.ErrDisputed) || errors.Is(err, review.ErrFinal):
		refuse(w, http.StatusConflict, "refused", "guild job show lists the attempts and their verdicts; one can be disputed within a day", err)
	case err != nil:
		fail(w, err)
	default:
		now, _ := s.c.Fold.Job(job.Job)
		answer(w, s.job(now))
	}
}

// Judgements is GET /v1/judgements.
func (c *Client) Judgements(ctx context.Context) ([]Judgement, error) {
	return get[[]Judgement](ctx, c, "/v1/judgements", nil)
}

// Object is POST /v1/judgements/{request}/object.
func (c *Client) Object(ctx context.Context, request, reason string) (Judgement, error) {
	return post[Judgement](ctx, c, "/v1/judgements/"+url.PathEscape(request)+"/object", Reason{Reason: reason})
}

// Dispute is POST /v1/jobs/{id}/dispute.
func (c *Client) Dispute(ctx context.Context, job, attempt, reason string) (Job, error) {
	return post[Job](ctx, c, "/v1/jobs/"+url.PathEscape(job)+"/dispute", Reason{Reason: reason, Attempt: attempt})
}
