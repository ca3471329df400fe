package exam

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"guild"
	"guild/internal/judging/exam/gostub"
	"guild/internal/judging/exam/gowire"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/strength"
)

// Places in the sandboxes of split Go tests.
const (
	toolDir   = judgeDir + "/tool"
	binaryDir = judgeDir + "/bin"
	toolName  = "gostub" // program in the build cache
)

// maxDescription limits the results of describing and selecting, in bytes.
const maxDescription = 8 << 20

// goSplit is the split examination of the tests of one criterion.
type goSplit struct {
	*examination
	f           *Finding
	goroot      string
	cache       string
	tool        string // directory of the tool's source
	customer    goModule
	delivered   goModule
	packages    []string
	description gostub.Description
	selected    []gostub.Selected
	alone       *RunRecord // the run in one process, if there was one
	compiler    string     // messages of the compiler about the tests
	declared    bool       // nothing is delivered: only the side of the tests is made
	binaries    string     // directory of the built programs
}

// goOutcome has the results of the tests that were split.
type goOutcome struct {
	tests   map[string]guild.Test // those with a result
	because map[string]string     // test → why it was not split
	again   []rerun
}

// splitGo runs the tests that can be split: in a sandbox with stubs in place of the delivered packages, which ask the
// delivery in another one. A package whose stub or tests cannot be made is not an error; the tests are then not split.
func (c *goCriterion) splitGo(ctx context.Context, j *examination, f *Finding, s *goSplit) (*goOutcome, error) {
	out := &goOutcome{tests: map[string]guild.Test{}, because: map[string]string{}}
	why, err := s.unsplit()
	for _, step := range []func(context.Context) (string, error){s.describe, s.build} {
		if err == nil && why == "" {
			why, err = step(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	if why != "" {
		for _, id := range slices.Sorted(maps.Keys(c.planned(j))) {
			out.because[id] = why
		}
		return out, nil
	}
	at := map[string]int{}
	for i, dir := range s.packages {
		at[dir] = i
	}
	split := map[string]bool{}
	for _, t := range s.selected {
		if t.Because != "" {
			out.because[t.ID] = t.Because
			continue
		}
		split[goDir(t.ID)] = true
	}
	for _, dir := range s.packages {
		if split[dir] && f.Fault == "" {
			if err := s.runPackage(ctx, dir, at[dir], out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// unsplit returns why no test can be split, if none is in an external test package.
func (s *goSplit) unsplit() (why string, err error) {
	for _, dir := range s.packages {
		name, external, err := goPackage(filepath.Join(s.tests, dir))
		if err != nil || external {
			return "", err
		}
		why = fmt.Sprintf("it is in package %s, not %s_test", name, name)
	}
	return why, nil
}

// goDir returns the directory of a test's package.
func goDir(id string) string {
	if dir := strings.TrimSuffix(id, bareName(id)); dir != "" {
		return strings.TrimSuffix(dir, ".")
	}
	return "."
}

// deliveredPackages returns the directories that have delivered Go files, but for tests.
func (j *examination) deliveredPackages() ([]string, error) {
	dirs := map[string]bool{}
	for _, artifacts := range j.layout.artifacts {
		names, err := survey(artifacts, map[string]bool{})
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			name = filepath.ToSlash(name)
			if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "vendor/") {
				dirs[path.Dir(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(dirs)), nil
}

// spec returns a run of the Go command or the tool.
func (s *goSplit) spec(script string, vendored bool, copies ...sandbox.Copy) sandbox.Spec {
	if s.cache != "" {
		copies = append(copies, sandbox.Copy{Host: s.cache, Inside: goCache})
	}
	env := goEnvironment(s.goroot, goCache)
	if vendored {
		env = append(env, "GOFLAGS=-mod=vendor")
	}
	return sandbox.Spec{
		Argv: []string{"/bin/sh", "-ec", script}, Env: env, Copies: copies, Mounts: gorootMount(s.goroot),
		Limits: sandbox.Limits{Wall: 2 * buildTime, CPU: buildTime, Disk: buildDisk, Output: maxDescription},
	}
}

// prepareTool is the shell command that makes the tool, unless the cache has it.
func (s *goSplit) prepareTool() string {
	return fmt.Sprintf("tool=%s/%s; [ -x $tool ] || { cd %s; %s/bin/go build -o $tool .; }\n", goCache, toolName, toolDir, s.goroot)
}

// describe runs the tool on the delivery. why says what keeps the whole delivery from being described.
func (s *goSplit) describe(ctx context.Context) (why string, err error) {
	dirs, err := s.deliveredPackages()
	if err != nil || len(dirs) == 0 {
		return "the delivery has no Go packages", err
	}
	copies := append(s.layout.copies(true, ownGo), sandbox.Copy{Host: s.tool, Inside: toolDir})
	script := s.prepareTool() + fmt.Sprintf(`exec $tool describe %s %s "$@"`, sandbox.Workspace, s.goroot)
	spec := s.spec(script, false, copies...)
	spec.Argv = append(append(spec.Argv, "sh"), dirs...)
	run, err := s.run(ctx, s.f, spec, "")
	if err != nil || s.f.Fault != "" {
		return "the delivery could not be described", err
	}
	if run.Result.Exit != 0 {
		return "the delivery cannot be described: " + cut(lastLine(run.Stderr)), nil
	}
	d := json.NewDecoder(strings.NewReader(run.Results))
	if err := d.Decode(&s.description); err != nil {
		return "the delivery's description is not one", nil
	}
	s.description.Go = s.customer.version // of the tests
	if err := s.description.Check(); err != nil {
		return "the delivery's description is not one: " + err.Error(), nil
	}
	if len(s.description.Packages) == 0 {
		return "the delivery has no Go packages that a test can import", nil
	}
	return "", nil
}

// ownGo selects delivered files that could replace the customer's or the judge's.
func ownGo(name string) bool {
	return strings.HasSuffix(name, "_test.go") || path.Base(name) == "go.work"
}

// build makes the programs of both sides, one of the tests for each package, in a sandbox each.
func (s *goSplit) build(ctx context.Context) (why string, err error) {
	stub, err := s.description.Stub()
	if err != nil {
		return "no stub can be made: " + err.Error(), nil
	}
	dispatcher, err := s.description.Dispatcher()
	if err != nil {
		return "no stub can be made: " + err.Error(), nil
	}
	for files, tests := range map[*map[string]string]bool{&stub: true, &dispatcher: false} {
		wire, err := gowire.Sources(tests)
		if err != nil {
			return "", err
		}
		for name, text := range wire {
			(*files)[path.Join(gostub.WireDir, name)] = text
		}
	}
	if name := s.collision(dispatcher); name != "" {
		return "the delivery has a file in the way of " + name, nil
	}
	vendored := s.customer.vendored && s.customer.path == s.description.Module
	if vendored {
		delete(stub, "go.mod") // the customer's has what is in its vendor directory
	}
	stubDir, err := s.writeFiles(stub)
	if err != nil {
		return "", err
	}
	dispatcherDir, err := s.writeFiles(dispatcher)
	if err != nil {
		return "", err
	}
	description, err := json.Marshal(s.description)
	if err != nil {
		return "", err
	}
	// Nothing of the delivery is beside the tests, and the customer's own source of a delivered package would be there twice.
	instead := func(name string) bool {
		stubbed := slices.ContainsFunc(s.description.Packages, func(p gostub.Package) bool { return p.Dir == path.Dir(name) })
		return shortcuts(name) || name == "vendor" && !vendored || path.Base(name) == "go.work" || stubbed && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
	}
	var copies []sandbox.Copy
	if s.layout.files != "" {
		copies = append(copies, sandbox.Copy{Host: s.layout.files, Inside: sandbox.Workspace, Skip: instead})
	}
	copies = append(copies, sandbox.Copy{Host: s.tests, Inside: sandbox.Workspace, Skip: private},
		sandbox.Copy{Host: stubDir, Inside: sandbox.Workspace}, sandbox.Copy{Host: s.tool, Inside: toolDir})
	// A package whose tests cannot be made does not keep others from being split.
	script := s.prepareTool() + fmt.Sprintf("$tool select %s %s \"$@\"\ncd %s\nn=0\nfor dir in \"$@\"; do\n"+
		"if ls $dir/*_test.go >/dev/null 2>&1; then\n%s/bin/go test -c -vet=off -ldflags='-s -w' -o guild-$n.test ./$dir || true\nfi\n"+
		"n=$((n+1))\ndone\n", sandbox.Workspace, s.goroot, sandbox.Workspace, s.goroot)
	examiner := &half{spec: s.spec(script, vendored, copies...)}
	examiner.spec.Argv = append(append(examiner.spec.Argv, "sh"), s.packages...)
	for i := range s.packages {
		examiner.spec.Collect = append(examiner.spec.Collect, fmt.Sprintf("guild-%d.test", i))
	}
	subject := &half{spec: s.spec(fmt.Sprintf("exec %s/bin/go build -ldflags='-s -w' -o guild-subject ./%s", s.goroot, gostub.SubjectDir), s.vendored(),
		append(s.layout.copies(true, ownGo), sandbox.Copy{Host: dispatcherDir, Inside: sandbox.Workspace})...)}
	subject.spec.Collect = []string{"guild-subject"}
	return s.buildBoth(ctx, examiner, subject, description)
}

// vendored reports whether the delivery's dependencies are in its workspace.
func (s *goSplit) vendored() bool {
	isDir, there := s.layout.seen[filepath.FromSlash("vendor/modules.txt")]
	return there && !isDir
}

// buildBoth runs the two builds at a time, and keeps the programs.
func (s *goSplit) buildBoth(ctx context.Context, examiner, subject *half, description []byte) (why string, err error) {
	programs := map[*half]*sandbox.Head{examiner: {Most: maxArchive}, subject: {Most: maxArchive}}
	var both sync.WaitGroup
	if s.declared {
		delete(programs, subject)
	}
	for h, archive := range programs {
		both.Go(func() {
			var stdin []byte
			if h == examiner {
				stdin = description
			}
			h.result, h.err = s.engine.Runner.Run(ctx, h.spec, sandbox.IO{
				Stdin: bytes.NewReader(stdin), Stdout: &h.stdout, Stderr: &h.stderr, Results: &h.results, Files: archive,
			})
		})
	}
	both.Wait()
	if err := cmp.Or(examiner.err, subject.err); err != nil {
		return "", err
	}
	s.f.Runs = append(s.f.Runs, examiner.record("build"), subject.record("build"))
	s.f.Usage = s.f.Usage.Add(examiner.result.Usage).Add(subject.result.Usage)
	for h, what := range map[*half]string{subject: "the delivery does not compile: ", examiner: "the tests do not compile beside a stub: "} {
		s.f.Breaches = append(s.f.Breaches, h.result.Breaches...)
		if h.result.Exit != 0 || h.result.Killed != "" {
			why = what + cut(strings.TrimSpace(h.stderr.String()+h.result.Killed))
		}
	}
	if why != "" {
		return why, nil
	}
	var selection gostub.Selection
	if err := json.Unmarshal(examiner.results.Bytes(), &selection); err != nil {
		return "", fmt.Errorf("select the tests: %w", err)
	}
	s.selected, s.compiler = selection.Tests, examiner.stderr.String()
	if s.binaries, err = s.scratchDir("binaries"); err != nil {
		return "", err
	}
	for h, archive := range programs {
		files := collected(archive.Bytes(), h.spec.Collect)
		for name, content := range files {
			dir := filepath.Join(s.binaries, name)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return "", err
			}
			if err := os.WriteFile(filepath.Join(dir, "program"), content, 0o700); err != nil {
				return "", err
			}
		}
		if h == subject && len(files) == 0 {
			return "the delivery's program was not made", nil
		}
	}
	return "", nil
}

// binary returns the directory of the tests of a package, by its place among the packages.
func (s *goSplit) binary(number int) string {
	return filepath.Join(s.binaries, fmt.Sprintf("guild-%d.test", number))
}

// examinerOf returns the sandbox in which the tests of a package run.
func (s *goSplit) examinerOf(dir string, number int) sandbox.Spec {
	l := s.limits()
	l.Wall += examinerWall
	l.CPU = min(l.CPU+examinerCPU, sandbox.DefaultCPU)
	l.Output = maxDescription
	return sandbox.Spec{
		Argv: []string{binaryDir + "/program", "-test.paniconexit0", "-test.timeout=0"}, Env: environment("GOMAXPROCS=2", "GUILD_MARKS=1"),
		Copies: append(s.layout.copies(false, nil), sandbox.Copy{Host: s.tests, Inside: sandbox.Workspace, Skip: private},
			sandbox.Copy{Host: s.binary(number), Inside: binaryDir}),
		Dir: path.Join(sandbox.Workspace, dir), Limits: l,
	}
}

// againOf returns the sandbox in which they run again and again, until the judge ends it.
func (s *goSplit) againOf(dir string, number int) sandbox.Spec {
	spec := s.examinerOf(dir, number)
	spec.Argv = append(spec.Argv, "-test.count=1000000")
	return spec
}

// runPackage runs the tests of one package against the delivery.
func (s *goSplit) runPackage(ctx context.Context, dir string, number int, out *goOutcome) error {
	if !isDir(s.binary(number)) {
		for _, t := range s.selected {
			if goDir(t.ID) == dir {
				out.because[t.ID] = cmp.Or(t.Because, "the tests do not compile beside a stub: "+cut(s.compiler))
			}
		}
		return nil
	}
	work := path.Join(sandbox.Workspace, dir)
	examiner := &half{spec: s.examinerOf(dir, number)}
	subject := &half{spec: sandbox.Spec{
		Argv: []string{"/bin/sh", "-c", `mkdir -p "$1" && cd "$1" && exec ` + binaryDir + "/program", "sh", work},
		Env:  environment("GOMAXPROCS=2"), Limits: s.limits(),
		Copies: append(s.layout.copies(true, ownGo), sandbox.Copy{Host: filepath.Join(s.binaries, "guild-subject"), Inside: binaryDir}),
	}}
	recording, err := s.runBoth(ctx, examiner, subject, nil)
	if err != nil {
		return err
	}
	out.again = append(out.again, rerun{strength.Run{Recording: recording}, s.againOf(dir, number)})
	s.f.Runs = append(s.f.Runs, examiner.record("tests of "+dir), subject.record("delivery"))
	s.f.Usage = s.f.Usage.Add(examiner.result.Usage).Add(subject.result.Usage)
	s.f.Breaches = append(s.f.Breaches, subject.result.Breaches...)
	s.f.Warnings = append(s.f.Warnings, subject.result.Warnings...)
	for _, b := range examiner.result.Breaches {
		s.f.Warnings = append(s.f.Warnings, "the tests: "+b.Syscall+": "+b.Detail)
	}
	reported, closed := readGoResults(examiner.results.Bytes())
	for _, t := range s.selected {
		if t.Because != "" || goDir(t.ID) != dir {
			continue
		}
		test := guild.Test{ID: t.ID, State: guild.TestMissing}
		if r, ok := reported[t.ID]; ok {
			test.State, test.Decided = r.state(), max(r.Decided, 0)
		}
		out.tests[t.ID] = test
	}
	// Asking takes longer than calling, so a limit is only one if the tests exceed it in one process, too.
	fault, limit := goSplitFault(closed, examiner, subject)
	if limit {
		return nil
	}
	s.f.Fault = fault
	if s.f.Fault == "" && examiner.result.Exit != 0 && allPassed(out.tests) {
		s.f.Fault = "the report does not agree with how the run ended"
	}
	return nil
}

func allPassed(tests map[string]guild.Test) bool {
	for _, t := range tests {
		if t.State != guild.TestPassed {
			return false
		}
	}
	return true
}

// goRecord is a line of the results of split Go tests.
type goRecord struct {
	Kind    string `json:"kind"` // test or closed
	ID      string `json:"id"`
	State   string `json:"state"`
	Decided int    `json:"decided"`
	Message string `json:"message"`
	times   int
}

func (r goRecord) state() string {
	switch {
	case r.State == "pass" && r.times == 1:
		return guild.TestPassed
	case r.State == "skip":
		return guild.TestSkipped
	default:
		return guild.TestFailed
	}
}

// readGoResults reads the records of the tests, and why the delivery could no longer be asked.
func readGoResults(b []byte) (tests map[string]goRecord, closed string) {
	tests = map[string]goRecord{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		var r goRecord
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		switch r.Kind {
		case "closed":
			closed = r.Message
		case "test":
			r.times = tests[r.ID].times + 1
			tests[r.ID] = r
		}
	}
	return tests, closed
}

// goSplitFault returns why the two halves did not end properly.
func goSplitFault(closed string, examiner, subject *half) (fault string, limit bool) {
	fault, limit = halvesFault(closed, false, examiner, subject)
	if strings.HasPrefix(fault, "the delivery's process ended, exit code") {
		fault = strings.TrimSuffix(fault+": "+cut(firstLine(subject.stderr.String())), ": ") // what it panicked with
	}
	return fault, limit
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
