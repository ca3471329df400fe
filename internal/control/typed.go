package control

import "net/http"

// getResult returns the result of a typed job: its payload, as the provider wrote it.
func (s *Server) getResult(r *http.Request) ([]byte, error) {
	j, err := s.findWhole(r)
	if err != nil {
		return nil, err
	}
	result, err := s.c.Jobs.Result(j.Job)
	if err != nil {
		return nil, missing("guild job show tells how the job stands", err)
	}
	return result, nil
}
