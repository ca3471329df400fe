package exam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Expected is what a run, an answer or a query must come to. All that it says must hold.
type Expected struct {
	ExitCode       *int             `json:"exit_code,omitempty"` // 0 if absent
	Stdout         *Match           `json:"stdout,omitempty"`
	StdoutContains Texts            `json:"stdout_contains,omitempty"`
	Stderr         *Match           `json:"stderr,omitempty"`
	Files          map[string]Match `json:"files,omitempty"` // of io: what the run must leave below the workspace

	StatusCode     int              `json:"status_code,omitempty"` // of api_test
	Body           *Match           `json:"body,omitempty"`
	BodyContains   Texts            `json:"body_contains,omitempty"`
	HeaderContains Texts            `json:"header_contains,omitempty"` // each in a line "Name: value" of the answer, in any case
	Headers        map[string]Match `json:"headers,omitempty"`

	Result json.RawMessage   `json:"result,omitempty"` // of sql_check: the one value of the one row
	Rows   []json.RawMessage `json:"rows,omitempty"`   // of sql_check: each an array of values
}

// UnmarshalJSON refuses what the judge would otherwise silently not check.
func (e *Expected) UnmarshalJSON(b []byte) error {
	type plain Expected
	if err := strict(b, (*plain)(e)); err != nil {
		return fmt.Errorf("expected: %w", err)
	}
	return nil
}

// strict decodes JSON without unknown members.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// kinds says of each expectation that is there which kinds of criterion can check it.
type kinds map[string][]string

// kinds lists the expectations that are there.
func (e Expected) kinds() kinds {
	program, output := []string{shell, custom, ioCase}, []string{ioCase}
	k := kinds{}
	add := func(there bool, name string, by []string) {
		if there {
			k[name] = by
		}
	}
	everybody := program
	if e.ExitCode != nil && *e.ExitCode == 0 {
		everybody = frameworks // says nothing that they would not ask for anyway
	}
	add(e.ExitCode != nil, "exit_code", everybody)
	add(e.Stdout != nil, "stdout", program)
	add(len(e.StdoutContains) > 0, "stdout_contains", program)
	add(e.Stderr != nil, "stderr", program)
	add(len(e.Files) > 0, "files", output)
	add(e.StatusCode != 0, "status_code", []string{apiTest})
	add(e.Body != nil, "body", []string{apiTest})
	add(len(e.BodyContains) > 0, "body_contains", []string{apiTest})
	add(len(e.HeaderContains) > 0, "header_contains", []string{apiTest})
	add(len(e.Headers) > 0, "headers", []string{apiTest})
	add(e.Result != nil, "result", []string{sqlCheck})
	add(e.Rows != nil, "rows", []string{sqlCheck})
	return k
}

// has reports whether something is there that only a criterion of this kind can check.
func (k kinds) has(kind string) bool {
	for _, by := range k {
		if slices.Equal(by, []string{kind}) {
			return true
		}
	}
	return false
}

// except lists what a criterion of this kind cannot check.
func (k kinds) except(kind string) []string {
	var stray []string
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if !slices.Contains(k[name], kind) {
			stray = append(stray, name)
		}
	}
	return stray
}

func (e Expected) isZero() bool { return len(e.kinds()) == 0 }

// content reports whether more is compared than an exit code, which is soon guessed.
func (e Expected) content() bool {
	return e.Stdout != nil || len(e.StdoutContains) > 0 || e.Stderr != nil || len(e.Files) > 0
}

// output is what a run came to.
type output struct {
	exit           int
	stdout, stderr string
	files          map[string][]byte
}

// met compares what a run did with what was expected, and says why it differs.
func (e Expected) met(got output) (why string) {
	want := 0
	if e.ExitCode != nil {
		want = *e.ExitCode
	}
	if got.exit != want {
		return fmt.Sprintf("exit code %d, want %d", got.exit, want)
	}
	if why := e.Stdout.differs("stdout", got.stdout); why != "" {
		return why
	}
	if why := e.StdoutContains.missing("stdout", got.stdout); why != "" {
		return why
	}
	if why := e.Stderr.differs("stderr", got.stderr); why != "" {
		return why
	}
	for _, name := range slices.Sorted(maps.Keys(e.Files)) {
		content, there := got.files[name]
		if !there {
			return fmt.Sprintf("%s is not there", name)
		}
		match := e.Files[name]
		if why := match.differs(name, string(content)); why != "" {
			return why
		}
	}
	return ""
}

// Texts are one text or several, all of which must be found.
type Texts []string

// UnmarshalJSON takes a string or an array of strings.
func (t *Texts) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = Texts{""}
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// missing says which text is not contained in what is called what.
func (t Texts) missing(what, got string) string {
	for _, text := range t {
		if !strings.Contains(got, text) {
			return fmt.Sprintf("%s %s does not contain %s", what, quote(got), quote(text))
		}
	}
	return ""
}

// Match is what a text must be: a JSON string, which it must equal to the byte, or an object with one or more
// ways to compare.
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

// UnmarshalJSON takes a string or an object, and refuses a pattern that is no RE2.
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
		return errors.New("it does not say how to compare")
	}
	if !(m.Abs >= 0) || !(m.Rel >= 0) {
		return errors.New("abs and rel are not negative")
	}
	return m.compile()
}

// compile prepares the regular expression and checks that the JSON is not too deep.
func (m *Match) compile() (err error) {
	if len(m.Matches) > maxPattern {
		return fmt.Errorf("a pattern of more than %d bytes", maxPattern)
	}
	if m.Matches != "" {
		m.pattern, err = regexp.Compile(`\A(?:` + m.Matches + `)\z`)
	}
	return err
}

// differs says why a text is not as it must be; what names it in the answer. Nil is always met.
func (m *Match) differs(what, got string) string {
	switch {
	case m == nil:
		return ""
	case m.Equals != nil && got != *m.Equals:
		return fmt.Sprintf("%s %s, want %s", what, quote(got), quote(*m.Equals))
	case m.Trimmed != nil && trimmed(got) != trimmed(*m.Trimmed):
		return fmt.Sprintf("%s %s, want %s", what, quote(got), quote(*m.Trimmed))
	case m.pattern != nil && !m.pattern.MatchString(got):
		return fmt.Sprintf("%s %s does not match %s", what, quote(got), quote(m.Matches))
	case m.Numbers != nil && !m.tolerance().sameWords(*m.Numbers, got):
		return fmt.Sprintf("%s %s, want %s within %g or %g of it", what, quote(got), quote(*m.Numbers), m.Abs, m.Rel)
	case m.JSON != nil && !m.tolerance().sameJSON(m.JSON, []byte(got)):
		return fmt.Sprintf("%s %s, want the JSON %s", what, quote(got), quote(string(m.JSON)))
	}
	return m.Contains.missing(what, got)
}

func (m *Match) tolerance() tolerance { return tolerance{m.Abs, m.Rel} }

// trimmed drops white space that nobody sees.
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

// maxMessage is how long a guild.Test's message may be, in bytes.
const maxMessage = 500

// cut shortens a message without breaking a character.
func cut(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage]
	}
	return strings.ToValidUTF8(s, "")
}
