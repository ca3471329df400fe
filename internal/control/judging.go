package control

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/step/jobs"
	"guild/internal/step/judge"
	"guild/nutshell"
)

// getEvidence returns the judge's record of each delivered attempt of a job.
func (s *Server) getEvidence(r *http.Request) ([]Exam, error) {
	j, err := s.findWhole(r)
	if err != nil {
		return nil, err
	}
	exams := []Exam{}
	for _, a := range j.Attempts {
		e, ok, err := s.exam(a)
		if err != nil {
			return nil, err
		}
		if ok {
			exams = append(exams, e)
		}
	}
	return exams, nil
}

// usageOf returns what the provider of an attempt claims that the work took, or nil.
func usageOf(a jobs.Attempt) *Usage {
	if a.Usage == nil {
		return nil
	}
	return &Usage{Tokens: a.Usage.Tokens, WorkMs: a.Usage.WorkMs}
}

// exam returns the judge's record of one attempt; ok is false if it never reached the judge.
func (s *Server) exam(a jobs.Attempt) (e Exam, ok bool, err error) {
	e = Exam{Attempt: a.ID.Hex(), Npub: nip19.EncodeNpub(a.Provider.PubKey), Name: s.who(a.Provider),
		State: string(a.State), Reason: a.Reason, Verdict: a.Verdict, Usage: usageOf(a)}
	if held, waits := s.c.Judging.Held(a.ID); waits {
		raw, err := s.c.Blobs.ReadAll(held, maxDocument)
		if err != nil {
			return e, false, err
		}
		e.Held, e.Verdict = true, &guild.Verdict{}
		if err := json.Unmarshal(raw, e.Verdict); err != nil {
			return e, false, fmt.Errorf("the verdict so far: %w", err)
		}
	}
	if e.Verdict == nil {
		return e, a.State == guild.Undecided || a.State == guild.Parked, nil
	}
	evidence := e.Verdict.Evidence
	if whole := cmp.Or(a.Whole, s.c.Judging.Whole(a.ID)); !whole.IsZero() {
		evidence = whole // the owner also sees what hidden tests showed
	}
	if evidence.IsZero() {
		return e, true, nil
	}
	raw, err := s.c.Blobs.ReadAll(evidence, maxDocument)
	if err != nil {
		return e, false, err
	}
	if json.Valid(raw) {
		e.Evidence = raw
	}
	return e, true, nil
}

// ruleJob makes a person's ruling the verdict on the attempt that waits for one.
func (s *Server) ruleJob(r *http.Request, rule Rule) (Job, error) {
	j, err := s.find(r)
	if err != nil {
		return Job{}, err
	}
	a, err := s.waiting(j, rule.Attempt)
	if err != nil {
		hint := "guild judge explain " + j.Job.Short() + " shows what waits"
		return Job{}, &refusal{error: err, status: http.StatusConflict, code: "usage", hint: hint}
	}
	ruled := judge.Ruled{Outcome: rule.Outcome, Ruling: guild.Ruling{
		By: s.c.PubKey, Note: guild.Cut(rule.Note, 4000), At: s.c.Now().Unix(),
	}}
	err = s.c.Judge.Rule(r.Context(), s.c.Journal, a.ID, ruled)
	if errors.Is(err, judge.ErrNotHeld) || ruled.Check() != nil {
		return Job{}, &refusal{error: err, status: http.StatusConflict, code: "usage"}
	}
	return s.jobNow(j.Job), err
}

// waiting returns the attempt of a job that waits for a person.
func (s *Server) waiting(j *jobs.Job, prefix string) (found jobs.Attempt, err error) {
	n := 0
	for _, a := range j.Attempts {
		if _, held := s.c.Judging.Held(a.ID); held && strings.HasPrefix(a.ID.Hex(), strings.ToLower(prefix)) {
			found = a
			n++
		}
	}
	switch {
	case n == 0:
		return found, fmt.Errorf("nothing of job %s waits for a ruling", j.Job.Short())
	case n > 1:
		return found, fmt.Errorf("%d attempts of job %s wait for a ruling: name one", n, j.Job.Short())
	}
	return found, nil
}

// postHidden keeps hidden tests, packed as a bundle, for a job to come.
func (s *Server) postHidden(r *http.Request) (Kept, error) {
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	}
	if err != nil {
		return Kept{}, wrongUsage("", fmt.Errorf("not a bundle of hidden tests: %w", err))
	}
	h, err := s.c.Blobs.PutBytes(r.Context(), raw)
	return Kept{h.String()}, err
}

// hidden reads the hidden tests that a job names, if it names any.
func (s *Server) hidden(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	h, err := guild.ParseHash(text)
	if err != nil {
		return nil, fmt.Errorf("hidden %.80q: %w", text, err)
	}
	raw, err := s.c.Blobs.ReadAll(h, maxBundle)
	if err != nil {
		return nil, fmt.Errorf("hidden %.80q: %w", text, err)
	}
	return raw, nil
}
