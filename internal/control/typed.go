package control

import "net/http"

// getResult is what a typed job came to: the result's payload, as the provider wrote it.
func (s *Server) getResult(r *http.Request) ([]byte, error) {
	j, err := s.find(r)
	if err != nil {
		return nil, err
	}
	result, err := s.c.Jobs.Result(j.Job)
	if err != nil {
		return nil, missing("guild job show tells how the job stands", err)
	}
	return result, nil
}
