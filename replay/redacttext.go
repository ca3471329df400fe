package replay

import (
	"regexp"
	"strings"
)

// maxPasses limits how often a text is redacted. A replacement can bring a name and a value together, so a second pass
// can find more. Only text made for that purpose needs a third pass.
const maxPasses = 8

func redactPlain(text string) string {
	for range maxPasses {
		clean := redactRawKeys(redactNamed(redactDocker(redactShapes(text))))
		if clean == text {
			return clean
		}
		text = clean
	}
	return text
}

// redactNamed replaces values after a name with a colon or an equals sign, or after a flag.
func redactNamed(text string) string {
	var out strings.Builder
	at := 0 // text before it is written
	for i := 0; i < len(text); i++ {
		var start, end int
		var c class
		switch text[i] {
		case ':', '=':
			c, start, end = assigned(text, i)
		case '-':
			c, start, end = flagged(text, i)
		}
		if c.kind == "" || start < at {
			continue
		}
		out.WriteString(text[at:start])
		out.WriteString(c.mark())
		at = end
		i = max(i, end-1)
	}
	out.WriteString(text[at:])
	return out.String()
}

// assigned finds the value after a separator and classifies it by the name before: password=x, "api_key": "x",
// Authorization: Bearer x, export DB_PASS='x', ?access_token=x&more.
func assigned(text string, separator int) (c class, start, end int) {
	if separator+1 < len(text) && text[separator:separator+2] == "::" || separator > 0 && text[separator-1:separator+1] == "::" {
		return class{}, 0, 0 // a qualified name of a program
	}
	name := nameBefore(text, separator)
	if name == "" {
		return class{}, 0, 0
	}
	if c = classifyWords(name); c.kind == "" {
		c = classifyNearby(text, separator, name)
	}
	if c.kind == "" {
		return class{}, 0, 0
	}
	start = separator + 1
	compared := text[separator] == '=' && start < len(text) && text[start] == '='
	for start < len(text) && (text[start] == '=' || text[start] == '>' || text[start] == ' ' || text[start] == '\t') {
		start++
	}
	if before := beforeString.FindString(text[start:min(len(text), start+maxName)]); before != "" {
		start += len(before) - 1
	}
	if strings.HasPrefix(text[start:], "[]") {
		return class{}, 0, 0 // a type
	}
	var quoted bool
	start, end, quoted = valueAt(text, start, c.phrase || c.header && hasScheme(text[start:min(len(text), start+maxName)]))
	value := text[start:end]
	if !quoted && end < len(text) && text[end] == '(' && path.MatchString(value) {
		return class{}, 0, 0 // a function call
	}
	if compared && !quoted && path.MatchString(value) && !strings.ContainsAny(value, "0123456789") {
		return class{}, 0, 0 // compared with a variable
	}
	// A name without small letters is an environment variable, whose value is never an expression.
	expression := !quoted && strings.ToUpper(name) != name && isCode(value)
	if !c.holds(value) || isMark(value) || isPlaceholder(value) || expression {
		return class{}, 0, 0
	}
	return c, start, end
}

// maxQuotes limits the backslashes and quotes between a name and its separator: JSON in JSON in JSON.
const maxQuotes = 16

// nameBefore returns the name before a separator, of up to three words.
func nameBefore(text string, separator int) string {
	end := separator
	for end > 0 && separator-end < maxQuotes && strings.IndexByte(" \t:", text[end-1]) >= 0 {
		end--
	}
	for end > 0 && separator-end < maxQuotes && strings.IndexByte(`"'\]`+"`", text[end-1]) >= 0 {
		end--
	}
	if marked(text[:end+min(1, separator-end)]) {
		return "" // the name was replaced by a mark
	}
	start := end
	for spaces := 0; start > 0 && end-start < maxName; start-- {
		if before := text[start-1]; before == ' ' && spaces < 2 && start < end {
			spaces++
		} else if !isNameByte(before) {
			break
		}
	}
	return strings.TrimSpace(text[start:end])
}

func isNameByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' }

// classifyWords classifies a name that other words can precede: "my API key" is an api key; "the public api key" has
// no class.
func classifyWords(name string) class {
	words := strings.Fields(name)
	for n := 1; n <= len(words); n++ {
		c := classify(strings.Join(words[len(words)-n:], "_"))
		if c.kind == "" {
			continue
		}
		for _, before := range words[:len(words)-n] {
			if strings.EqualFold(before, "public") && (c.kind == kindAPIKey || c.kind == kindKey) {
				return class{}
			}
		}
		return c
	}
	return class{}
}

// nearby limits how far before a name the context is searched, in bytes.
const nearby = 512

