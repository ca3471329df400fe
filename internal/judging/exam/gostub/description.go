// Package gostub makes what a split examination of Go tests is built from: the description of a delivered module's
// exported declarations, a stub package that takes the delivery's place beside the tests, a program that serves the
// stub's requests, and the tests without those that cannot be split.
//
// The delivery's source is hostile. Describe and Select run in sandboxes; only a Description leaves the first of them,
// and Check accepts nothing but names, types and constants in it.
package gostub

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits on a description.
const (
	maxDepth = 30
	maxNames = 5000 // declarations of all packages
	maxName  = 200
)

// Description lists what the packages of a module export.
type Description struct {
	Module   string    `json:"module"`
	Go       string    `json:"go"` // the language version, as "1.22"
	Packages []Package `json:"packages"`
	Foreign  []Named   `json:"foreign,omitempty"` // interfaces of the standard library that the packages use
}

// Package describes one package.
type Package struct {
	Dir     string            `json:"dir"` // below the module's root, "." for the root itself
	Name    string            `json:"name"`
	Consts  []Const           `json:"consts,omitempty"`
	Vars    []Var             `json:"vars,omitempty"`
	Types   []Named           `json:"types,omitempty"`
	Funcs   []Func            `json:"funcs,omitempty"`
	Skipped map[string]string `json:"skipped,omitempty"` // declaration → why it cannot be split
}

// Const is a constant with its exact value. Its type is nil if it is untyped.
type Const struct {
	Name  string `json:"name"`
	Type  *Type  `json:"type,omitempty"`
	Kind  string `json:"kind"` // bool, string, rune, int, float or complex
	Value string `json:"value"`
}

// Var is a package variable. One of type error is known by its name on both sides.
type Var struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

// Named is a named type.
type Named struct {
	Path    string `json:"path,omitempty"` // of a foreign type
	Name    string `json:"name"`
	Handle  bool   `json:"handle,omitempty"` // its values stay where the delivery is
	Type    Type   `json:"type,omitzero"`    // what it is made of, unless it is a handle
	Methods []Func `json:"methods,omitempty"`
}

// Func is a function or a method.
type Func struct {
	Name    string `json:"name"`
	Pointer bool   `json:"pointer,omitempty"` // the receiver is a pointer
	Type    Type   `json:"type"`
}

// Kinds of types.
const (
	kindBasic     = "basic"
	kindNamed     = "named"
	kindSlice     = "slice"
	kindArray     = "array"
	kindMap       = "map"
	kindPointer   = "pointer"
	kindFunc      = "func"
	kindStruct    = "struct"
	kindInterface = "interface"
)

// Type is a type expression.
type Type struct {
	Kind     string  `json:"kind"`
	Path     string  `json:"path,omitempty"` // import path of a named type
	Name     string  `json:"name,omitempty"` // of a basic or named type
	Len      int64   `json:"len,omitempty"`
	Of       []Type  `json:"of,omitempty"` // the element; the key and element; the parameters; the type arguments
	Results  []Type  `json:"results,omitempty"`
	Variadic bool    `json:"variadic,omitempty"`
	Fields   []Field `json:"fields,omitempty"`
	Methods  []Func  `json:"methods,omitempty"` // of an interface
}

// Field is an exported field of a struct.
type Field struct {
	Name     string `json:"name"`
	Type     Type   `json:"type"`
	Embedded bool   `json:"embedded,omitempty"`
	Tag      string `json:"tag,omitempty"`
}

