package exam

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
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
	"guild/internal/judging/exam/gostub"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/strength"
)

// Additions to the limits of a judged run, for compiling.
const (
	buildTime   = 2 * time.Minute
	buildDisk   = 1 << 30
	buildOutput = 8 << 20
)

// goCache is the directory of the build cache inside a sandbox.
const goCache = sandbox.Home + "/.cache"

// goCriterion runs the customer's Go tests. Those of an external test package that use of the delivery only what can be
// asked over a socket run in a sandbox of their own; the others are compiled with the delivery and run in one process.
// The delivery's own test files are omitted, because they could define a TestMain that reports anything. The expected
// tests are read from the customer's source.
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

// examine runs the tests that can be split, and then in one process those that cannot. It also runs there again what
// failed, because a test may rely on what does not cross a socket; it is then weak.
func (c *goCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	goroot, version, err := j.engine.goroot()
	if err != nil {
		return err
	}
	f.Tools = map[string]string{"go": version}
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
	s, err := j.newGoSplit(ctx, f, goroot, version, packages)
	if err != nil {
		return err
	}
	split, err := c.splitGo(ctx, j, f, s)
	if err != nil {
		return err
	}
	rest := map[string]int{}
	for id := range expected {
		if t, ran := split.tests[id]; f.Fault == "" && (!ran || t.State != guild.TestPassed && t.State != guild.TestSkipped) {
			rest[id] = 1
		}
	}
	var alone map[string]guild.Test
	if len(rest) > 0 {
		if alone, err = s.inproc(ctx, expected, rest); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(expected)) {
		f.Tests = append(f.Tests, goTest(id, split, alone))
	}
	if s.alone != nil {
		f.blameGo(s.alone, s.own)
	}
	return s.strength(ctx, split, alone)
}

// newGoSplit prepares the split examination of the tests of some packages.
func (j *examination) newGoSplit(ctx context.Context, f *Finding, goroot, version string, packages []string) (*goSplit, error) {
	tool, err := goTool(j)
	if err != nil {
		return nil, err
	}
	cache, err := j.engine.goCache(ctx, goroot, version, tool)
	if err != nil {
		return nil, err
	}
	s := &goSplit{examination: j, f: f, goroot: goroot, cache: cache, tool: tool}
	s.readModules(version)
	for _, p := range packages {
		s.packages = append(s.packages, path.Clean(p))
	}
	return s, nil
}

// goTest returns the result of one test.
func goTest(id string, split *goOutcome, alone map[string]guild.Test) guild.Test {
	t, ran := split.tests[id]
	again, both := alone[id]
	why := cmp.Or(split.because[id], "it was not run beside a stub of the delivery")
	switch {
	case !ran && !both:
		t = guild.Test{ID: id, State: guild.TestMissing}
	case !ran:
		t = again
	case both && again.State == guild.TestPassed:
		t, why = again, "it passed only in one process with the delivery"
	case both:
		t.Message = again.Message
	}
	t.Layer = layerOf(strings.TrimSuffix(t.ID, "."+bareName(t.ID)) + "/")
	if t.State != guild.TestPassed {
		return t
	}
	if !ran || both {
		t.Strength, t.Because = guild.Weak, cut(why)
	}
	return t
}