// classifyNearby classifies a name by the text before it: Pwd in a list like Server=x;Pwd=y, response in a Digest
// header, and value below a name in YAML.
func classifyNearby(text string, separator int, name string) class {
	words := strings.Fields(name)
	before := text[max(0, separator-nearby):separator]
	switch strings.ToLower(words[len(words)-1]) {
	case "pwd":
		list, found := strings.CutSuffix(strings.TrimRight(before, " \t"), name)
		if path := strings.TrimLeft(text[separator+1:min(len(text), separator+maxQuotes)], " "); found && strings.HasSuffix(strings.TrimRight(list, " "), ";") &&
			(path == "" || strings.IndexByte("/~.", path[0]) < 0) {
			return class{kind: kindPassword}
		}
	case "response":
		if strings.Contains(strings.ToLower(line(before)), "digest ") {
			return class{kind: kindAuthorization, weak: true}
		}
	case "value":
		end := strings.LastIndexByte(before, '\n')
		if end < 0 {
			break
		}
		if above, found := strings.CutPrefix(strings.Trim(line(before[:end]), "- \t\r"), "name:"); found {
			return classify(strings.Trim(above, " \t\"'"))
		}
	}
	return class{}
}

// line returns the last line of a text.
func line(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// beforeString matches the prefix or conversion before a string literal, and its quote: b"x", []byte("x").
var beforeString = regexp.MustCompile("^(?:[a-zA-Z@$]{1,2}|(?:\\[\\]byte|[sS]tring|str|bytes|SecretStr|Buffer\\.from|new String|Some)\\()[\"'`]")

// valueAt returns the range of the value at a position. A quoted value, whose quotes can be escaped, ends at the
// closing quote. Any other ends at the next space or delimiter, or, if it is a phrase, at the end of the line.
func valueAt(text string, at int, phrase bool) (start, end int, quoted bool) {
	open := at
	for open < len(text) && open-at < maxQuotes && text[open] == '\\' {
		open++
	}
	if open < len(text) && (text[open] == '"' || text[open] == '\'' || text[open] == '`') {
		return open + 1, closing(text, open, open-at), true
	}
	for end = at; end < len(text); end++ {
		if n := markLength(text[end:]); n > 0 {
			end += n - 1
			continue
		}
		c := text[end]
		switch {
		case c == '\n' || c == '\r' || c == '"' || c == '\'' || c == '`' || isEscape(text[end:]):
			return at, end, false
		case !phrase && (strings.IndexByte(" \t,;&(){}<>|", c) >= 0 || text[at] != '[' && (c == '[' || c == ']')):
			return at, end, false
		}
	}
	return at, end, false
}

// isEscape reports whether text starts with an escape that ends a line or a string inside a JSON string.
func isEscape(text string) bool {
	return len(text) > 1 && text[0] == '\\' && strings.IndexByte(`nrt"'\`, text[1]) >= 0
}

// closing returns the position of the closing quote of a value: the same quote after the same number of backslashes. A
// text that was cut off has none; then the value ends with the text.
func closing(text string, open, escapes int) int {
	slashes := 0
	for i := open + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			slashes++
			continue
		case text[i] == text[open] && slashes <= escapes && (slashes == escapes || slashes%2 == 0):
			return i - slashes
		}
		slashes = 0
	}
	return len(text)
}

// path matches a qualified identifier of a program.
var path = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*(?:(?:\.|->|::)[A-Za-z_$][A-Za-z0-9_$]*)*$`)

// isCode reports whether an unquoted value is an expression and not a secret: a type, a constant of a language, or a
// variable such as self.password or process.env.API_KEY.
func isCode(value string) bool {
	if value == "[" || strings.HasPrefix(value, "[]") {
		return true // assigned handles these before it searches for the end of the value
	}
	switch strings.ToLower(strings.TrimRight(value, "?!.")) {
	case "string", "str", "null", "nil", "none", "true", "false", "undefined", "number", "int", "integer", "bool", "boolean", "bytes", "byte",
		"any", "object", "required", "optional", "char", "text", "varchar", "void", "const", "self", "this", "yes", "no", "ok", "missing",
		"invalid", "incorrect", "wrong", "empty", "set", "unset", "hidden", "error", "inherit", "read", "write", "passed", "failed", "skipped":
		return true
	}
	if value == "PASS" || value == "FAIL" || value == "SKIP" {
		return true // a test result
	}
	if !path.MatchString(value) {
		return false
	}
	for _, root := range []string{"self.", "this.", "os.", "process.env.", "args.", "config.", "cfg.", "opts.", "options.", "req.", "request.",
		"env.", "secrets.", "settings.", "params.", "user.", "data.", "ctx.", "input."} {
		if strings.HasPrefix(strings.ToLower(value), root) {
			return true
		}
	}
	return classify(value).kind != "" && !strings.ContainsAny(value, "0123456789")
}
