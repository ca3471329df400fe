package exam

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
)

// Additions to the limits of a judged run, for compiling.
const (
	buildTime   = 2 * time.Minute
	buildDisk   = 1 << 30
	buildOutput = 8 << 20
)

// goCache is the directory of the build cache inside a sandbox.
const goCache = sandbox.Home + "/.cache"

// goCriterion compiles the customer's tests with the delivery and runs them, in one sandbox. The delivery's own test
// files are omitted, because they could define a TestMain that reports anything. The expected tests are read from the
// customer's source.
type goCriterion struct{ id, script string }

func readGoTest(e *Entry, _ *Criteria) (criterion, error) {
	if err := e.noCases(); err != nil {
		return nil, err
	}
	return &goCriterion{id: e.ID, script: e.Script}, e.only()
}

func (c *goCriterion) planned(j *examination) map[string]int {
	if expected, _, err := goTests(j.tests, c.script); err == nil {
		return expected
	}
	return map[string]int{c.id: 1}
}

// examine runs go test once for all packages. go itself reports only that a test failed, so a run that timeout(1) has
// killed is recognised by its exit code in go's output.
func (c *goCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	goroot, version, err := j.engine.goroot()
	if err != nil {
		return err
	}
	f.Tools = map[string]string{"go": version}
	f.Because = "the tests ran in the process of the code that they test"
	expected, packages, err := goTests(j.tests, c.script)
	if err != nil {
		return undecided("%w", err)
	}
	// Copying would fail, and that must count as a fault of the delivery, not of the judge.
	if name := j.inTheWay(j.tests, "."); name != "" {
		f.Fault = "the delivery has a directory or a file in the way of " + name
		f.Tests = missing(expected)
		return nil
	}
	cache, err := j.engine.goCache(ctx, goroot, version)
	if err != nil {
		return err
	}
	// A delivered test file could define a TestMain, and a delivered go.work could replace modules.
	own := func(name string) bool { return strings.HasSuffix(name, "_test.go") || path.Base(name) == "go.work" }
	copies := append(j.layout.copies(true, own), sandbox.Copy{
		Host: j.tests, Inside: sandbox.Workspace, Skip: j.privateBeside,
	})
	if cache != "" {
		copies = append(copies, sandbox.Copy{Host: cache, Inside: goCache})
	}
	l := j.limits()
	stop := fmt.Sprintf("-exec=timeout -s KILL %d", j.criteria.TimeLimit) // the judged process would handle go's own -timeout itself
	argv := []string{goroot + "/bin/go", "test", "-json", "-vet=off", "-count=1", "-timeout=0", stop}
	l.Wall += buildTime
	l.CPU += buildTime
	l.Disk, l.Output = buildDisk, buildOutput
	run, err := j.run(ctx, f, sandbox.Spec{
		Argv: append(argv, packages...), Env: goEnvironment(goroot, goCache), Copies: copies,
		Mounts: gorootMount(goroot), Limits: l,
	}, "")
	if err != nil {
		return err
	}
	states, failure := readGoEvents(run.Stdout)
	f.Tests = goMatch(expected, states, failure)
	f.blameGo(run)
	for i := range f.Tests {
		f.Tests[i].Layer = layerOf(strings.TrimSuffix(f.Tests[i].ID, "."+bareName(f.Tests[i].ID)) + "/")
	}
	switch {
	case f.Fault != "":
	case strings.Contains(run.Stdout, "signal: killed") || strings.Contains(run.Stdout, "exit status 137"):
		f.Fault, f.OverLimit = fmt.Sprintf("stopped after %v", j.criteria.timeLimit()), true
	case run.Result.Exit > 1 || run.Result.Cut:
		f.Fault = "go test failed: " + cut(lastLine(run.Stderr))
	case run.Result.Exit == 1 && Passed(f.Tests) == len(f.Tests):
		f.Fault = "the report does not agree with how the run ended"
	}
	return nil
}

// goEnvironment prevents the go command from using the network, configuration files and other toolchains.
func goEnvironment(goroot, cache string) []string {
	return environment("GOROOT="+goroot, "GOCACHE="+cache, "GOPATH="+sandbox.Home+"/go", "GOENV=off", "GOWORK=off",
		"GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOTELEMETRY=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0",
		"GOMAXPROCS=2")
}

// gorootMount mounts the Go installation, unless it is below /usr, which every run sees.
func gorootMount(goroot string) []sandbox.Mount {
	if strings.HasPrefix(goroot, "/usr/") {
		return nil
	}
	return []sandbox.Mount{{Host: goroot, Inside: goroot}}
}

// goroot returns the Go installation and its version.
func (e *Engine) goroot() (dir, version string, err error) {
	candidates := []string{e.Go}
	if e.Go == "" {
		if bin, err := exec.LookPath("go"); err == nil {
			if bin, err = filepath.EvalSymlinks(bin); err == nil {
				candidates = append(candidates, filepath.Dir(filepath.Dir(bin)))
			}
		}
		candidates = append(candidates, "/usr/local/go", "/usr/lib/go")
	}
	for _, dir := range candidates {
		if b, err := os.ReadFile(filepath.Join(dir, "VERSION")); err == nil && dir != "" {
			version, _, _ := strings.Cut(string(b), "\n")
			return dir, version, nil
		}
	}
	return "", "", undecided("Go is not installed: see https://go.dev/doc/install")
}

