package gostub

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// look notes what a declaration uses, what in it cannot be split although it compiles, and what in it the delivery
// decides.
func (s *selector) look(d *declaration) {
	refuse := func(format string, a ...any) {
		if d.because == "" {
			d.because = fmt.Sprintf(format, a...)
		}
	}
	parents := []ast.Node{nil}
	ast.Inspect(d.node, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		parent := parents[len(parents)-1]
		parents = append(parents, n)
		switch n := n.(type) {
		case *ast.Ident:
			if p, ok := s.info.Uses[n].(*types.PkgName); ok {
				if _, err := s.Import(p.Imported().Path()); err != nil {
					refuse("the package %s is not beside the tests", p.Imported().Path())
				}
			}
			if u := s.owner[s.info.Uses[n]]; u != nil && u != d && s.info.Uses[n].Parent() == s.info.Uses[n].Pkg().Scope() {
				d.uses[u] = true
			}
			if m, ok := s.info.Uses[n].(*types.Func); ok && s.owner[m] != nil && s.owner[m] != d {
				d.uses[s.owner[m]] = true
			}
			if t, ok := s.info.Uses[n].(*types.TypeName); ok {
				s.useMethods(d, t)
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "GuildHandle" {
				refuse("a field of a handle")
			}
		case *ast.UnaryExpr:
			if v := s.variable(n.X); n.Op == token.AND && v != nil && s.isHandleOrError(v.Type()) {
				refuse("the address of the variable %s", v.Name())
			}
		case *ast.AssignStmt:
			for i, x := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) {
					s.box(s.typeOf(x), n.Rhs[i], refuse)
				}
				if v := s.variable(x); v != nil && s.isHandleOrError(v.Type()) {
					refuse("an assignment to the variable %s", v.Name())
				}
			}
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && s.keeps(s.typeOf(n.X), nil) && s.keeps(s.typeOf(n.Y), nil) {
				d.decided++ // which of its objects are the same
			}
		case *ast.RangeStmt:
			if v, ok := n.Value.(*ast.Ident); ok && v.Name != "_" {
				if t := s.typeOf(v); s.copied(t) {
					refuse("a copy of %s", types.TypeString(t, types.RelativeTo(nil)))
				}
			}
		case *ast.IndexExpr:
			if m, ok := s.underlying(n.X).(*types.Map); ok && s.keeps(m.Key(), nil) {
				d.decided++
			}
		case *ast.CompositeLit:
			s.literal(n, refuse)
		case *ast.CallExpr:
			s.call(d, n, refuse)
		}
		if x, ok := n.(ast.Expr); ok {
			if t := s.copy(x, parent); t != nil {
				refuse("a copy of %s", s.short(t))
			}
		}
		return true
	})
}

// useMethods makes a declaration depend on the methods of a type that it uses, which an interface may call.
func (s *selector) useMethods(d *declaration, t *types.TypeName) {
	n, ok := t.Type().(*types.Named)
	if !ok || s.owner[t] == nil {
		return
	}
	for m := range n.Methods() {
		if o := s.owner[m]; o != nil && o != d {
			d.uses[o] = true
		}
	}
}

func (s *selector) typeOf(x ast.Expr) types.Type {
	if id, ok := x.(*ast.Ident); ok {
		if o := s.info.Defs[id]; o != nil {
			return o.Type()
		}
	}
	return s.info.Types[x].Type
}

func (s *selector) short(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string { return p.Name() })
}

