package replay

import (
	"regexp"
	"strings"
)

// shape matches one kind of secret wherever it occurs. If the pattern has a group, only the group is replaced.
type shape struct {
	kind    string
	hint    string // lower case; a text without it cannot match
	pattern *regexp.Regexp
	check   func(match string) bool // may be nil
}

// shapes are tried in this order. Each runs in linear time.
var shapes = []shape{
	{kindKey, "private key", regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`), nil},
	{kindNsec, "sec1", regexp.MustCompile(`(?i)n(?:crypt)?sec1[02-9ac-hj-np-z]{20,}`), nil},
	{kindAge, "age-secret-key-", regexp.MustCompile(`(?i)AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{20,}`), nil},
	{kindCashu, "cashu", regexp.MustCompile(`cashu[AB][A-Za-z0-9_+/=-]{16,}`), nil},
	{kindJWT, "eyj", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){1,3}`), nil},
	{kindGitHub, "gh", regexp.MustCompile(`gh[pousr]_[A-Za-z0-9]{16,}`), nil},
	{kindGitHub, "github_pat_", regexp.MustCompile(`github_pat_[A-Za-z0-9_]{16,}`), nil},
	{kindSlack, "xox", regexp.MustCompile(`\bxox[a-z][-.][A-Za-z0-9.-]{8,}`), nil},
	{kindSlack, "xapp-", regexp.MustCompile(`\bxapp-[0-9]-[A-Za-z0-9-]{8,}`), nil},
	{kindWebhook, "hooks.slack.com", regexp.MustCompile(`hooks\.slack\.com/services/([A-Za-z0-9/_-]+)`), nil},
	{kindWebhook, "/api/webhooks/", regexp.MustCompile(`discord(?:app)?\.com/api/webhooks/[0-9]+/([A-Za-z0-9_-]+)`), nil},
	{kindAPIKey, "sk-", regexp.MustCompile(`\bsk-(?:ant|proj|or|svcacct|admin|live|test)-[A-Za-z0-9_-]{8,}`), nil},
	{kindAPIKey, "sk-", regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{16,}`), hasLongRun},
	{kindAPIKey, "k_", regexp.MustCompile(`\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,}`), nil},
	{kindAPIKey, "_", regexp.MustCompile(`\b(?:whsec|npm|hf|gsk|do[opr]_v1|dckr_pat|r8|shpat|ntn|secret|lin_api)_[A-Za-z0-9+/_-]{20,}`), hasLongRun},
	{kindAPIKey, "hf_", regexp.MustCompile(`\bhf_[A-Za-z0-9]{30,}`), nil},
	{kindAPIKey, "gl", regexp.MustCompile(`\bgl(?:pat|rt|dt|cbt|ptt|soat)-[A-Za-z0-9_-]{20,}`), hasCapitalOrDigit},
	{kindAPIKey, "-", regexp.MustCompile(`\b(?:gl(?:pat|rt|dt|cbt)|pypi|xai|pplx|GOCSPX)-[A-Za-z0-9_-]{16,}`), hasLongRun},
	{kindAPIKey, "aiza", regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{30,}`), nil},
	{kindAPIKey, ".", regexp.MustCompile(`\b(?:ya29|hvs|SG)\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]{16,})?`), hasLongRun},
	{kindToken, ":aa", regexp.MustCompile(`\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}`), nil},
	{kindKey, "prv", regexp.MustCompile(`\b[tuvxyz]prv[1-9A-HJ-NP-Za-km-z]{50,}`), nil},
	{kindPassword, "login", regexp.MustCompile(`(?i)\blogin\s+\S+\s+password\s+(\S+)`), nil},
	{kindSecret, "</", regexp.MustCompile(`(?i)<(?:[a-z0-9_:-]*(?:password|passwd|secret|api_?key|access_?token|private_?key))>([^<]+)</`), nil},
	{kindToken, "bearer", regexp.MustCompile(`(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{8,})`), isCredential},
}

