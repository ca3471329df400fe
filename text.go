package guild

import (
	"strings"
	"unicode"
)

// Cut shortens text to at most n bytes, on a character boundary, and leaves out what is not UTF-8. Whatever
// strangers write is cut before it is kept: what a journal gives back is then what was put in.
func Cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}

// Clean removes control characters other than \n and \t, and bytes that are not UTF-8: programs that
// serialise them differently from NIP-01 compute another id and drop the event.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// isPlain reports whether s is printable ASCII only, as bundles in base64 and ciphertexts are.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
