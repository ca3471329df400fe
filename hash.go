package guild

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Hash is a SHA-256 digest. It is written "sha256:<64 hex digits>"; bare hex is accepted on reading.
type Hash [sha256.Size]byte

// Sum hashes b.
func Sum(b []byte) Hash { return sha256.Sum256(b) }

// ParseHash reads "sha256:<hex>" or bare hex.
func ParseHash(s string) (Hash, error) {
	var h Hash
	digits := strings.TrimPrefix(s, "sha256:")
	if len(digits) != hex.EncodedLen(len(h)) {
		return Hash{}, fmt.Errorf("hash %.80q: want 64 hex digits", s)
	}
	if _, err := hex.Decode(h[:], []byte(digits)); err != nil {
		return Hash{}, fmt.Errorf("hash %.80q: %w", s, err)
	}
	return h, nil
}

// String returns "sha256:<hex>".
func (h Hash) String() string { return "sha256:" + h.Hex() }

// Hex returns the bare digits, for file names and tags.
func (h Hash) Hex() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether h was never set.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText writes the form of String; the zero hash is empty.
func (h Hash) MarshalText() ([]byte, error) {
	if h.IsZero() {
		return nil, nil
	}
	return []byte(h.String()), nil
}

// UnmarshalText reads what ParseHash reads; empty is the zero hash.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*h = Hash{}
		return nil
	}
	parsed, err := ParseHash(string(b))
	*h = parsed
	return err
}
