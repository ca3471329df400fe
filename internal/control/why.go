package control

import (
	"fmt"
	"net/http"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal/fact"
)

// Decision is the choice of one provider: GET /v1/jobs/{id}/choices answers with those of all attempts of a job, in
// their order. Shares, terms and scores are in millionths of one.
type Decision struct {
	At       int64  `json:"at"` // Unix ms
	Job      string `json:"job"`
	Task     string `json:"task"`
	Attempt  string `json:"attempt"`
	Provider string `json:"provider"` // npub of the chosen one
	Name     string `json:"name,omitempty"`
	D        string `json:"d"`
	Bid      int64  `json:"bid_msat"`
	State    string `json:"state,omitempty"` // of its attempt
	// Choice is absent when the attempt was made before choices were kept.
	Choice *fact.Choice `json:"choice,omitempty"`
}

func (s *Server) getChoices(r *http.Request) ([]Decision, error) {
	job, err := s.find(r)
	if err != nil {
		return nil, err
	}
	all := []Decision{}
	for e, err := range s.c.Journal.Of(r.Context(), fact.JobSubject(job.Job)) {
		if err != nil {
			return nil, err
		}
		for _, f := range e.Facts {
			if planned, ok := f.(fact.AttemptPlanned); ok {
				all = append(all, s.decision(planned, job.Task, e.At))
			}
		}
	}
	return all, nil
}

func (s *Server) decision(planned fact.AttemptPlanned, task string, at int64) Decision {
	d := Decision{
		At: at, Job: planned.Job.String(), Task: task, Attempt: planned.Attempt.Hex(),
		Provider: nip19.EncodeNpub(planned.Provider.PubKey), Name: s.c.Registry.Name(planned.Provider), D: planned.Provider.D,
		Bid: int64(planned.Bid), Choice: planned.Choice,
	}
	if a, _, ok := s.c.Fold.Attempt(planned.Attempt); ok {
		d.State = string(a.Outcome())
	}
	return d
}

// Chapter is one line of a provider's story: GET /v1/providers/{key}/story[?task=T], the oldest first.
type Chapter struct {
	Seq  uint64 `json:"seq"` // entry of the journal
	At   int64  `json:"at"`  // Unix ms
	Type string `json:"type"`
	D    string `json:"d"`
	Task string `json:"task,omitempty"`
	Text string `json:"text"` // for a person, one line

	From      *float64     `json:"from,omitempty"`       // FromMicro in decimal form, deprecated
	To        *float64     `json:"to,omitempty"`         // deprecated, too
	FromMicro *guild.Trust `json:"from_micro,omitempty"` // trust before and after
	ToMicro   *guild.Trust `json:"to_micro,omitempty"`
	State     string       `json:"state,omitempty"` // that it moved to
	Job       string       `json:"job,omitempty"`
	Attempt   string       `json:"attempt,omitempty"`
	Rationale string       `json:"rationale,omitempty"`
	Policy    string       `json:"policy,omitempty"` // hash of the policy that it was decided by
}

// story tells one fact about a provider. ok is false for a fact about another one, or without news.
func story(f fact.Fact, key nostr.PubKey) (c Chapter, ok bool) {
	switch f := f.(type) {
	case fact.ProviderMoved:
		c = Chapter{D: f.Service.D, State: string(f.To), Text: fmt.Sprintf("%s → %s: %s", f.From, f.To, f.Cause)}
		c.Policy, c.Attempt = shown(f.Policy), shownID(f.Attempt)
		return c, f.Service.PubKey == key
	case fact.TrustChanged:
		return changed(f), f.Service.PubKey == key
	case fact.MeetingBegan:
		return Chapter{D: f.Service.D, Task: f.Task, Text: began(f)}, f.Service.PubKey == key
	case fact.MeetingEnded:
		return Chapter{D: f.Service.D, Task: f.Task, Text: fmt.Sprintf("its benchmarks ended after %d: %s", f.Runs, f.Cause)}, f.Service.PubKey == key
	case fact.ReviewDrafted:
		return Chapter{D: f.Service.D, Task: f.Task, Text: fmt.Sprintf("we reviewed it in public as %s stars (%s)", stars(f.Trust), f.Cause)}, f.Service.PubKey == key
	case fact.ReviewHeld:
		return Chapter{D: f.Service.D, Task: f.Task, Text: fmt.Sprintf("reviews of it are held by the %s: %s", f.By, f.Reason)}, f.Service.PubKey == key
	case fact.ReviewResumed:
		return Chapter{D: f.Service.D, Task: f.Task, Text: "reviews of it go on: " + f.Reason}, f.Service.PubKey == key
	case fact.VariableChanged:
		if f.Key != key.Hex() {
			return Chapter{}, false
		}
		return Chapter{Text: fmt.Sprintf("%s is %s now: %s", f.Name, f.To, f.Rationale)}, true
	}
	return Chapter{}, false
}

func changed(f fact.TrustChanged) Chapter {
	c := Chapter{D: f.Service.D, Task: f.Task, Rationale: f.Rationale, Policy: shown(f.Policy), Attempt: shownID(f.Attempt)}
	if f.Job != (guild.JobID{}) {
		c.Job = f.Job.String()
	}
	to := f.To.Float()
	from := f.From.Float()
	switch {
	case f.Unfounded && f.From != 0:
		c.From, c.FromMicro, c.Text = &from, &f.From, fmt.Sprintf("no longer trusted, it was %s (%s): %s", f.From, f.Rule, f.Reason)
		return c
	case f.Unfounded:
		c.Text = "it earned no trust: " + f.Reason
		return c
	case f.First:
		c.Text = fmt.Sprintf("trusted %s for the first time: %s", f.To, f.Reason)
	case f.Rule != "":
		c.From, c.FromMicro, c.Text = &from, &f.From, fmt.Sprintf("trust %s → %s (%s): %s", f.From, f.To, f.Rule, f.Reason)
	default:
		c.From, c.FromMicro, c.Text = &from, &f.From, fmt.Sprintf("trust %s → %s: %s", f.From, f.To, f.Reason)
	}
	c.To, c.ToMicro = &to, &f.To
	return c
}

func began(f fact.MeetingBegan) string {
	switch f.Purpose {
	case "":
		return "we began to benchmark it"
	case "heartbeat":
		return "its weekly benchmark began"
	case "probe":
		return "it was silent, and is probed"
	}
	return "we benchmark it again: " + f.Purpose
}

// stars is trust on the scale of reviews.
func stars(t guild.Trust) string { return fmt.Sprintf("%.1f of 5", 1+4*t.Float()) }

func shown(h guild.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

func shownID(id nostr.ID) string {
	if id == nostr.ZeroID {
		return ""
	}
	return id.Hex()
}
