package gostub

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// describer describes the packages of one module.
type describer struct {
	*resolver
	d       *Description
	kinds   map[*types.TypeName]string // named type → why it cannot be split; "" if it can
	foreign map[string]Named
	busy    map[*types.TypeName]bool
	given   map[string]bool // directories of delivered packages
}

// Describe describes the packages in the given directories of the module in root. Source that does not compile is
// described as far as it can be.
func Describe(root, goroot string, dirs []string) (*Description, error) {
	module, version, err := readModule(root)
	if err != nil {
		return nil, err
	}
	d := &describer{
		resolver: newResolver(root, module, goroot), d: &Description{Module: module, Go: version},
		kinds: map[*types.TypeName]string{}, foreign: map[string]Named{}, busy: map[*types.TypeName]bool{}, given: map[string]bool{},
	}
	for _, dir := range dirs {
		// The dispatcher could not import an inner package of a package.
		d.given[dir] = !strings.Contains("/"+dir, "/internal/") || strings.HasPrefix(dir, "internal/")
	}
	for _, dir := range slices.Sorted(maps.Keys(d.given)) {
		if p, err := d.Import(d.d.Path(dir)); err == nil && p.Name() != "main" && d.given[dir] {
			d.d.Packages = append(d.d.Packages, d.pkg(dir, p))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.foreign)) {
		d.d.Foreign = append(d.d.Foreign, d.foreign[key])
	}
	return d.d, nil
}

var (
	moduleLine = regexp.MustCompile(`(?m)^module[ \t]+"?([^\s"]+)"?`)
	goLine     = regexp.MustCompile(`(?m)^go[ \t]+(1\.[0-9]+)`)
)

// readModule returns the path and the language version of a module.
func readModule(root string) (module, version string, err error) {
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", "", err
	}
	if module, version = Module(b); module == "" {
		return "", "", fmt.Errorf("%s/go.mod has no module", root)
	}
	return module, version, nil
}

// Module returns the path and the language version of a go.mod file, such as "1.24". The path is empty if it has none.
func Module(file []byte) (module, version string) {
	if m := moduleLine.FindSubmatch(file); m != nil {
		module = string(m[1])
	}
	version = "1.16"
	if v := goLine.FindSubmatch(file); v != nil {
		version = string(v[1])
	}
	return module, version
}

// pkg describes one package.
func (d *describer) pkg(dir string, p *types.Package) Package {
	out := Package{Dir: dir, Name: p.Name(), Skipped: map[string]string{}}
	scope := p.Scope()
	for _, name := range scope.Names() {
		if !ast.IsExported(name) {
			continue
		}
		why := ""
		switch o := scope.Lookup(name).(type) {
		case *types.Const:
			var k Const
			if k, why = d.constant(o); why == "" {
				out.Consts = append(out.Consts, k)
			}
		case *types.Var:
			why = d.reason(o.Type())
			switch {
			case why == "":
				out.Vars = append(out.Vars, Var{Name: name, Type: d.typ(o.Type())})
			case types.AssignableTo(o.Type(), types.Universe.Lookup("error").Type()):
				// A sentinel error of an unexported type is compared by its identity.
				out.Vars, why = append(out.Vars, Var{Name: name, Type: Type{Kind: kindBasic, Name: "error"}}), ""
			}
		case *types.Func:
			if why = d.reason(o.Type()); why == "" {
				out.Funcs = append(out.Funcs, Func{Name: name, Type: d.typ(o.Type())})
			}
		case *types.TypeName:
			var t Named
			if t, why = d.named(o, out.Skipped); why == "" {
				out.Types = append(out.Types, t)
			}
		}
		if why != "" {
			out.Skipped[name] = why
		}
	}
	return out
}

func (d *describer) constant(o *types.Const) (Const, string) {
	kinds := map[constant.Kind]string{
		constant.Bool: "bool", constant.String: "string", constant.Int: "int", constant.Float: "float", constant.Complex: "complex",
	}
	k := Const{Name: o.Name(), Kind: kinds[o.Val().Kind()], Value: o.Val().ExactString()}
	if k.Kind == "" {
		return k, "a constant without a value"
	}
	b, ok := o.Type().Underlying().(*types.Basic)
	if !ok {
		return k, "a constant without a type"
	}
	if b.Info()&types.IsUntyped == 0 {
		if why := d.reason(o.Type()); why != "" {
			return k, why
		}
		t := d.typ(o.Type())
		k.Type = &t
		return k, ""
	}
	untyped := map[types.BasicKind]string{types.UntypedRune: "rune", types.UntypedFloat: "float", types.UntypedComplex: "complex"}
	if kind, special := untyped[b.Kind()]; special {
		k.Kind = kind
		if kind == "complex" && !complexNum.MatchString(k.Value) {
			return k, "a complex constant"
		}
	}
	return k, ""
}

