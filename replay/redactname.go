package replay

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// class is the kind of value that a name announces. The zero class announces no secret.
type class struct {
	kind      string // for the mark
	weak      bool   // redact only values that look like a credential: a token can also be a word of a language
	numbers   bool   // redact numbers, too
	phrase    bool   // the value extends to the end of the line
	header    bool   // as phrase; the value starts with a scheme or looks like a credential
	words     bool   // redact only values of several words
	container bool   // an object or array under this name is not one secret
}

// Kinds of secrets, as the marks name them.
const (
	kindPassword      = "password"
	kindSecret        = "secret"
	kindAPIKey        = "api-key"
	kindKey           = "private-key"
	kindToken         = "token"
	kindAuthorization = "authorization"
	kindCookie        = "cookie"
	kindPreimage      = "preimage"
	kindMnemonic      = "mnemonic"
	kindNsec          = "nsec"
	kindAge           = "age-key"
	kindAWS           = "aws"
	kindGitHub        = "github"
	kindSlack         = "slack"
	kindJWT           = "jwt"
	kindCashu         = "cashu"
	kindWebhook       = "webhook"
)

const markStart = "[redacted:"

const maxMark = 32 // bytes; more than the longest mark

func mark(kind string) string { return markStart + kind + "]" }

func (c class) mark() string { return mark(c.kind) }

// markLength returns the length of the mark at the start of text, or 0. Only the marks of this package count.
// Otherwise a secret could be hidden in brackets that look like a mark.
func markLength(text string) int {
	rest, found := strings.CutPrefix(text, markStart)
	if !found {
		return 0
	}
	kind, _, closed := strings.Cut(rest[:min(len(rest), 20)], "]")
	switch kind {
	case kindPassword, kindSecret, kindAPIKey, kindKey, kindToken, kindAuthorization, kindCookie, kindPreimage, kindMnemonic,
		kindNsec, kindAge, kindAWS, kindGitHub, kindSlack, kindJWT, kindCashu, kindWebhook:
		if closed {
			return len(markStart) + len(kind) + 1
		}
	}
	return 0
}

// marked reports whether a text ends in a mark.
func marked(text string) bool {
	end := text[max(0, len(text)-maxMark):]
	at := strings.LastIndex(end, markStart)
	return at >= 0 && isMark(end[at:])
}

// unmarked returns a name without the marks in it. The kind in a mark says nothing about the value of the name.
func unmarked(name string) string {
	if !strings.Contains(name, markStart) {
		return name
	}
	var out strings.Builder
	for i := 0; i < len(name); i++ {
		if n := markLength(name[i:]); n > 0 {
			i += n - 1
			continue
		}
		out.WriteByte(name[i])
	}
	return out.String()
}

func isMark(text string) bool { return text != "" && markLength(text) == len(text) }

// maxName limits how many bytes at the end of a name are read.
const maxName = 128

// classify returns the class of the value of a name: password, x-api-key, awsSecretAccessKey, GITHUB_TOKEN. It splits
// the name into words, so that author, keyboard, monkey and tokens_in have no class.
func classify(name string) class {
	if len(name) > maxName {
		name = name[len(name)-maxName:]
	}
	words := split(name)
	squeezed := strings.Join(words, "")
	switch squeezed {
	case "jsessionid", "phpsessid", "aspnetsessionid", "connectsid":
		return class{kind: kindCookie, weak: true}
	}
	if len(words) == 0 || describesWord(words[len(words)-1]) {
		return class{}
	}
	last := words[len(words)-1]
	plural := strings.HasSuffix(last, "s") && last != "pass"
	switch {
	case contains(squeezed, "password", "passwd") || last == "passcode" || last == "pwd" && len(words) > 1 || isPass(words):
		return class{kind: kindPassword, numbers: !plural}
	case contains(squeezed, "passphrase"):
		return class{kind: kindPassword, numbers: true, phrase: true}
	case contains(squeezed, "mnemonic"): // a single word after it is the mnemonic of a machine instruction
		return class{kind: kindMnemonic, phrase: true, words: true}
	case contains(squeezed, "seedphrase", "seedwords", "recoveryphrase", "recoverycode", "backupcode"):
		return class{kind: kindMnemonic, phrase: true}
	case last == "preimage" || last == "preimages":
		return class{kind: kindPreimage}
	case squeezed == "authorization" || squeezed == "proxyauthorization":
		return class{kind: kindAuthorization, header: true, container: true}
	case last == "cookie" || last == "cookies":
		known := squeezed == "cookie" || squeezed == "setcookie" || squeezed == "cookies"
		return class{kind: kindCookie, phrase: known, weak: !known}
	}
	if c := keyClass(words, squeezed); c.kind != "" {
		return c
	}
	return tokenClass(words)
}

