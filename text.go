package guild

// Cut shortens text to at most n bytes, on a character boundary. Whatever strangers write is cut before it is kept.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}
