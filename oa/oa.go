// Package oa implements the typed jobs of the OpenAgents surface ("Job Schema Surface"): the fields of the request and
// the result of each job type, their checks, and their form in events of NIP-90. It defines
//
//	oa.code_chunk_analysis.v1   read a piece of a file: summary, symbols, suspected faults     subjective
//	oa.retrieval_rerank.v1      put candidates in the order of their use for a task            subjective
//	oa.sandbox_run.v1           run commands in a pinned image: exit codes, hashes, artifacts  objective
//	oa.embedding.v1             a vector for each text                                         objective when pinned
//
// and loads descriptions of other job types. It runs and judges no jobs, and uses no key and no clock.
//
// # Hashes
//
// The job hash is the canonical hash of the payload as received. The payload is never decoded and encoded again for
// it: 1.0 and 1 give different hashes. Some programs store a number in single precision and widen it before they hash.
// Their hash is that of another spelling than they send. Matches accepts this spelling too, only for fields of format
// "float".
//
// # Descriptions
//
// A job type is described in the form of the surface ("Schema Structure"): schema_id, inputs, outputs,
// verification_mode, hash_rules and provenance. A field has type, required and description. Schema is this document;
// the four built-in ones are in the directory schemas. The checks, the defaults and the JSON Schema (2020-12) are
// derived from it, and a test compares the Go types with it. A field can also have
//
//	properties   an object's fields, each described in the same way
//	values       describes all other members of an object; without it they can be anything and are kept
//	items        describes the elements of an array
//	enum         the allowed strings
//	minimum      the least allowed number
//	maximum      the greatest allowed number
//	default      the value of an absent field
//	format       "sha256": 64 hex digits, optionally after "sha256:"; "float": a number in single precision
//
// with the meaning of JSON Schema, where values is additionalProperties. A field without type can have any value. An
// optional field may be null, which means absent. An integer has no point: 1.0 is refused, as by programs that read it
// into a 64-bit integer.
//
// # Errors
//
// Faults lists the faults of a payload, each with the path of the field, as in
//
//	inputs.candidates[3].id is missing
//
// Decode and Schema.Check check each field by itself. The Validate methods check the fields together, and a result
// against its request. An incomplete provenance is not a fault, and the result is accepted; Schema.Lacks lists the
// missing parts, to be recorded.
package oa

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"guild"
)

// Built-in job types, in the form that ParseID reads.
const (
	CodeChunkAnalysis = "oa.code_chunk_analysis.v1"
	RetrievalRerank   = "oa.retrieval_rerank.v1"
	SandboxRun        = "oa.sandbox_run.v1"
	Embedding         = "oa.embedding.v1"
)

// Limits of the input.
const (
	MaxSize   = 4 << 20  // bytes of a payload or an envelope
	MaxSchema = 64 << 10 // bytes of a description
	MaxFaults = 20       // listed faults of one document
	MaxID     = 128      // bytes of a job type
)

// Reasons why a document is not a typed job.
var (
	ErrTooBig  = errors.New("over the size limit")
	ErrInvalid = errors.New("invalid")           // wrapped by Faults
	ErrID      = errors.New("not a job type")    // want oa.<domain>.<operation>.v<version>
	ErrUnknown = errors.New("unknown job type")  // it has no description
	ErrVersion = errors.New("another version")   // schema with another major version
	ErrHash    = errors.New("another job hash")  // not that of the payload
	ErrSchema  = errors.New("not a description") // of a job type
)

// ID names a job type: oa.<name>.v<version>.
type ID struct {
	Name    string // such as "embedding", or "<domain>.<operation>"; lower case
	Version int    // from 1
}

// aliases maps names that other programs use to ours.
var aliases = map[string]string{"embeddings": "embedding"}

// ParseID parses the name of a job type. It reads oa.embeddings.v1 as oa.embedding.v1.
func ParseID(s string) (ID, error) {
	bad := fmt.Errorf("%.80q: %w: want oa.<domain>.<operation>.v<version>", s, ErrID)
	if len(s) > MaxID {
		return ID{}, bad
	}
	parts := strings.Split(s, ".")
	if len(parts) < 3 || parts[0] != "oa" {
		return ID{}, bad
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			return ID{}, bad
		}
	}
	digits, ok := strings.CutPrefix(parts[last], "v")
	version, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil || version == 0 || digits[0] == '0' {
		return ID{}, bad
	}
	name := strings.Join(parts[1:last], ".")
	if ours, ok := aliases[name]; ok {
		name = ours
	}
	return ID{Name: name, Version: int(version)}, nil
}

// mustID returns the ID of a built-in job type.
func mustID(s string) ID {
	id, err := ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

// String returns oa.<name>.v<version>, and "" for the zero ID.
func (id ID) String() string {
	if id == (ID{}) {
		return ""
	}
	return "oa." + id.Name + ".v" + strconv.Itoa(id.Version)
}

// Kind returns the kind of requests for the job type (the OpenAgents surface, "NIP-90 Job Events": 5050). The kind is
// only for routing; the job type is in a parameter.
func (id ID) Kind() int { return guild.KindOf(id.String()) }

// MarshalText writes the form of String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the form of ParseID.
func (id *ID) UnmarshalText(b []byte) error {
	parsed, err := ParseID(string(b))
	*id = parsed
	return err
}
