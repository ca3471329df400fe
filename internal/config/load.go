package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
)

var typeOfConfig = reflect.TypeFor[Config]()

// UnknownKeyError reports a key of the config file that does not exist.
type UnknownKeyError struct {
	Path string // of the file, with the line
	Key  string
	Near string // a known key that it may be a misspelling of, or ""
}

func (e *UnknownKeyError) Error() string { return fmt.Sprintf("%s: unknown key %q", e.Path, e.Key) }

// Hint names the nearest key, or the right place for a key that is below the wrong table.
func (e *UnknownKeyError) Hint() string {
	at := strings.LastIndexByte(e.Key, '.')
	if list := listFor(e.Key[at+1:]); at >= 0 && list != "" && (e.Near == "" || list == e.Key[at+1:]) {
		return fmt.Sprintf("%s belongs above the first table: where it stands it is part of [%s]", list, e.Key[:at])
	}
	if table, _, _ := strings.Cut(e.Key, "."); e.Near == "" && (table == "services" || table == "tasks") {
		return "guild init --home DIR writes a config.toml that explains each key"
	}
	if e.Near == "" {
		return "guild help environment lists the keys"
	}
	return fmt.Sprintf("did you mean %q?", e.Near)
}

// RemovedKeyError reports a key, or its environment variable, that only an earlier version had.
type RemovedKeyError struct {
	Path string // of the file, with the line; empty for the environment
	Key  string // as it was written
	Why  string
}

func (e *RemovedKeyError) Error() string {
	return fmt.Sprintf("%s: %s was removed: %s", cmp.Or(e.Path, "environment"), e.Key, e.Why)
}

// Hint returns how to remove the key.
func (e *RemovedKeyError) Hint() string {
	if e.Path == "" {
		return "unset " + e.Key
	}
	return "delete the line that sets " + e.Key
}

// removed returns the keys that only earlier versions had, with the reason for their removal.
func removed() map[string]string {
	return map[string]string{
		"journal.listen": "whoever reached the port could write to the journal and delete from it, not only read",
	}
}

// Load returns the defaults, overridden by the config file if there is one, and these overridden by the environment
// (GUILD_RELAYS, GUILD_TIMEOUTS_SILENCE, … as Variables lists them). environ is os.Environ() except in tests. With an error it
// returns the defaults, with the paths if these are known, so that a caller can look for other faults.
func Load(home string, environ []string) (Config, error) {
	paths, err := locate(home, lookup(environ))
	if err != nil {
		return Default(), err
	}
	c, err := load(paths, environ)
	if err != nil {
		c = Default()
	}
	c.Paths = paths
	return c, err
}

func load(paths Paths, environ []string) (Config, error) {
	for key, why := range removed() {
		if name := variable(key); lookup(environ)(name) != "" {
			return Config{}, &RemovedKeyError{Key: name, Why: why}
		}
	}
	k := koanf.New(".")
	from := sources{paths.Config, environ}
	if err := loadFile(k, from); err != nil {
		return Config{}, err
	}
	known := map[string]leaf{} // by variable
	for _, l := range leaves(typeOfConfig, "") {
		known[variable(l.key)] = l
	}
	variables := env.Opt{
		Prefix:      "GUILD_",
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			l := known[name]
			if l.list {
				return l.key, strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
			}
			return l.key, value
		},
	}
	if err := k.Load(env.Provider(".", variables), nil); err != nil {
		return Config{}, fmt.Errorf("environment: %w", err)
	}
	c := Default()
	if err := k.Unmarshal("", &c); err != nil {
		return Config{}, from.decode(err)
	}
	if err := c.check(); err != nil {
		return Config{}, from.place(err)
	}
	return c, nil
}

// lookup returns a function like os.Getenv for an environment. The last value of a variable counts, as in os/exec.
func lookup(environ []string) func(string) string {
	return func(name string) string {
		value := ""
		for _, e := range environ {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				value = v
			}
		}
		return value
	}
}

// loadFile reads the config file, if it exists. An unknown key is an error, because a misspelt setting would be ignored
// without a notice.
func loadFile(k *koanf.Koanf, from sources) error {
	if _, err := os.Stat(from.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := k.Load(file.Provider(from.path), toml.Parser()); err != nil {
		return from.syntax(err)
	}
	if unknown := firstUnknown(k.Raw(), typeOfConfig, ""); unknown.name != "" {
		path := from.path
		if lines := linesOf(from.text(), unknown.key()); len(lines) > 0 {
			path = from.at(lines[0])
		}
		if why, gone := removed()[unknown.key()]; gone {
			return &RemovedKeyError{path, unknown.key(), why}
		}
		return &UnknownKeyError{path, unknown.key(), unknown.nearest()}
	}
	return nil
}

// firstUnknown returns the first key of m, in alphabetical order, for which t has no field. Its name is empty if t has a field
// for each.
func firstUnknown(m map[string]any, t reflect.Type, prefix string) unknownKey {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		inner, ok := member(t, name)
		if !ok {
			return unknownKey{prefix, name, t}
		}
		if sub, ok := m[name].(map[string]any); ok {
			if s := firstUnknown(sub, inner, prefix+name+"."); s.name != "" {
				return s
			}
		}
	}
	return unknownKey{}
}

// member returns the type of the key name in a struct or map of the configuration.
func member(t reflect.Type, name string) (reflect.Type, bool) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), true
	case reflect.Struct:
		for f := range t.Fields() {
			if tag := f.Tag.Get("koanf"); tag == name && tag != "-" {
				return f.Type, true
			}
		}
	}
	return nil, false
}

// leaf is one key that holds a value, as "timeouts.silence".
type leaf struct {
	key  string
	list bool
	kind string // of its value, for people
}

// kindOf says what a value of a type looks like.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a table"
	case reflect.Float64:
		return "a number"
	}
	if t == reflect.TypeFor[time.Duration]() {
		return `a time with its unit, such as "30s"`
	}
	return "a whole number"
}

// leaves returns all fixed keys. Keys inside of maps are not included, because the owner chooses them.
func leaves(t reflect.Type, prefix string) []leaf {
	var all []leaf
	for f := range t.Fields() {
		key := f.Tag.Get("koanf")
		switch {
		case key == "-":
		case f.Type.Kind() == reflect.Struct:
			all = append(all, leaves(f.Type, prefix+key+".")...)
		default:
			all = append(all, leaf{prefix + key, f.Type.Kind() == reflect.Slice, kindOf(f.Type)})
		}
	}
	return all
}

// Variable is an environment variable that overrides a key.
type Variable struct{ Name, Key string }

// Variables returns the environment variables that Load reads, in the order of Config.
func Variables() []Variable {
	var all []Variable
	for _, l := range leaves(typeOfConfig, "") {
		if !slices.Contains([]string{"synonyms", "tasks", "services", "images"}, l.key) {
			all = append(all, Variable{variable(l.key), l.key})
		}
	}
	return all
}

func variable(key string) string {
	return "GUILD_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
