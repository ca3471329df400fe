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

// Decimal is a JSON number in the spelling that it was written in: 85.0 stays 85.0. Amounts of money are decimals,
// because a float would change what they say. Two are compared by Cmp; == compares the spelling. The zero Decimal
// is the number 0.
type Decimal struct{ text string }

// ParseDecimal reads a number as JSON writes it, of at most 64 bytes and with an exponent of at most 64.
func ParseDecimal(s string) (Decimal, error) {
	if len(s) > maxDigits || !isNumber(s) {
		return Decimal{}, fmt.Errorf("%.80q is not a number of at most %d characters", s, maxDigits)
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		if n, err := strconv.Atoi(exponent); err != nil || n > maxExponent || n < -maxExponent {
			return Decimal{}, fmt.Errorf("%.80q has an exponent beyond %d", s, maxExponent)
		}
	}
	return Decimal{s}, nil
}

// isNumber reports whether s is a JSON number and nothing else.
func isNumber(s string) bool {
	return s != "" && strings.ContainsRune("-0123456789", rune(s[0])) && strings.TrimSpace(s) == s && json.Valid([]byte(s))
}

// String returns the number as it was written.
func (d Decimal) String() string { return cmp.Or(d.text, "0") }

// Plain returns the number without an exponent and without zeros that say nothing: 5e2 and 500.00 are both 500.
func (d Decimal) Plain() string {
	r := d.rat()
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(maxDigits+maxExponent), "0")
}

// Cmp compares by value: it is -1, 0 or 1 as d is less than, equal to or greater than other.
func (d Decimal) Cmp(other Decimal) int { return d.rat().Cmp(other.rat()) }

// Sign is -1, 0 or 1 as the number is negative, zero or positive.
func (d Decimal) Sign() int { return d.rat().Sign() }

// rat is the exact value.
func (d Decimal) rat() *big.Rat {
	r, ok := new(big.Rat).SetString(d.String())
	if !ok {
		return new(big.Rat) // cannot be: ParseDecimal has read it
	}
	return r
}

// MarshalJSON writes the number as it was written.
func (d Decimal) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON reads what ParseDecimal reads. As usual, null changes nothing.
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
