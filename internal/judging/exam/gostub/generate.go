package gostub

import (
	"fmt"
	"go/format"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// WireDir is the directory below the module's root that has the package gowire in both sandboxes, and SubjectDir that of
// the program that serves the delivery.
const (
	WireDir    = "guildwire"
	SubjectDir = WireDir + "/subject"
)

// file is a Go file that is being written.
type file struct {
	d       *Description
	self    string            // import path of the file's package
	aliases map[string]string // import path → name of the import
	body    strings.Builder
}

func (d *Description) newFile(self string) *file {
	return &file{d: d, self: self, aliases: map[string]string{}}
}

func (w *file) printf(format string, a ...any) { fmt.Fprintf(&w.body, format, a...) }

// use returns the qualifier of a package.
func (w *file) use(importPath string) string {
	if importPath == w.self {
		return ""
	}
	alias, known := w.aliases[importPath]
	if !known {
		alias = "guild" + strconv.Itoa(len(w.aliases))
		w.aliases[importPath] = alias
	}
	return alias + "."
}

func (w *file) wire() string { return w.use(w.d.Path(WireDir)) }

// source returns the finished file.
func (w *file) source(name string) (string, error) {
	var head strings.Builder
	// The module may be of an older version of the language than what is written here.
	fmt.Fprintf(&head, "//go:build go1.24\n\npackage %s\n\nimport (\n", name)
	for _, p := range slices.Sorted(maps.Keys(w.aliases)) {
		fmt.Fprintf(&head, "%s %q\n", w.aliases[p], p)
	}
	head.WriteString(")\n\n")
	out, err := format.Source([]byte(head.String() + w.body.String()))
	return string(out), err
}

// Stub returns the files of the packages that stand in for the delivery's, by their names below the module's root. The
// description must have been checked.
func (d *Description) Stub() (map[string]string, error) {
	files := map[string]string{"go.mod": fmt.Sprintf("module %s\n\ngo %s\n", d.Module, d.Go)}
	for _, p := range d.Packages {
		w := d.newFile(d.Path(p.Dir))
		w.stub(p)
		text, err := w.source(p.Name)
		if err != nil {
			return nil, fmt.Errorf("stub of %s: %w", p.Dir, err)
		}
		files[path.Join(p.Dir, "stub.go")] = text
	}
	return files, d.foreign(files, true)
}

// foreign adds the file of package gowire that differs between the sides, with what stands in for interfaces of the
// standard library.
func (d *Description) foreign(files map[string]string, tests bool) error {
	w := d.newFile(d.Path(WireDir))
	w.printf("const testSide, modulePath = %t, %q\n", tests, d.Module)
	w.printf("func init() {\n")
	for _, t := range d.Foreign {
		w.printf("Interface[%s%s](func(h Handle) any { return &guild%s{h} })\n", w.use(t.Path), t.Name, proxyName(t))
	}
	w.printf("}\n")
	for _, t := range d.Foreign {
		w.proxy(proxyName(t), t.Type.Methods)
	}
	text, err := w.source("gowire")
	files[path.Join(WireDir, "foreign.go")] = text
	return err
}

func proxyName(t Named) string {
	return strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(t.Path) + "_" + t.Name
}

func (w *file) stub(p Package) {
	self := w.d.Path(p.Dir)
	for _, k := range p.Consts {
		typ := ""
		if k.Type != nil {
			typ = w.typ(*k.Type)
		}
		w.printf("const %s %s = %s\n", k.Name, typ, literal(k))
	}
	w.printf("func init() {\n")
	for _, t := range p.Types {
		if t.Type.Kind == kindInterface {
			w.printf("%sInterface[%s](func(h %sHandle) any { return &guild%s{h} })\n", w.wire(), t.Name, w.wire(), t.Name)
			continue
		}
		w.printf("%sType[%s](%q, %t)\n", w.wire(), t.Name, self+"."+t.Name, t.Handle)
	}
	for _, v := range p.Vars {
		if isError(v.Type) {
			w.printf("%s = %sSentinel(%q)\n", v.Name, w.wire(), self+"."+v.Name)
		} else {
			w.printf("%sVariable(%q, &%s)\n", w.wire(), self+"."+v.Name, v.Name)
		}
	}
	w.printf("}\n")
	for _, v := range p.Vars {
		w.printf("var %s %s\n", v.Name, w.typ(v.Type))
	}
	for _, t := range p.Types {
		switch {
		case t.Handle:
			w.printf("type %s struct {\n_ [0]func()\nGuildHandle %sHandle\n}\n", t.Name, w.wire())
		default:
			w.printf("type %s %s\n", t.Name, w.typ(t.Type))
		}
		if t.Type.Kind == kindInterface {
			w.proxy(t.Name, t.Type.Methods)
		}
		for _, m := range t.Methods {
			star := ""
			if m.Pointer {
				star = "*"
			}
			w.printf("func (r %s%s) %s", star, t.Name, m.Name)
			w.forward(m.Type, fmt.Sprintf("%sMethod(&r, %q, ", w.wire(), m.Name))
		}
	}
	for _, f := range p.Funcs {
		w.printf("func %s", f.Name)
		w.forward(f.Type, fmt.Sprintf("%sCall(%q, ", w.wire(), self+"."+f.Name))
	}
}

func isError(t Type) bool { return t.Kind == kindBasic && t.Name == "error" }

// proxy writes a type that implements an interface by asking the other side.
func (w *file) proxy(name string, methods []Func) {
	w.printf("type guild%s struct { GuildHandle %sHandle }\n", name, w.wire())
	for _, m := range methods {
		w.printf("func (r *guild%s) %s", name, m.Name)
		w.forward(m.Type, fmt.Sprintf("%sMethod(&r, %q, ", w.wire(), m.Name))
	}
}

// forward writes parameters, results, and a body that calls a function of package gowire with pointers to them.
func (w *file) forward(f Type, call string) {
	var in, out, ins, outs []string
	for i, t := range f.Of {
		typ := w.typ(t)
		if f.Variadic && i == len(f.Of)-1 {
			typ = "..." + w.typ(t.Of[0])
		}
		in = append(in, fmt.Sprintf("a%d %s", i, typ))
		ins = append(ins, fmt.Sprintf("&a%d", i))
	}
	for i, t := range f.Results {
		out = append(out, fmt.Sprintf("b%d %s", i, w.typ(t)))
		outs = append(outs, fmt.Sprintf("&b%d", i))
	}
	w.printf("(%s) (%s) {\n%s[]any{%s}, []any{%s})\nreturn\n}\n",
		strings.Join(in, ", "), strings.Join(out, ", "), call, strings.Join(ins, ", "), strings.Join(outs, ", "))
}

// literal returns the expression of a constant.
func literal(k Const) string {
	switch k.Kind {
	case "string":
		s, _ := strconv.Unquote(k.Value)
		return strconv.Quote(s)
	case "rune":
		return "'\\x00' + " + k.Value
	case "float":
		num, den, fraction := strings.Cut(k.Value, "/")
		if fraction {
			return num + ".0 / " + den + ".0"
		}
		return num + ".0"
	case "complex":
		m := complexNum.FindStringSubmatch(k.Value)
		part := func(s string) string { return literal(Const{Kind: "float", Value: s}) }
		return "(" + part(m[1]) + ") + (" + part(m[2]) + ") * 1i"
	default:
		return k.Value
	}
}

// typ returns the Go expression of a type.
func (w *file) typ(t Type) string {
	switch t.Kind {
	case kindNamed:
		args := ""
		if len(t.Of) > 0 {
			args = "[" + w.list(t.Of) + "]"
		}
		return w.use(t.Path) + t.Name + args
	case kindSlice:
		return "[]" + w.typ(t.Of[0])
	case kindArray:
		return fmt.Sprintf("[%d]%s", t.Len, w.typ(t.Of[0]))
	case kindMap:
		return fmt.Sprintf("map[%s]%s", w.typ(t.Of[0]), w.typ(t.Of[1]))
	case kindPointer:
		return "*" + w.typ(t.Of[0])
	case kindFunc:
		return "func" + w.signature(t)
	case kindStruct:
		var s strings.Builder
		s.WriteString("struct {")
		for _, f := range t.Fields {
			if !f.Embedded {
				s.WriteString(f.Name + " ")
			}
			s.WriteString(w.typ(f.Type))
			if f.Tag != "" {
				s.WriteString(" " + strconv.Quote(f.Tag))
			}
			s.WriteString("; ")
		}
		return s.String() + "}"
	case kindInterface:
		var s strings.Builder
		s.WriteString("interface {")
		for _, m := range t.Methods {
			s.WriteString(m.Name + w.signature(m.Type) + "; ")
		}
		return s.String() + "}"
	default:
		return t.Name
	}
}

func (w *file) list(types []Type) string {
	var all []string
	for _, t := range types {
		all = append(all, w.typ(t))
	}
	return strings.Join(all, ", ")
}

func (w *file) signature(t Type) string {
	in := w.list(t.Of)
	if t.Variadic {
		last := len(t.Of) - 1
		in = w.list(t.Of[:last])
		if last > 0 {
			in += ", "
		}
		in += "..." + w.typ(t.Of[last].Of[0])
	}
	return "(" + in + ") (" + w.list(t.Results) + ")"
}

// Dispatcher returns the files of the program that serves the requests of the stubs, by their names below the module's
// root.
func (d *Description) Dispatcher() (map[string]string, error) {
	files := map[string]string{}
	w := d.newFile(d.Path(SubjectDir))
	w.printf("func main() {\n")
	for _, p := range d.Packages {
		self := d.Path(p.Dir)
		for _, t := range p.Types {
			name := w.use(self) + t.Name
			if t.Type.Kind == kindInterface {
				proxy := proxyName(Named{Path: self, Name: t.Name})
				w.printf("%sInterface[%s](func(h %sHandle) any { return &guild%s{h} })\n", w.wire(), name, w.wire(), proxy)
			} else {
				w.printf("%sType[%s](%q, %t)\n", w.wire(), name, self+"."+t.Name, t.Handle)
			}
		}
		for _, v := range p.Vars {
			w.printf("%sOffer(%q, &%s%s)\n", w.wire(), self+"."+v.Name, w.use(self), v.Name)
		}
		for _, f := range p.Funcs {
			w.printf("%sOffer(%q, %s%s)\n", w.wire(), self+"."+f.Name, w.use(self), f.Name)
		}
	}
	w.printf("%sServe()\n}\n", w.wire())
	for _, p := range d.Packages {
		for _, t := range p.Types {
			if t.Type.Kind == kindInterface {
				w.proxy(proxyName(Named{Path: d.Path(p.Dir), Name: t.Name}), t.Type.Methods)
			}
		}
	}
	text, err := w.source("main")
	if err != nil {
		return nil, fmt.Errorf("dispatcher: %w", err)
	}
	files[path.Join(SubjectDir, "main.go")] = text
	return files, d.foreign(files, false)
}
