// Package oa is the typed jobs of the OpenAgents surface ("Job Schema Surface"): what a request and a result of each
// job type say, how they are checked, and how they travel in events of NIP-90. It owns the meaning of
//
//	oa.code_chunk_analysis.v1   read a piece of a file: summary, symbols, suspected faults     subjective
//	oa.retrieval_rerank.v1      put candidates in the order of their use for a task            subjective
//	oa.sandbox_run.v1           run commands in a pinned image: exit codes, hashes, artifacts  objective
//	oa.embedding.v1             a vector for each text                                         objective when pinned
//
// and carries the job types that others describe. It does no job, judges none and knows no key or clock.
//
// # Hashes
//
// The job hash is the canonical hash of the payload as it was received. Nothing that was decoded is encoded again to
// get it: 1.0 and 1 are two payloads. A program that keeps a number in single precision and widens it before it hashes
// says the hash of another spelling than it sends; Matches knows that one, and only for the fields that are so.
//
// # Descriptions
//
// A job type is described in the form of the surface ("Schema Structure"): schema_id, inputs, outputs,
// verification_mode, hash_rules and provenance, where a field has type, required and description. Schema is that
// document; those of the four job types are in schemas. Everything else follows from it: the check of a payload, its
// defaults, the JSON Schema (2020-12), and whether the Go types are right, which a test compares. A field may also have
//
//	properties   an object's fields, each described in the same way
//	values       what all other members of an object are; without it they may be anything, and are kept
//	items        what the elements of an array are
//	enum         the strings that are allowed
//	minimum      the least number that is allowed
//	maximum      the greatest
//	default      what an absent field stands for
//	format       "sha256": 64 hex digits, perhaps after "sha256:"; "float": a number in single precision
//
// with the meaning of JSON Schema, where values is additionalProperties. A field without type may be anything. One that
// is not required may be null, which is as if it was absent. An integer has no point: 1.0 is none, as for the programs
// that read it into a number of 64 bits.
//
// # Errors
//
// What is wrong with a payload is said in Faults, each with the path of the field, as in
//
//	inputs.candidates[3].id is missing
//
// Decode and Schema.Check look at each field by itself. The Validate methods look at what fields say together, and at a
// result beside its request. A provenance that lacks something is not a fault, and the result counts: Schema.Lacks
// lists it, to be recorded.
package oa

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"guild"
)

// The job types that are known, as ParseID reads them.
const (
	CodeChunkAnalysis = "oa.code_chunk_analysis.v1"
	RetrievalRerank   = "oa.retrieval_rerank.v1"
	SandboxRun        = "oa.sandbox_run.v1"
	Embedding         = "oa.embedding.v1"
)

// Limits on what is read.
const (
	MaxSize   = 4 << 20  // bytes of a payload or an envelope
	MaxSchema = 64 << 10 // bytes of a description
	MaxFaults = 20       // faults that are listed of one document
	MaxID     = 128      // bytes of a job type
)

// Reasons why something is not a typed job.
var (
	ErrTooBig  = errors.New("over the size limit")
	ErrInvalid = errors.New("invalid")           // what Faults are
	ErrID      = errors.New("not a job type")    // want oa.<domain>.<operation>.v<version>
	ErrUnknown = errors.New("unknown job type")  // no description is known of it
	ErrVersion = errors.New("another version")   // of the schema, with another major number
	ErrHash    = errors.New("another job hash")  // than that of the payload
	ErrSchema  = errors.New("not a description") // of a job type
)

// ID names a job type: oa.<name>.v<version>.
type ID struct {
	Name    string // as "embedding", or "<domain>.<operation>"; lower case
	Version int    // from 1
}

// aliases are the names by which others call a job type, and ours.
var aliases = map[string]string{"embeddings": "embedding"}

// ParseID reads the name of a job type. oa.embeddings.v1 is read as oa.embedding.v1.
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
		if !isWord(part) {
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

// isWord reports whether s is one part of a name: lower-case letters, digits, _ and -.
func isWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// mustID is the ID of one of the job types that are known.
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

// Kind is the kind of the requests for the job type (the OpenAgents surface, "NIP-90 Job Events": 5050). The job type
// travels in a parameter; the kind only routes.
func (id ID) Kind() int { return guild.KindOf(id.String()) }

// MarshalText writes the form of String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what ParseID reads.
func (id *ID) UnmarshalText(b []byte) error {
	parsed, err := ParseID(string(b))
	*id = parsed
	return err
}
