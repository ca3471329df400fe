package guild_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSystemCalls finds a name of package syscall or golang.org/x/sys/unix that a system lacks for which a program is released.
// Compiling the programs for each system would find more, and takes minutes: make release does that.
func TestSystemCalls(t *testing.T) {
	for _, c := range []struct{ program, system string }{
		{"cmd/guild", "linux"}, {"cmd/guild", "darwin"}, {"cmd/nook", "darwin"}, {"cmd/nutshell", "windows"},
	} {
		ctx := build.Default
		ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = c.system, "arm64", false
		known := map[string]map[string]bool{"syscall": declared(t, ctx, filepath.Join(ctx.GOROOT, "src", "syscall"))}
		if c.system != "windows" {
			known["golang.org/x/sys/unix"] = declared(t, ctx, folderOf(t, "golang.org/x/sys/unix"))
		}
		for dir := range reached(t, ctx, c.program) {
			for _, f := range files(t, ctx, dir) {
				for _, spec := range f.Imports {
					if names, ok := known[strings.Trim(spec.Path.Value, `"`)]; ok {
						missing(t, f, filepath.Base(strings.Trim(spec.Path.Value, `"`)), names, dir+" for "+c.system)
					}
				}
			}
		}
	}
}

// missing reports the names of a package that a file uses and the package does not have.
func missing(t *testing.T, f *ast.File, pkg string, names map[string]bool, where string) {
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg && x.Obj == nil && !names[s.Sel.Name] {
			t.Errorf("%s: there is no %s.%s; move what calls it to a file with a build constraint", where, pkg, s.Sel.Name)
		}
		return true
	})
}

// reached returns the packages of this module that a program is made of, by directory.
func reached(t *testing.T, ctx build.Context, program string) map[string]bool {
	t.Helper()
	all, rest := map[string]bool{}, []string{program}
	for len(rest) > 0 {
		dir := rest[0]
		rest = rest[1:]
		if all[dir] {
			continue
		}
		all[dir] = true
		p, err := ctx.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range p.Imports {
			if path == module {
				path += "/."
			}
			if inside, ok := strings.CutPrefix(path, module+"/"); ok {
				rest = append(rest, inside)
			}
		}
	}
	return all
}

// files parses the files of a directory that are compiled for a system.
func files(t *testing.T, ctx build.Context, dir string) []*ast.File {
	t.Helper()
	p, err := ctx.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// declared returns the names that a package declares for a system.
func declared(t *testing.T, ctx build.Context, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range files(t, ctx, dir) {
		for name := range f.Scope.Objects {
			names[name] = true
		}
	}
	return names
}

// folderOf returns the directory of a package of another module.
func folderOf(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
