package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/jobs"
	"guild/internal/judge"
	"guild/nutshell"
)

// maxRule is the largest ruling, in bytes.
const maxRule = 64 << 10

// getEvidence answers with what the judge kept of each attempt of a job that was delivered.
func (s *Server) getEvidence(w http.ResponseWriter, r *http.Request) {
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	exams := []Exam{}
	for _, a := range j.Attempts {
		e, ok, err := s.exam(a)
		if err != nil {
			fail(w, err)
			return
		}
		if ok {
			exams = append(exams, e)
		}
	}
	answer(w, exams)
}

// exam is what the judge kept of one attempt, if it came so far.
func (s *Server) exam(a jobs.Attempt) (Exam, bool, error) {
	e := Exam{Attempt: a.ID.Hex(), Npub: nip19.EncodeNpub(a.Provider.PubKey), Name: s.who(a.Provider),
		State: string(a.State), Reason: a.Reason, Verdict: a.Verdict}
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
	if e.Verdict.Evidence.IsZero() {
		return e, true, nil
	}
	raw, err := s.c.Blobs.ReadAll(e.Verdict.Evidence, maxDocument)
	if err != nil {
		return e, false, err
	}
	if json.Valid(raw) {
		e.Evidence = raw
	}
	return e, true, nil
}

// ruleJob makes a person's ruling the verdict on the attempt that waits for one.
func (s *Server) ruleJob(w http.ResponseWriter, r *http.Request) {
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	var rule Rule
	if !decode(w, r, maxRule, &rule) {
		return
	}
	a, err := s.waiting(j, rule.Attempt)
	if err != nil {
		refuse(w, http.StatusConflict, "usage", "guild judge explain "+j.Job.Short()+" shows what waits", err)
		return
	}
	ruled := judge.Ruled{Outcome: rule.Outcome, Ruling: guild.Ruling{
		By: s.c.PubKey, Note: guild.Cut(rule.Note, 4000), At: s.c.Now().Unix(),
	}}
	switch err := s.c.Judge.Rule(r.Context(), s.c.Journal, a.ID, ruled); {
	case errors.Is(err, judge.ErrNotHeld) || ruled.Check() != nil:
		refuse(w, http.StatusConflict, "usage", "", err)
		return
	case err != nil:
		fail(w, err)
		return
	}
	j, _ = s.c.Fold.Job(j.Job)
	answer(w, s.job(j))
}

// waiting finds the attempt of a job that waits for a person.
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
func (s *Server) postHidden(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBundle))
	if err == nil {
		_, err = nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "usage", "", fmt.Errorf("not a bundle of hidden tests: %w", err))
		return
	}
	h, err := s.c.Blobs.PutBytes(r.Context(), raw)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, map[string]string{"hash": h.String()})
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