// variable returns the package variable of a stub that an expression names, or nil.
func (s *selector) variable(x ast.Expr) *types.Var {
	sel, ok := ast.Unparen(x).(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	v, ok := s.info.Uses[sel.Sel].(*types.Var)
	if !ok || v.IsField() || !s.isStub(v.Pkg()) {
		return nil
	}
	return v
}

func (s *selector) isStub(p *types.Package) bool {
	return p != nil && slices.ContainsFunc(s.d.Packages, func(q Package) bool { return s.d.Path(q.Dir) == p.Path() })
}

func (s *selector) isHandleOrError(t types.Type) bool {
	return s.isHandle(t) || types.Identical(t, types.Universe.Lookup("error").Type())
}

// isHandle reports whether values of a type stay with the delivery.
func (s *selector) isHandle(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || !s.isStub(n.Obj().Pkg()) {
		return false
	}
	st, ok := n.Underlying().(*types.Struct)
	return ok && st.NumFields() == 2 && st.Field(1).Name() == "GuildHandle"
}

// keeps reports whether something of a type is or contains an object that stays with the delivery, a pointer to one, or
// an interface of the delivery's, which may have one.
func (s *selector) keeps(t types.Type, seen []types.Type) bool {
	if t == nil || slices.Contains(seen, t) || len(seen) > maxDepth {
		return false
	}
	if s.isHandle(t) {
		return true
	}
	seen = append(seen, t)
	switch u := t.Underlying().(type) {
	case *types.Interface:
		n, ok := types.Unalias(t).(*types.Named)
		return ok && s.isStub(n.Obj().Pkg())
	case *types.Pointer:
		return s.keeps(u.Elem(), seen)
	case *types.Slice:
		return s.keeps(u.Elem(), seen)
	case *types.Array:
		return s.keeps(u.Elem(), seen)
	case *types.Map:
		return s.keeps(u.Key(), seen) || s.keeps(u.Elem(), seen)
	case *types.Struct:
		for f := range u.Fields() {
			if s.keeps(f.Type(), seen) {
				return true
			}
		}
	}
	return false
}

// copied reports whether an assignment of a type copies an object that stays with the delivery.
func (s *selector) copied(t types.Type) bool {
	if t == nil {
		return false
	}
	if s.isHandle(t) {
		return s.mutable(types.Unalias(t).(*types.Named))
	}
	switch u := t.Underlying().(type) {
	case *types.Array:
		return s.copied(u.Elem())
	case *types.Struct:
		for f := range u.Fields() {
			if s.copied(f.Type()) {
				return true
			}
		}
	}
	return false
}

// mutable reports whether the delivery may change a variable of a type: it has a method on a pointer, or a function
// takes one. A copy of one that cannot change is the same.
func (s *selector) mutable(t *types.Named) bool {
	if types.NewMethodSet(types.NewPointer(t)).Len() > types.NewMethodSet(t).Len() {
		return true
	}
	scope := t.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		f, ok := scope.Lookup(name).(*types.Func)
		if !ok {
			continue
		}
		for v := range f.Signature().Params().Variables() {
			if p, ok := v.Type().Underlying().(*types.Pointer); ok && types.Identical(p.Elem(), t) {
				return true
			}
		}
	}
	return false
}

// copy returns the type of an object of the delivery's that an expression copies. What a call returns or a literal makes
// is not used elsewhere, and what is passed to the delivery is copied there.
func (s *selector) copy(x ast.Expr, parent ast.Node) types.Type {
	tv, ok := s.info.Types[x]
	if !ok || !tv.IsValue() || !s.copied(tv.Type) {
		return nil
	}
	switch ast.Unparen(x).(type) {
	case *ast.CallExpr, *ast.CompositeLit:
		return nil
	}
	switch p := parent.(type) {
	case *ast.SelectorExpr, *ast.UnaryExpr, *ast.ParenExpr, *ast.IndexExpr, *ast.RangeStmt:
		return nil
	case *ast.AssignStmt:
		if slices.Contains(p.Lhs, x) {
			return nil
		}
	case *ast.CallExpr:
		if s.ofStub(p.Fun) {
			return nil
		}
	case *ast.ValueSpec, *ast.Field:
		if id, ok := x.(*ast.Ident); ok && s.info.Defs[id] != nil {
			return nil
		}
	}
	return tv.Type
}

// ofStub reports whether a function expression names a function or method of a stub.
func (s *selector) ofStub(f ast.Expr) bool {
	sel, ok := ast.Unparen(f).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	o := s.info.Uses[sel.Sel]
	return o != nil && s.isStub(o.Pkg())
}

// writes are the methods of testing.T that only write, and so may be given anything.
var writes = []string{"Log", "Logf", "Error", "Errorf", "Fatal", "Fatalf", "Skip", "Skipf"}

// call refuses to hand an object of the delivery's to something that would look at the stub's.
func (s *selector) call(d *declaration, c *ast.CallExpr, refuse func(string, ...any)) {
	fun := s.info.Types[c.Fun]
	if fun.Type == nil {
		return
	}
	if s.ofStub(c.Fun) || fun.IsType() {
		for _, arg := range c.Args {
			s.lend(arg, refuse)
		}
		return
	}
	if fun.IsBuiltin() {
		return
	}
	sig, ok := types.Unalias(fun.Type).Underlying().(*types.Signature)
	if !ok {
		return
	}
	if sel, ok := c.Fun.(*ast.SelectorExpr); ok {
		if f, ok := s.info.Uses[sel.Sel].(*types.Func); ok && f.Pkg() != nil && f.Pkg().Path() == "testing" && slices.Contains(writes, f.Name()) {
			return
		}
	}
	for i, arg := range c.Args {
		t := s.typeOf(arg)
		if !s.keeps(t, nil) {
			continue
		}
		var want types.Type
		switch {
		case sig.Variadic() && i >= sig.Params().Len()-1:
			want = sig.Params().At(sig.Params().Len() - 1).Type()
			if l, ok := want.Underlying().(*types.Slice); ok && !c.Ellipsis.IsValid() {
				want = l.Elem()
			}
		case i < sig.Params().Len():
			want = sig.Params().At(i).Type()
		default:
			continue
		}
		if !s.prints(c, t) {
			s.box(want, arg, refuse)
		}
		if !types.IsInterface(want) && s.ofLibrary(c.Fun) || s.compares(c.Fun) {
			d.decided++ // slices.Contains and the like find out which objects are the same
		}
	}
}

