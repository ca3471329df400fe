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

// Nearest returns the known word that is most similar to word, or the first that begins with it, or "". A similar word differs in
// at most a third of the bytes of word, or in one byte if word is short. Two neighbours in the wrong order are one difference.
func Nearest(word string, known []string) string {
	best, fewest := "", max(1, len(word)/3)+1
	for _, k := range known {
		n := edits(word, k)
		if n < fewest {
			best, fewest = k, n
		}
	}
	if best != "" || len(word) < 2 {
		return best
	}
	for _, k := range known {
		if strings.HasPrefix(k, word) {
			return k
		}
	}
	return ""
}

// edits returns the distance of two words in bytes: insertions, deletions, substitutions and swaps of neighbours.
func edits(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			substitute := last[j]
			if a[i] != b[j] {
				substitute++
			}
			row[j+1] = min(substitute, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
