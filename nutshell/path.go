package nutshell

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// end is the step of a path that means the place after the last element of a list.
const end = "-"

// Path returns the path of a member as Manifest.Set reads it: the names with dots between them. A name that would be
// read differently is written as a JSON string.
func Path(names ...string) string {
	steps := make([]string, len(names))
	for i, name := range names {
		steps[i] = name
		if name == "" || strings.ContainsAny(name, ".\"\\") || strings.ContainsFunc(name, isSpaceOrControl) {
			steps[i] = string(quote(name))
		}
	}
	return strings.Join(steps, ".")
}

func isSpaceOrControl(r rune) bool { return r <= ' ' || r == 0x7f }

// SplitPath returns the names in a path that Path wrote.
func SplitPath(path string) ([]string, error) {
	if !utf8.ValidString(path) {
		return nil, errors.New("the name is not UTF-8")
	}
	var names []string
	for rest := path; ; {
		name, after, err := cutStep(rest)
		if len(names) == maxNesting {
			err = fmt.Errorf("more than %d levels", maxNesting)
		}
		if err != nil {
			return nil, fmt.Errorf("%.200q is not a path: %w", path, err)
		}
		names = append(names, name)
		if after == "" {
			return names, nil
		}
		rest = after[1:]
	}
}

// cutStep takes the first step off a path. What follows is empty, or begins with a dot.
func cutStep(path string) (name, after string, err error) {
	if !strings.HasPrefix(path, `"`) {
		i := strings.IndexByte(path+".", '.')
		if i == 0 {
			return "", "", errors.New("a name is missing")
		}
		return path[:i], path[i:], nil
	}
	quoted, err := jsontext.NewDecoder(strings.NewReader(path)).ReadValue()
	if err != nil {
		return "", "", errors.New("the quotes are not those of a JSON string")
	}
	unquoted, err := jsontext.AppendUnquote(nil, quoted)
	if after = path[len(quoted):]; after != "" && after[0] != '.' {
		return "", "", errors.New("there must be a dot after the quotes")
	}
	return string(unquoted), after, err
}

// index reads the step of a path that names an element of a list with so many of them. The place after the last
// one is the length, and so is end.
func index(step string, length int) (int, bool) {
	if step == end {
		return length, true
	}
	i, err := strconv.Atoi(step)
	return i, err == nil && i >= 0 && i <= length && strconv.Itoa(i) == step
}

// find returns the part of a value's text that a step of a path names.
func find(text []byte, step string) (part, bool) {
	all := parts(text)
	i := slices.IndexFunc(all, func(p part) bool { return p.name == step })
	if isList(text) {
		var ok bool
		if i, ok = index(step, len(all)); !ok || i == len(all) {
			i = -1
		}
	}
	if i < 0 {
		return part{}, false
	}
	return all[i], true
}

func isList(text []byte) bool { return jsontext.Value(text).Kind() == '[' }
func isText(text []byte) bool { return jsontext.Value(text).Kind() == '"' }
