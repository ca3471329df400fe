package guild_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"guild"
)

// The tests in this file enforce the structure of the module. Each message states the reason of its rule, so that the
// rule is not bypassed out of ignorance.

// module is the path of the module, which can be renamed.
var module = path.Dir(reflect.TypeFor[guild.Hash]().PkgPath())

// stepLayer is the layer of the steps. Each step owns one kind of fact; steps exchange facts only through the journal.
const stepLayer = 5

// layers assigns a layer to each package. A package may import its own layer and those below. A step may not import
// another step.
var layers = map[string]int{
	"":                 0, // the vocabulary
	"digest":           0,
	"internal/durable": 0,

	"canon": 1, "nip89": 1, "nip90": 1, "nipae": 1, "nipae/behaviour": 1, "nipae/agentfile": 1, "nipreview": 1, "nipsa": 1, "nook": 1, "nutshell": 1, "receipt": 1, "replay": 1,

	"seal": 1, "oa": 1, "bitcoin": 1, "bolt11": 1, "cashu": 1, "cashu/token": 1, "replay/session": 1, "verify": 2, "verify/page": 2,

	"nutshell/brief": 1, "nutshell/check": 1, "nutshell/clawnet": 1, "nutshell/diff": 1, "nutshell/ignore": 1, "nutshell/object": 1,
	"nutshell/parts": 1, "nutshell/schema": 1, "nutshell/signature": 1, "nutshell/vault": 1,

	"internal/journal/fact": 2, "internal/policy": 2,

	"internal/journal/due": 3, "internal/journal/fold": 3, "internal/journal": 3,

	"internal/hand/agent": 4, "internal/hand/blob": 4, "internal/hand/blossom": 4, "internal/hand/bunker": 4, "internal/hand/chat": 4, "internal/config": 4, "internal/hand/dial": 4, "internal/hand/door": 4, "internal/hand/fetch": 4, "internal/hand/git": 4, "internal/hand/hooks": 4,
	"internal/hand/bitcoind": 4, "internal/hand/key": 4, "internal/hand/lightning": 4, "internal/hand/lnd": 4, "internal/hand/mcp": 4, "internal/hand/mint": 4, "internal/hand/mintd": 4, "internal/hand/model": 4, "internal/hand/nwc": 4, "internal/hand/outbox": 4, "internal/hand/relay": 4, "internal/hand/relayd": 4, "internal/hand/workdir": 4,

	"internal/market/registry": 4, "internal/market/scout": 4, "internal/judging/suite": 4, "internal/market/route": 4, "internal/hand/dm": 4,

	"internal/judging/typed": 4, "internal/metric": 4, "internal/wallet": 4,

	"internal/cli": 4, "internal/hand/taskserver": 4, "internal/cli/viewer": 4,

	"nutshell/vault/age": 4, "nutshell/vault/plaintext": 4, "nutshell/vault/sops": 4, "nutshell/vault/transit": 4,

	"internal/judging/sandbox": 4, "internal/judging/sandbox/confine": 4, "internal/judging/sandbox/namespaces": 4,
	"internal/judging/sandbox/namespaces/plan": 4, "internal/judging/sandbox/boxinit": 4,
	"internal/judging/sandbox/container": 4, "internal/judging/sandbox/landlock": 4,
	"internal/judging/sandbox/probe": 4, "internal/judging/sandbox/tiers": 4, "internal/judging/exam": 4, "internal/judging/exam/gostub": 4, "internal/judging/exam/gowire": 4, "internal/judging/strength": 4, "internal/judging/analysis": 4, "internal/judging/opinion": 4,

	"internal/step/jobs": stepLayer, "internal/step/pay": stepLayer, "internal/step/judge": stepLayer, "internal/step/record": stepLayer,
	"internal/step/meet": stepLayer, "internal/step/partner": stepLayer, "internal/step/trust": stepLayer, "internal/step/work": stepLayer,
	"internal/step/review": stepLayer, "internal/step/backup": stepLayer, "internal/step/trust/exchange": stepLayer, "internal/step/trust/variables": stepLayer, "internal/step/audit": stepLayer, "internal/step/activity": stepLayer, "internal/step/agents": stepLayer,

	"internal/control": 6, "internal/node": 6, "internal/evidence": 6,

	"internal/nut": 6, "internal/nut/archive": 6, "internal/nut/credential": 6, "internal/nut/draft": 6,
	"internal/nut/host": 6, "internal/nut/market": 6, "internal/nut/project": 6,

	"cmd/guild": 7, "cmd/nook": 7, "cmd/nutshell": 7,
}

