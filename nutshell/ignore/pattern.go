package ignore

import "strings"

// pattern is one line. A name to match begins with the literal and goes on as the glob says.
type pattern struct {
	negated bool // begins with "!": includes again
	folders bool // ends in "/": matches folders only
	base    bool // has no other "/": matches the last segment of a path, wherever it is
	literal string
	glob    glob
}

// special are the bytes with a meaning in patterns.
const special = `*?[\`

// parseLine reads a line. It reports false for a comment and for an empty line.
func parseLine(line string) (pattern, bool) {
	line, _ = strings.CutSuffix(line, "\n")
	line, _ = strings.CutSuffix(line, "\r")
	if strings.HasPrefix(line, "#") {
		return pattern{}, false
	}
	var p pattern
	text := trimSpaces(line)
	text, p.negated = strings.CutPrefix(text, "!")
	text, p.folders = strings.CutSuffix(text, "/")
	if text == "" {
		return pattern{}, false
	}
	p.base = !strings.Contains(text, "/")
	if !p.base {
		text = strings.TrimPrefix(text, "/")
	}
	// Like git, cut off the literal beginning before reading the rest, so that in "a**/b" the stars begin the rest and
	// span folders.
	if end := strings.IndexAny(text, special); end >= 0 {
		p.literal, p.glob = text[:end], compile(text[end:])
	} else {
		p.literal = text
	}
	return p, true
}

// trimSpaces removes the spaces at the end, except one after a backslash.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
			if i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}

func (p *pattern) match(path, base string, isDir bool) bool {
	if p.folders && !isDir {
		return false
	}
	if p.base {
		path = base
	}
	rest, ok := strings.CutPrefix(path, p.literal)
	return ok && p.glob.match(rest)
}