// awsID matches the id of an AWS key. awsSecret matches the key itself. Forty such characters can be anything, so they
// count as a key only if AWS is mentioned nearby.
var (
	awsID     = regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`)
	awsSecret = regexp.MustCompile(`[A-Za-z0-9/+]{40,}`)
)

// redactShapes replaces text that has the shape of a secret.
func redactShapes(text string) string {
	lower := strings.ToLower(text)
	for _, s := range shapes {
		if !strings.Contains(lower, s.hint) {
			continue
		}
		text = splice(text, s.pattern.FindAllStringSubmatchIndex(text, -1), func(at []int) (start, end int, with string) {
			start, end = at[0], at[1]
			if len(at) > 2 {
				start, end = at[2], at[3]
			}
			if found := text[start:end]; isMark(found) || s.check != nil && !s.check(found) || isPlaceholder(found) {
				return start, start, ""
			}
			return start, end, mark(s.kind)
		})
	}
	return redactAWS(redactURLs(text), lower)
}

// splice replaces parts of text, in order. For each match, by returns the range and its replacement.
func splice(text string, matches [][]int, by func([]int) (start, end int, with string)) string {
	if len(matches) == 0 {
		return text
	}
	var out strings.Builder
	at := 0
	for _, m := range matches {
		start, end, with := by(m)
		out.WriteString(text[at:start])
		out.WriteString(with)
		at = end
	}
	out.WriteString(text[at:])
	return out.String()
}

// hasLongRun distinguishes a key from words with hyphens: it reports whether match has a run of twelve letters and
// digits with at least one digit.
func hasLongRun(match string) bool {
	run, digits := 0, false
	for i := len(match) - 1; i >= 0; i-- {
		if !isAlnum(match[i]) {
			run, digits = 0, false
			continue
		}
		run, digits = run+1, digits || isDigit(match[i])
		if run >= 12 && digits {
			return true
		}
	}
	return false
}

func hasCapitalOrDigit(match string) bool {
	return strings.ContainsFunc(match, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' })
}

// awsContext limits how far before a secret key AWS must be mentioned, in bytes.
const awsContext = 160

// redactAWS replaces AWS keys. It replaces secret keys before key ids, because an id in front of a secret key is one
// of the signs that identify it.
func redactAWS(text, lower string) string {
	if !strings.Contains(lower, "aws") && !strings.Contains(lower, "akia") && !strings.Contains(lower, "asia") {
		return text
	}
	text = splice(text, awsSecret.FindAllStringIndex(text, -1), func(at []int) (int, int, string) {
		before := text[max(0, at[0]-awsContext):at[0]]
		if at[1]-at[0] != 40 || !isMixed(text[at[0]:at[1]]) || !awsID.MatchString(before) && !contains(strings.ToLower(before), "aws") {
			return at[0], at[0], ""
		}
		return at[0], at[1], mark(kindAWS)
	})
	return awsID.ReplaceAllLiteralString(text, mark(kindAWS))
}

// isMixed reports whether a text has capitals, small letters and digits, and at most four slashes, so that it is not a
// path.
func isMixed(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r >= 'A' && r <= 'Z' }) &&
		strings.ContainsFunc(text, func(r rune) bool { return r >= 'a' && r <= 'z' }) &&
		strings.ContainsAny(text, "0123456789") && strings.Count(text, "/") <= 4
}

// redactURLs replaces the passwords in URLs, and tokens in the place of the user name.
func redactURLs(text string) string {
	var out strings.Builder
	at := 0 // text before it is written
	for i := 0; ; {
		n := strings.Index(text[i:], "://")
		if n < 0 {
			break
		}
		i += n + len("://")
		start, end, kind := userinfo(text, i)
		if kind == "" {
			continue
		}
		out.WriteString(text[at:start])
		out.WriteString(mark(kind))
		at, i = end, end
	}
	if at == 0 {
		return text
	}
	out.WriteString(text[at:])
	return out.String()
}

// userinfo returns the range and the kind of the secret in the URL whose authority starts at begin. The kind is empty
// if there is none.
func userinfo(text string, begin int) (start, end int, kind string) {
	if scheme := begin - len("://") - 1; scheme < 0 || !isAlnum(text[scheme]) {
		return 0, 0, ""
	}
	authority := text[begin:]
	if n := strings.IndexAny(authority, " \t\v\f\r\n\"'<>/?#"); n >= 0 {
		authority = authority[:n]
	}
	host := strings.LastIndexByte(authority, '@')
	if host < 0 {
		return looseUserinfo(text, begin, authority)
	}
	user, password, found := strings.Cut(authority[:host], ":")
	if n := markLength(authority); n > 0 {
		user = authority[:n]
		password, found = strings.CutPrefix(authority[n:host], ":")
	}
	web := strings.HasSuffix(text[:begin], "http://") || strings.HasSuffix(text[:begin], "https://")
	switch {
	case strings.ContainsAny(user, "[]") && !isMark(user):
	case (password == "" || password == "x-oauth-basic") && web && isLongToken(user):
		return begin, begin + len(user), kindToken
	case found && password != "" && !isMark(password) && !isPlaceholder(password):
		return begin + host - len(password), begin + host, kindPassword
	}
	return 0, 0, ""
}

// maxUserinfo limits the length of a password that contains a slash, in bytes.
const maxUserinfo = 256

// looseUserinfo finds a password with a slash, question mark or number sign, which a URL may not contain unescaped but
// people write. A host with a port is not a password.
func looseUserinfo(text string, begin int, authority string) (start, end int, kind string) {
	user, after, found := strings.Cut(authority, ":")
	if !found || strings.Trim(after, "0123456789") == "" || strings.ContainsAny(user, ".[]") || user == "localhost" {
		return 0, 0, ""
	}
	start = begin + len(user) + 1
	rest := text[start:min(len(text), start+maxUserinfo)]
	if n := strings.IndexAny(rest, " \t\v\f\r\n\"'<>"); n >= 0 {
		rest = rest[:n]
	}
	n := strings.IndexByte(rest, '@')
	if n < 0 || n+1 == len(rest) || !isAlnum(rest[n+1]) && rest[n+1] != '[' {
		return 0, 0, ""
	}
	if password := rest[:n]; strings.Contains(password, "://") || isMark(password) || isPlaceholder(password) {
		return 0, 0, ""
	}
	return start, start + n, kindPassword
}

// isLongToken reports whether a user name is a token: at least 16 characters, with letters and digits.
func isLongToken(user string) bool {
	letters, digits := false, false
	for i := range len(user) {
		letters, digits = letters || isUpper(user[i]) || isLower(user[i]), digits || isDigit(user[i])
		if !isNameByte(user[i]) {
			return false
		}
	}
	return len(user) >= 16 && letters && digits
}
