package guild

import "guild/digest"

// Hash is the SHA-256 by which a bundle, a delivery, a verdict or a receipt is named.
type Hash = digest.SHA256

// Sum hashes b.
func Sum(b []byte) Hash { return digest.Sum(b) }

// ParseHash reads "sha256:<hex>" or bare hex.
func ParseHash(s string) (Hash, error) { return digest.Parse(s) }
