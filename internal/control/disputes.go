package control

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/step/review"
	"guild/internal/step/work"
)

// Judgement is a customer's verdict on a delivery of ours: GET /v1/judgements, the latest first.
type Judgement struct {
	Request   string      `json:"request"`
	Customer  string      `json:"customer"` // npub
	Task      string      `json:"task"`
	At        int64       `json:"at"` // Unix ms
	Outcome   string      `json:"outcome"`
	Score     float64     `json:"score"` // Micro in decimal form, deprecated
	Micro     guild.Score `json:"score_micro"`
	Before    string      `json:"before,omitempty"` // the first outcome, when it was judged again
	Text      string      `json:"text,omitempty"`
	Until     int64       `json:"until,omitempty"`     // UntilMs in Unix s, deprecated
	UntilMs   int64       `json:"until_ms,omitempty"`  // Unix ms: until then the customer hears an objection
	Objection string      `json:"objection,omitempty"` // our reason
	State     string      `json:"state,omitempty"`     // of the objection: sending, sent or failed
}

// Reason is the body of POST /v1/judgements/{request}/object and POST /v1/jobs/{id}/dispute.
type Reason struct {
	Reason  string `json:"reason"`
	Attempt string `json:"attempt,omitempty"` // of the job, or its beginning; the last that has a verdict when empty
}

func (s *Server) getJudgements(*http.Request) ([]Judgement, error) {
	all := []Judgement{}
	for _, j := range s.c.Judgements.Latest() {
		all = append(all, judgement(j))
	}
	return all, nil
}

func judgement(j work.Judgement) Judgement {
	view := Judgement{
		Request: j.Request.Hex(), Customer: nip19.EncodeNpub(j.Customer), Task: j.Task, At: j.At, Outcome: string(j.Outcome),
		Score: j.Score.Float(), Micro: j.Score, Before: string(j.Before), Text: j.Text, Until: j.Until, UntilMs: j.Until * 1000, Objection: j.Objection,
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

// postObjection tells a customer that its verdict on a delivery of ours is wrong.
func (s *Server) postObjection(r *http.Request, why Reason) (Judgement, error) {
	prefix := strings.ToLower(r.PathValue("request"))
	var found []work.Judgement
	for _, j := range s.c.Judgements.Latest() {
		if prefix != "" && strings.HasPrefix(j.Request.Hex(), prefix) {
			found = append(found, j)
		}
	}
	if len(found) != 1 {
		err := fmt.Errorf("%d verdicts on requests that begin with %.40q", len(found), prefix)
		return Judgement{}, missing("guild work judged lists what customers said", err)
	}
	err := s.c.Work.Object(r.Context(), found[0].Request, why.Reason)
	if errors.Is(err, work.ErrUnjudged) || errors.Is(err, work.ErrObjected) || errors.Is(err, work.ErrFinal) {
		err = refused("guild work judged shows until when an objection is heard", err)
	}
	for _, j := range s.c.Judgements.Latest() {
		if j.Request == found[0].Request {
			return judgement(j), err
		}
	}
	return Judgement{}, err
}

// postDispute has one attempt of a job judged again.
func (s *Server) postDispute(r *http.Request, why Reason) (Job, error) {
	job, err := s.find(r)
	if err != nil {
		return Job{}, err
	}
	attempt := nostr.ZeroID
	for _, a := range job.Attempts {
		if a.Outcome().Judged() && strings.HasPrefix(a.ID.Hex(), strings.ToLower(why.Attempt)) {
			attempt = a.ID
		}
	}
	err = s.c.Mail.Dispute(r.Context(), attempt, why.Reason)
	if errors.Is(err, review.ErrNoVerdict) || errors.Is(err, review.ErrDisputed) || errors.Is(err, review.ErrFinal) {
		err = refused("guild job show lists the attempts and their verdicts; one can be disputed within a day", err)
	}
	return s.jobNow(job.Job), err
}
