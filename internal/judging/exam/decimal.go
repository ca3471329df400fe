package exam

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// decimal is a finite decimal number of any size: ±0.digits × 10^exp. digits has no zero at either end, so that equal
// numbers are equal structs. It is empty for zero.
type decimal struct {
	negative bool
	digits   string
	exp      int64
}

// maxExponent limits the digits of an exponent that parseDecimal accepts, so that no arithmetic with it overflows.
const maxExponent = 15

// parseDecimal parses numbers such as "12", "-.5" and "1e400". It rejects NaN, infinities and exponents of too many
// digits.
func parseDecimal(s string) (decimal, bool) {
	var d decimal
	if s != "" && (s[0] == '-' || s[0] == '+') {
		d.negative, s = s[0] == '-', s[1:]
	}
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
		if exponent == "" {
			return decimal{}, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole+fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return decimal{}, false
	}
	significant := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(significant, "0")
	if d.digits == "" {
		return decimal{}, true
	}
	d.exp = int64(len(significant) - len(fraction))
	if exponent != "" {
		n, err := strconv.ParseInt(exponent, 10, 64)
		if err != nil || len(strings.TrimLeft(exponent, "+-0")) > maxExponent {
			return decimal{}, false
		}
		d.exp += n
	}
	return d, true
}

// whole reports whether the number is an integer.
func (d decimal) whole() bool { return d.exp >= int64(len(d.digits)) || d.digits == "" }

// Bounds of exact arithmetic. Longer numbers are rounded, and exponents beyond the second bound count as the bound.
const (
	maxExact = 1_000      // digits and exponent
	maxScale = 10_000_000 // exponent
)

// rat returns the number, rounded if it is beyond the bounds of exact arithmetic.
func (d decimal) rat() *big.Rat {
	r, _ := new(big.Rat).SetString(d.text())
	return r
}

func (d decimal) text() string {
	digits := d.digits[:min(len(d.digits), maxExact)]
	if digits == "" {
		return "0"
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	exp := max(d.exp, -maxScale) // smaller is as good as zero
	return sign + digits + "e" + strconv.FormatInt(exp-int64(len(digits)), 10)
}

// near reports whether exact arithmetic with the number is cheap.
func (d decimal) near() bool { return d.exp >= -maxExact && d.exp <= maxExact }

// within reports whether two numbers differ by at most abs, or by at most the part rel of the first.
func (t tolerance) within(want, got decimal) bool {
	if want.near() && got.near() {
		a, b := want.rat(), got.rat()
		off := new(big.Rat).Sub(a, b)
		off.Abs(off)
		abs, rel := exactly(t.abs), exactly(t.rel)
		return off.Cmp(abs) <= 0 || off.Cmp(rel.Mul(rel, a.Abs(a))) <= 0
	}
	// Only the distance of such exponents matters, because no double reaches them.
	most := max(want.exp, got.exp)
	shift := most - min(max(most, -maxScale), maxScale)
	if shift < 0 && t.abs > 0 {
		return true
	}
	want.exp, got.exp = want.exp-shift, got.exp-shift
	const precision = 256 // bits
	float := func(text string) *big.Float {
		f, _ := new(big.Float).SetPrec(precision).SetString(text)
		return f
	}
	a, b := float(want.text()), float(got.text())
	off := new(big.Float).Sub(a, b)
	off.Abs(off)
	part := new(big.Float).SetPrec(precision).SetFloat64(min(t.rel, math.MaxFloat64))
	return off.Cmp(new(big.Float).SetFloat64(t.abs)) <= 0 || off.Cmp(part.Mul(part, a.Abs(a))) <= 0
}

// exactly returns the decimal number that a double is written as.
func exactly(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return r
}
