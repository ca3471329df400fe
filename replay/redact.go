package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild/canon"
	"guild/digest"
)

// Redact returns an event without the secrets in its params, preview and commands, or, for an Unknown, in any field.
// If params change, their hash is computed again. The same is true for an output whose preview is complete; the
// redacted preview can be longer and is then cut. The hash of a longer output stays, because only the caller has all
// of it.
func Redact(e Event) (Event, error) {
	switch e := e.(type) {
	case ToolCall:
		if len(e.Params) == 0 {
			return e, nil
		}
		params, err := RedactJSON(e.Params)
		if err != nil {
			return nil, fmt.Errorf("replay: params of %.40q: %w", e.ID, err)
		}
		if !bytes.Equal(params, e.Params) {
			e.Params, e.ParamsHash = params, ""
			complete, err := complete(e)
			return complete, err
		}
		return e, nil
	case ToolResult:
		clean := RedactText(e.Preview)
		if h, err := digest.Parse(e.OutputHash); err == nil && clean != e.Preview && h == digest.Sum([]byte(e.Preview)) {
			e.OutputHash = digest.Sum([]byte(clean)).String()
		}
		e.Preview = Preview(clean)
		return e, nil
	case Verification:
		e.Commands = slices.Clone(e.Commands)
		for i, command := range e.Commands {
			e.Commands[i] = RedactText(command)
		}
		return e, nil
	case Unknown:
		raw, err := RedactJSON(e.Raw)
		if err != nil {
			return nil, fmt.Errorf("replay: %.40s: %w", e.Name, err)
		}
		e.Raw = raw
		return e, nil
	}
	return e, nil
}

// RedactText replaces the secrets in a text, a command or an output: values after a name like password= or --api-key,
// and text with the shape of a key or a token. A mark like [redacted:password] names the kind. A text that is JSON is
// redacted as JSON. Redacting the result again changes nothing.
//
// A name must denote a secret; tokens_in and public_key do not. Without such a name, hashes, ids, public keys and
// base64 stay.
func RedactText(text string) string { return redactText(text, 0) }

// RedactJSON replaces the secrets in one JSON value: members by their names at any depth, and strings as RedactText
// does, also JSON inside strings. The names, the order, the numbers and the spelling of the rest stay the same.
func RedactJSON(src []byte) ([]byte, error) {
	if _, err := canon.Append(nil, src); err != nil { // also limits the depth
		return nil, err
	}
	root, err := parse(src)
	if err != nil {
		return nil, err
	}
	r := redaction{src: src}
	r.value(root, "", class{})
	return r.apply(), nil
}

// maxNesting limits how deep JSON inside strings is parsed. Deeper strings are redacted as text.
const maxNesting = 4

func redactText(text string, depth int) string {
	if trimmed := strings.TrimSpace(text); depth < maxNesting && len(trimmed) > 1 && (trimmed[0] == '{' || trimmed[0] == '[') {
		if _, err := canon.Canonical([]byte(text)); err == nil {
			if root, err := parse([]byte(text)); err == nil {
				r := redaction{src: []byte(text), depth: depth + 1}
				r.value(root, "", class{})
				return string(r.apply())
			}
		}
	}
	return redactPlain(text)
}

// node is one JSON value with its position in the source. Redaction replaces byte ranges of the source instead of
// encoding the value again, so that everything else keeps its spelling and with it its hash.
type node struct {
	kind       jsontext.Kind
	start, end int
	members    []member // of an object; the elements of an array have no name
}

type member struct {
	name       string
	start, end int // of the name
	value      node
}

// parse parses a value. The caller has checked its syntax and depth.
func parse(src []byte) (node, error) {
	d := jsontext.NewDecoder(bytes.NewReader(src))
	return parseNext(d)
}

// parseNext parses the next value with the positions of all values in it. It is recursive; its callers have limited
// the depth.
func parseNext(d *jsontext.Decoder) (node, error) {
	n := node{kind: d.PeekKind()}
	if n.kind != '{' && n.kind != '[' {
		raw, err := d.ReadValue()
		n.end = int(d.InputOffset())
		n.start = n.end - len(raw)
		return n, err
	}
	if _, err := d.ReadToken(); err != nil {
		return n, err
	}
	n.start = int(d.InputOffset()) - 1
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		var m member
		if n.kind == '{' {
			raw, err := d.ReadValue()
			if err != nil {
				return n, err
			}
			m.end = int(d.InputOffset())
			m.start = m.end - len(raw)
			name, err := jsontext.AppendUnquote(nil, raw)
			if err != nil {
				return n, err
			}
			m.name = string(name)
		}
		var err error
		if m.value, err = parseNext(d); err != nil {
			return n, err
		}
		n.members = append(n.members, m)
	}
	_, err := d.ReadToken()
	n.end = int(d.InputOffset())
	return n, err
}

// redaction collects the replacements in one JSON text, in order of position.
type redaction struct {
	src   []byte
	depth int // nesting of JSON inside strings
	edits []edit
}

type edit struct {
	start, end int
	text       string
}

// value redacts a value. Its class comes from its name or from that of an enclosing value.
func (r *redaction) value(n node, name string, c class) {
	switch n.kind {
	case '{':
		r.object(n, c)
	case '[':
		r.array(n, name, c)
	case '"':
		r.text(n, c)
	case '0':
		if c.numbers {
			r.replace(n.start, n.end, c.mark())
		}
	}
}