// isPass reports whether the words end in pass as in smtp_pass. In first_pass, or alone, pass counts something.
func isPass(words []string) bool {
	if words[len(words)-1] != "pass" || len(words) < 2 {
		return false
	}
	return !slices.Contains([]string{"first", "second", "third", "one", "two", "single", "multi", "all", "must", "test", "tests", "can",
		"did", "last", "next", "forward", "backward", "render", "by", "full", "low", "high", "band"}, words[len(words)-2])
}

// keyClass returns the class of names of secrets and keys.
func keyClass(words []string, squeezed string) class {
	if slices.Contains(words, "public") || slices.Contains(words, "pub") || slices.Contains(words, "publishable") {
		return class{}
	}
	last := words[len(words)-1]
	switch {
	case slices.Contains(words, "secret") || strings.HasSuffix(squeezed, "secret"):
		return class{kind: kindSecret, numbers: last == "secret", weak: isAdjective(words)}
	case last == "secrets":
		return class{kind: kindSecret}
	case contains(squeezed, "apikey"):
		return class{kind: kindAPIKey}
	case contains(squeezed, "privatekey", "privkey", "secretkey", "seckey", "clientkeydata"):
		return class{kind: kindKey}
	case last == "macaroon" || last == "seed" && len(words) > 1 && words[len(words)-2] == "wallet":
		return class{kind: kindSecret}
	case squeezed == "auth":
		return class{kind: kindAuthorization, weak: true}
	case last == "nsec" || last == "sec":
		return class{kind: kindNsec, weak: true}
	case last == "key" || last == "keys":
		if len(words) > 1 && slices.Contains([]string{"access", "signing", "encryption", "master", "auth", "account", "storage", "service",
			"admin", "webhook", "deploy", "role", "decryption", "hmac"}, words[len(words)-2]) {
			return class{kind: kindKey, weak: true}
		}
	}
	return class{}
}

// isAdjective reports whether the secret of a name is a quality of something else, as in secret_sauce. Its value is then
// a secret only if it looks like one.
func isAdjective(words []string) bool {
	at := slices.Index(words, "secret")
	return at >= 0 && at+1 < len(words) && !slices.Contains([]string{"key", "keys", "access", "value", "values", "text", "string", "str", "word",
		"words", "phrase", "code", "answer", "answers", "auth", "credential", "credentials", "seed", "env", "data", "hex", "base", "base64", "base32", "token", "hash", "salt", "pin", "raw", "bytes", "encoded", "json",
		"prod", "production", "dev", "development", "test", "live", "staging", "old", "new", "current", "previous", "primary", "secondary",
		"0", "1", "2", "3"}, words[at+1])
}

// tokenClass returns the class of names of tokens. A qualified name such as access_token makes any value a secret.
func tokenClass(words []string) class {
	last := words[len(words)-1]
	if !strings.HasSuffix(last, "token") {
		return class{}
	}
	before := strings.TrimSuffix(last, "token")
	if before == "" && len(words) > 1 {
		before = words[len(words)-2]
	}
	switch before {
	case "access", "refresh", "auth", "id", "bearer", "session", "api", "bot", "csrf", "xsrf", "secret", "personal", "private", "deploy",
		"registration", "oauth", "security", "service", "webhook", "app", "user", "login", "device":
		return class{kind: kindToken}
	case "per", "page", "next", "previous", "continuation", "cursor", "sync", "stop", "eos", "bos", "pad", "unk", "sep", "cls", "mask",
		"max", "min", "first", "last", "total", "sub", "special", "start", "end":
		return class{}
	}
	return class{kind: kindToken, weak: true}
}

