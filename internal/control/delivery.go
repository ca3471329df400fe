package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"guild/internal/blob"
	"guild/internal/jobs"
)

// getDelivery answers with the delivery bundle of one attempt of a job, as it was judged: opened if it came encrypted, and
// made by us around a result that was no bundle.
func (s *Server) getDelivery(w http.ResponseWriter, r *http.Request) {
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	a, err := delivered(j, strings.ToLower(r.URL.Query().Get("attempt")))
	if err != nil {
		fail(w, err)
		return
	}
	packed, err := s.c.Blobs.ReadAll(a.Delivery, maxBundle)
	if errors.Is(err, blob.ErrMissing) {
		err = &refusal{
			status: http.StatusNotFound, code: "missing", hint: "guild job show " + j.Job.Short() + " tells how the attempt stands",
			text: fmt.Sprintf("the delivery of attempt %.8s is not here", a.ID.Hex()),
		}
	}
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-nutshell+gzip")
	w.Write(packed)
}

// delivered is the attempt of a job that has a delivery and whose id begins so.
func delivered(j *jobs.Job, prefix string) (found jobs.Attempt, err error) {
	n := 0
	for _, a := range j.Attempts {
		if !a.Delivery.IsZero() && strings.HasPrefix(a.ID.Hex(), prefix) {
			found = a
			n++
		}
	}
	hint := "guild job show " + j.Job.Short() + " lists the attempts"
	switch {
	case n == 0:
		text := fmt.Sprintf("job %s has no delivery of such an attempt", j.Job.Short())
		return found, &refusal{status: http.StatusNotFound, code: "missing", hint: hint, text: text}
	case n > 1:
		text := fmt.Sprintf("%d attempts of job %s have a delivery: name one", n, j.Job.Short())
		return found, &refusal{status: http.StatusConflict, code: "ambiguous", hint: hint, text: text}
	}
	return found, nil
}

// Delivery is GET /v1/jobs/{id}/delivery: the packed delivery of one attempt, which may be named by the beginning of its id,
// or of the only one that has a delivery.
func (c *Client) Delivery(ctx context.Context, job, attempt string) ([]byte, error) {
	return c.raw(ctx, "/v1/jobs/"+url.PathEscape(job)+"/delivery", query("attempt", attempt))
}