// clocks are the packages and files that may read the clock, with the reason.
var clocks = map[string]string{
	"cmd/guild":                              "hands the clock to everything else",
	"cmd/nutshell":                           "hands the clock to the verbs",
	"internal/node":                          "hands the clock to the steps",
	"internal/judging/exam/api.go":           "measures how long an answer took, and stamps nothing",
	"internal/judging/strength/recording.go": "measures how long a test took, and stamps nothing",
	"internal/judging/sandbox/confine/watch_linux.go": "measures how long a run took, and stamps nothing",
	"internal/step/work/bare.go":                      "measures how long a run took, and stamps nothing",
}

// pseudo are the modules without releases, which go.mod requires by commit.
var pseudo = map[string]string{
	"c2sp.org/CCTV/age":                  "never tagged; test vectors",
	"fiatjaf.com/nostr":                  "never tagged",
	"github.com/go-json-experiment/json": "never tagged",
	"github.com/tailscale/hujson":        "never tagged",
}

// forBundles are directories that belong to the example bundles. go.mod tells the go command to ignore them.
var forBundles = []string{"examples/spans", "examples/workers"}

// source is the parsed source of one package.
type source struct {
	dir   string // relative to the module's root, "" for the root
	files map[string]*ast.File
}

// String returns the import path.
func (s source) String() string { return path.Join(module, s.dir) }

// isLaboratory reports whether the package is used only by tests, examples and benchmarks.
func (s source) isLaboratory() bool {
	return strings.HasSuffix(s.dir, "test") || strings.HasPrefix(s.dir, "examples/") || strings.HasPrefix(s.dir, "bench")
}

// imports returns the import paths of the package.
func (s source) imports() []string {
	found := map[string]bool{}
	for _, f := range s.files {
		for _, spec := range f.Imports {
			if p, err := strconv.Unquote(spec.Path.Value); err == nil {
				found[p] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// sources parses every package of the module for this platform, without tests.
func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	files := token.NewFileSet()
	var all []source
	err := filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if dir != "." && isForeign(dir) {
			return filepath.SkipDir
		}
		s, err := parsePackage(files, dir)
		if len(s.files) > 0 {
			all = append(all, s)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, all
}

// isForeign reports whether the go command excludes the directory from "./...".
func isForeign(dir string) bool {
	name := filepath.Base(dir)
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil || slices.Contains(forBundles, filepath.ToSlash(dir))
}

func parsePackage(files *token.FileSet, dir string) (source, error) {
	s := source{dir: strings.TrimPrefix(filepath.ToSlash(dir), "."), files: map[string]*ast.File{}}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return s, err
	}
	for _, name := range names {
		fits, err := build.Default.MatchFile(dir, filepath.Base(name))
		if err != nil || !fits || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return s, err
		}
		s.files[name] = f
	}
	return s, nil
}

func TestExampleBundlesIgnored(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range forBundles {
		if !strings.Contains(string(mod), "./"+dir+"\n") {
			t.Errorf("go.mod does not ignore ./%s: the Go files there belong to a task or a delivery, and are no packages of ours", dir)
		}
	}
}

func TestImportsGoDown(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		if s.isLaboratory() {
			continue
		}
		layer, known := layers[s.dir]
		if !known {
			t.Errorf("%s has no layer: decide where it stands and add it to layers in arch_test.go (a step: stepLayer)", s.dir)
			continue
		}
		for _, p := range s.imports() {
			if p != module && !strings.HasPrefix(p, module+"/") {
				continue
			}
			other := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			below, known := layers[other]
			switch {
			case !known:
				t.Errorf("%s imports %s, which has no layer in arch_test.go: a step needs one there; a package for tests alone has none and is not imported", s.dir, other)
			case below > layer:
				t.Errorf("%s imports %s, which stands above it: what is below must be readable without what is above", s.dir, other)
			case layer == stepLayer && below == stepLayer:
				t.Errorf("step %s imports step %s: steps meet in the journal, so that each can be read, tested and replaced alone", s.dir, other)
			}
		}
	}
}

func TestLayersNameRealPackages(t *testing.T) {
	_, all := sources(t)
	there := map[string]bool{}
	for _, s := range all {
		there[s.dir] = true
	}
	for dir := range layers {
		if !there[dir] {
			t.Errorf("the table in arch_test.go names %s, which is not there", dir)
		}
	}
}

func TestPictureShowsEveryPackage(t *testing.T) {
	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(page), "## Who imports whom")
	picture, _, _ = strings.Cut(picture, "\n## ")
	for dir := range layers {
		if name := path.Base(dir); dir != "" && !regexp.MustCompile(`\b`+name+`\b`).MatchString(picture) {
			t.Errorf("docs/ARCHITECTURE.md does not show %s in the picture below \"Who imports whom\"", dir)
		}
	}
}

