package exam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// tolerance is the allowed difference of two numbers that count as equal.
type tolerance struct{ abs, rel float64 }

// sameNumber compares two JSON numbers by value. Integers, and numbers that a double cannot hold, are compared by all of
// their digits; of others, different digits of one double are equal. NaN equals NaN, and an infinity equals only itself.
func (t tolerance) sameNumber(want, got string) bool {
	a, okA := parseDecimal(want)
	b, okB := parseDecimal(got)
	if !okA || !okB {
		return sameSpecial(want, got)
	}
	if a == b || !(a.whole() && b.whole()) && sameDouble(want, got) {
		return true
	}
	return t != (tolerance{}) && t.within(a, b)
}

// sameDouble reports whether two texts are digits of one double other than zero.
func sameDouble(want, got string) bool {
	a, errA := strconv.ParseFloat(want, 64)
	b, errB := strconv.ParseFloat(got, 64)
	return errA == nil && errB == nil && a == b && a != 0
}

// sameSpecial compares texts of which one at least is no finite number, or has an exponent that is not calculated with.
func sameSpecial(want, got string) bool {
	if want == got {
		return true
	}
	a, errA := strconv.ParseFloat(want, 64)
	b, errB := strconv.ParseFloat(got, 64)
	return errA == nil && errB == nil && (math.IsNaN(a) && math.IsNaN(b) || math.IsInf(a, 0) && a == b)
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

// sameJSON compares two JSON texts by value: the order of members is ignored, that of elements is not.
func (t tolerance) sameJSON(want, got []byte) bool {
	a, errA := decodeJSON(want)
	b, errB := decodeJSON(got)
	return errA == nil && errB == nil && t.sameValue(a, b)
}

// decodeJSON decodes exactly one JSON value. Numbers keep all digits. An object with two members of one name is an
// error, because programs differ in which of them they take.
func decodeJSON(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	if name, twice := repeatedMember(b); twice {
		return nil, fmt.Errorf("%w: %s", errRepeated, quote(name))
	}
	return v, nil
}

var errRepeated = errors.New("a member is there twice")

// repeatedMember returns the name of a member that an object of a valid JSON text has twice.
func repeatedMember(b []byte) (name string, twice bool) {
	d := json.NewDecoder(bytes.NewReader(b))
	type level struct {
		names map[string]bool // of an object; nil for an array
		value bool            // the next token of an object is a value
	}
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return "", false
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if n := len(levels); n > 0 && levels[n-1].names != nil {
			top := &levels[n-1]
			if text, isText := token.(string); isText && !top.value {
				if top.names[text] {
					return text, true
				}
				top.names[text], top.value = true, true
				continue
			}
			top.value = false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
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
