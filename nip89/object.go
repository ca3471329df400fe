package nip89

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"guild"
)

// object is a JSON object from which known members are removed one by one. Its values are valid JSON without
// surrounding space. The content is validated only once, as a whole, because announcements are read by the hundred
// thousand.
type object map[string]json.RawMessage

// members splits a valid JSON object into its members, or returns nil if raw is not an object. Of duplicate names the
// last counts.
func members(raw json.RawMessage) object {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	o := object{}
	for rest := skipSpace(raw[1:]); rest[0] != '}'; rest = next(rest) {
		name, after := cut(rest)
		var value json.RawMessage
		value, rest = cut(skipSpace(skipSpace(after)[1:])) // skips the colon
		if key, ok := stringOf(name); ok {
			o[key] = value
		}
	}
	return o
}

// elements splits a valid JSON array, or returns nil if raw is not an array.
func elements(raw json.RawMessage) (list []json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	list = []json.RawMessage{}
	for rest := skipSpace(raw[1:]); rest[0] != ']'; rest = next(rest) {
		var value json.RawMessage
		value, rest = cut(rest)
		list = append(list, value)
	}
	return list
}

// next skips the comma after a value in an object or array, if any.
func next(rest json.RawMessage) json.RawMessage {
	if rest = skipSpace(rest); rest[0] == ',' {
		rest = skipSpace(rest[1:])
	}
	return rest
}

func skipSpace(raw json.RawMessage) json.RawMessage {
	for len(raw) > 0 && (raw[0] == ' ' || raw[0] == '\n' || raw[0] == '\t' || raw[0] == '\r') {
		raw = raw[1:]
	}
	return raw
}

// cut splits valid JSON after its first value.
func cut(raw json.RawMessage) (value, rest json.RawMessage) {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 { // the end of the enclosing object or array
				return raw[:i], raw[i:]
			}
			depth--
		case ',', ' ', '\n', '\t', '\r', ':':
			if depth == 0 {
				return raw[:i], raw[i:]
			}
			continue
		default: // inside a number or a literal
			continue
		}
		if depth == 0 {
			return raw[:i+1], raw[i+1:]
		}
	}
	return raw, nil
}

// stringOf parses a JSON string.
func stringOf(raw json.RawMessage) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// take moves a member into v and removes it, if it is present and has the type of v.
func take[T string | float64 | *float64 | uint64 | uint32](o object, name string, v *T) {
	raw, ok := o[name]
	if !ok || string(raw) == "null" {
		return
	}
	var err error
	switch v := any(v).(type) {
	case *string:
		var s string
		if s, ok = stringOf(raw); ok {
			*v = s
		}
	case *float64:
		*v, ok = numberOf(raw, *v)
	case **float64:
		var f float64
		if f, ok = numberOf(raw, 0); ok {
			*v = &f
		}
	case *uint64:
		*v, err = strconv.ParseUint(string(raw), 10, 64)
	case *uint32:
		var n uint64
		n, err = strconv.ParseUint(string(raw), 10, 32)
		*v = uint32(n)
	}
	if ok && err == nil {
		delete(o, name)
	}
}

// numberOf parses a JSON number. If raw is not one, it returns old and false.
func numberOf(raw json.RawMessage, old float64) (float64, bool) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return old, false
	}
	return f, true
}

func (o object) takeMsat(name string, m *guild.Msat) {
	var n uint64
	take(o, name, &n)
	if n > 0 && n <= math.MaxInt64 {
		*m = guild.Msat(n)
	}
}

func (o object) takeCount(name string, count *int) {
	var n uint32
	take(o, name, &n)
	if n > 0 && n <= math.MaxInt32 {
		*count = int(n)
	}
}

// words removes and returns a member that is a word, a number, or a list of both. It ignores other elements of a list.
func (o object) words(name string) []string {
	raw, ok := o[name]
	if !ok {
		return nil
	}
	list := elements(raw)
	if list == nil {
		list = []json.RawMessage{raw}
	}
	var words []string
	for _, item := range list {
		word, ok := stringOf(item)
		if ok {
			ok = len(word) <= MaxValue
		} else { // a small integer
			n, err := strconv.ParseUint(string(item), 10, 32)
			word, ok = strconv.FormatUint(n, 10), err == nil
		}
		if ok && len(words) < MaxWords {
			words = append(words, word)
		}
	}
	if words != nil {
		delete(o, name)
	}
	return words
}

// inside lets read take members out of the object under name, and keeps the members that are left.
func (o object) inside(name string, read func(object)) {
	inner := members(o[name])
	if inner == nil {
		return
	}
	size := len(inner)
	read(inner)
	switch {
	case len(inner) == 0:
		delete(o, name)
	case len(inner) < size:
		if b, err := json.Marshal(inner); err == nil {
			o[name] = b
		}
	}
}
