// Package canon writes JSON in the one form that OpenAgents' hashes are taken of (the OpenAgents surface,
// "Hashing Rules"): no white space, object keys sorted by code point, strings and keys escaped and numbers
// spelled as serde_json does. It is not RFC 8785: there 1.0 becomes 1, here it stays 1.0.
//
// The package never guesses. A value that two readers could understand differently is refused: an object with
// the same key twice, a number beyond the range of a double, a lone surrogate, bytes that are not UTF-8. It
// does not care what the JSON means.
//
// Two of the published vectors (float-333333333.33333329 and float-123456789012345680000) hold a number that
// the serde version which made them read one unit in the last place too low. They are not imitated.
package canon

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"guild"
)

// MaxDepth is how deep arrays and objects may nest, as in serde_json.
const MaxDepth = 127

// Reasons why a value has no canonical form. Syntax errors and duplicate keys are errors of jsontext.
var (
	ErrDepth    = errors.New("nested too deep")
	ErrNumber   = errors.New("number beyond the range of a double")
	ErrTrailing = errors.New("something follows the value")
)

// Append appends the canonical form of src, which is one JSON value, to dst. On error dst is returned as it
// was.
func Append(dst, src []byte) ([]byte, error) {
	w := writer{in: jsontext.NewDecoder(bytes.NewBuffer(src)), out: dst}
	err := w.value(0)
	if err == nil {
		err = w.end()
	}
	if err != nil {
		return dst, fmt.Errorf("canonical form: %w", err)
	}
	return w.out, nil
}

// Canonical returns the canonical form of src, which is one JSON value.
func Canonical(src []byte) ([]byte, error) {
	return Append(make([]byte, 0, len(src)), src)
}

// Hash is the SHA-256 of the canonical form of src.
func Hash(src []byte) (guild.Hash, error) {
	b, err := Canonical(src)
	if err != nil {
		return guild.Hash{}, err
	}
	return sha256.Sum256(b), nil
}

// Marshal encodes v by the rules of encoding/json and returns the canonical form. Unlike encoding/json it
// refuses strings that are not UTF-8. A float64 of 1 is spelled 1: what must read 1.0 uses AppendFloat.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v, jsonv1.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false))
	if err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return Canonical(b)
}

// HashValue is the SHA-256 of what Marshal returns.
func HashValue(v any) (guild.Hash, error) {
	b, err := Marshal(v)
	if err != nil {
		return guild.Hash{}, err
	}
	return sha256.Sum256(b), nil
}

// writer turns one value into its canonical form. Members are written where they stand and put in order when
// their object ends, so nothing is kept but spans.
type writer struct {
	in  *jsontext.Decoder
	out []byte

	members []member // of all objects that are open
	names   []byte   // their keys, decoded
	moved   []byte   // scratch of sort
}

// member is one member of an object: its decoded key in names, and key, colon and value in out.
type member struct {
	nameStart, nameEnd int
	start, end         int
}

func (w *writer) value(depth int) error {
	if depth > MaxDepth {
		return ErrDepth
	}
	switch w.in.PeekKind() {
	case '{':
		return w.object(depth)
	case '[':
		return w.array(depth)
	}
	raw, err := w.in.ReadValue()
	if err != nil {
		return err
	}
	return w.scalar(raw)
}

func (w *writer) scalar(raw []byte) (err error) {
	switch raw[0] {
	case '"':
		start := len(w.names)
		if w.names, err = jsontext.AppendUnquote(w.names, raw); err != nil {
			return err
		}
		w.out = appendString(w.out, w.names[start:])
		w.names = w.names[:start]
	case 'n', 't', 'f':
		w.out = append(w.out, raw...)
	default:
		w.out, err = appendNumber(w.out, raw)
	}
	return err
}

