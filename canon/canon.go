// Package canon writes JSON in the canonical form over which OpenAgents computes hashes (the OpenAgents surface,
// "Hashing Rules"): no white space, object keys sorted by code point, strings and numbers in the spelling of
// serde_json. It is not RFC 8785, which writes 1.0 as 1; here 1.0 stays 1.0.
//
// The package never guesses. It refuses every value that two readers could understand differently: an object with a
// duplicate key, a number beyond the range of a double, a lone surrogate, invalid UTF-8. It does not interpret the
// JSON. It links only the standard library.
//
// Two of the published vectors (float-333333333.33333329 and float-123456789012345680000) contain a number that the
// serde version of their author read one unit in the last place too low. The package does not imitate that.
package canon

import (
	"errors"
	"fmt"

	"guild/digest"
)

// MaxDepth limits the nesting of arrays and objects, as in serde_json.
const MaxDepth = 127

// Reasons why a value has no canonical form.
var (
	ErrSyntax    = errors.New("not JSON")
	ErrDepth     = errors.New("nested too deep")
	ErrNumber    = errors.New("number beyond the range of a double")
	ErrTrailing  = errors.New("something follows the value")
	ErrDuplicate = errors.New("duplicate key in an object")
)

// Append appends the canonical form of src, which is one JSON value, to dst. On error it returns dst unchanged.
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