func TestFormatsAndVocabularyArePure(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		if layer, known := layers[s.dir]; !known || layer > 2 || s.dir == "internal/durable" {
			continue
		}
		for _, p := range s.imports() {
			if slices.Contains([]string{"net", "os", "log", "syscall", "math/rand"}, p) || startsWithAny(p, "net/", "os/", "log/", "math/rand/") {
				t.Errorf("%s imports %s: it turns bytes into values, the same ones everywhere and always; what it needs from the world is an argument", s, p)
			}
		}
	}
}

func TestOnlyWiringReadsClock(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		for name, f := range s.files {
			if clocks[s.dir] != "" || clocks[filepath.ToSlash(name)] != "" || s.isLaboratory() {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if isSelector(n, "time", "Now") {
					t.Errorf("%s: time.Now: take Now func() time.Time instead, so that a test in a bubble or after a crash decides what time it is", name)
				}
				return true
			})
		}
	}
}

func TestPackageComments(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		said := 0
		for _, f := range s.files {
			if f.Doc != nil {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%s has %d package comments, want one: what it owns and what it never does", s, said)
		}
	}
}

func TestNoInitFunctions(t *testing.T) {
	files, all := sources(t)
	for _, s := range all {
		for _, f := range s.files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s: func init: what a package does is decided by its caller, not by being imported", files.Position(fn.Pos()).Filename)
				}
			}
		}
	}
}

func TestNoPackageState(t *testing.T) {
	files, all := sources(t)
	for _, s := range all {
		info := resolve(files, s)
		for _, f := range s.files {
			ast.Inspect(f, func(n ast.Node) bool {
				for _, target := range written(n) {
					if v := variable(info, target); v != nil && v.Parent() == v.Pkg().Scope() {
						t.Errorf("%s writes to the package variable %s: two nodes in one process would share it", files.Position(n.Pos()).Filename, v.Name())
					}
				}
				return true
			})
		}
	}
}

// resolve resolves the names in a package. Imported packages stay unknown, so errors are expected.
func resolve(files *token.FileSet, s source) *types.Info {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Error: func(error) {}, Importer: noImports{}}
	_, _ = conf.Check(s.dir, files, slices.Collect(maps.Values(s.files)), info)
	return info
}

type noImports struct{}

func (noImports) Import(p string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not needed", p)
}