// strength finds the strength of the tests that passed apart from the delivery. The others are weak, and with one of them
// the criterion is not strong.
func (s *goSplit) strength(ctx context.Context, split *goOutcome, alone map[string]guild.Test) error {
	f, apart := s.f, map[string]bool{}
	because := map[string]string{}
	var passed []string
	for _, t := range f.Tests {
		f.Decided += t.Decided
		_, both := alone[t.ID]
		_, ran := split.tests[t.ID]
		apart[t.ID] = ran && !both
		because[t.ID] = cmp.Or(t.Because, split.because[t.ID])
		if t.State == guild.TestPassed && apart[t.ID] {
			passed = append(passed, t.ID)
		}
	}
	if err := s.proveRounds(ctx, f, strength.Go, split.again, passed, func(id string) string { return id }); err != nil {
		return err
	}
	carried := f.carried
	f.carried = func(ids []string) (guild.Strength, string) {
		var known []string
		why := ""
		for _, id := range ids {
			if apart[id] {
				known = append(known, id)
			} else {
				why = cmp.Or(why, cut(id+": "+because[id]))
			}
		}
		if len(known) == 0 && why != "" {
			return guild.Weak, why
		}
		if carried == nil {
			return guild.Strong, f.Because
		}
		found, counts := carried(known)
		if found == guild.Strong && why != "" {
			return guild.Mixed, why
		}
		return found, counts
	}
	var ids []string
	for _, t := range f.Tests {
		if t.State == guild.TestPassed || !apart[t.ID] {
			ids = append(ids, t.ID)
		}
	}
	f.Strength, f.Because = f.carried(ids)
	return nil
}

// inproc runs tests with the delivery, in one process for each package. go itself reports only that a test failed, so a
// run that timeout(1) has killed is recognised by its exit code in go's output.
//
// One more test, whose name nobody knows before, comes last in each package. If it is not reported, the tests' own main
// function has not ended by itself.
func (s *goSplit) inproc(ctx context.Context, expected, rest map[string]int) (map[string]guild.Test, error) {
	word := "TestEnds" + rand.Text()
	var packages, names []string
	for id := range rest {
		packages = append(packages, "./"+goDir(id))
		names = append(names, bareName(id))
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	slices.Sort(names)
	names = slices.Compact(names)
	last, err := s.lastTests(packages, word)
	if err != nil {
		return nil, err
	}
	copies := append(s.layout.copies(true, ownGo),
		sandbox.Copy{Host: s.tests, Inside: sandbox.Workspace, Skip: s.privateBeside}, sandbox.Copy{Host: last, Inside: sandbox.Workspace})
	if s.cache != "" {
		copies = append(copies, sandbox.Copy{Host: s.cache, Inside: goCache})
	}
	l := s.limits()
	stop := fmt.Sprintf("-exec=timeout -s KILL %d", s.criteria.TimeLimit) // the judged process would handle go's own -timeout itself
	argv := []string{"/bin/sh", "-ec", `"$0" mod edit -go="$1"; shift; exec "$0" "$@"`, s.goroot + "/bin/go", s.language(), "test", "-json", "-vet=off", "-count=1", "-timeout=0", stop,
		"-run=^(" + strings.Join(append(names, word), "|") + ")$"}
	l.Wall += buildTime
	l.CPU += buildTime
	l.Disk, l.Output = buildDisk, buildOutput
	env := goEnvironment(s.goroot, goCache)
	if s.vendored() {
		env = append(env, "GOFLAGS=-mod=vendor")
	}
	run, err := s.run(ctx, s.f, sandbox.Spec{
		Argv: append(argv, packages...), Env: env, Copies: copies,
		Mounts: gorootMount(s.goroot), Limits: l,
	}, "")
	if err != nil {
		return nil, err
	}
	// Tests of the same name in several packages are reported together.
	ran := map[string]int{}
	for id := range expected {
		if slices.Contains(packages, "./"+goDir(id)) && slices.Contains(names, bareName(id)) {
			ran[id] = 1
		}
	}
	s.alone = run
	states, failure := readGoEvents(run.Stdout)
	tests := goMatch(ran, states, failure)
	passed := map[string]guild.Test{}
	for _, t := range tests {
		if rest[t.ID] > 0 {
			passed[t.ID] = t
		}
	}
	f := s.f
	switch {
	case f.Fault != "":
	case strings.Contains(run.Stdout, "signal: killed") || strings.Contains(run.Stdout, "exit status 137"):
		f.Fault, f.OverLimit = fmt.Sprintf("stopped after %v", s.criteria.timeLimit()), true
	case run.Result.Exit > 1 || run.Result.Cut:
		f.Fault = "go test failed: " + cut(lastLine(run.Stderr))
	case run.Result.Exit == 1 && Passed(tests) == len(tests):
		f.Fault = "the report does not agree with how the run ended"
	case run.Result.Exit == 0 && len(states[word]) != len(packages):
		f.Fault = "the run ended before its tests did"
		for id, t := range passed {
			t.State = guild.TestMissing
			passed[id] = t
		}
	}
	return passed, nil
}

// lastTests returns a directory with a file for each package that has the test called word.
func (s *goSplit) lastTests(packages []string, word string) (dir string, err error) {
	files := map[string]string{}
	for _, p := range packages {
		name, _, err := goPackage(filepath.Join(s.tests, p))
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("package %s_test\n\nimport \"testing\"\n\nfunc %s(*testing.T) {}\n", name, word)
		files[path.Join(p, "zzz_"+strings.ToLower(word)+"_test.go")] = text
	}
	return s.writeFiles(files)
}

// goPackage returns the name of the package that a directory of tests is for, and whether some of them are in an external
// test package.
func goPackage(dir string) (name string, external bool, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(names) == 0 {
		return "", false, fmt.Errorf("no tests in %s: %w", dir, err)
	}
	for _, one := range names {
		if runs, err := goRuns(one); err != nil || !runs {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), one, nil, parser.PackageClauseOnly)
		if err != nil {
			return "", false, err
		}
		base, isExternal := strings.CutSuffix(file.Name.Name, "_test")
		name, external = base, external || isExternal
	}
	return name, external, nil
}

