package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// ValueError reports a setting that cannot be used, and where it was made.
type ValueError struct {
	Where string // the file with the line, or the variable
	Err   error

	hint string
}

func (e *ValueError) Error() string { return e.Where + ": " + e.Err.Error() }

// Unwrap returns the error without the place.
func (e *ValueError) Unwrap() error { return e.Err }

// Hint says how to repair it, if that is known.
func (e *ValueError) Hint() string { return e.hint }

// sources are where settings come from.
type sources struct {
	path    string // of the config file
	environ []string
}

// text returns the content of the config file, or "".
func (s sources) text() string {
	b, _ := os.ReadFile(s.path) // without it, messages have no line numbers
	return string(b)
}

// at returns the file, with the line if it is known.
func (s sources) at(line int) string {
	if line == 0 {
		return s.path
	}
	return fmt.Sprintf("%s:%d", s.path, line)
}

// place adds to an error that begins with a key where that was set.
func (s sources) place(err error) error {
	key, rest, _ := strings.Cut(err.Error(), ": ")
	word, _, _ := strings.Cut(rest, " ")
	inner := key + "." + strings.TrimRight(word, ":")
	for _, k := range []string{inner, key} {
		name := variable(k)
		if slices.ContainsFunc(s.environ, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			return &ValueError{Where: name, Err: err}
		}
	}
	text := s.text()
	for _, k := range []string{inner, key} {
		if lines := linesOf(text, k); len(lines) > 0 {
			return &ValueError{Where: s.at(lines[len(lines)-1]), Err: err}
		}
	}
	return &ValueError{Where: s.path, Err: err}
}

var (
	twice     = regexp.MustCompile(`^toml: (?:table|key) (\S+) already exists`)
	noTable   = regexp.MustCompile(`^toml: key (\S+) should be a table, not a value`)
	undecoded = regexp.MustCompile(`'([a-z_]+(?:[.\[][^']*)?)'`)
)

// syntax adds to an error of the TOML parser the line, and a hint for a table that is defined twice.
func (s sources) syntax(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err // which names the file
	}
	if at, ok := errors.AsType[interface {
		error
		Position() (line, column int)
	}](err); ok {
		line, _ := at.Position()
		return &ValueError{Where: s.at(line), Err: err}
	}
	if found := noTable.FindStringSubmatch(err.Error()); found != nil {
		return s.isTable(found[1], err)
	}
	found := twice.FindStringSubmatch(err.Error())
	if found == nil {
		return &ValueError{Where: s.path, Err: err}
	}
	for key, lines := range placesOf(s.text()) {
		if len(lines) > 1 && key[strings.LastIndexByte(key, '.')+1:] == found[1] {
			return &ValueError{Where: s.at(lines[1]), Err: fmt.Errorf("%s was there before, in line %d", key, lines[0]),
				hint: fmt.Sprintf("put what is below it into the first [%s]", key)}
		}
	}
	return &ValueError{Where: s.path, Err: err}
}

// isTable reports a value for a name, without the names of the tables around it, that is also a table further below.
func (s sources) isTable(name string, err error) error {
	for key, lines := range placesOf(s.text()) {
		if len(lines) < 2 || key[strings.LastIndexByte(key, '.')+1:] != name {
			continue
		}
		e := &ValueError{Where: s.at(lines[0]), Err: fmt.Errorf("%s has a value, and is a table in line %d", key, lines[1])}
		if key == "relay" {
			e.hint = `the relays are relays = ["wss://…"]; [relay] is guild's own`
		}
		return e
	}
	return &ValueError{Where: s.path, Err: err}
}

// decode adds to an error of the decoder where the value was set. It names the key in quotation marks.
func (s sources) decode(err error) error {
	found := undecoded.FindStringSubmatch(err.Error())
	if found == nil {
		return &ValueError{Where: s.path, Err: err}
	}
	key, _, _ := strings.Cut(found[1], "[")
	return s.place(fmt.Errorf("%s: %s", key, wanted(key)))
}

// wanted says what the value of a key looks like.
func wanted(key string) string {
	for _, l := range leaves(typeOfConfig, "") {
		if l.key == key {
			return "want " + l.kind
		}
	}
	return "its value is of the wrong type"
}

func linesOf(text, key string) []int { return placesOf(text)[key] }

// placesOf returns the lines of each key and table in a text of TOML. It is good enough for messages
// only: it also reads the lines inside of multi-line strings.
func placesOf(text string) map[string][]int {
	places := map[string][]int{}
	table, n := "", 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		header, isHeader := strings.CutPrefix(line, "[")
		if isHeader {
			header, _, _ = strings.Cut(header, "]")
			table = plainKey(header)
			places[table] = append(places[table], n)
			table += "."
			continue
		}
		key, _, isKey := strings.Cut(line, "=")
		if isKey && !strings.HasPrefix(line, "#") {
			key = table + plainKey(key)
			places[key] = append(places[key], n)
		}
	}
	return places
}

// plainKey returns a key of TOML as errors name it, without quotation marks.
func plainKey(key string) string {
	return strings.NewReplacer(`"`, "", "'", "").Replace(strings.TrimSpace(key))
}