// written returns the expressions that a statement assigns to, deletes from or clears.
func written(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.CallExpr:
		if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
			return n.Args[:1]
		}
	}
	return nil
}

// variable returns the variable that an expression such as x.f[i] refers to, or nil.
func variable(info *types.Info, e ast.Expr) *types.Var {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			v, _ := info.Uses[x].(*types.Var)
			if v == nil || v.IsField() || v.Pkg() == nil {
				return nil
			}
			return v
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// Other programs use these formats. They should not have to link a Nostr library, websockets and the rest of guild.
func TestFormatsLinkLittle(t *testing.T) {
	const (
		json   = "github.com/go-json-experiment/json"
		base58 = "github.com/btcsuite/btcd/btcutil/base58" // needs only the standard library
	)
	for format, allowed := range map[string][]string{
		"canon":  {module + "/digest", module + "/canon"},
		"replay": {module + "/digest", module + "/canon", module + "/replay", json, base58},
	} {
		deps, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+format).Output()
		if err != nil {
			t.Fatal(err)
		}
		for dep := range strings.FieldsSeq(string(deps)) {
			if !slices.ContainsFunc(allowed, func(a string) bool { return dep == a || a == json && strings.HasPrefix(dep, a+"/") }) {
				t.Errorf("%s links %s", format, dep)
			}
		}
	}
}

func TestFileAndFunctionSize(t *testing.T) {
	// A limit of 80 lines made people split functions that a reader had to put together again, so the limit is 150.
	// Extract a function if it has a name that a reader would search for, or a second caller.
	const fileLines, functionLines = 600, 150
	files, all := sources(t)
	for _, s := range all {
		for _, f := range s.files {
			at := files.File(f.Pos())
			if n := at.LineCount(); n > fileLines {
				t.Errorf("%s has %d lines, more than %d: it is probably two things that have not been told apart", at.Name(), n, fileLines)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if n := at.Line(fn.End()) - at.Line(fn.Pos()) + 1; n > functionLines {
					t.Errorf("%s: %s has %d lines, more than %d", at.Name(), fn.Name.Name, n, functionLines)
				}
			}
		}
	}
}

func TestRequirements(t *testing.T) {
	_, all := sources(t)
	used := map[string]bool{}
	for _, s := range all {
		for _, p := range append(s.imports(), testImports(t, s.dir)...) {
			used[p] = true
		}
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if slices.Contains([]string{"replace", "exclude", "toolchain"}, fields[0]) {
			t.Errorf("go.mod has a %s line: whoever installs guild as a module would not get what we tested", fields[0])
		}
		if line[0] == '\t' && len(fields) > 1 && strings.HasPrefix(fields[1], "v") && !strings.HasSuffix(line, "// indirect\n") {
			if len(fields) == 2 {
				t.Errorf("go.mod has no comment on what %s is for: what has no good reason goes", fields[0])
			}
			checkRequirement(t, fields[0], fields[1], used)
		}
	}
}

// checkRequirement checks a direct requirement in go.mod.
func checkRequirement(t *testing.T, mod, version string, used map[string]bool) {
	t.Helper()
	if _, known := pseudo[mod]; !known && strings.HasPrefix(version, "v0.0.0-") {
		t.Errorf("go.mod requires %s %s: a commit, not a release; say why in arch_test.go if there is none", mod, version)
	}
	if strings.HasSuffix(version, "+incompatible") {
		t.Errorf("go.mod requires %s %s: a release from before modules", mod, version)
	}
	for p := range used {
		if p == mod || strings.HasPrefix(p, mod+"/") {
			return
		}
	}
	t.Errorf("go.mod requires %s, which nothing imports", mod)
}

// testImports returns the import paths of a package's tests.
func testImports(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := source{files: map[string]*ast.File{}}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		tests.files[name] = f
	}
	return tests.imports()
}

func isSelector(n ast.Node, pkg, member string) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != member {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func startsWithAny(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}
