package oa

import (
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"guild/canon"
)

// Number is a number in the spelling that it has on the wire, because hashes depend on it: 1.0 stays 1.0. "" is none.
type Number string

// Single is f in the spelling of programs that keep it in single precision and hash it in double: 0.1 is
// 0.10000000149011612. They compute the same job hash of it, whichever of their forms they read. f must be finite.
func Single(f float64) Number { return Number(canon.AppendFloat(nil, float64(float32(f)))) }

// Float is the number's value; NaN if there is none.
func (n Number) Float() float64 {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// MarshalJSON writes the number as it is spelled.
func (n Number) MarshalJSON() ([]byte, error) {
	if jsontext.Value(n).Kind() != '0' || !jsontext.Value(n).IsValid() {
		return nil, fmt.Errorf("%.40q is no number", string(n))
	}
	return []byte(n), nil
}

// UnmarshalJSON reads a number.
func (n *Number) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() != '0' {
		return fmt.Errorf("%.40q is no number", b)
	}
	*n = Number(b)
	return nil
}
