package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
)

// Clean makes untrusted text safe for a terminal: characters that could move the cursor, change colours, or turn the
// reading direction become dots, and lines become one.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == unicode.ReplacementChar, r >= 0x2028 && r <= 0x2029:
			return '·'
		}
		return r
	}, text)
}

// Cut shortens clean text to so many columns, with an ellipsis.
func Cut(text string, columns int) string {
	if lipgloss.Width(text) <= columns {
		return text
	}
	width := 0
	for i, r := range text {
		width += lipgloss.Width(string(r))
		if width > columns-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// ShortNpub shows both ends of an npub, as the verbs take it: "npub1abcde…wxyz".
func ShortNpub(npub string) string {
	if len(npub) < 20 {
		return npub
	}
	return npub[:10] + "…" + npub[len(npub)-4:]
}

// Count returns a number with its noun: "1 file", "2 files".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Size writes bytes as the specification does: "2.1 KB".
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}

// Table writes rows in aligned columns. The first row is the head.
func Table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = Clean(row[i])
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// plain writes JSON with every character escaped that a terminal might obey. Such characters only stand inside
// strings, where the escape means the same. encoding/json writes a value in one go, so none is ever cut in two.
type plain struct{ w io.Writer }

// Write implements io.Writer.
func (p plain) Write(b []byte) (int, error) {
	var out []byte
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if unicode.Is(unicode.Cc, r) && !strings.ContainsRune("\n\t\r", r) || unicode.Is(unicode.Bidi_Control, r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Escaping returns a writer of JSON that escapes the characters that Clean replaces. Each Write takes whole values.
func Escaping(w io.Writer) io.Writer { return plain{w} }

// PrintJSON writes one value, indented, as --json promises.
func PrintJSON(w io.Writer, value any) error {
	e := json.NewEncoder(plain{w})
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// PrintLine writes one value on one line.
func PrintLine(w io.Writer, value any) error {
	e := json.NewEncoder(plain{w})
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
