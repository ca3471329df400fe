// Package canon writes JSON in the one form that OpenAgents' hashes are taken of (the OpenAgents surface,
// "Hashing Rules"): no white space, object keys sorted by code point, strings and keys escaped and numbers
// spelled as serde_json does. It is not RFC 8785: there 1.0 becomes 1, here it stays 1.0.
//
// The package never guesses. A value that two readers could understand differently is refused: an object with
// the same key twice, a number beyond the range of a double, a lone surrogate, bytes that are not UTF-8. It
// does not care what the JSON means.
//
// Two of the published vectors (float-333333333.33333329 and float-123456789012345680000) hold a number that
// the serde version which made them read one unit in the last place too low. They are not imitated.
package canon

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"guild"
)

// MaxDepth is how deep arrays and objects may nest, as in serde_json.
const MaxDepth = 127

// Reasons why a value has no canonical form. That of a key that stands twice in an object is jsontext.ErrDuplicateName.
var (
	ErrSyntax   = errors.New("not JSON")
	ErrDepth    = errors.New("nested too deep")
	ErrNumber   = errors.New("number beyond the range of a double")
	ErrTrailing = errors.New("something follows the value")
)

// Append appends the canonical form of src, which is one JSON value, to dst. On error dst is returned as it
// was.
func Append(dst, src []byte) ([]byte, error) {
	w := writer{src: src, out: dst}
	err := w.value(0)
	if err == nil {
		err = w.end()
	}
	if err != nil {
		return dst, fmt.Errorf("canonical form: %w", err)
	}
	return w.out, nil
}

// Canonical returns the canonical form of src, which is one JSON value.
func Canonical(src []byte) ([]byte, error) {
	return Append(make([]byte, 0, len(src)), src)
}

// Hash is the SHA-256 of the canonical form of src.
func Hash(src []byte) (guild.Hash, error) {
	b, err := Canonical(src)
	if err != nil {
		return guild.Hash{}, err
	}
	return sha256.Sum256(b), nil
}

// Marshal encodes v by the rules of encoding/json and returns the canonical form. Unlike encoding/json it
// refuses strings that are not UTF-8. A float64 of 1 is spelled 1: what must read 1.0 uses AppendFloat.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v, jsonv1.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false))
	if err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return Canonical(b)
}

// HashValue is the SHA-256 of what Marshal returns.
func HashValue(v any) (guild.Hash, error) {
	b, err := Marshal(v)
	if err != nil {
		return guild.Hash{}, err
	}
	return sha256.Sum256(b), nil
}
