package exam

import (
	"cmp"
	"go/parser"
	"go/token"
	goversion "go/version"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"guild/internal/judging/exam/gostub"
)

// goModule has what is needed of a go.mod file.
type goModule struct {
	path     string // empty without a file
	version  string // of the language, such as "1.24"
	vendored bool   // its dependencies are beside it
}

// moduleOf returns the module of the first of some directories that has a go.mod file.
func moduleOf(dirs ...string) (m goModule) {
	for _, dir := range dirs {
		root, err := os.OpenRoot(cmp.Or(dir, "/nonexistent"))
		if err != nil {
			continue
		}
		text, err := readSome(root.FS(), "go.mod")
		_, without := root.Stat("vendor/modules.txt")
		root.Close()
		if err != nil {
			continue
		}
		if m.path, m.version = gostub.Module(text); m.path != "" {
			m.vendored = without == nil
			return m
		}
	}
	return goModule{}
}

// readModules finds the customer's module and that of the workspace. The customer's version, or else that of the judge's Go,
// is the one that the tests are written in: an older one can change what a loop in them means.
func (s *goSplit) readModules(installed string) {
	s.customer = moduleOf(s.tests, s.layout.files)
	if s.customer.path == "" {
		s.customer.version = strings.TrimPrefix(goversion.Lang(installed), "go")
	}
	artifacts := slices.Clone(s.layout.artifacts)
	slices.Reverse(artifacts)
	s.delivered = moduleOf(append(artifacts, s.layout.files)...)
}

// language returns the version for tests in one process with the delivery, which may need a newer one.
func (s *goSplit) language() string {
	if goversion.Compare("go"+s.delivered.version, "go"+s.customer.version) > 0 {
		return s.delivered.version
	}
	return s.customer.version
}

// own reports whether a package was to be delivered: it is below the customer's module. Without one it is below the delivered
// module; if the tests import nothing of that, any package may be.
func (s *goSplit) own(importPath string) bool {
	below := func(module string) func(string) bool {
		return func(p string) bool { return p == module || strings.HasPrefix(p, module+"/") }
	}
	if s.customer.path != "" {
		return below(s.customer.path)(importPath)
	}
	inside := below(s.delivered.path)
	return inside(importPath) || !slices.ContainsFunc(s.imports(), inside)
}

// imports returns the packages that the tests import.
func (s *goSplit) imports() []string {
	var all []string
	for _, dir := range s.packages {
		names, _ := filepath.Glob(filepath.Join(s.tests, dir, "*_test.go")) // the pattern is a good one
		for _, name := range names {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				continue
			}
			for _, spec := range file.Imports {
				if p, err := strconv.Unquote(spec.Path.Value); err == nil {
					all = append(all, p)
				}
			}
		}
	}
	return all
}
