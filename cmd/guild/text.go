package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
)

// clean makes text from elsewhere safe for a terminal: what could move the cursor, change colours, or turn the
// reading direction becomes a dot, and lines become one.
func clean(text string) string {
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

// cut shortens clean text to so many columns, with an ellipsis.
func cut(text string, columns int) string {
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

// short is enough of an id for a person and for the verbs that take one.
func short(id string) string { return id[:min(8, len(id))] }

// npub is how a person writes a public key.
func npub(k nostr.PubKey) string { return nip19.EncodeNpub(k) }

// shortNpub shows both ends of an npub.
func shortNpub(npub string) string {
	if len(npub) < 20 {
		return npub
	}
	return npub[:9] + "…" + npub[len(npub)-4:]
}

// clock is the wall time of Unix milliseconds.
func clock(ms int64) string { return time.UnixMilli(ms).Format("15:04:05") }

// age is how long ago Unix milliseconds were, in one unit.
func age(now time.Time, ms int64) string {
	d := max(0, now.Sub(time.UnixMilli(ms)))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// table writes rows in aligned columns. The first row is the head.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = clean(row[i])
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
		if r == 0x7F || unicode.Is(unicode.Cc, r) && r > 0x7F || unicode.Is(unicode.Bidi_Control, r) {
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

// printJSON writes one value, indented, as --json promises.
func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(plain{w})
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// printLine writes one value on one line.
func printLine(w io.Writer, value any) error {
	e := json.NewEncoder(plain{w})
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
