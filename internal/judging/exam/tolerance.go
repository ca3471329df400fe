package exam

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// tolerance is the allowed difference of two numbers that count as equal.
type tolerance struct{ abs, rel float64 }

// sameNumber compares two JSON numbers by value. Without a tolerance, integers are compared exactly, however many
// digits they have. NaN equals NaN, and an infinity equals only itself.
func (t tolerance) sameNumber(want, got string) bool {
	if isWhole(want) && isWhole(got) && t == (tolerance{}) {
		return wholeDigits(want) == wholeDigits(got)
	}
	a, errA := strconv.ParseFloat(want, 64)
	b, errB := strconv.ParseFloat(got, 64)
	if errA != nil && !errors.Is(errA, strconv.ErrRange) || errB != nil && !errors.Is(errB, strconv.ErrRange) {
		return false
	}
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return true
	}
	if math.IsInf(a, 0) || math.IsInf(b, 0) {
		return false
	}
	return math.Abs(a-b) <= max(t.abs, t.rel*math.Abs(a))
}

// sameWords compares the words between white space; numbers are compared by value.
func (t tolerance) sameWords(want, got string) bool {
	wanted := strings.Fields(want)
	i := 0
	for word := range strings.FieldsSeq(got) {
		if i == len(wanted) || word != wanted[i] && !(isNumber(wanted[i]) && isNumber(word) && t.sameNumber(wanted[i], word)) {
			return false
		}
		i++
	}
	return i == len(wanted)
}

// isNumber reports whether a word is a decimal number.
func isNumber(word string) bool {
	if strings.ContainsAny(word, "xX_pP") {
		return false // notations that only Go has
	}
	_, err := strconv.ParseFloat(word, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

func isWhole(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// wholeDigits returns the normal form of an integer.
func wholeDigits(s string) string {
	digits, negative := strings.CutPrefix(s, "-")
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0"
	}
	if negative {
		return "-" + digits
	}
	return digits
}

// sameJSON compares two JSON texts by value: the order of members is ignored, that of elements is not.
func (t tolerance) sameJSON(want, got []byte) bool {
	a, errA := decodeJSON(want)
	b, errB := decodeJSON(got)
	return errA == nil && errB == nil && t.sameValue(a, b)
}

// decodeJSON decodes exactly one JSON value. Numbers keep all digits.
func decodeJSON(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// sameValue compares decoded JSON values. Numbers are compared by value, members without regard to order.
func (t tolerance) sameValue(want, got any) bool {
	switch want := want.(type) {
	case json.Number:
		got, ok := got.(json.Number)
		return ok && t.sameNumber(want.String(), got.String())
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i := range want {
			if !t.sameValue(want[i], got[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for k, v := range want {
			if other, there := got[k]; !there || !t.sameValue(v, other) {
				return false
			}
		}
		return true
	default:
		return want == got
	}
}
