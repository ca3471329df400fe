package ignore

import "strings"

// set is a set of bytes.
type set [4]uint64

func (s *set) has(c byte) bool { return s[c>>6]&(1<<(c&63)) != 0 }
func (s *set) add(c byte)      { s[c>>6] |= 1 << (c & 63) }
func (s *set) remove(c byte)   { s[c>>6] &^= 1 << (c & 63) }

func only(c byte) (s set) {
	s.add(c)
	return s
}

func all() set { return set{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)} }

func allBut(c byte) set {
	s := all()
	s.remove(c)
	return s
}

// addRange adds the bytes from low to high; none if low is greater.
func (s *set) addRange(low, high byte) {
	for c := int(low); c <= int(high); c++ {
		s.add(byte(c))
	}
}

// bracket reads what follows a "[", with the "]" that ends it. It never matches a slash. A malformed one matches nothing
// and ends the pattern.
func bracket(text string) (takes set, after string) {
	negated := text != "" && (text[0] == '!' || text[0] == '^')
	if negated {
		text = text[1:]
	}
	var low byte // what a range may begin with, or 0
	for first := true; first || text == "" || text[0] != ']'; first = false {
		if text == "" {
			return set{}, ""
		}
		var ok bool
		if low, text, ok = member(&takes, text, low); !ok {
			return set{}, ""
		}
	}
	if negated {
		takes = set{^takes[0], ^takes[1], ^takes[2], ^takes[3]}
	}
	takes.remove('/')
	return takes, text[1:]
}

// member reads one member of a bracket: a class, the end of a range that began with low, or a byte.
func member(takes *set, text string, low byte) (next byte, after string, ok bool) {
	switch {
	case strings.HasPrefix(text, "[:"):
		name, rest, closed := strings.Cut(text[2:], "]")
		if !closed {
			return 0, "", false
		}
		if name, isClass := strings.CutSuffix(name, ":"); isClass {
			return 0, rest, addClass(takes, name)
		}
		takes.add('[')
		return '[', text[1:], true
	case text[0] == '-' && low != 0 && len(text) > 1 && text[1] != ']':
		high, rest, ok := plain(text[1:])
		takes.addRange(low, high)
		return 0, rest, ok
	}
	c, rest, ok := plain(text)
	takes.add(c)
	return c, rest, ok
}

// plain reads a byte without a special meaning, or one after a backslash.
func plain(text string) (c byte, after string, ok bool) {
	if text[0] == '\\' {
		text = text[1:]
	}
	if text == "" {
		return 0, "", false
	}
	return text[0], text[1:], true
}

// addClass adds the ASCII bytes of a class, as git defines it. It reports false if there is no such class.
func addClass(takes *set, name string) bool {
	in, ok := classes[name]
	for c := range byte(128) {
		if ok && in(c) {
			takes.add(c)
		}
	}
	return ok
}

// classes are the classes of a bracket, as in [[:alpha:]].
var classes = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return isLetter(c) || isDigit(c) },
	"alpha":  isLetter,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"print":  func(c byte) bool { return c == ' ' || isGraph(c) },
	"punct":  func(c byte) bool { return isGraph(c) && !isLetter(c) && !isDigit(c) },
	"space":  func(c byte) bool { return strings.IndexByte(" \t\n\r", c) >= 0 },
	"upper":  func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isGraph(c byte) bool  { return ' ' < c && c < 0x7f }
