package token

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"guild/cashu"
)

// MaxPayment limits the characters of a Payment that is read.
const MaxPayment = 48 << 10

// Payment is the answer to a Request: what is sent over its transport (NUT-18).
type Payment struct {
	ID     string        `json:"id,omitempty"` // of the request
	Memo   string        `json:"memo,omitempty"`
	Mint   string        `json:"mint"`
	Unit   string        `json:"unit"`
	Proofs []cashu.Proof `json:"proofs"`
}

// ParsePayment parses a payment. It does not check what the proofs are worth, but that they add up to an amount.
func ParsePayment(s string) (p Payment, err error) {
	if len(s) > MaxPayment {
		return p, fmt.Errorf("a payment of %d characters; at most %d are read", len(s), MaxPayment)
	}
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		return Payment{}, fmt.Errorf("payment: %w", err)
	}
	if p.Mint == "" || p.Unit == "" || len(p.Proofs) == 0 {
		return Payment{}, errors.New("payment: it lacks a mint, a unit or proofs")
	}
	for i, one := range p.Proofs {
		if one.C == (cashu.Point{}) || one.Secret == "" {
			return Payment{}, fmt.Errorf("payment: proof %d lacks a secret or a signature", i+1)
		}
	}
	_, err = cashu.Worth(p.Proofs)
	return p, err
}

// String writes the payment as JSON.
func (p Payment) String() string {
	b, err := json.Marshal(p)
	if err != nil { // of these types, none can fail
		panic(err)
	}
	return string(b)
}
