package gostub

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Selection says which tests of a module can be split, and has their files.
type Selection struct {
	Tests []Selected        `json:"tests"`
	Files map[string]string `json:"files,omitempty"` // rewritten test files, by their names below the module's root
}

// Selected is a test function of the customer's.
type Selected struct {
	ID      string `json:"id"`                // "TestName", or "dir.TestName"
	Because string `json:"because,omitempty"` // the declaration for which it cannot be split; empty if it can
	Decided int    `json:"decided,omitempty"` // decisions of the delivery's that its source shows
}

// selector looks at the external test package of one directory.
type selector struct {
	*resolver
	d       *Description
	reasons map[string]string
	dir     string
	files   []*ast.File
	sources map[*ast.File][]byte
	info    *types.Info
	decls   []*declaration
	owner   map[types.Object]*declaration
}

// declaration is one top-level declaration of a test package.
type declaration struct {
	file    *ast.File
	node    ast.Node
	because string // why it cannot be compiled beside the tests
	decided int
	uses    map[*declaration]bool
}

// Select looks at the external tests in the given directories of a module whose delivered packages are stubs. A test is
// split if all that it uses can be.
func Select(root, goroot string, d *Description, dirs []string) (*Selection, error) {
	out := &Selection{Files: map[string]string{}}
	r := newResolver(root, d.Module, goroot)
	for _, dir := range dirs {
		s := &selector{resolver: r, d: d, reasons: d.Reasons(), dir: dir, sources: map[*ast.File][]byte{}, owner: map[types.Object]*declaration{}}
		if err := s.run(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *selector) run(out *Selection) error {
	dir := filepath.Join(s.root, s.dir)
	p, err := s.context.ImportDir(dir, build.IgnoreVendor)
	if err != nil && p == nil {
		return err
	}
	for _, name := range p.TestGoFiles {
		for _, f := range s.parse(dir, []string{name}) {
			for _, d := range f.Decls {
				if name := TestName(d); name != "" {
					out.Tests = append(out.Tests, Selected{ID: s.id(name), Because: "it is in package " + p.Name + ", not " + p.Name + "_test"})
				}
			}
		}
	}
	s.files = s.parse(dir, p.XTestGoFiles)
	for _, f := range s.files {
		if s.sources[f], err = os.ReadFile(s.fset.File(f.FileStart).Name()); err != nil {
			return err
		}
	}
	s.check()
	s.spread()
	for _, d := range s.decls {
		f, ok := d.node.(*ast.FuncDecl)
		if !ok || TestName(f) == "" {
			continue
		}
		because := d.because
		if because == "" {
			because = s.always()
		}
		out.Tests = append(out.Tests, Selected{ID: s.id(f.Name.Name), Because: because, Decided: d.decided})
	}
	for _, f := range s.files {
		name := filepath.Base(s.fset.File(f.FileStart).Name())
		out.Files[filepath.ToSlash(filepath.Join(s.dir, name))] = s.rewrite(f)
	}
	return nil
}

func (s *selector) id(name string) string {
	return strings.TrimPrefix(filepath.ToSlash(s.dir)+"."+name, "..")
}

// TestName returns the name of a test function by the rules of go test, or "" for any other declaration.
func TestName(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv != nil || f.Name.Name == "TestMain" || len(f.Type.Params.List) != 1 {
		return ""
	}
	rest, isTest := strings.CutPrefix(f.Name.Name, "Test")
	if first, _ := utf8.DecodeRuneInString(rest); !isTest || unicode.IsLower(first) {
		return ""
	}
	return f.Name.Name
}

// check type-checks the test package, and gives each declaration what is wrong in it.
func (s *selector) check() {
	for _, f := range s.files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				if g.Tok == token.IMPORT {
					continue
				}
				s.decls = append(s.decls, &declaration{file: f, node: g, uses: map[*declaration]bool{}})
				continue
			}
			s.decls = append(s.decls, &declaration{file: f, node: d, uses: map[*declaration]bool{}})
		}
	}
	s.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Implicits: map[ast.Node]types.Object{},
	}
	config := types.Config{Importer: s, Error: func(err error) {
		e, ok := err.(types.Error)
		if d := s.at(e.Pos); ok && d != nil && d.because == "" && !e.Soft {
			d.because = s.explain(d, e)
		}
	}}
	_, _ = config.Check(s.d.Path(s.dir)+"_test", s.fset, s.files, s.info)
	for _, d := range s.decls {
		ast.Inspect(d.node, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if o := s.info.Defs[id]; o != nil && s.owner[o] == nil {
					s.owner[o] = d
				}
			}
			return true
		})
	}
	for _, d := range s.decls {
		s.look(d)
	}
}