// named describes a type with its methods. Methods that cannot be split are added to skipped.
func (d *describer) named(o *types.TypeName, skipped map[string]string) (Named, string) {
	if o.IsAlias() {
		return Named{}, "an alias"
	}
	t := o.Type().(*types.Named)
	if t.TypeParams().Len() > 0 {
		return Named{}, "a generic type"
	}
	if why := d.reason(t); why != "" {
		return Named{}, why
	}
	n := Named{Name: o.Name(), Handle: d.handle(t)}
	if !n.Handle {
		n.Type = d.typ(t.Underlying())
	}
	if types.IsInterface(t) {
		return n, ""
	}
	pointers, values := types.NewMethodSet(types.NewPointer(t)), types.NewMethodSet(t)
	for i := range pointers.Len() {
		s := pointers.At(i)
		f := s.Obj().(*types.Func)
		// Methods of an embedded field are promoted beside the tests, too, unless nothing is embedded there.
		if !f.Exported() || len(s.Index()) > 1 && !n.Handle {
			continue
		}
		why := d.reason(f.Type())
		if why != "" {
			skipped[o.Name()+"."+f.Name()] = why
			continue
		}
		n.Methods = append(n.Methods, Func{Name: f.Name(), Pointer: values.Lookup(nil, f.Name()) == nil, Type: d.typ(f.Type())})
	}
	return n, ""
}

// handle reports whether values of a delivered type stay with the delivery.
func (d *describer) handle(t *types.Named) bool {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	if d.busy[t.Obj()] {
		return false
	}
	d.busy[t.Obj()] = true
	defer delete(d.busy, t.Obj())
	for i := range s.NumFields() {
		f := s.Field(i)
		if !f.Exported() || !plain(s.Tag(i)) || d.reason(f.Type()) != "" {
			return true
		}
		if n, ok := types.Unalias(f.Type()).(*types.Named); ok && d.mine(n) && d.handle(n) {
			return true
		}
	}
	return false
}

func plain(tag string) bool {
	return tag == "" || plainTag.MatchString(tag) || emptyTag.MatchString(tag)
}

func (d *describer) mine(t *types.Named) bool {
	if t.Obj().Pkg() == nil {
		return false
	}
	dir, ok := d.local(t.Obj().Pkg().Path())
	return ok && d.given[dir]
}

// reason returns why values of a type cannot travel, or "".
func (d *describer) reason(t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		if t.Kind() == types.UnsafePointer || t.Kind() == types.Invalid {
			return "a type that is not known: " + t.Name()
		}
		return ""
	case *types.Named:
		return d.reasonOfNamed(t)
	case *types.Pointer:
		return d.reason(t.Elem())
	case *types.Slice:
		return d.reason(t.Elem())
	case *types.Array:
		return d.reason(t.Elem())
	case *types.Map:
		return d.first(t.Key(), t.Elem())
	case *types.Chan:
		return "a channel"
	case *types.TypeParam:
		return "a type parameter"
	case *types.Signature:
		if t.TypeParams().Len() > 0 {
			return "a generic function"
		}
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for i := range tuple.Len() {
				if why := d.reason(tuple.At(i).Type()); why != "" {
					return why
				}
			}
		}
		return ""
	case *types.Struct:
		for i := range t.NumFields() {
			if f := t.Field(i); !f.Exported() || !plain(t.Tag(i)) {
				return "a struct with the unexported field or unusual tag " + f.Name()
			}
			if why := d.reason(t.Field(i).Type()); why != "" {
				return why
			}
		}
		return ""
	case *types.Interface:
		if t.NumMethods() == 0 && t.IsMethodSet() {
			return ""
		}
		return "an interface without a name"
	default:
		return "a type that is not known"
	}
}

func (d *describer) first(all ...types.Type) string {
	for _, t := range all {
		if why := d.reason(t); why != "" {
			return why
		}
	}
	return ""
}

