package gostub

import (
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
)

// resolver type-checks packages from their source, without the bodies of functions: the module's own, those of its
// vendor directory and the standard library's.
type resolver struct {
	root, module, goroot string
	fset                 *token.FileSet
	context              build.Context
	packages             map[string]*types.Package
}

// Context returns the rules by which the go command chooses files in a sandbox.
func Context(goroot string) build.Context {
	context := build.Default
	context.GOROOT, context.GOOS, context.CgoEnabled = goroot, "linux", false
	return context
}

func newResolver(root, module, goroot string) *resolver {
	context := Context(goroot)
	return &resolver{
		root: root, module: module, goroot: goroot, fset: token.NewFileSet(), context: context,
		packages: map[string]*types.Package{"unsafe": types.Unsafe},
	}
}

// local returns the directory of a package of the module.
func (r *resolver) local(importPath string) (string, bool) {
	if importPath == r.module {
		return ".", true
	}
	rest, ok := strings.CutPrefix(importPath, r.module+"/")
	return rest, ok
}

// directories returns where a package may be.
func (r *resolver) directories(importPath string) []string {
	if dir, ok := r.local(importPath); ok {
		return []string{filepath.Join(r.root, dir)}
	}
	std := filepath.Join(r.goroot, "src")
	return []string{
		filepath.Join(std, importPath), filepath.Join(std, "vendor", importPath), filepath.Join(r.root, "vendor", importPath),
	}
}

// Import implements types.Importer. A package with errors is imported as far as it is understood.
func (r *resolver) Import(importPath string) (*types.Package, error) {
	if p, known := r.packages[importPath]; known {
		if p == nil {
			return nil, errors.New("import cycle")
		}
		return p, nil
	}
	r.packages[importPath] = nil
	for _, dir := range r.directories(importPath) {
		found, err := r.context.ImportDir(dir, 0)
		if err != nil && len(found.GoFiles) == 0 {
			continue
		}
		files := r.parse(dir, found.GoFiles)
		config := types.Config{IgnoreFuncBodies: true, FakeImportC: true, Importer: r, Error: func(error) {}}
		p, _ := config.Check(importPath, r.fset, files, nil)
		p.MarkComplete()
		r.packages[importPath] = p
		return p, nil
	}
	delete(r.packages, importPath)
	return nil, errors.New("no package " + importPath)
}

func (r *resolver) parse(dir string, names []string) []*ast.File {
	var files []*ast.File
	for _, name := range names {
		if f, _ := parser.ParseFile(r.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution|parser.ParseComments); f != nil {
			files = append(files, f)
		}
	}
	return files
}