var (
	modulePath = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._~]*(/[A-Za-z0-9_][-A-Za-z0-9._~]*)*$`)
	goVersion  = regexp.MustCompile(`^1\.[0-9]{1,3}$`)
	number     = regexp.MustCompile(`^-?[0-9]+(/[0-9]+)?$`)
	complexNum = regexp.MustCompile(`^\((-?[0-9]+(?:/[0-9]+)?) \+ (-?[0-9]+(?:/[0-9]+)?)i\)$`)
	plainTag   = regexp.MustCompile(`^(json|xml|yaml|toml):"[A-Za-z0-9_][-A-Za-z0-9_]*(,(omitempty|omitzero|string))*"$`)
	emptyTag   = regexp.MustCompile(`^(json|xml|yaml|toml):"(,(omitempty|omitzero|string))+"$`)
)

// basic are the predeclared types that can travel.
var basic = []string{
	"bool", "string", "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr",
	"float32", "float64", "complex64", "complex128", "error", "any",
}

// checker accepts descriptions that a hostile sandbox may have written.
type checker struct {
	d     *Description
	known map[string]bool // import path, a dot and the name of a described type
	names int
}

// Check reports what is not a description in d. Everything that Stub and Dispatcher write comes from checked names.
func (d *Description) Check() error {
	c := &checker{d: d, known: map[string]bool{}}
	if len(d.Module) > maxName || !modulePath.MatchString(d.Module) || slices.Contains(strings.Split(d.Module, "/"), "..") {
		return errors.New("the module's path is not one")
	}
	// A package of the module could pass for one of the library.
	if first, _, _ := strings.Cut(d.Module, "/"); slices.Contains(stdlib, first) {
		return errors.New("the module has the path of a package of the standard library")
	}
	if !goVersion.MatchString(d.Go) {
		return errors.New("the language version is not one")
	}
	dirs := map[string]bool{}
	for _, p := range d.Packages {
		if dirs[p.Dir] || p.Dir != "." && !modulePath.MatchString(p.Dir) || path.Clean(p.Dir) != p.Dir || strings.HasPrefix(p.Dir, "..") {
			return fmt.Errorf("%.80q is not a directory of a package", p.Dir)
		}
		dirs[p.Dir] = true
		for _, t := range p.Types {
			c.known[d.Path(p.Dir)+"."+t.Name] = true
		}
	}
	for _, t := range d.Foreign {
		if !standard(t.Path) {
			return fmt.Errorf("%.80q is not in the standard library", t.Path)
		}
		if t.Handle || t.Type.Kind != kindInterface || len(t.Methods) > 0 {
			return fmt.Errorf("%.80s is not an interface", t.Name)
		}
		if err := c.all(c.name(t.Name), c.typ(t.Type, 0)); err != nil {
			return err
		}
	}
	for _, p := range d.Packages {
		if err := c.pkg(p); err != nil {
			return fmt.Errorf("package %.80s: %w", p.Dir, err)
		}
	}
	return nil
}

// Path returns the import path of a directory's package.
func (d *Description) Path(dir string) string { return path.Join(d.Module, dir) }

func (c *checker) pkg(p Package) error {
	if !isName(p.Name) || p.Name == "main" {
		return fmt.Errorf("%.80q is not a package", p.Name)
	}
	declared := map[string]bool{}
	declare := func(name string) error {
		if declared[name] {
			return fmt.Errorf("%.80s is declared twice", name)
		}
		declared[name] = true
		return c.name(name)
	}
	for _, k := range p.Consts {
		if err := c.all(declare(k.Name), c.constant(k)); err != nil {
			return err
		}
	}
	for _, v := range p.Vars {
		if err := c.all(declare(v.Name), c.typ(v.Type, 0)); err != nil {
			return err
		}
	}
	for _, f := range p.Funcs {
		if err := c.all(declare(f.Name), c.function(f)); err != nil {
			return err
		}
	}
	for _, t := range p.Types {
		err := c.all(declare(t.Name), c.functions(t.Methods))
		if !t.Handle && err == nil {
			err = c.typ(t.Type, 0)
		}
		if t.Path != "" || t.Handle && t.Type.Kind != "" {
			err = fmt.Errorf("%.80s is not a type of a package", t.Name)
		}
		if err != nil {
			return err
		}
	}
	for name, why := range p.Skipped {
		if len(name) > maxName || len(why) > 2*maxName {
			return errors.New("a reason is too long")
		}
	}
	return nil
}

func (c *checker) all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// name accepts an exported name, and counts it.
func (c *checker) name(s string) error {
	c.names++
	if c.names > maxNames {
		return errors.New("too many declarations")
	}
	if !isName(s) || !ast.IsExported(s) {
		return fmt.Errorf("%.80q is not an exported name", s)
	}
	return nil
}

func isName(s string) bool {
	return len(s) <= maxName && token.IsIdentifier(s) && s != "_" && s != "init"
}

func (c *checker) function(f Func) error {
	if f.Type.Kind != kindFunc {
		return fmt.Errorf("%.80s is not a function", f.Name)
	}
	return c.typ(f.Type, 0)
}

func (c *checker) functions(list []Func) error {
	seen := map[string]bool{}
	for _, f := range list {
		if seen[f.Name] {
			return fmt.Errorf("method %.80s is declared twice", f.Name)
		}
		seen[f.Name] = true
		if err := c.all(c.name(f.Name), c.function(f)); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) constant(k Const) error {
	ok := false
	switch k.Kind {
	case "bool":
		ok = k.Value == "true" || k.Value == "false"
	case "string":
		_, err := strconv.Unquote(k.Value)
		ok = err == nil && k.Value[0] == '"'
	case "int", "rune", "float":
		ok = number.MatchString(k.Value)
	case "complex":
		ok = complexNum.MatchString(k.Value)
	}
	if !ok || len(k.Value) > 1<<16 {
		return fmt.Errorf("constant %.80s has no value", k.Name)
	}
	if k.Type == nil {
		return nil
	}
	return c.typ(*k.Type, 0)
}

// typ accepts a type whose parts are known.
func (c *checker) typ(t Type, depth int) error {
	if depth > maxDepth {
		return errors.New("a type is nested too deeply")
	}
	bad := fmt.Errorf("a %.20q is not a type", t.Kind)
	parts := map[string]int{kindSlice: 1, kindArray: 1, kindMap: 2, kindPointer: 1}
	if want, composed := parts[t.Kind]; composed && len(t.Of) != want || t.Len < 0 || t.Len > 1<<20 {
		return bad
	}
	switch t.Kind {
	case kindBasic:
		if !slices.Contains(basic, t.Name) {
			return bad
		}
	case kindNamed:
		if !isName(t.Name) || !ast.IsExported(t.Name) || !c.known[t.Path+"."+t.Name] && !standard(t.Path) {
			return fmt.Errorf("%.80s.%.80s is not a known type", t.Path, t.Name)
		}
	case kindStruct:
		for _, f := range t.Fields {
			if err := c.all(c.name(f.Name), c.typ(f.Type, depth+1)); err != nil {
				return err
			}
			if f.Tag != "" && !plainTag.MatchString(f.Tag) && !emptyTag.MatchString(f.Tag) {
				return fmt.Errorf("field %s has a tag that is not plain", f.Name)
			}
		}
	case kindInterface:
		if err := c.functions(t.Methods); err != nil {
			return err
		}
	case kindSlice, kindArray, kindMap, kindPointer, kindFunc:
	default:
		return bad
	}
	if t.Variadic && (len(t.Of) == 0 || t.Of[len(t.Of)-1].Kind != kindSlice) {
		return bad
	}
	for _, part := range slices.Concat(t.Of, t.Results) {
		if err := c.typ(part, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// standard reports whether a path is one of the standard library that tests may use beside a stub.
func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return modulePath.MatchString(p) && !strings.Contains(first, ".") && !slices.Contains([]string{"unsafe", "C", "internal", "vendor", "cmd"}, first) &&
		!strings.Contains(p, "/internal") && slices.Contains(stdlib, first)
}

// stdlib lists the first parts of the paths of the standard library. A module may have a path without a dot, too.
var stdlib = []string{
	"archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug", "embed", "encoding", "errors",
	"expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "io", "iter", "log", "maps", "math", "mime", "net", "os", "path",
	"reflect", "regexp", "runtime", "slices", "sort", "strconv", "strings", "structs", "sync", "syscall", "testing", "text", "time", "unicode",
	"unique", "weak",
}

// Reasons returns why declarations cannot be split, as "import path.Name" → reason.
func (d *Description) Reasons() map[string]string {
	all := map[string]string{}
	for _, p := range d.Packages {
		for name, why := range p.Skipped {
			all[d.Path(p.Dir)+"."+name] = why
		}
	}
	return maps.Clone(all)
}