func (d *describer) reasonOfNamed(t *types.Named) string {
	o := t.Obj()
	if o.Pkg() == nil { // error, any, comparable
		if o.Name() == "error" || o.Name() == "any" {
			return ""
		}
		return "the constraint " + o.Name()
	}
	if t.TypeArgs().Len() == 0 {
		if why, known := d.kinds[o]; known {
			return why
		}
	}
	d.kinds[o] = "" // while its parts are looked at
	why := d.judge(t)
	d.kinds[o] = why
	if t.TypeArgs().Len() > 0 {
		delete(d.kinds, o)
	}
	return why
}

func (d *describer) judge(t *types.Named) string {
	o, mine := t.Obj(), d.mine(t)
	full := o.Pkg().Name() + "." + o.Name()
	switch {
	case !o.Exported():
		return "the unexported type " + full
	case !mine && !standard(o.Pkg().Path()):
		return "the foreign type " + full
	case mine && t.TypeArgs().Len() > 0:
		return "the generic type " + full
	case full == "time.Time" && !mine:
		return ""
	case o.Parent() != o.Pkg().Scope():
		return "the local type " + full
	}
	for i := range t.TypeArgs().Len() {
		if why := d.reason(t.TypeArgs().At(i)); why != "" {
			return why
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		if mine {
			return "" // by value, or a handle
		}
		if why := d.reason(u); why != "" {
			return "the foreign type " + full
		}
		return ""
	case *types.Interface:
		if !u.IsMethodSet() {
			return "the constraint " + full
		}
		for i := range u.NumMethods() {
			m := u.Method(i)
			if !m.Exported() {
				return "the interface " + full + " with the unexported method " + m.Name()
			}
			if why := d.reason(m.Type()); why != "" {
				return "the interface " + full + " with " + why
			}
		}
		if !mine && u.NumMethods() > 0 {
			d.foreign[o.Pkg().Path()+"."+o.Name()] = Named{}
			d.foreign[o.Pkg().Path()+"."+o.Name()] = Named{Path: o.Pkg().Path(), Name: o.Name(), Type: d.typ(u)}
		}
		return ""
	default:
		if why := d.reason(u); why != "" {
			return "the type " + full + " with " + why
		}
		return ""
	}
}

// typ describes a type that can travel.
func (d *describer) typ(t types.Type) Type {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		name := types.Default(t).String()
		return Type{Kind: kindBasic, Name: cmp.Or(map[string]string{"byte": "uint8", "rune": "int32"}[name], name)}
	case *types.Named:
		if t.Obj().Pkg() == nil {
			return Type{Kind: kindBasic, Name: t.Obj().Name()}
		}
		n := Type{Kind: kindNamed, Path: t.Obj().Pkg().Path(), Name: t.Obj().Name()}
		for i := range t.TypeArgs().Len() {
			n.Of = append(n.Of, d.typ(t.TypeArgs().At(i)))
		}
		return n
	case *types.Pointer:
		return Type{Kind: kindPointer, Of: []Type{d.typ(t.Elem())}}
	case *types.Slice:
		return Type{Kind: kindSlice, Of: []Type{d.typ(t.Elem())}}
	case *types.Array:
		return Type{Kind: kindArray, Len: t.Len(), Of: []Type{d.typ(t.Elem())}}
	case *types.Map:
		return Type{Kind: kindMap, Of: []Type{d.typ(t.Key()), d.typ(t.Elem())}}
	case *types.Signature:
		f := Type{Kind: kindFunc, Variadic: t.Variadic()}
		for v := range t.Params().Variables() {
			f.Of = append(f.Of, d.typ(v.Type()))
		}
		for v := range t.Results().Variables() {
			f.Results = append(f.Results, d.typ(v.Type()))
		}
		return f
	case *types.Struct:
		s := Type{Kind: kindStruct}
		for i := range t.NumFields() {
			f := t.Field(i)
			s.Fields = append(s.Fields, Field{Name: f.Name(), Type: d.typ(f.Type()), Embedded: f.Embedded(), Tag: t.Tag(i)})
		}
		return s
	case *types.Interface:
		if t.NumMethods() == 0 {
			return Type{Kind: kindBasic, Name: "any"}
		}
		i := Type{Kind: kindInterface}
		for m := range t.Methods() {
			i.Methods = append(i.Methods, Func{Name: m.Name(), Type: d.typ(m.Type())})
		}
		return i
	default:
		return Type{Kind: strings.TrimPrefix(fmt.Sprintf("%T", t), "*types.")}
	}
}