// compares reports whether a function expression names a generic function of the tests that does something with values
// of a type parameter, but to return them.
func (s *selector) compares(f ast.Expr) bool {
	if index, ok := ast.Unparen(f).(*ast.IndexExpr); ok {
		f = index.X
	}
	id, ok := ast.Unparen(f).(*ast.Ident)
	if !ok || s.owner[s.info.Uses[id]] == nil {
		return false
	}
	generic := func(x ast.Expr) bool {
		_, ok := types.Unalias(s.typeOf(x)).(*types.TypeParam)
		return ok
	}
	found := false
	ast.Inspect(s.owner[s.info.Uses[id]].node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			found = found || generic(n.X)
		case *ast.IndexExpr:
			found = found || generic(n.Index)
		case *ast.CallExpr:
			found = found || slices.ContainsFunc(n.Args, generic)
		}
		return !found
	})
	return found
}

// lend refuses to hand the delivery what reports a test's result: it would then decide.
func (s *selector) lend(x ast.Expr, refuse func(string, ...any)) {
	t := s.typeOf(x)
	if sel, ok := ast.Unparen(x).(*ast.SelectorExpr); ok {
		if f, ok := s.info.Uses[sel.Sel].(*types.Func); ok && f.Pkg() != nil && f.Pkg().Path() == "testing" {
			t = s.typeOf(sel.X) // a method of it
		}
	}
	if t == nil {
		return
	}
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "testing" {
		refuse("the delivery is given testing.%s", n.Obj().Name())
	}
}

// box refuses to make an interface without methods of an object of the delivery's: what looks at it would see the
// stub's.
func (s *selector) box(want types.Type, x ast.Expr, refuse func(string, ...any)) {
	t := s.typeOf(x)
	if want == nil || t == nil || !s.keeps(t, nil) {
		return
	}
	if iface, ok := want.Underlying().(*types.Interface); ok && iface.NumMethods() == 0 {
		refuse("%s, whose fields are not exported, is compared or looked at by value", s.short(t))
	}
}

// literal looks at what the elements of a literal become.
func (s *selector) literal(c *ast.CompositeLit, refuse func(string, ...any)) {
	for i, e := range c.Elts {
		kv, keyed := e.(*ast.KeyValueExpr)
		value := e
		if keyed {
			value = kv.Value
		}
		s.lend(value, refuse)
		switch u := s.underlying(c).(type) {
		case *types.Slice:
			s.box(u.Elem(), value, refuse)
		case *types.Array:
			s.box(u.Elem(), value, refuse)
		case *types.Map:
			s.box(u.Elem(), value, refuse)
			if keyed {
				s.box(u.Key(), kv.Key, refuse)
			}
		case *types.Struct:
			field := i
			for j := range u.NumFields() {
				if id, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := id.Key.(*ast.Ident); ok && u.Field(j).Name() == key.Name {
						field = j
					}
				}
			}
			if field < u.NumFields() {
				s.box(u.Field(field).Type(), value, refuse)
			}
		}
	}
}

func (s *selector) underlying(x ast.Expr) types.Type {
	t := s.typeOf(x)
	if t == nil {
		return nil
	}
	return t.Underlying()
}

// ofLibrary reports whether a function expression names a function of the standard library.
func (s *selector) ofLibrary(f ast.Expr) bool {
	if index, ok := ast.Unparen(f).(*ast.IndexExpr); ok {
		f = index.X
	}
	sel, ok := ast.Unparen(f).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	o := s.info.Uses[sel.Sel]
	return o != nil && o.Pkg() != nil && standard(o.Pkg().Path())
}

// prints reports whether a call of package fmt writes a value by the value's own method.
func (s *selector) prints(c *ast.CallExpr, t types.Type) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	o := s.info.Uses[sel.Sel]
	if o == nil || o.Pkg() == nil || o.Pkg().Path() != "fmt" {
		return false
	}
	for _, name := range []string{"String", "Error", "Format"} {
		if m, _, _ := types.LookupFieldOrMethod(t, true, nil, name); m != nil {
			return true
		}
	}
	return false
}
