package nip89

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"guild"
)

// object is a JSON object whose fields are taken out as they are understood. Its values are valid JSON without space
// around them: that is checked once, for the whole content, and announcements are read by the hundred thousand.
type object map[string]json.RawMessage

// members splits an object of valid JSON into its fields, of which the last counts if two have the same name; nil if
// it is no object.
func members(raw json.RawMessage) object {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	o := object{}
	for rest := skipSpace(raw[1:]); rest[0] != '}'; rest = next(rest) {
		name, after := cut(rest)
		var value json.RawMessage
		value, rest = cut(skipSpace(skipSpace(after)[1:])) // over the colon
		if key, ok := stringOf(name); ok {
			o[key] = value
		}
	}
	return o
}

// elements splits an array of valid JSON; nil if it is none.
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

// next goes to what follows a value in an object or an array: after a comma, or its end.
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

// cut takes the first value off valid JSON.
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
			if depth == 0 { // that of the object or array around a number
				return raw[:i], raw[i:]
			}
			depth--
		case ',', ' ', '\n', '\t', '\r', ':':
			if depth == 0 {
				return raw[:i], raw[i:]
			}
			continue
		default: // within a number or a literal, which ends before what ends it
			continue
		}
		if depth == 0 {
			return raw[:i+1], raw[i+1:]
		}
	}
	return raw, nil
}

// stringOf reads a JSON string.
func stringOf(raw json.RawMessage) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// take moves a field into v if it is there and of that type: a string, a number, or one that may be missing.
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

// numberOf reads a JSON number; without one it returns old.
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

// words takes a field that is a word, a number, or a list of both. Items of a list that are neither are left
// out.
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
		if word, ok := wordOf(item); ok && len(words) < MaxWords {
			words = append(words, word)
		}
	}
	if words != nil {
		delete(o, name)
	}
	return words
}

// wordOf reads a string or a small integer.
func wordOf(raw json.RawMessage) (string, bool) {
	if s, ok := stringOf(raw); ok {
		return s, len(s) <= MaxValue
	}
	n, err := strconv.ParseUint(string(raw), 10, 32)
	return strconv.FormatUint(n, 10), err == nil
}

// recipient takes a field that is an age recipient. What is none stays where it is.
func (o object) recipient(name string) string {
	recipient, ok := stringOf(o[name])
	if !ok || !IsAgeRecipient(recipient) {
		return ""
	}
	delete(o, name)
	return recipient
}

// inside reads a field that is an object, and keeps what read leaves of it.
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
