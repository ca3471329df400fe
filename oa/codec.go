package oa

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
)

// Payload is the request or the result of a built-in job type.
type Payload interface {
	ChunkRequest | ChunkResult | RerankRequest | RerankResult | SandboxRequest | SandboxResult | EmbeddingRequest | EmbeddingResult
}

// form returns the job type and the side of a Payload.
func form(p any) (string, Side) {
	switch p.(type) {
	case ChunkRequest:
		return CodeChunkAnalysis, Inputs
	case ChunkResult:
		return CodeChunkAnalysis, Outputs
	case RerankRequest:
		return RetrievalRerank, Inputs
	case RerankResult:
		return RetrievalRerank, Outputs
	case SandboxRequest:
		return SandboxRun, Inputs
	case SandboxResult:
		return SandboxRun, Outputs
	case EmbeddingRequest:
		return Embedding, Inputs
	}
	return Embedding, Outputs
}

// Decode parses a payload, in any JSON form, as the document P of its job type. Absent fields get their defaults and
// unknown fields are kept. A payload that does not fit the description is Faults. Decode does not check what Validate
// checks.
func Decode[P Payload](payload []byte) (P, error) {
	var p P
	name, side := form(p)
	whole, err := builtin(name).Complete(side, payload)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(whole, &p); err != nil {
		return p, fmt.Errorf("%s of %s: %w", side, name, err)
	}
	if e, ok := any(&p).(*EmbeddingRequest); ok {
		e.setDefault()
	}
	return p, nil
}

// Encode returns the canonical form of a payload with all defaults written out, so that every reader gets the same
// values. A missing field is Faults.
func Encode[P Payload](p P) (jsontext.Value, error) {
	name, side := form(p)
	if e, ok := any(&p).(*EmbeddingRequest); ok {
		e.setDefault()
	}
	b, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", side, name, err)
	}
	return builtin(name).Complete(side, b)
}

// setDefault sets the one default that depends on other fields: how an embedding without a verification is verified.
// With a pinned model and dimensions, running a sample again is enough; otherwise two providers must agree.
func (r *EmbeddingRequest) setDefault() {
	switch {
	case !r.Verification.IsZero():
	case r.Pinned():
		r.Verification = Verification{Mode: Objective, Redundancy: 1, Adjudication: NoAdjudication}
	default:
		r.Verification = Verification{Mode: Subjective, Redundancy: 2, Adjudication: MajorityVote}
	}
}

// JobHash returns the hash of the canonical form of a payload as it is, without defaults.
func JobHash(payload []byte) (guild.Hash, error) {
	canonical, err := canonicalPayload(payload)
	if err != nil {
		return guild.Hash{}, fmt.Errorf("job hash: %w", err)
	}
	return guild.Sum(canonical), nil
}

// Matches reports whether h is the job hash of a request's payload, either as it is or with the numbers of FormatFloat
// in the form of Single. A payload that does not fit the description can match only as it is.
func (s Schema) Matches(payload []byte, h guild.Hash) bool {
	_, ok := s.hashing(payload, h)
	return ok
}

// hashing returns the canonical form of a request's payload that has the job hash h, with the same values, or false if
// neither form has it.
func (s Schema) hashing(payload []byte, h guild.Hash) (jsontext.Value, bool) {
	canonical, err := canonicalPayload(payload)
	if err != nil || guild.Sum(canonical) == h {
		return canonical, err == nil
	}
	widened, err := s.walk(Inputs, canonical, walk{widen: true})
	return widened, err == nil && len(widened) <= MaxSize && guild.Sum(widened) == h
}

// Envelope is a request's payload with its job type, version and hash (the OpenAgents surface, "Job Schema Surface").
type Envelope struct {
	JobType       ID             `json:"job_type"`
	SchemaVersion string         `json:"schema_version,omitzero"` // major.minor.patch; Version if absent
	JobHash       guild.Hash     `json:"job_hash,omitzero"`       // of the payload
	Payload       jsontext.Value `json:"payload"`                 // in the canonical form that JobHash covers
	Extra         Extra          `json:",embed"`
}

// NewEnvelope returns the envelope of a request. It writes numbers of FormatFloat in the form of Single, so that
// programs with single-precision fields compute the same job hash.
func NewEnvelope[P Payload](request P) (Envelope, error) {
	name, side := form(request)
	payload, err := Encode(request)
	if err == nil {
		payload, err = builtin(name).walk(side, payload, walk{widen: true})
	}
	if err != nil {
		return Envelope{}, err
	}
	return Envelope{JobType: mustID(name), SchemaVersion: Version, JobHash: guild.Sum(payload), Payload: payload}, nil
}