func (s *selector) at(pos token.Pos) *declaration {
	for _, d := range s.decls {
		if d.node.Pos() <= pos && pos < d.node.End() {
			return d
		}
	}
	return nil
}

// explain says which delivered declaration an error is about, if it is one that was left out of the stub.
func (s *selector) explain(d *declaration, e types.Error) string {
	why := e.Msg
	ast.Inspect(d.node, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || e.Pos < sel.Pos() || e.Pos > sel.End() {
			return true
		}
		name, tag := s.qualified(sel)
		if reason := s.reasons[tag]; reason != "" {
			why = name + ": " + reason
		}
		return true
	})
	return why
}

// qualified returns the name of what a selector chooses, as it is written and as Reasons has it.
func (s *selector) qualified(sel *ast.SelectorExpr) (name, full string) {
	if id, ok := sel.X.(*ast.Ident); ok {
		if p, ok := s.info.Uses[id].(*types.PkgName); ok {
			return id.Name + "." + sel.Sel.Name, p.Imported().Path() + "." + sel.Sel.Name
		}
	}
	t := s.info.Types[sel.X].Type
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() != nil {
		return n.Obj().Name() + "." + sel.Sel.Name, n.Obj().Pkg().Path() + "." + n.Obj().Name() + "." + sel.Sel.Name
	}
	return sel.Sel.Name, ""
}

// spread lets what uses a declaration that cannot be compiled share its fate, and counts the decisions that are made
// for a test anywhere below it.
func (s *selector) spread() {
	for changed := true; changed; {
		changed = false
		for _, d := range s.decls {
			for u := range d.uses {
				if u.because != "" && d.because == "" {
					d.because, changed = u.because, true
				}
			}
		}
	}
	for _, d := range s.decls {
		seen := map[*declaration]bool{}
		var add func(*declaration) int
		add = func(d *declaration) int {
			if seen[d] {
				return 0
			}
			seen[d] = true
			n := d.decided
			for u := range d.uses {
				n += add(u)
			}
			return n
		}
		if f, ok := d.node.(*ast.FuncDecl); ok && TestName(f) != "" {
			d.decided = add(d)
		}
	}
}

// always returns why nothing of the package can be split: what runs before each test cannot be compiled.
func (s *selector) always() string {
	for _, d := range s.decls {
		if d.because == "" {
			continue
		}
		f, ok := d.node.(*ast.FuncDecl)
		if ok && f.Recv == nil && (f.Name.Name == "TestMain" || f.Name.Name == "init") {
			return d.because
		}
		if g, ok := d.node.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, spec := range g.Specs {
				if v := spec.(*ast.ValueSpec); len(v.Values) > 0 && v.Names[0].Name == "_" && v.Type == nil {
					return d.because
				}
			}
		}
	}
	return ""
}

