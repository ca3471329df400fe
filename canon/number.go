package canon

import (
	"bytes"
	"fmt"
	"strconv"
)

// number reads a number and writes it in the spelling of serde_json: integers that fit 64 bits exactly, all others as
// the shortest double. Most numbers already have this spelling and are copied.
func (w *writer) number() error {
	start := w.at
	if w.src[w.at] == '-' {
		w.at++
	}
	whole := w.digits()
	if whole == 0 || whole > 1 && w.src[w.at-whole] == '0' {
		w.at -= max(whole-1, 0) // the first wrong digit
		return w.unexpected()
	}
	point, digits := w.at, 0
	if w.at < len(w.src) && w.src[w.at] == '.' {
		w.at++
		if digits = w.digits(); digits == 0 {
			return w.unexpected()
		}
	}
	exponent := w.at < len(w.src) && w.src[w.at]|0x20 == 'e'
	if exponent {
		w.at++
		if w.at < len(w.src) && (w.src[w.at] == '+' || w.src[w.at] == '-') {
			w.at++
		}
		if w.digits() == 0 {
			return w.unexpected()
		}
	}
	raw := w.src[start:w.at]
	integer := digits == 0 && !exponent
	if integer && isInt64(raw, whole) || !exponent && isPlainDecimal(w.src[point:w.at], whole, digits) {
		w.out = append(w.out, raw...)
		return nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return fmt.Errorf("%.40s: %w", raw, ErrNumber)
	}
	w.out = AppendFloat(w.out, f)
	return nil
}

// digits skips decimal digits and returns their number.
func (w *writer) digits() int {
	start := w.at
	for w.at < len(w.src) && '0' <= w.src[w.at] && w.src[w.at] <= '9' {
		w.at++
	}
	return w.at - start
}

// isInt64 reports whether an integer with this number of digits fits int64 or uint64. -0 does not, because only a
// double has it.
func isInt64(raw []byte, digits int) bool {
	switch {
	case digits <= 18:
		return string(raw) != "-0"
	case digits > 20:
		return false
	}
	if _, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return true
	}
	_, err := strconv.ParseUint(string(raw), 10, 64)
	return err == nil
}

// isPlainDecimal reports whether a number with a fraction (which starts with the point) already has the shortest
// spelling of its double: at most fifteen digits, which every double preserves, no superfluous zero, and not so small
// that it needs an exponent.
func isPlainDecimal(fraction []byte, whole, digits int) bool {
	if digits == 0 || whole+digits > 15 {
		return false
	}
	return fraction[digits] != '0' && (digits < 4 || string(fraction[1:4]) != "000") || digits == 1
}

// AppendFloat appends f in the spelling of serde_json for a double: 1.0, 0.00001, 1e-6, 1e16, 1.5e300. f must be
// finite.
func AppendFloat(dst []byte, f float64) []byte {
	var buf [32]byte
	// strconv writes -1.234e+05. Take the sign and the digits without the point, and the exponent.
	digits, e, _ := bytes.Cut(strconv.AppendFloat(buf[:0], f, 'e', -1, 64), []byte{'e'})
	exponent, _ := strconv.Atoi(string(e))
	if i := bytes.IndexByte(digits, '.'); i >= 0 {
		digits = append(digits[:i:i], digits[i+1:]...)
	}
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	point := exponent + 1 // digits before the decimal point
	switch {
	case point > 16 || point <= -5: // 1e16, 1.5e300, 1e-6
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(append(dst, '.'), digits[1:]...)
		}
		return strconv.AppendInt(append(dst, 'e'), int64(exponent), 10)
	case point <= 0: // 0.00123
		dst = append(dst, "0."...)
		dst = append(dst, "0000"[:-point]...)
		return append(dst, digits...)
	case point < len(digits): // 12.34
		dst = append(append(dst, digits[:point]...), '.')
		return append(dst, digits[point:]...)
	default: // 1200.0
		dst = append(dst, digits...)
		dst = append(dst, "0000000000000000"[:point-len(digits)]...)
		return append(dst, ".0"...)
	}
}
