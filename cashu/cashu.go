// Package cashu is the format and the cryptography of Cashu ecash on secp256k1: blind signatures and their proofs (NUT-00,
// NUT-12), keysets (NUT-01, NUT-02), spending conditions (NUT-10, NUT-11, NUT-14), secrets from a seed (NUT-13), tokens,
// payment requests (NUT-18) and signed quotes (NUT-20). Keysets of version 02, which are of another curve, are refused.
//
// The package has no clock, network or disk, and keeps no balance: a proof that passes all checks here may have been spent.
// What it decodes is bounded.
package cashu

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Proof is ecash (NUT-00): whoever knows it, and meets the condition in its secret, can spend it once.
type Proof struct {
	Amount  uint64      `json:"amount"` // in units of its keyset
	Keyset  string      `json:"id"`
	Secret  string      `json:"secret"` // any text, or a Condition
	C       Point       `json:"C"`      // the mint's signature, unblinded
	Witness WitnessText `json:"witness,omitempty"`
	DLEQ    *DLEQ       `json:"dleq,omitempty"` // with R
}

// Output is a blinded message (NUT-00): a secret that the mint is asked to sign without seeing it.
type Output struct {
	Amount uint64 `json:"amount"`
	Keyset string `json:"id"`
	B      Point  `json:"B_"`
}

// Signature is the mint's signature on an Output (NUT-00).
type Signature struct {
	Amount uint64 `json:"amount"`
	Keyset string `json:"id"`
	C      Point  `json:"C_"`
	DLEQ   *DLEQ  `json:"dleq,omitempty"` // without R
}

// ErrOverflow means that amounts add up to more than any mint has.
var ErrOverflow = errors.New("the sum of the amounts is too large")

// MaxProofs limits the proofs of a token, and the inputs of a transaction.
const MaxProofs = 1000

// maxSum is the largest sum of amounts, which is safe in signed arithmetic and in JavaScript's numbers.
const maxSum = 1<<53 - 1

// Sum returns the sum of amounts, or ErrOverflow.
func Sum(amounts ...uint64) (sum uint64, err error) {
	for _, a := range amounts {
		if a > maxSum || sum+a > maxSum {
			return 0, ErrOverflow
		}
		sum += a
	}
	return sum, nil
}

// Worth returns the sum of the amounts of proofs, or ErrOverflow.
func Worth(proofs []Proof) (uint64, error) {
	amounts := make([]uint64, len(proofs))
	for i, p := range proofs {
		amounts[i] = p.Amount
	}
	return Sum(amounts...)
}

// Split returns the powers of two that add up to an amount, the smallest first.
func Split(amount uint64) (powers []uint64) {
	for ; amount > 0; amount &= amount - 1 {
		powers = append(powers, 1<<bits.TrailingZeros64(amount))
	}
	return powers
}

// Fee returns what a mint takes for the proofs as inputs, in units of the keysets, rounded up (NUT-02). The error says which
// keyset is unknown.
func Fee(proofs []Proof, ppk func(keyset string) (fee uint64, ok bool)) (uint64, error) {
	sum := uint64(0)
	for _, p := range proofs {
		fee, ok := ppk(p.Keyset)
		if !ok {
			return 0, fmt.Errorf("keyset %.70q is unknown", p.Keyset)
		}
		if fee > math.MaxUint32 {
			return 0, fmt.Errorf("keyset %.70q: a fee of %d thousandths for each proof", p.Keyset, fee)
		}
		sum += fee
	}
	return (sum + 999) / 1000, nil
}
