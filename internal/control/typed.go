package control

import (
	"context"
	"net/http"
	"net/url"
)

// getResult is what a typed job came to: the result's payload, as the provider wrote it.
func (s *Server) getResult(w http.ResponseWriter, r *http.Request) {
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	result, err := s.c.Jobs.Result(j.Job)
	if err != nil {
		refuse(w, http.StatusNotFound, "missing", "guild job show tells how the job stands", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(result)
}

// Result is GET /v1/jobs/{id}/result: the result of a typed job.
func (c *Client) Result(ctx context.Context, prefix string) ([]byte, error) {
	return c.raw(ctx, "/v1/jobs/"+url.PathEscape(prefix)+"/result", nil)
}
