// Package digest represents the SHA-256 of content. It imports only the standard library, so that small formats such
// as canon can be used without the rest of guild.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// SHA256 is a SHA-256 digest. It is written as "sha256:<64 hex digits>"; bare hex is also read. The zero value means
// no content and is written as "".
type SHA256 [sha256.Size]byte

// Sum returns the digest of b.
func Sum(b []byte) SHA256 { return sha256.Sum256(b) }

// Parse parses "sha256:<hex>" or bare hex.
func Parse(s string) (SHA256, error) {
	var h SHA256
	digits := strings.TrimPrefix(s, "sha256:")
	if len(digits) != hex.EncodedLen(len(h)) {
		return SHA256{}, fmt.Errorf("hash %.80q: want 64 hex digits", s)
	}
	if _, err := hex.Decode(h[:], []byte(digits)); err != nil {
		return SHA256{}, fmt.Errorf("hash %.80q: %w", s, err)
	}
	return h, nil
}

// String returns "sha256:<hex>".
func (h SHA256) String() string { return "sha256:" + h.Hex() }

// Hex returns the hex digits without prefix, for file names and tags.
func (h SHA256) Hex() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether h was never set.
func (h SHA256) IsZero() bool { return h == SHA256{} }

// MarshalText writes the form of String; the zero digest as "".
func (h SHA256) MarshalText() ([]byte, error) {
	if h.IsZero() {
		return nil, nil
	}
	return []byte(h.String()), nil
}

// UnmarshalText parses the form of Parse; "" is the zero digest.
func (h *SHA256) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*h = SHA256{}
		return nil
	}
	parsed, err := Parse(string(b))
	*h = parsed
	return err
}
