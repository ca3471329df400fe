package clawnet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Bounds of a Decimal: more digits than any currency has, and few enough to compare exactly.
const (
	maxDigits   = 64 // bytes of its text
	maxExponent = 64 // of ten, either way
)

// Decimal is a JSON number as it was written: 85.0 stays 85.0. Amounts of money are decimals, because a float would
// round them. Cmp compares values; == compares spellings. The zero Decimal is the number 0.
type Decimal struct{ text string }

// ParseDecimal parses a JSON number of at most 64 bytes, with an exponent of at most 64.
func ParseDecimal(s string) (Decimal, error) {
	isNumber := s != "" && len(s) <= maxDigits && strings.ContainsRune("-0123456789", rune(s[0])) && strings.TrimSpace(s) == s && json.Valid([]byte(s))
	if !isNumber {
		return Decimal{}, fmt.Errorf("%.80q is not a number of at most %d characters", s, maxDigits)
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		if n, err := strconv.Atoi(exponent); err != nil || n > maxExponent || n < -maxExponent {
			return Decimal{}, fmt.Errorf("%.80q has an exponent beyond %d", s, maxExponent)
		}
	}
	return Decimal{s}, nil
}

// String returns the number as it was written.
func (d Decimal) String() string { return cmp.Or(d.text, "0") }

// Plain returns the number without an exponent and trailing zeros: 5e2 and 500.00 are both 500.
func (d Decimal) Plain() string {
	r := d.rat()
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(maxDigits+maxExponent), "0")
}

// Cmp returns -1, 0 or 1 if d is less than, equal to or greater than other.
func (d Decimal) Cmp(other Decimal) int { return d.rat().Cmp(other.rat()) }

// Sign returns -1, 0 or 1 if the number is negative, zero or positive.
func (d Decimal) Sign() int { return d.rat().Sign() }

// rat returns the exact value.
func (d Decimal) rat() *big.Rat {
	r, ok := new(big.Rat).SetString(d.String())
	if !ok {
		return new(big.Rat) // unreachable: ParseDecimal has checked it
	}
	return r
}

// MarshalJSON writes the number as it was written.
func (d Decimal) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON parses a number as ParseDecimal does. As usual, null changes nothing.
func (d *Decimal) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	read, err := ParseDecimal(string(b))
	if err != nil {
		return err
	}
	*d = read
	return nil
}
