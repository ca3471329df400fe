package oa

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
)

// Payload is what a request or a result of one of the job types that are known is made of.
type Payload interface {
	ChunkRequest | ChunkResult | RerankRequest | RerankResult | SandboxRequest | SandboxResult | EmbeddingRequest | EmbeddingResult
}

// form says which document of which job type a Payload is.
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

// Decode reads a payload, in any JSON form, as the document of a job type that P is. Absent fields have what they stand
// for; unknown ones are kept. What does not fit the description is Faults. See Validate for the rest.
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

// Encode writes a payload in its canonical form, with every default said, so that all read the same from it. What is
// missing is Faults.
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

// setDefault sets the one default that depends on other fields.
func (r *EmbeddingRequest) setDefault() {
	if r.Verification.IsZero() {
		r.Verification = r.defaultVerification()
	}
}

// JobHash is the hash of a payload as it is: of its canonical form, without any default filled in.
func JobHash(payload []byte) (guild.Hash, error) {
	canonical, err := canonicalPayload(payload)
	if err != nil {
		return guild.Hash{}, fmt.Errorf("job hash: %w", err)
	}
	return guild.Sum(canonical), nil
}

// Matches reports whether a job hash is that of a request's payload: of the payload as it is, or with its numbers of
// FormatFloat spelled as Single does. A payload that does not fit the description matches as it is, or not at all.
func (s Schema) Matches(payload []byte, h guild.Hash) bool {
	_, ok := s.hashing(payload, h)
	return ok
}

// hashing is the form of a request's payload that has a job hash, if one of the two has: canonical, and of the same values.
func (s Schema) hashing(payload []byte, h guild.Hash) (jsontext.Value, bool) {
	canonical, err := canonicalPayload(payload)
	if err != nil || guild.Sum(canonical) == h {
		return canonical, err == nil
	}
	widened, err := s.walk(Inputs, canonical, walk{widen: true})
	return widened, err == nil && len(widened) <= MaxSize && guild.Sum(widened) == h
}

// Envelope is a request's payload with what it is (the OpenAgents surface, "Job Schema Surface").
type Envelope struct {
	JobType       ID             `json:"job_type"`
	SchemaVersion string         `json:"schema_version,omitzero"` // major.minor.patch; Version if absent
	JobHash       guild.Hash     `json:"job_hash,omitzero"`       // of the payload
	Payload       jsontext.Value `json:"payload"`                 // in its canonical form, that of the job hash
	Extra         Extra          `json:",embed"`
}

// NewEnvelope is the envelope of a request. Numbers of FormatFloat are spelled as Single does, so that programs which
// read the payload into such numbers compute the same job hash.
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

// DecodeEnvelope reads an envelope. It checks the version and, if there is one, that the job hash is that of the payload:
// where that is the hash of its numbers spelled as Single does, the payload becomes that. Otherwise it does not look into
// the payload.
func DecodeEnvelope(b []byte) (Envelope, error) {
	e, err := decodeEnvelope(b)
	if err != nil {
		return Envelope{}, fmt.Errorf("envelope: %w", err)
	}
	return e, nil
}

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
		JobHash string `json:"job_hash"` // it may be 64 zeros, which are no hash of ours and yet said
	}
	if err := json.Unmarshal(canonical, &said); err != nil {
		return e, err
	}
	if said.JobHash == "" {
		e.JobHash = guild.Sum(e.Payload)
	}
	return e, e.settle(e.JobHash)
}

// DecodeAs reads an envelope or, where the text is none, the bare payload of a job type. An envelope may not be of
// another job type, if one is named.
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

// IsEnvelope reports whether a document is an envelope and no bare payload: an object with a job_type and a payload.
func IsEnvelope(text []byte) bool {
	var e struct {
		JobType string         `json:"job_type"`
		Payload jsontext.Value `json:"payload"`
	}
	return unmarshal(text, &e) == nil && strings.HasPrefix(e.JobType, "oa.") && e.Payload != nil
}

// settle takes over a job hash that was said, and makes the payload the form of it that has this hash, so that whoever
// gets the one with the other finds that they fit.
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

// Encode writes the envelope in its canonical form.
func (e Envelope) Encode() ([]byte, error) {
	b, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("envelope of %s: %w", e.JobType, err)
	}
	return canon.Canonical(b)
}

// OutputHash is the hash of a result as a provenance's output_sha256 says it: of everything but the provenance.
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

// unmarshal decodes a document within the limit.
func unmarshal(text []byte, v any) error {
	canonical, err := canonicalPayload(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(canonical, v)
}
