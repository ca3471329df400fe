package guild

import "guild/digest"

// Hash is the SHA-256 that identifies a bundle, a delivery, a verdict or a receipt.
type Hash = digest.SHA256

// Sum returns the hash of b.
func Sum(b []byte) Hash { return digest.Sum(b) }

// ParseHash parses "sha256:<hex>" or bare hex.
func ParseHash(s string) (Hash, error) { return digest.Parse(s) }