func (w *writer) array(depth int) error {
	if _, err := w.in.ReadToken(); err != nil {
		return err
	}
	w.out = append(w.out, '[')
	for first := true; w.in.PeekKind() != ']'; first = false {
		if !first {
			w.out = append(w.out, ',')
		}
		if err := w.value(depth + 1); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	_, err := w.in.ReadToken()
	return err
}

func (w *writer) object(depth int) error {
	if _, err := w.in.ReadToken(); err != nil {
		return err
	}
	first, names := len(w.members), len(w.names)
	w.out = append(w.out, '{')
	body := len(w.out)
	for w.in.PeekKind() != '}' {
		if len(w.members) > first {
			w.out = append(w.out, ',')
		}
		if err := w.member(depth); err != nil {
			return err
		}
	}
	w.sort(w.members[first:], body)
	w.members, w.names = w.members[:first], w.names[:names]
	w.out = append(w.out, '}')
	_, err := w.in.ReadToken()
	return err
}

func (w *writer) member(depth int) error {
	raw, err := w.in.ReadValue()
	if err != nil {
		return err
	}
	m := member{nameStart: len(w.names), start: len(w.out)}
	if w.names, err = jsontext.AppendUnquote(w.names, raw); err != nil {
		return err
	}
	m.nameEnd = len(w.names)
	w.out = appendString(w.out, w.names[m.nameStart:])
	w.out = append(w.out, ':')
	if err := w.value(depth + 1); err != nil {
		return err
	}
	m.end = len(w.out)
	w.members = append(w.members, m)
	return nil
}

// sort puts the members of one object, which stand in out from body on, in the order of their keys. Bytes of
// UTF-8 order as code points do.
func (w *writer) sort(members []member, body int) {
	byName := func(a, b member) int {
		return bytes.Compare(w.names[a.nameStart:a.nameEnd], w.names[b.nameStart:b.nameEnd])
	}
	if slices.IsSortedFunc(members, byName) {
		return
	}
	slices.SortFunc(members, byName)
	w.moved = append(w.moved[:0], w.out[body:]...)
	w.out = w.out[:body]
	for i, m := range members {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, w.moved[m.start-body:m.end-body]...)
	}
}

func (w *writer) end() error {
	switch _, err := w.in.ReadToken(); err {
	case io.EOF:
		return nil
	case nil:
		return ErrTrailing
	default:
		return err
	}
}

// appendString quotes s as serde_json does: only what must be escaped is.
func appendString(dst, s []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		if short := shortEscape(c); short != 0 {
			dst = append(dst, '\\', short)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// shortEscape is the letter that stands for c behind a backslash, 0 if there is none.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}

// appendNumber spells a JSON number as serde_json prints it: integers exactly while they fit 64 bits, all else
// as the shortest double.
func appendNumber(dst, raw []byte) ([]byte, error) {
	text := string(raw)
	if isInt64(text) {
		return append(dst, raw...), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return dst, fmt.Errorf("%.40s: %w", text, ErrNumber)
	}
	return AppendFloat(dst, f), nil
}

// isInt64 reports whether a JSON number is an integer that fits int64 or uint64. -0 is not: only a double has
// it.
func isInt64(text string) bool {
	if text == "-0" {
		return false
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return true
	}
	_, err := strconv.ParseUint(text, 10, 64)
	return err == nil
}

// AppendFloat spells f, which must be finite, as serde_json prints a double: 1.0, 0.00001, 1e-6, 1e16,
// 1.5e300.
func AppendFloat(dst []byte, f float64) []byte {
	var buf [32]byte
	digits, exponent := decimal(strconv.AppendFloat(buf[:0], f, 'e', -1, 64))
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

// decimal takes what strconv writes under 'e', as -1.234e+05, apart: the sign and digits without a point, and
// the exponent.
func decimal(b []byte) (digits []byte, exponent int) {
	mantissa, e, _ := bytes.Cut(b, []byte{'e'})
	exponent, _ = strconv.Atoi(string(e))
	if i := bytes.IndexByte(mantissa, '.'); i >= 0 {
		mantissa = append(mantissa[:i:i], mantissa[i+1:]...)
	}
	return mantissa, exponent
}
