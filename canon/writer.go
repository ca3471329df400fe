package canon

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// writer converts one value to its canonical form in one pass. Most of the JSON is already canonical and is copied.
// Members are written in their original order and sorted when their object ends, so only their positions need memory.
type writer struct {
	src []byte
	at  int // in src
	out []byte

	members []member // of all open objects
	names   []byte   // decoded keys that had escapes
	moved   []byte   // buffer of sort
}

// member is one member of an object: its decoded key, and the range of key, colon and value in out.
type member struct {
	key        []byte
	start, end int
}

// value writes the next value. depth is the number of enclosing arrays and objects, which MaxDepth limits.
func (w *writer) value(depth int) error {
	switch c := w.next(); c {
	case '"':
		return w.text()
	case '{':
		return w.object(depth)
	case '[':
		return w.array(depth)
	case 't':
		return w.word("true")
	case 'f':
		return w.word("false")
	case 'n':
		return w.word("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return w.number()
	}
	return w.unexpected()
}

// next skips white space and returns the next byte without consuming it, or 0 at the end. 0 is never valid in JSON.
func (w *writer) next() byte {
	for ; w.at < len(w.src); w.at++ {
		if c := w.src[w.at]; !isSpace(c) {
			return c
		}
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// errEnd means that the source ends within a value.
var errEnd = fmt.Errorf("%w: %w", ErrSyntax, io.ErrUnexpectedEOF)

// unexpected returns the error for the next byte.
func (w *writer) unexpected() error {
	if w.at >= len(w.src) {
		return errEnd
	}
	r, _ := utf8.DecodeRune(w.src[w.at:])
	return fmt.Errorf("%w: unexpected %q at byte %d", ErrSyntax, r, w.at)
}

// end returns an error if anything but white space follows the value.
func (w *writer) end() error {
	w.next()
	if w.at < len(w.src) {
		return fmt.Errorf("%w at byte %d", ErrTrailing, w.at)
	}
	return nil
}

func (w *writer) word(word string) error {
	for i := range word {
		if w.at == len(w.src) || w.src[w.at] != word[i] {
			return w.unexpected()
		}
		w.at++
	}
	w.out = append(w.out, word...)
	return nil
}

func (w *writer) array(depth int) error {
	if depth >= MaxDepth {
		return ErrDepth
	}
	w.at++
	w.out = append(w.out, '[')
	for first := true; ; first = false {
		c := w.next()
		if c == ']' && first {
			break
		}
		if !first {
			if c == ']' {
				break
			}
			if c != ',' {
				return w.unexpected()
			}
			w.at++
			w.out = append(w.out, ',')
		}
		if err := w.value(depth + 1); err != nil {
			return err
		}
	}
	w.at++
	w.out = append(w.out, ']')
	return nil
}

func (w *writer) object(depth int) error {
	if depth >= MaxDepth {
		return ErrDepth
	}
	if w.members == nil {
		w.members = make([]member, 0, 16)
	}
	w.at++
	w.out = append(w.out, '{')
	first, names, body, sorted := len(w.members), len(w.names), len(w.out), true
	for {
		c := w.next()
		if c == '}' {
			break
		}
		if len(w.members) > first {
			if c != ',' {
				return w.unexpected()
			}
			w.at++
			w.out = append(w.out, ',')
		}
		after, err := w.member(depth, w.members[first:])
		if err != nil {
			return err
		}
		sorted = sorted && after
	}
	w.at++
	// Keys in strictly ascending order cannot contain a duplicate. Otherwise sort finds it.
	if !sorted {
		if err := w.sort(w.members[first:], body); err != nil {
			return err
		}
	}
	w.members, w.names = w.members[:first], w.names[:names]
	w.out = append(w.out, '}')
	return nil
}

// member reads a key and its value. after reports whether the key sorts after that of the member before.
func (w *writer) member(depth int, before []member) (after bool, err error) {
	if w.next() != '"' {
		return false, w.unexpected()
	}
	m := member{start: len(w.out)}
	if m.key, err = w.key(); err != nil {
		return false, err
	}
	after = true
	if n := len(before); n > 0 {
		order := bytes.Compare(before[n-1].key, m.key)
		if order == 0 {
			return false, duplicate(m.key)
		}
		after = order < 0
	}
	if w.next() != ':' {
		return false, w.unexpected()
	}
	w.at++
	w.out = append(w.out, ':')
	// Append the member before its value is read: members of the value are appended after it and removed again.
	at := len(w.members)
	w.members = append(w.members, m)
	if err := w.value(depth + 1); err != nil {
		return false, err
	}
	w.members[at].end = len(w.out)
	return after, nil
}

func duplicate(key []byte) error { return fmt.Errorf("%w: %.80q", ErrDuplicate, string(key)) }

// key reads a key and returns it decoded.
func (w *writer) key() ([]byte, error) {
	start, canonical := w.at, len(w.out)
	if err := w.text(); err != nil {
		return nil, err
	}
	raw := w.src[start:w.at]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	at := len(w.names)
	w.names = appendDecoded(w.names, w.out[canonical:])
	return w.names[at:], nil
}

// appendDecoded appends the decoded text of a string in canonical form.
func appendDecoded(dst, quoted []byte) []byte {
	text := quoted[1 : len(quoted)-1]
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' {
			i++
			switch c = text[i]; c {
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'u':
				r, _ := unit(text[i:])
				c, i = byte(r), i+4
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// sort sorts the members of one object, which are in out from body on, by key. Comparing UTF-8 bytes gives the order
// of code points.
func (w *writer) sort(members []member, body int) error {
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	w.moved = append(w.moved[:0], w.out[body:]...)
	w.out = w.out[:body]
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(members[i-1].key, m.key) {
				return duplicate(m.key)
			}
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, w.moved[m.start-body:m.end-body]...)
	}
	return nil
}

// text copies a string with its quotes. It rewrites only escapes that serde_json would write differently.
func (w *writer) text() error {
	start, i := w.at, w.at+1
	for {
		i = plain(w.src, i)
		if i == len(w.src) {
			w.at = i
			return w.unexpected()
		}
		c := w.src[i]
		switch {
		case c == '"':
			w.at = i + 1
			w.out = append(w.out, w.src[start:w.at]...)
			return nil
		case c == '\\':
			if i+1 < len(w.src) && isShort(w.src[i+1]) {
				i += 2
				continue
			}
			w.out = append(w.out, w.src[start:i]...)
			w.at = i
			if err := w.escape(); err != nil {
				return err
			}
			start, i = w.at, w.at
		case c < ' ':
			w.at = i
			return w.unexpected()
		default:
			r, size := utf8.DecodeRune(w.src[i:])
			if r == utf8.RuneError && size == 1 {
				return fmt.Errorf("%w: no UTF-8 at byte %d", ErrSyntax, i)
			}
			i += size
		}
	}
}

// plain returns the index of the first byte from i on that is not printable ASCII, or is a quote or backslash. It
// tests eight bytes at a time.
func plain(src []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(src); i += 8 {
		x := binary.LittleEndian.Uint64(src[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		// A borrow can set a wrong bit, but only above the first byte that is found.
		found := (x | (x - ones*' ') | (quote-ones)&^quote | (slash-ones)&^slash) & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(src); i++ {
		if c := src[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

// isShort reports whether c is the letter of a short escape that serde_json writes.
func isShort(c byte) bool {
	switch c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

// escape reads an escape that serde_json would write differently or not at all.
func (w *writer) escape() error {
	rest := w.src[w.at+1:]
	switch {
	case len(rest) > 0 && rest[0] == '/':
		w.at += 2
		w.out = append(w.out, '/')
		return nil
	case len(rest) == 0 || rest[0] != 'u':
		w.at += min(1, len(rest))
		return w.unexpected()
	}
	r, ok := unit(rest)
	size := len(`\u0000`)
	if ok && utf16.IsSurrogate(r) {
		ok = false
		if len(rest) > size && rest[size-1] == '\\' && rest[size] == 'u' {
			var low rune
			if low, ok = unit(rest[size:]); ok {
				r = utf16.DecodeRune(r, low)
				ok = r != utf8.RuneError
				size *= 2
			}
		}
	}
	if !ok {
		return fmt.Errorf("%w: no code point at byte %d", ErrSyntax, w.at)
	}
	w.at += size
	w.out = appendRune(w.out, r)
	return nil
}

// unit returns the code unit of "u0000".
func unit(b []byte) (r rune, ok bool) {
	if len(b) < len("u0000") {
		return 0, false
	}
	for _, c := range b[1:5] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendRune appends a code point of a string in the spelling of serde_json, which escapes only what must be escaped.
func appendRune(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	if r < ' ' {
		return append(dst, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
	}
	return utf8.AppendRune(dst, r)
}
