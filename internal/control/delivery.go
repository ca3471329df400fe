package control

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"guild/internal/hand/blob"
	"guild/internal/step/jobs"
)

// getDelivery returns the delivery bundle of one attempt as it was judged: opened if it came encrypted, and made by us
// around a result that was not a bundle.
func (s *Server) getDelivery(r *http.Request) ([]byte, error) {
	j, err := s.findWhole(r)
	if err != nil {
		return nil, err
	}
	a, err := delivered(j, strings.ToLower(r.URL.Query().Get("attempt")))
	if err != nil {
		return nil, err
	}
	packed, err := s.c.Blobs.ReadAll(a.Delivery, maxBundle)
	if errors.Is(err, blob.ErrMissing) {
		err = missing("guild job show "+j.Job.Short()+" tells how the attempt stands", fmt.Errorf("the delivery of attempt %.8s is not here", a.ID.Hex()))
	}
	return packed, err
}

// delivered returns the one attempt of a job that has a delivery and whose id begins with prefix.
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
		return found, missing(hint, fmt.Errorf("job %s has no delivery of such an attempt", j.Job.Short()))
	case n > 1:
		return found, ambiguous(hint, fmt.Errorf("%d attempts of job %s have a delivery: name one", n, j.Job.Short()))
	}
	return found, nil
}
