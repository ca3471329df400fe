package replay

import (
	"regexp"
	"slices"
	"strings"
)

// flagged finds the value of a flag at i: --password x, --api-key 'x', curl -u user:x, sshpass -p x. The kind of c is
// empty if it is not a secret.
func flagged(text string, i int) (c class, start, end int) {
	if i > 0 && strings.IndexByte(" \t\n\r\"'`(;|&", text[i-1]) < 0 {
		return class{}, 0, 0
	}
	if c, start, end = attached(text, i); c.kind != "" {
		return c, start, end
	}
	for end = i; end < len(text) && end-i < maxName && isNameByte(text[end]); end++ {
	}
	flag := text[i:end]
	c = flagClass(flag)
	start = end
	for start < len(text) && (text[start] == ' ' || text[start] == '\t') {
		start++
	}
	if start == end || start == len(text) || text[start] == '-' {
		return class{}, 0, 0
	}
	var quoted bool
	start, end, quoted = valueAt(text, start, false)
	value := text[start:end]
	switch {
	case isUserFlag(flag):
		_, password, found := strings.Cut(value, ":")
		if !found || !isCurl(command(text, i)) {
			return class{}, 0, 0
		}
		c, value, start = class{kind: kindPassword}, password, end-len(password)
	case flag == "-p" && isSSHPass(command(text, i)):
		c = class{kind: kindPassword}
	}
	if !c.holds(value) || isMark(value) || isPlaceholder(value) || !quoted && (isCode(value) || isProse(value)) {
		return class{}, 0, 0
	}
	return c, start, end
}

// attached finds a value in one word with its flag: curl -uuser:x, curl --user=user:x, mysql -px, sshpass -px.
func attached(text string, i int) (c class, start, end int) {
	flag := ""
	for _, f := range []string{"-u", "-p", "--user=", "--proxy-user="} {
		if strings.HasPrefix(text[i:], f) {
			flag = f
		}
	}
	start = i + len(flag)
	if flag == "" || start == len(text) || strings.IndexByte(" \t\r\n-=", text[start]) >= 0 {
		return class{}, 0, 0
	}
	start, end, _ = valueAt(text, start, false)
	value := text[start:end]
	before := command(text, i)
	ports := strings.Contains(value, ":") && strings.Trim(value, "0123456789.:") == "" // 80:80, 127.0.0.1:80:80
	switch {
	case flag != "-p":
		user, password, _ := strings.Cut(value, ":")
		if user == "" || !isCurl(before) {
			return class{}, 0, 0
		}
		value, start = password, end-len(password)
	case ports || !isSSHPass(before) && !isMySQL(before):
		return class{}, 0, 0
	}
	if value == "" || isMark(value) || isPlaceholder(value) {
		return class{}, 0, 0
	}
	return class{kind: kindPassword}, start, end
}

// command returns the text before a flag on the same line, at most nearby bytes.
func command(text string, i int) string { return line(text[max(0, i-nearby):i]) }

func isCurl(before string) bool { return strings.Contains(before, "curl") }

// isSSHPass reports whether a flag belongs to sshpass itself, not to the command that sshpass runs.
func isSSHPass(before string) bool {
	at := strings.LastIndex(before, "sshpass")
	if at < 0 {
		return false
	}
	for word := range strings.FieldsSeq(before[at+len("sshpass"):]) {
		if word[0] != '-' {
			return false
		}
	}
	return true
}

// isMySQL reports whether a flag belongs to a MySQL client, judged by the last command before it.
func isMySQL(before string) bool {
	before = before[strings.LastIndexAny(before, ";|&(`")+1:]
	if !contains(before, "mysql", "mariadb") {
		return false
	}
	for word := range strings.FieldsSeq(before) {
		switch word[strings.LastIndexByte(word, '/')+1:] {
		case "mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlshow", "mysqlcheck", "mariadb", "mariadb-dump", "mariadb-admin":
			return true
		}
	}
	return false
}

// isUserFlag reports whether the value of a flag is user:password for curl. For other programs, -u takes a user and a
// group.
func isUserFlag(flag string) bool { return flag == "-u" || flag == "--user" || flag == "--proxy-user" }

// flagClass returns the class of the value that follows a flag in a command line.
func flagClass(flag string) class {
	name, found := strings.CutPrefix(flag, "--")
	if !found || strings.Contains(name, "=") {
		return class{}
	}
	return classify(name)
}

// isProse reports whether the word after a flag belongs to a sentence about the flag.
func isProse(word string) bool {
	return slices.Contains([]string{"is", "was", "are", "flag", "option", "or", "and", "for", "to", "in", "from", "with", "must", "can", "will",
		"should", "if", "when", "as", "has"}, strings.ToLower(strings.TrimRight(word, ".!?")))
}

// dockerEnv matches an ENV line of a Dockerfile that separates the variable from its value by a space.
var dockerEnv = regexp.MustCompile(`(?m)^[ \t]*ENV[ \t]+([A-Za-z_][A-Za-z0-9_]*)[ \t]+[^\s=]`)

// redactDocker replaces the values of variables in a Dockerfile, such as ENV PASSWORD x. redactNamed handles those
// with an equals sign.
func redactDocker(text string) string {
	if !strings.Contains(text, "ENV") {
		return text
	}
	return splice(text, dockerEnv.FindAllStringSubmatchIndex(text, -1), func(at []int) (start, end int, with string) {
		c := classify(text[at[2]:at[3]])
		if c.kind == "" {
			return at[0], at[0], ""
		}
		start, end, _ = valueAt(text, at[1]-1, true)
		first, _, _ := strings.Cut(text[start:end], " ")
		if value := text[start:end]; !c.holds(value) || isMark(value) || isPlaceholder(value) || isProse(first) {
			return at[0], at[0], ""
		}
		return start, end, c.mark()
	})
}
