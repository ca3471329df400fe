package replay

import (
	"regexp"
	"strings"
)

// maxPasses is how often a text is gone through. What is replaced can bring a name and a value together that stood
// apart, so that a second look finds more; a third one finds nothing in any text but one made for that.
const maxPasses = 8

func redactPlain(text string) string {
	for range maxPasses {
		clean := redactNamed(redactDocker(redactShapes(text)))
		if clean == text {
			return clean
		}
		text = clean
	}
	return text
}

// redactNamed replaces what stands behind a name and a colon or an equals sign, or behind a flag.
func redactNamed(text string) string {
	var out strings.Builder
	at := 0 // what is before is written
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

// assigned looks at the name before a separator and at the value behind it: password=x, "api_key": "x",
// Authorization: Bearer x, export DB_PASS='x', ?access_token=x&more.
func assigned(text string, separator int) (c class, start, end int) {
	if separator+1 < len(text) && text[separator:separator+2] == "::" || separator > 0 && text[separator-1:separator+1] == "::" {
		return class{}, 0, 0 // a path of a program
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
	if start = literal(text, start); strings.HasPrefix(text[start:], "[]") {
		return class{}, 0, 0 // a type
	}
	var quoted bool
	start, end, quoted = valueAt(text, start, c.phrase || c.header && hasScheme(text[start:min(len(text), start+maxName)]))
	value := text[start:end]
	if !quoted && end < len(text) && text[end] == '(' && path.MatchString(value) {
		return class{}, 0, 0 // a call
	}
	if compared && !quoted && path.MatchString(value) && !strings.ContainsAny(value, "0123456789") {
		return class{}, 0, 0 // with another name
	}
	if !c.holds(value) || isMark(value) || isPlaceholder(value) || !quoted && !isCapital(name) && isCode(value) {
		return class{}, 0, 0
	}
	return c, start, end
}

// maxQuotes is how many backslashes and quotes may stand between a name and its separator: JSON in JSON in JSON.
const maxQuotes = 16

// nameBefore is the name, of up to three words, that ends before a separator.
func nameBefore(text string, separator int) string {
	end := separator
	for end > 0 && separator-end < maxQuotes && strings.IndexByte(" \t:", text[end-1]) >= 0 {
		end--
	}
	for end > 0 && separator-end < maxQuotes && strings.IndexByte(`"'\]`+"`", text[end-1]) >= 0 {
		end--
	}
	if marked(text[:end+min(1, separator-end)]) {
		return "" // what was there has gone, and is no name
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

// classifyWords says what a name means that may be preceded by other words: "my API key" is api key, and "the public
// api key" is none.
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

// nearby is how far from a name is looked for what says that it is one of a secret, in bytes.
const nearby = 512

// classifyNearby says what a name means for what stands before it: Pwd in a list like Server=x;Pwd=y, the response in
// the header of Digest, and the value below a name in YAML.
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

// line is the last line of a text.
func line(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// literal is where the string begins that a program writes with something before it: b"x", []byte("x").
func literal(text string, at int) int {
	if before := beforeString.FindString(text[at:min(len(text), at+maxName)]); before != "" {
		return at + len(before) - 1
	}
	return at
}

var beforeString = regexp.MustCompile("^(?:[a-zA-Z@$]{1,2}|(?:\\[\\]byte|[sS]tring|str|bytes|SecretStr|Buffer\\.from|new String|Some)\\()[\"'`]")

// valueAt is where the value is that begins at a place: in quotes, which may be escaped, up to the closing one; else
// up to the next space or delimiter, or if it is a phrase to the end of the line.
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

// isEscape reports whether text begins with what ends a line or a string inside of a JSON string.
func isEscape(text string) bool {
	return len(text) > 1 && text[0] == '\\' && strings.IndexByte(`nrt"'\`, text[1]) >= 0
}

// closing is where the quote that opens a value is closed: the same quote behind as many backslashes. A text that is
// cut off has none, and ends the value.
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

// isCapital reports whether a name is one of the environment: what stands behind it is a value, and no expression.
func isCapital(name string) bool { return strings.ToUpper(name) == name }

// path is a name of something in a program.
var path = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*(?:(?:\.|->|::)[A-Za-z_$][A-Za-z0-9_$]*)*$`)

// isCode reports whether an unquoted value is an expression that names a secret and does not hold one: a type, a
// constant of a language, or a variable such as self.password or process.env.API_KEY.
func isCode(value string) bool {
	if value == "[" || strings.HasPrefix(value, "[]") {
		return true // of these assigned knows before it looks for the end of the value
	}
	switch strings.ToLower(strings.TrimRight(value, "?!.")) {
	case "string", "str", "null", "nil", "none", "true", "false", "undefined", "number", "int", "integer", "bool", "boolean", "bytes", "byte",
		"any", "object", "required", "optional", "char", "text", "varchar", "void", "const", "self", "this", "yes", "no", "ok", "missing",
		"invalid", "incorrect", "wrong", "empty", "set", "unset", "hidden", "error", "inherit", "read", "write", "passed", "failed", "skipped":
		return true
	}
	if value == "PASS" || value == "FAIL" || value == "SKIP" {
		return true // what came of a test
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