// describes reports whether a name is about a secret, not the secret itself: password_length, token_count, name.
func describes(name string) bool {
	words := split(name)
	return len(words) > 0 && describesWord(words[len(words)-1])
}

func describesWord(word string) bool {
	return slices.Contains([]string{"count", "counts", "length", "len", "size", "id", "ids", "name", "names", "type", "types", "required",
		"policy", "ref", "path", "file", "filename", "field", "fields", "expires", "expiry", "expiration", "ttl", "at", "age", "used",
		"usage", "url", "uri", "endpoint", "enabled", "limit", "min", "max", "strength", "prompt", "stdin", "budget", "format", "title",
		"description", "version", "status", "date", "time", "alg", "algorithm", "external", "method", "index", "scope", "scopes", "rotation",
		"manager", "store", "provider", "env", "cost", "price", "rate", "in", "out", "valid", "error", "errors", "class", "label"}, word)
}

// split splits a name at underscores, hyphens, dots, spaces and capitals, in lower case.
func split(name string) []string {
	var words []string
	begin := 0
	cut := func(end int) {
		if end > begin {
			words = append(words, strings.ToLower(name[begin:end]))
		}
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case !isAlnum(c) && c < utf8.RuneSelf:
			cut(i)
			begin = i + 1
		case i > begin && isUpper(c) && (!isUpper(name[i-1]) || i+1 < len(name) && isLower(name[i+1])):
			cut(i)
			begin = i
		}
	}
	cut(len(name))
	return words
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlnum(c byte) bool { return isUpper(c) || isLower(c) || isDigit(c) }

func contains(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// minWords is the least number of words of a mnemonic.
const minWords = 4

// holds reports whether a value under a name of this class is a secret.
func (c class) holds(value string) bool {
	value = strings.TrimSpace(value)
	switch {
	case c.kind == "" || value == "":
		return false
	case c.header:
		return hasScheme(value) || isCredential(value) || isMark(value)
	case c.weak:
		return isCredential(value) || isMark(value)
	case c.words:
		return len(strings.Fields(value)) >= minWords || isCredential(value) || isMark(value)
	}
	return true
}

// isCredential reports whether a value can be a credential: one word of at least 8 bytes with a digit, or of at least
// 20 bytes.
func isCredential(value string) bool {
	digits := false
	for i := range len(value) {
		if value[i] == ' ' || value[i] == '\t' || value[i] == '\n' || value[i] == '\r' {
			return false
		}
		digits = digits || isDigit(value[i])
	}
	return len(value) >= 8 && digits || len(value) >= 20
}

// hasScheme reports whether a value starts like an Authorization header.
func hasScheme(value string) bool {
	scheme, rest, found := strings.Cut(value, " ")
	return found && strings.TrimSpace(rest) != "" && slices.Contains([]string{"bearer", "basic", "token", "digest", "negotiate", "nostr", "l402", "lsat",
		"apikey", "api-key", "key", "aws4-hmac-sha256"}, strings.ToLower(scheme))
}

// isPlaceholder reports whether a value is empty or only names a secret: $TOKEN, ${TOKEN}, $(pass show x), <token>,
// %s, ****.
func isPlaceholder(value string) bool {
	value = strings.TrimSpace(value)
	if _, rest, found := strings.Cut(value, " "); found && hasScheme(value) {
		value = strings.TrimSpace(rest)
	}
	switch {
	case value == "$", value == "%s", value == "%v", value == "%q":
		return true
	case strings.HasPrefix(value, "$(") && strings.HasSuffix(value, ")"), strings.HasPrefix(value, "${{") && strings.HasSuffix(value, "}}"):
		return true
	}
	if name, found := strings.CutPrefix(value, "$"); found {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}")
		return len(name) > 2 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
	}
	if strings.HasPrefix(value, "<") && strings.HasSuffix(value, ">") {
		return strings.Trim(strings.ToLower(value[1:max(1, len(value)-1)]), "abcdefghijklmnopqrstuvwxyz-_ ") == ""
	}
	return strings.Trim(value, "*.…•") == "" || len(value) > 2 && strings.Trim(value, "x") == ""
}