// goRuns reports whether go test uses a file here: build constraints, in the file or its name, may exclude it.
func goRuns(file string) (bool, error) {
	rules := gostub.Context("")
	return rules.MatchFile(filepath.Dir(file), filepath.Base(file))
}

// goEnvironment prevents the go command from using the network, configuration files and other toolchains.
func goEnvironment(goroot, cache string) []string {
	return environment("GOROOT="+goroot, "GOCACHE="+cache, "GOPATH="+sandbox.Home+"/go", "GOENV=off", "GOWORK=off",
		"GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOTELEMETRY=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0",
		"GOMAXPROCS=2")
}

// goTool returns a directory with the source of the tool that describes deliveries.
func goTool(j *examination) (dir string, err error) {
	files, err := gostub.Tool()
	if err != nil {
		return "", err
	}
	return j.writeFiles(files)
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

// goCache prepares a build cache of the standard library with the tool, once for each version of both, and returns its
// directory; runs get a copy. Without Engine.Cache, or if nothing can be written there, there is no cache, and each run
// compiles all packages that it needs.
func (e *Engine) goCache(ctx context.Context, goroot, version, tool string) (string, error) {
	if e.Cache == "" {
		return "", nil
	}
	e.preparing.Lock()
	defer e.preparing.Unlock()
	dir := filepath.Join(e.Cache, "go-build-"+version+"-"+gostub.Version())
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
	var stderr bytes.Buffer
	script := fmt.Sprintf("cd %s\n%s/bin/go build -o %s/%s .\nexec %s/bin/go build %s",
		toolDir, goroot, inside, toolName, goroot, strings.Join(usual, " "))
	res, err := e.Runner.Run(ctx, sandbox.Spec{
		Argv:   []string{"/bin/sh", "-ec", script},
		Env:    goEnvironment(goroot, inside),
		Copies: []sandbox.Copy{{Host: tool, Inside: toolDir}},
		Mounts: append(gorootMount(goroot), sandbox.Mount{Host: fresh, Inside: inside, Writable: true}),
		Limits: sandbox.Limits{Wall: 2 * buildTime, CPU: 2 * buildTime, Disk: buildDisk},
	}, sandbox.IO{Stderr: &stderr})
	if err != nil {
		return "", err
	}
	if res.Exit != 0 {
		return "", fmt.Errorf("prepare Go's build cache: exit code %d %s: %s", res.Exit, res.Killed, cut(stderr.String()))
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
		if runs, err := goRuns(p); err != nil || !runs {
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
			if name := gostub.TestName(decl); name != "" {
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
