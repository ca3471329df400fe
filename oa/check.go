package oa

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// CheckRequest returns the faults of a request's payload: against the description of its job type and, for the four
// built-in types, the contradictions between its fields as far as these are valid. The error is Faults, or reports that
// the job type is unknown or the payload is not JSON.
func (r Registry) CheckRequest(id ID, payload []byte) error {
	s, err := r.Schema(id)
	if err != nil {
		return err
	}
	err = s.Check(Inputs, payload)
	var found Faults
	if err != nil && !errors.As(err, &found) {
		return err
	}
	switch id.String() {
	case CodeChunkAnalysis:
		return validRequest[ChunkRequest](payload, found)
	case RetrievalRerank:
		return validRequest[RerankRequest](payload, found)
	case SandboxRun:
		return validRequest[SandboxRequest](payload, found)
	case Embedding:
		return validRequest[EmbeddingRequest](payload, found)
	}
	return found.err()
}

func validRequest[P interface {
	Payload
	Validate() error
}](payload []byte, found Faults) error {
	p, err := mended[P](payload, found)
	if err != nil {
		return err
	}
	return found.with(p.Validate())
}

// CheckResult returns the faults of a result: against the description of its job type and, for the four built-in
// types, against the payload of its request. If request is nil, only the former.
func (r Registry) CheckResult(id ID, request, result []byte) error {
	s, err := r.Schema(id)
	if err != nil {
		return err
	}
	err = s.Check(Outputs, result)
	var found Faults
	if request == nil || err != nil && !errors.As(err, &found) {
		return err
	}
	switch id.String() {
	case CodeChunkAnalysis:
		return validResult[ChunkResult, ChunkRequest](request, result, found)
	case RetrievalRerank:
		return validResult[RerankResult, RerankRequest](request, result, found)
	case SandboxRun:
		return validResult[SandboxResult, SandboxRequest](request, result, found)
	case Embedding:
		return validResult[EmbeddingResult, EmbeddingRequest](request, result, found)
	}
	return found.err()
}

func validResult[R interface {
	Payload
	Validate(Q) error
}, Q Payload](request, result []byte, found Faults) error {
	q, err := Decode[Q](request)
	if err != nil {
		return err
	}
	r, err := mended[R](result, found)
	if err != nil {
		return err
	}
	return found.with(r.Validate(q))
}

// mended decodes a payload in which values of a wrong type count as empty, so that the rest can be checked, too. If it
// cannot be decoded even so, the error is found.
func mended[P Payload](payload []byte, found Faults) (P, error) {
	if len(found) == 0 {
		return Decode[P](payload)
	}
	var p P
	name, side := form(p)
	s := builtin(name)
	canonical, err := canonicalPayload(payload)
	if err != nil {
		return p, err
	}
	w := walk{fill: true, mend: true, limit: 2 * MaxSize}
	w.whole(s.root(side), func() string { return string(side) }, canonical)
	if len(w.faults) >= MaxFaults || json.Unmarshal(w.out, &p) != nil {
		return p, found
	}
	if e, ok := any(&p).(*EmbeddingRequest); ok {
		e.setDefault()
	}
	return p, nil
}

// with adds contradictions, but those that only follow from a fault.
func (f Faults) with(more error) error {
	var contradictions Faults
	if more != nil && !errors.As(more, &contradictions) {
		return more
	}
	all := f[:len(f):len(f)]
	for _, one := range contradictions {
		if !slices.ContainsFunc(f, func(fault Fault) bool { return explains(fault.Path, one.Path) }) && len(all) < MaxFaults {
			all = append(all, one)
		}
	}
	return all.err()
}

// depends has fields, and the other fields that their contradictions are about. A field that ends with [ stands for its
// elements: how long each vector must be depends on the dimensions, and how many vectors there are does not.
var depends = [][2]string{
	{"inputs.chunk.end_line", "inputs.chunk.start_line"},
	{"inputs.verification.judge_model", "inputs.verification.adjudication"},
	{"inputs.verification.mode", "inputs.model_hint"},
	{"inputs.verification.mode", "inputs.dimensions"},
	{"outputs.embeddings[", "outputs.dimensions"},
	{"outputs.runs", "outputs.status"},
	{"outputs.status", "outputs.runs"},
}

// explains reports whether a contradiction can follow from a fault: of the same field, around it, inside it, or of a field
// that it depends on.
func explains(fault, contradiction string) bool {
	inside := func(inner, outer string) bool {
		rest, ok := strings.CutPrefix(inner, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[' || strings.HasSuffix(outer, "["))
	}
	return inside(fault, contradiction) || inside(contradiction, fault) || slices.ContainsFunc(depends, func(d [2]string) bool {
		return inside(contradiction, d[0]) && (inside(fault, d[1]) || inside(d[1], fault))
	})
}