// rewrite returns a test file without the declarations that cannot be compiled, and with each test reported. Lines stay
// where they are.
func (s *selector) rewrite(f *ast.File) string {
	src := slices.Clone(s.sources[f])
	base := s.fset.File(f.FileStart)
	at := func(p token.Pos) int { return base.Offset(p) }
	used := map[string]bool{}
	type insertion struct {
		at   int
		text string
	}
	var insert []insertion
	tests := false
	for _, d := range s.decls {
		if d.file != f {
			continue
		}
		fn, isFunc := d.node.(*ast.FuncDecl)
		if d.because != "" || isFunc && strings.HasPrefix(fn.Name.Name, "Example") && fn.Recv == nil {
			for i := at(start(d.node)); i < at(d.node.End()); i++ {
				if src[i] != '\n' {
					src[i] = ' '
				}
			}
			continue
		}
		ast.Inspect(d.node, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if p, ok := s.info.Uses[id].(*types.PkgName); ok {
					used[p.Imported().Path()+" "+p.Name()] = true
				}
			}
			if call, ok := n.(*ast.CallExpr); ok {
				if sel := s.serial(call); sel != nil {
					tests = true
					stand := map[string]string{"Run": "guildwire.Sub(", "Parallel": "guildwire.Parallel("}[sel.Sel.Name]
					insert = append(insert, insertion{at(call.Pos()), stand})
					if sel.Sel.Name == "Run" {
						insert = append(insert, insertion{at(sel.X.End()), ","})
					}
					for i := at(sel.X.End()); i <= at(call.Lparen); i++ {
						if src[i] != '\n' {
							src[i] = ' '
						}
					}
				}
			}
			return true
		})
		if isFunc && TestName(fn) != "" && fn.Body != nil {
			tests = true
			param := fn.Type.Params.List[0]
			typ := string(src[at(param.Type.Pos()):at(param.Type.End())])
			if len(param.Names) == 0 || param.Names[0].Name == "_" {
				insert = append(insert, insertion{at(param.Pos()), "guildT "})
				if len(param.Names) == 1 {
					src[at(param.Names[0].Pos())] = ' '
				}
				insert = append(insert, insertion{at(fn.Body.Lbrace) + 1, fmt.Sprintf("guildwire.Run(guildT, %q, %d, func(%s) {", s.id(fn.Name.Name), d.decided, typ)})
			} else {
				name := param.Names[0].Name
				insert = append(insert, insertion{at(fn.Body.Lbrace) + 1, fmt.Sprintf("guildwire.Run(%s, %q, %d, func(%s %s) {", name, s.id(fn.Name.Name), d.decided, name, typ)})
			}
			insert = append(insert, insertion{at(fn.Body.Rbrace), "})"})
		}
	}
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		name := ""
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "_" || name == "." {
			continue
		}
		keep := false
		for u := range used {
			path, as, _ := strings.Cut(u, " ")
			keep = keep || path == p && (name == "" || name == as)
		}
		if keep {
			continue
		}
		if imported, err := s.Import(p); err != nil || imported == nil {
			for i := at(spec.Pos()); i < at(spec.End()); i++ {
				src[i] = ' '
			}
			if decl := s.alone(f, spec); decl != nil {
				for i := at(decl.Pos()); i < at(decl.End()); i++ {
					src[i] = ' '
				}
			}
			continue
		}
		if spec.Name != nil {
			for i := at(spec.Name.Pos()); i < at(spec.Name.End()); i++ {
				src[i] = ' '
			}
		}
		insert = append(insert, insertion{at(spec.Path.Pos()), "_ "})
	}
	if tests {
		insert = append(insert, insertion{at(f.Name.End()), "; import guildwire " + strconv.Quote(s.d.Path(WireDir))})
	}
	slices.SortStableFunc(insert, func(a, b insertion) int { return a.at - b.at })
	var out bytes.Buffer
	last := 0
	for _, i := range insert {
		out.Write(src[last:i.at])
		out.WriteString(i.text)
		last = i.at
	}
	out.Write(src[last:])
	return out.String()
}

// serial returns what a call calls if that is t.Run or t.Parallel: package gowire has its own, which let tests run one after
// the other.
func (s *selector) serial(call *ast.CallExpr) *ast.SelectorExpr {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Run" && sel.Sel.Name != "Parallel" {
		return nil
	}
	if t := s.info.Types[sel.X].Type; t == nil || t.String() != "*testing.T" {
		return nil
	}
	return sel
}

// start returns where a declaration begins, with its comment, which may have directives.
func start(n ast.Node) token.Pos {
	var doc *ast.CommentGroup
	switch n := n.(type) {
	case *ast.FuncDecl:
		doc = n.Doc
	case *ast.GenDecl:
		doc = n.Doc
	}
	if doc != nil {
		return doc.Pos()
	}
	return n.Pos()
}

// alone returns the declaration of an import that has no others and no parentheses.
func (s *selector) alone(f *ast.File, spec *ast.ImportSpec) *ast.GenDecl {
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT && !g.Lparen.IsValid() && g.Specs[0] == spec {
			return g
		}
	}
	return nil
}
