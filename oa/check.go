package oa

// CheckRequest says what is wrong with a request's payload: by the description of its job type and, where that is one
// of the four, by what its fields say together. It is Faults, or an error that there is no such description or no JSON.
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

// CheckResult says what is wrong with a result: by the description of its job type and, where that is one of the four
// and request is its request's payload, by what it says to that. A nil request is not looked at.
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
