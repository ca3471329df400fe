package exam

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPattern limits the length of a regular expression, in bytes.
const maxPattern = 1000

// Texts lists texts that must all occur.
type Texts []string

// UnmarshalJSON accepts a string or an array of strings.
func (t *Texts) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = Texts{""}
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// missing returns a message about a text that got does not contain, or "". what is the name of got in the message.
func (t Texts) missing(what, got string) string {
	for _, text := range t {
		if !strings.Contains(got, text) {
			return fmt.Sprintf("%s %s does not contain %s", what, quote(got), quote(text))
		}
	}
	return ""
}

// Match is a condition on a text. In JSON it is a string, which the text must equal exactly, or an object with one or
// more conditions, which must all hold.
type Match struct {
	Equals   *string         `json:"equals,omitempty"`
	Trimmed  *string         `json:"trimmed,omitempty"`  // equal, ignoring white space at both ends and at the ends of lines
	Contains Texts           `json:"contains,omitempty"` // contains each of these
	Matches  string          `json:"matches,omitempty"`  // a regular expression (RE2) that must match the whole text
	JSON     json.RawMessage `json:"json,omitempty"`     // an equal JSON value
	Numbers  *string         `json:"numbers,omitempty"`  // the same words between white space, where numbers may differ by abs or rel
	Abs      float64         `json:"abs,omitempty"`      // allowed difference of numbers in json and numbers
	Rel      float64         `json:"rel,omitempty"`      // the same, as a fraction of the expected number

	pattern *regexp.Regexp
}

// UnmarshalJSON accepts a string or an object, and rejects an invalid pattern.
func (m *Match) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		m.Equals = new(string)
		return json.Unmarshal(b, m.Equals)
	}
	type plain Match
	if err := strict(b, (*plain)(m)); err != nil {
		return err
	}
	if m.Equals == nil && m.Trimmed == nil && m.Contains == nil && m.Matches == "" && m.JSON == nil && m.Numbers == nil {
		return errors.New("no way to compare")
	}
	if !(m.Abs >= 0) || !(m.Rel >= 0) {
		return errors.New("negative abs or rel")
	}
	if m.JSON != nil {
		if _, err := decodeJSON(m.JSON); err != nil {
			return fmt.Errorf("json: %w", err)
		}
	}
	if len(m.Matches) > maxPattern {
		return fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}
	if m.Matches == "" {
		return nil
	}
	var err error
	// The whole text must match: a pattern for a part would accept any output that contains it.
	m.pattern, err = regexp.Compile(`\A(?:` + m.Matches + `)\z`)
	return err
}

// differs returns how got violates the condition, or "". what is the name of got in the message. A nil Match accepts
// every text.
func (m *Match) differs(what, got string) string {
	if m == nil {
		return ""
	}
	within := tolerance{abs: m.Abs, rel: m.Rel}
	switch {
	case m.Equals != nil && got != *m.Equals:
		return fmt.Sprintf("%s %s, want %s", what, quote(got), quote(*m.Equals))
	case m.Trimmed != nil && trimmed(got) != trimmed(*m.Trimmed):
		return fmt.Sprintf("%s %s, want %s", what, quote(got), quote(*m.Trimmed))
	case m.pattern != nil && !m.pattern.MatchString(got):
		return fmt.Sprintf("%s %s does not match %s", what, quote(got), quote(m.Matches))
	case m.Numbers != nil && !within.sameWords(*m.Numbers, got):
		return fmt.Sprintf("%s %s, want %s within %g or %g of it", what, quote(got), quote(*m.Numbers), m.Abs, m.Rel)
	case m.JSON != nil && !within.sameJSON(m.JSON, []byte(got)):
		if _, err := decodeJSON([]byte(got)); errors.Is(err, errRepeated) {
			return fmt.Sprintf("%s %s: %v", what, quote(got), err)
		}
		return fmt.Sprintf("%s %s, want the JSON %s", what, quote(got), quote(string(m.JSON)))
	}
	return m.Contains.missing(what, got)
}

// trimmed removes white space at both ends and at the ends of lines.
func trimmed(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// quote returns a short, printable form of a text for a message.
func quote(s string) string {
	const most = 150
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// maxMessage limits the message of a guild.Test, in bytes.
const maxMessage = 500

// cut shortens a message to maxMessage, at a character boundary.
func cut(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage]
	}
	return strings.ToValidUTF8(s, "")
}