// usual lists packages of the standard library which, with their imports, most tests need.
var usual = []string{"testing", "testing/internal/testdeps", "encoding/json", "math/big", "os/exec", "maps", "slices"}

// goCache prepares a build cache of the standard library, once for each version of Go, and returns its directory; runs
// get a copy. Without Engine.Cache, or if nothing can be written there, there is no cache, and each run compiles all
// packages that it needs.
func (e *Engine) goCache(ctx context.Context, goroot, version string) (string, error) {
	if e.Cache == "" {
		return "", nil
	}
	e.preparing.Lock()
	defer e.preparing.Unlock()
	dir := filepath.Join(e.Cache, "go-build-"+version)
	if isDir(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(e.Cache, 0o700); err != nil {
		return "", nil
	}
	fresh, err := os.MkdirTemp(e.Cache, "preparing-")
	if err != nil {
		return "", nil
	}
	defer os.RemoveAll(fresh)
	const inside = "/cache"
	res, err := e.Runner.Run(ctx, sandbox.Spec{
		Argv:   append([]string{goroot + "/bin/go", "build"}, usual...),
		Env:    goEnvironment(goroot, inside),
		Mounts: append(gorootMount(goroot), sandbox.Mount{Host: fresh, Inside: inside, Writable: true}),
		Limits: sandbox.Limits{Wall: 2 * buildTime, CPU: 2 * buildTime, Disk: buildDisk},
	}, sandbox.IO{})
	if err != nil {
		return "", err
	}
	if res.Exit != 0 {
		return "", fmt.Errorf("prepare Go's build cache: exit code %d %s", res.Exit, res.Killed)
	}
	if err := os.Rename(fresh, dir); err != nil && !isDir(dir) { // another process may have been faster
		return "", err
	}
	return dir, nil
}

// goTests returns the tests in the customer's source below script, as "dir.TestName" or, in the top directory,
// "TestName", and the packages to test.
func goTests(tests, script string) (expected map[string]int, packages []string, err error) {
	if tests == "" {
		return nil, nil, errors.New("the bundle has no tests/")
	}
	from := filepath.Join(tests, strings.TrimPrefix(script, "tests"))
	expected = map[string]int{}
	err = filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(tests, filepath.Dir(p))
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if name := testName(decl); name != "" {
				expected[strings.TrimPrefix(filepath.ToSlash(dir)+"."+name, "..")] = 1
				packages = append(packages, "./"+filepath.ToSlash(dir))
			}
		}
		return nil
	})
	if err == nil && len(expected) == 0 {
		err = errors.New("no Go tests")
	}
	slices.Sort(packages)
	return expected, slices.Compact(packages), err
}

// testName returns the name of a test function by the rules of go test, or "" for any other declaration.
func testName(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv != nil || f.Name.Name == "TestMain" || len(f.Type.Params.List) != 1 {
		return ""
	}
	rest, isTest := strings.CutPrefix(f.Name.Name, "Test")
	if !isTest || rest != "" && rest[0] >= 'a' && rest[0] <= 'z' {
		return ""
	}
	return f.Name.Name
}

// readGoEvents parses the output of go test -json. It returns the states of each test by its bare name, and the
// compiler's messages.
func readGoEvents(stdout string) (states map[string][]string, failure string) {
	states = map[string][]string{}
	lines := bufio.NewScanner(strings.NewReader(stdout))
	lines.Buffer(nil, buildOutput)
	for lines.Scan() {
		var e struct{ Action, Package, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		switch {
		case e.Action == "build-output" || e.Action == "output" && e.Test == "":
			failure += e.Output
		case e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
			states[e.Test] = append(states[e.Test], e.Action)
		}
	}
	return states, failure
}

// goMatch compares the reported tests with the expected ones. The events have only bare names, so tests of the same
// name in several packages count together. A test with more reports than expected has not passed: the extra one may be
// forged.
func goMatch(expected map[string]int, states map[string][]string, failure string) []guild.Test {
	named := map[string]int{}
	for id := range expected {
		named[bareName(id)]++
	}
	var tests []guild.Test
	for _, id := range slices.Sorted(maps.Keys(expected)) {
		t := guild.Test{ID: id, State: guild.TestMissing, Message: cut(failure)}
		if got := states[bareName(id)]; len(got) > 0 {
			t.State, t.Message = guild.TestFailed, ""
			switch {
			case slices.Contains(got, "skip"):
				t.State = guild.TestSkipped
			case len(got) == named[bareName(id)] && !slices.Contains(got, "fail"):
				t.State = guild.TestPassed
			}
		}
		tests = append(tests, t)
	}
	return tests
}

func bareName(id string) string { return id[strings.LastIndexByte(id, '.')+1:] }
