package check

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"guild/nutshell"
)

// plural returns a number with the singular or plural of a noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// size formats a number of bytes as the specification does: "2.1 KB".
func size(n int64) string {
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

// maxText limits the length of a stranger's text in one line, in bytes.
const maxText = 200

// short cuts a text to maxText bytes.
func short(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// blank reports whether a text is empty or white space.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// command returns a command line. The words may come from the manifest and are quoted for a shell.
func (c *checker) command(verb string, words ...string) string {
	line := c.o.Program + " " + verb
	for _, w := range words {
		line += " " + quote(w)
	}
	return line
}

const plainCharacters = letters + "0123456789-_./:@%+,="

// quote quotes a text as one word for a shell.
func quote(text string) string {
	if text != "" && strings.Trim(text, plainCharacters) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// option returns a flag with its value, written so that the value is not read as another flag.
func option(name, value string) []string {
	if strings.HasPrefix(value, "-") {
		return []string{"--" + name + "=" + value}
	}
	return []string{"--" + name, value}
}

// address returns the scheme and the host of a URL scheme://user@host:port/path. It reports false if text is not one.
func address(text string) (scheme, host string, ok bool) {
	scheme, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest, "/")
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	host, _, _ = strings.Cut(rest, ":")
	ok = scheme != "" && host != "" && strings.Trim(scheme, letters+"+-.0123456789") == "" && !strings.ContainsAny(text, " \t\r\n")
	return scheme, host, ok
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// moment parses a time of a manifest. A date means the end of that day.
func moment(t nutshell.Timestamp) (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, string(t)); err == nil {
		return day.AddDate(0, 0, 1).Add(-time.Second), nil
	}
	return t.Time()
}

// past reports whether a time is not after now.
func (c *checker) past(t time.Time) bool { return !c.o.Now.Before(t) }

// nextWeek returns the time that fixes propose as a new date of expiry.
func (c *checker) nextWeek() time.Time { return c.o.Now.UTC().AddDate(0, 0, 7).Truncate(time.Second) }

// day formats the date of a time.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
