package oa

import (
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"guild/canon"
)

// Number is a number as it is spelled on the wire: 1.0 stays 1.0, because hashes depend on it. "" means no number.
type Number string

// Single returns f as programs spell it that store it in single precision and hash it in double: 0.1 becomes
// 0.10000000149011612. Their job hash is the same whether they read 0.1 or this. f must be finite.
func Single(f float64) Number { return Number(canon.AppendFloat(nil, float64(float32(f)))) }

// Float returns the value of the number, or NaN without one.
func (n Number) Float() float64 {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// MarshalJSON writes the number with its spelling.
func (n Number) MarshalJSON() ([]byte, error) {
	if jsontext.Value(n).Kind() != '0' || !jsontext.Value(n).IsValid() {
		return nil, fmt.Errorf("%.40q is not a number", string(n))
	}
	return []byte(n), nil
}

// UnmarshalJSON reads a number.
func (n *Number) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() != '0' {
		return fmt.Errorf("%.40q is not a number", b)
	}
	*n = Number(b)
	return nil
}
