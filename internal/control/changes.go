package control

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/nut/project"
)

// getRequestBundle returns the bundle of a job as it was sent.
func (s *Server) getRequestBundle(r *http.Request) ([]byte, error) {
	j, err := s.findWhole(r)
	if err != nil {
		return nil, err
	}
	packed, err := s.c.Blobs.ReadAll(j.Bundle, maxBundle)
	if errors.Is(err, blob.ErrMissing) {
		err = missing("guild job show "+j.Job.Short()+" has its hash", fmt.Errorf("the bundle of job %s is not here any more", j.Job.Short()))
	}
	return packed, err
}

// getChanges says what a delivery changes. One that was not accepted is only shown with rejected=true.
func (s *Server) getChanges(r *http.Request) (Changes, error) {
	j, err := s.findWhole(r)
	if err != nil {
		return Changes{}, err
	}
	a, err := delivered(j, strings.ToLower(r.URL.Query().Get("attempt")))
	if err != nil {
		return Changes{}, err
	}
	view := s.attempt(a)
	c := Changes{Job: j.Job.String(), Attempt: view.ID, Provider: view.Npub, Name: view.Name, State: view.State, Receipt: view.Receipt,
		Accepted: j.Ending == guild.JobAccepted && view.State == string(guild.Accepted), Files: []FileChange{}}
	if !c.Accepted && r.URL.Query().Get("rejected") != "true" {
		return Changes{}, refused("rejected=true shows it all the same", fmt.Errorf("the delivery of attempt %.8s was not accepted: it is %s", view.ID, view.State))
	}
	request, err := s.getRequestBundle(r)
	if err != nil {
		return Changes{}, err
	}
	delivery, err := s.c.Blobs.ReadAll(a.Delivery, maxBundle)
	if err != nil {
		return Changes{}, err
	}
	w, err := project.OpenWork(r.Context(), request, delivery)
	if err != nil {
		return Changes{}, err
	}
	defer w.Close()
	c.Prefix = w.Prefix
	for _, f := range w.Changes {
		c.Files = append(c.Files, FileChange{
			Path: f.Path, Change: f.Change, Size: f.New.Size, SHA256: f.New.Hash.Hex(), Mode: f.New.Mode,
			Added: f.Added, Removed: f.Removed, Text: f.Text, Note: f.Note, Runs: f.Runs, LeftOut: f.LeftOut,
		})
	}
	return c, nil
}
