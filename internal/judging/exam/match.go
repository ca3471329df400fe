package exam

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPattern bounds a regular expression, in bytes.
const maxPattern = 1000

// Texts are texts that must all be found.
type Texts []string

// UnmarshalJSON takes a string or an array of strings.
func (t *Texts) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = Texts{""}
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// missing says which of the texts got does not contain; what names got in the message.
func (t Texts) missing(what, got string) string {
	for _, text := range t {
		if !strings.Contains(got, text) {
			return fmt.Sprintf("%s %s does not contain %s", what, quote(got), quote(text))
		}
	}
	return ""
}

// Match says how a text must be. In JSON it is a string, which the text must equal to the byte, or an object with one
// or more ways to compare, all of which must hold.
type Match struct {
	Equals   *string         `json:"equals,omitempty"`
	Trimmed  *string         `json:"trimmed,omitempty"`  // equal without white space at both ends and at the ends of lines
	Contains Texts           `json:"contains,omitempty"` // each is in it
	Matches  string          `json:"matches,omitempty"`  // a regular expression (RE2) for the whole of it
	JSON     json.RawMessage `json:"json,omitempty"`     // the same JSON value
	Numbers  *string         `json:"numbers,omitempty"`  // the same words between white space, numbers among them within abs or rel
	Abs      float64         `json:"abs,omitempty"`      // how far numbers of json and numbers may be apart
	Rel      float64         `json:"rel,omitempty"`      // the same, as a part of the expected number

	pattern *regexp.Regexp
}

// UnmarshalJSON takes a string or an object, and refuses an invalid pattern.
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
	if len(m.Matches) > maxPattern {
		return fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}
	if m.Matches == "" {
		return nil
	}
	var err error
	m.pattern, err = regexp.Compile(`\A(?:` + m.Matches + `)\z`)
	return err
}

// differs says why got is not as it must be, empty if it is; what names got in the message. A nil Match is always met.
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
		return fmt.Sprintf("%s %s, want the JSON %s", what, quote(got), quote(string(m.JSON)))
	}
	return m.Contains.missing(what, got)
}

// trimmed drops white space at both ends and at the ends of lines.
func trimmed(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// quote makes text short and printable for a message.
func quote(s string) string {
	const most = 150
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// maxMessage limits a guild.Test's message, in bytes.
const maxMessage = 500

// cut shortens a message without breaking a character.
func cut(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage]
	}
	return strings.ToValidUTF8(s, "")
}
