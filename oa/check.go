package oa

// CheckRequest returns the faults of a request's payload: first against the description of its job type and then, for
// the four built-in types, the contradictions between its fields. The error is Faults, or reports that the job type is
// unknown or the payload is not JSON.
func (r Registry) CheckRequest(id ID, payload []byte) error {
	s, err := r.Schema(id)
	if err != nil {
		return err
	}
	if err := s.Check(Inputs, payload); err != nil {
		return err
	}
	switch id.String() {
	case CodeChunkAnalysis:
		return validRequest[ChunkRequest](payload)
	case RetrievalRerank:
		return validRequest[RerankRequest](payload)
	case SandboxRun:
		return validRequest[SandboxRequest](payload)
	case Embedding:
		return validRequest[EmbeddingRequest](payload)
	}
	return nil
}

func validRequest[P interface {
	Payload
	Validate() error
}](payload []byte) error {
	p, err := Decode[P](payload)
	if err != nil {
		return err
	}
	return p.Validate()
}

// CheckResult returns the faults of a result: against the description of its job type and, for the four built-in
// types, against the payload of its request. If request is nil, only the former.
func (r Registry) CheckResult(id ID, request, result []byte) error {
	s, err := r.Schema(id)
	if err != nil {
		return err
	}
	if err := s.Check(Outputs, result); err != nil || request == nil {
		return err
	}
	switch id.String() {
	case CodeChunkAnalysis:
		return validResult[ChunkResult, ChunkRequest](request, result)
	case RetrievalRerank:
		return validResult[RerankResult, RerankRequest](request, result)
	case SandboxRun:
		return validResult[SandboxResult, SandboxRequest](request, result)
	case Embedding:
		return validResult[EmbeddingResult, EmbeddingRequest](request, result)
	}
	return nil
}

func validResult[R interface {
	Payload
	Validate(Q) error
}, Q Payload](request, result []byte) error {
	q, err := Decode[Q](request)
	if err != nil {
		return err
	}
	r, err := Decode[R](result)
	if err != nil {
		return err
	}
	return r.Validate(q)
}