func (r *redaction) text(n node, c class) {
	text := r.unquoted(n)
	if c.holds(text) && !isPlaceholder(text) {
		if !isMark(text) {
			r.replace(n.start, n.end, c.mark())
		}
		return
	}
	if clean := redactText(text, r.depth); clean != text {
		r.replace(n.start, n.end, clean)
	}
}

// object redacts the members of an object. The class of a member comes from the pair if it is the value of one,
// otherwise from its own name, otherwise from an enclosing name unless its own name only describes a secret.
func (r *redaction) object(n node, above class) {
	if isSchema(n, r) {
		above = class{} // {"type":"string"} under password describes a password
	}
	names := names{seen: map[string]bool{}, next: map[string]int{}}
	pair := r.pair(n)
	for _, m := range n.members {
		clean := redactPlain(m.name)
		r.name(m, clean, names)
		c := classify(unmarked(clean))
		if strings.EqualFold(m.name, "value") && pair.kind != "" {
			c = pair
		}
		if c.kind == "" && above.kind != "" && !describes(m.name) {
			c = above
		}
		if m.value.kind == '{' || m.value.kind == '[' {
			c.numbers = false // numbers inside a container are bounds and counts, not secrets
			if c.container {
				c = class{}
			}
		}
		r.value(m.value, m.name, c)
	}
}

// names has the member names of one object so far.
type names struct {
	seen map[string]bool
	next map[string]int // next suffix for a duplicate name
}

// name replaces a member name that contains a secret. If two names become equal, it adds a number, because names in an
// object must be unique.
func (r *redaction) name(m member, clean string, all names) {
	free := clean
	for all.seen[free] {
		all.next[clean] = max(all.next[clean]+1, 2)
		free = fmt.Sprintf("%s#%d", clean, all.next[clean])
	}
	all.seen[free] = true
	if free != m.name {
		r.replace(m.start, m.end, free)
	}
}

// pair returns the class of the value in an object like {"name":"Authorization","value":"…"}.
func (r *redaction) pair(n node) class {
	for _, m := range n.members {
		switch strings.ToLower(m.name) {
		case "name", "key", "header", "field", "variable":
			if m.value.kind == '"' {
				if c := classify(r.unquoted(m.value)); c.kind != "" {
					return c
				}
			}
		}
	}
	return class{}
}

// isSchema reports whether an object is a JSON schema, which describes a value and does not contain it.
func isSchema(n node, r *redaction) bool {
	for _, m := range n.members {
		if m.name == "$ref" {
			return true
		}
		if m.name == "type" && m.value.kind == '"' {
			return slices.Contains([]string{"string", "object", "array", "number", "integer", "boolean", "null"}, r.unquoted(m.value))
		}
	}
	return false
}

// array redacts the elements of an array. An array of strings can be a command line, so the element after a flag gets
// the class of the flag. An array of two strings inside an array can be a header: its name and its value.
func (r *redaction) array(n node, name string, above class) {
	if len(n.members) >= minWords {
		above.words = false // each element can be one word of a mnemonic
	}
	var next class
	user, before := false, ""
	for i, m := range n.members {
		if m.value.kind != '"' {
			r.value(m.value, "", above)
			next, user = class{}, false
			continue
		}
		text := r.unquoted(m.value)
		if clean, found := r.argument(text, before, user); found {
			r.replace(m.value.start, m.value.end, clean)
		} else {
			r.value(m.value, "", cmp.Or(next, above))
		}
		next, user = flagClass(text), isCurl(before) && isUserFlag(text)
		if text == "-p" && isSSHPass(before) {
			next = class{kind: kindPassword}
		}
		if i == 0 && name == "" && len(n.members) == 2 {
			next = cmp.Or(next, classify(text))
		}
		before += text[max(0, len(text)-nearby):] + " "
		before = before[max(0, len(before)-nearby):]
	}
}

// argument redacts the password in an argument of a command line: the user:password after curl -u, or a flag and its
// password in one word.
func (r *redaction) argument(text, before string, user bool) (clean string, found bool) {
	if user {
		name, password, found := strings.Cut(text, ":")
		if found && password != "" && !isMark(password) && !isPlaceholder(password) {
			return redactText(name, r.depth) + ":" + mark(kindPassword), true
		}
		return "", false
	}
	if !strings.HasPrefix(text, "-") {
		return "", false
	}
	c, start, _ := attached(before+text, len(before))
	if c.kind == "" {
		return "", false
	}
	return text[:start-len(before)] + c.mark(), true
}

func (r *redaction) unquoted(n node) string {
	text, err := jsontext.AppendUnquote(nil, r.src[n.start:n.end])
	if err != nil {
		return "" // cannot happen: parse accepted the string
	}
	return string(text)
}

// replace records that text replaces the bytes from start to end.
func (r *redaction) replace(start, end int, text string) {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		quoted, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD")) // AppendQuote fails only on invalid UTF-8
	}
	r.edits = append(r.edits, edit{start, end, string(quoted)})
}

func (r *redaction) apply() []byte {
	if len(r.edits) == 0 {
		return r.src
	}
	var out []byte
	at := 0
	for _, e := range r.edits {
		out = append(append(out, r.src[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, r.src[at:]...)
}
