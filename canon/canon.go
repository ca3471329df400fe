// Package canon writes JSON in the one form that OpenAgents' hashes are taken of (the OpenAgents surface,
// "Hashing Rules"): no white space, object keys sorted by code point, strings and keys escaped and numbers
// spelled as serde_json does. It is not RFC 8785: there 1.0 becomes 1, here it stays 1.0.
//
// The package never guesses. A value that two readers could understand differently is refused: an object with
// the same key twice, a number beyond the range of a double, a lone surrogate, bytes that are not UTF-8. It
// does not care what the JSON means. It links nothing but the standard library.
//
// Two of the published vectors (float-333333333.33333329 and float-123456789012345680000) hold a number that
// the serde version which made them read one unit in the last place too low. They are not imitated.
package canon

import (
	"errors"
	"fmt"

	"guild/digest"
)

// MaxDepth is how deep arrays and objects may nest, as in serde_json.
const MaxDepth = 127

// Reasons why a value has no canonical form.
var (
	ErrSyntax    = errors.New("not JSON")
	ErrDepth     = errors.New("nested too deep")
	ErrNumber    = errors.New("number beyond the range of a double")
	ErrTrailing  = errors.New("something follows the value")
	ErrDuplicate = errors.New("duplicate key in an object")
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

// Hash returns the SHA-256 of the canonical form of src.
func Hash(src []byte) (digest.SHA256, error) {
	b, err := Canonical(src)
	if err != nil {
		return digest.SHA256{}, err
	}
	return digest.Sum(b), nil
}
