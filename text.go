package guild

import (
	"strings"
	"unicode"
)

// Cut shortens text to at most n bytes, at a character boundary, and removes invalid UTF-8. Texts from other parties
// are cut before they are stored, so that the journal returns exactly what was stored.
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

// Clean removes control characters other than \n and \t, and replaces invalid UTF-8. Programs that serialise these
// differently from NIP-01 compute another id and drop the event.
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

// isPlain reports whether s is printable ASCII only. Bundles in base64 and ciphertexts are.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
