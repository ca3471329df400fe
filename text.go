package guild

import "strings"

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