// DecodeEnvelope parses an envelope. It checks the version and the job hash, if there is one. If that is the hash of
// the payload with its numbers in the form of Single, the payload is changed to this form. The payload itself is not
// checked.
func DecodeEnvelope(b []byte) (Envelope, error) {
	e, err := decodeEnvelope(b)
	if err != nil {
		return Envelope{}, fmt.Errorf("envelope: %w", err)
	}
	return e, nil
}

// decodeEnvelope computes the job hash if the envelope states none, so that every decoded envelope has one.
func decodeEnvelope(b []byte) (e Envelope, err error) {
	canonical, err := canonicalPayload(b)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(canonical, &e); err != nil {
		return e, err
	}
	switch {
	case e.JobType == (ID{}):
		return e, fmt.Errorf("job_type is missing: %w", ErrID)
	case e.Payload == nil:
		return e, Faults{{"payload", "is missing"}}
	}
	if e.SchemaVersion == "" {
		e.SchemaVersion = Version
	}
	if err := CheckVersion(e.SchemaVersion); err != nil {
		return e, err
	}
	var said struct {
		JobHash string `json:"job_hash"` // can be 64 zeros, which guild.Hash reads as no hash
	}
	if err := json.Unmarshal(canonical, &said); err != nil {
		return e, err
	}
	if said.JobHash == "" {
		e.JobHash = guild.Sum(e.Payload)
	}
	return e, e.settle(e.JobHash)
}

// DecodeAs parses an envelope or, if the text is not one, a bare payload of the job type. If jobType is not empty, an
// envelope must have it.
func DecodeAs(jobType string, text []byte) (Envelope, error) {
	var id ID
	enveloped := IsEnvelope(text)
	if jobType != "" || !enveloped {
		var err error
		if id, err = ParseID(jobType); err != nil {
			return Envelope{}, err
		}
	}
	if enveloped {
		e, err := DecodeEnvelope(text)
		if err == nil && id != (ID{}) && e.JobType != id {
			return Envelope{}, fmt.Errorf("envelope: job_type is %s, want %s: %w", e.JobType, id, ErrInvalid)
		}
		return e, err
	}
	payload, err := canonicalPayload(text)
	if err != nil {
		return Envelope{}, fmt.Errorf("payload: %w", err)
	}
	return Envelope{JobType: id, SchemaVersion: Version, JobHash: guild.Sum(payload), Payload: payload}, nil
}

// IsEnvelope reports whether a document is an envelope, not a bare payload: an object with a job_type and a payload.
func IsEnvelope(text []byte) bool {
	var e struct {
		JobType string         `json:"job_type"`
		Payload jsontext.Value `json:"payload"`
	}
	return unmarshal(text, &e) == nil && strings.HasPrefix(e.JobType, "oa.") && e.Payload != nil
}

// settle accepts a stated job hash and changes the payload to the form that has this hash. Whoever receives both then
// finds that they match, even a reader that knows only one form.
func (e *Envelope) settle(said guild.Hash) error {
	hash := guild.Sum(e.Payload)
	if said == hash {
		e.JobHash = said
		return nil
	}
	if s, err := Known().Schema(e.JobType); err == nil {
		if payload, ok := s.hashing(e.Payload, said); ok {
			e.JobHash, e.Payload = said, payload
			return nil
		}
	}
	return fmt.Errorf("%w: job_hash is %s, and the payload's is %s", ErrHash, said.Hex(), hash.Hex())
}

// Encode returns the canonical form of the envelope.
func (e Envelope) Encode() ([]byte, error) {
	b, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("envelope of %s: %w", e.JobType, err)
	}
	return canon.Canonical(b)
}

// OutputHash returns the hash of a result without its provenance, as output_sha256 states it.
func OutputHash(result []byte) (guild.Hash, error) {
	var members map[string]jsontext.Value
	if err := unmarshal(result, &members); err != nil {
		return guild.Hash{}, fmt.Errorf("output hash: %w", err)
	}
	if members == nil {
		return guild.Hash{}, fmt.Errorf("output hash: %w", Faults{{string(Outputs), "is null, want an object"}})
	}
	delete(members, "provenance")
	return canon.HashValue(members)
}

// unmarshal decodes a document of at most MaxSize bytes.
func unmarshal(text []byte, v any) error {
	canonical, err := canonicalPayload(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(canonical, v)
}
