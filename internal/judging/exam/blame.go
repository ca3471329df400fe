package exam

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
)

// Blamed reports whether a test counts against the delivery: it did not pass, and neither the tests, the judge nor this
// machine is at fault. A test of a verdict without blame counts.
func Blamed(t guild.Test) bool {
	return t.State != guild.TestPassed && (t.Blame == "" || t.Blame == guild.BlameDelivery)
}

// Excused reports whether a test did not pass by no fault of the delivery.
func Excused(t guild.Test) bool { return t.State != guild.TestPassed && !Blamed(t) }

// AtFault reports whether the fault of a finding is the delivery's. It is not if all tests that did not pass are
// excused.
func (f *Finding) AtFault() bool {
	return f.Fault != "" && (slices.ContainsFunc(f.Tests, Blamed) || !slices.ContainsFunc(f.Tests, Excused))
}

// excuse sets the blame of the tests that did not pass and have none yet, if is returns true for them.
func (f *Finding) excuse(who guild.Blame, because string, is func(guild.Test) bool) {
	for i := range f.Tests {
		if t := &f.Tests[i]; t.State != guild.TestPassed && t.Blame == "" && is(*t) {
			t.Blame, t.Because = who, cut(because)
		}
	}
}

// open reports whether there is a test that did not pass and has no blame yet.
func (f *Finding) open() bool {
	return slices.ContainsFunc(f.Tests, func(t guild.Test) bool { return t.State != guild.TestPassed && t.Blame == "" })
}

func every(guild.Test) bool { return true }

// blameRest blames the delivery for all tests that did not pass and have no blame yet.
func (f *Finding) blameRest() { f.excuse(guild.BlameDelivery, "", every) }

// blameTests finds out whose fault it is that tests did not pass. Where the tests' own sandbox cannot tell, the tests
// run again without the delivery: a test that fails in the same way, and does not use the delivery before it fails, is
// at fault itself. idle says that the tests, and not the delivery, used up the time, or it is "". If they do not do so without the
// delivery, too, nobody is at fault.
//
// In one process with the delivery, its report can be forged. It is used only for what must also be true without it.
func (c *pytestCriterion) blameTests(ctx context.Context, j *examination, f *Finding, rep *report, idle string) error {
	if len(f.Breaches) > 0 || !f.open() {
		return nil
	}
	f.explainStop()
	if !c.inproc {
		if err := c.blameJudge(ctx, j, f, rep); err != nil {
			return err
		}
	}
	j.blameMachine(ctx, f)
	if !f.open() {
		return nil
	}
	if err := c.blameAlone(ctx, j, f); err != nil {
		return err
	}
	if idle != "" { // the tests may have been busy with what the delivery handed over, such as a range without an end
		f.excuse(guild.BlameJudge, idle+", and do end without it: by whose fault they did not is not known", func(t guild.Test) bool {
			return t.State == guild.TestMissing
		})
	}
	if smoke := f.failedSmoke(); smoke != nil {
		f.excuse(cmp.Or(smoke.Blame, guild.BlameDelivery), smoke.Because, notRun)
	}
	return nil
}

// blameJudge excuses the tests that need what the judge cannot do. One that also fails in one process with the delivery, where it has
// all that it needs, is not excused.
func (c *pytestCriterion) blameJudge(ctx context.Context, j *examination, f *Finding, rep *report) error {
	var beside map[string]bool
	for _, r := range slices.Concat(rep.tests, rep.broken) {
		if r.Judge == "" {
			continue
		}
		if beside == nil {
			var err error
			if beside, err = c.failsBeside(ctx, j, f); err != nil {
				return err
			}
		}
		f.excuse(guild.BlameJudge, r.Judge, func(t guild.Test) bool { return (t.ID == r.ID || inside(r.ID, t.ID)) && !beside[t.ID] })
	}
	if n := len(rep.tests); n > 0 && f.OverLimit { // the last one came to no end
		f.excuse(guild.BlameJudge, rep.tests[n-1].Judge, func(t guild.Test) bool { return t.State == guild.TestMissing && rep.tests[n-1].Judge != "" })
	}
	return nil
}

// failsBeside returns the tests that fail in one process with the delivery. It does not see the hidden ones there.
func (c *pytestCriterion) failsBeside(ctx context.Context, j *examination, f *Finding) (map[string]bool, error) {
	shown := j.hiddenShown
	j.hiddenShown = false
	defer func() { j.hiddenShown = shown }()
	var beside Finding
	rep, _, err := c.runInproc(ctx, j, &beside, false)
	if err != nil {
		return nil, err
	}
	count, fails := map[string]int{}, map[string]bool{}
	for _, t := range f.Tests {
		count[function(t.ID)]++
	}
	for _, t := range rep.match(count) {
		fails[t.ID] = t.State == guild.TestFailed
	}
	return fails, nil
}

// blameAlone runs the tests without the delivery, and blames them for what fails in the same way then.
func (c *pytestCriterion) blameAlone(ctx context.Context, j *examination, f *Finding) error {
	alone, run, err := c.runAlone(ctx, j, j.layout.modules())
	if err != nil {
		return err
	}
	f.Runs = append(f.Runs, *run)
	count := map[string]int{}
	for _, t := range f.Tests {
		count[function(t.ID)]++
	}
	without := map[string]guild.Test{}
	for _, t := range alone.match(count) {
		without[t.ID] = t
	}
	f.excuse(guild.BlameTests, "it fails in the same way without the delivery", func(t guild.Test) bool {
		other, known := without[t.ID]
		used := slices.ContainsFunc(alone.used, func(id string) bool { return id == t.ID || inside(id, t.ID) })
		return known && !used && !notRun(t) && alone.end != nil && other.State == t.State && sameFailure(other.Message, t.Message)
	})
	if f.OverLimit && run.Result.Killed != "" {
		f.excuse(guild.BlameTests, "the tests exceed the limit without the delivery, too", func(t guild.Test) bool {
			return t.State == guild.TestMissing && without[t.ID].State == guild.TestMissing
		})
	}
	return nil
}

// notRunPrefix begins the message of a test that was not run.
const notRunPrefix = "not run: "

// notRun reports whether a test was not run because of another.
func notRun(t guild.Test) bool {
	return t.State == guild.TestMissing && strings.HasPrefix(t.Message, notRunPrefix)
}

// failedSmoke returns the first smoke test that did not pass, or nil.
func (f *Finding) failedSmoke() *guild.Test {
	i := slices.IndexFunc(f.Tests, func(t guild.Test) bool { return t.Layer == guild.LayerSmoke && t.State != guild.TestPassed })
	if i < 0 {
		return nil
	}
	return &f.Tests[i]
}

// explainStop sets the message of the tests that were not run because a smoke test of their criterion did not pass.
func (f *Finding) explainStop() {
	smoke := f.failedSmoke()
	if smoke == nil {
		return
	}
	for i := range f.Tests {
		if t := &f.Tests[i]; t.State == guild.TestMissing && t.Message == "" {
			t.Message = cut(notRunPrefix + "the smoke test " + smoke.ID + " did not pass")
		}
	}
}

// inside reports whether a test is in a module or class of tests.
func inside(module, test string) bool { return strings.HasPrefix(test, module+"::") }

// number matches the parts of a message that differ from run to run.
var number = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

// sameFailure compares messages without their numbers. A failed import says nothing, because the delivery may be what
// cannot be imported.
func sameFailure(a, b string) bool {
	return number.ReplaceAllString(a, "0") == number.ReplaceAllString(b, "0") && !absentModule.MatchString(a)
}

// idle returns the reason if the tests, and not the delivery, used up the time of a split examination, or "". The
// delivery's sandbox is stopped first if both are stopped, because its limit on wall time is lower.
func idle(examiner, subject sandbox.Result) string {
	const share = 4 // the delivery is idle if it uses less than this part of the tests' processor time: it takes some to start
	stopped := examiner.Killed == sandbox.KilledCPU || examiner.Killed == sandbox.KilledWall || subject.Killed == sandbox.KilledWall
	tests, delivery := examiner.Usage.CPUMs, subject.Usage.CPUMs
	if !stopped || tests < busy.Milliseconds() || delivery*share > tests {
		return ""
	}
	return fmt.Sprintf("the tests used %d ms of processor time while the delivery used %d ms", tests, delivery)
}

// busy is the processor time from which on tests are taken for busy rather than waiting.
const busy = time.Second

// runAlone runs the tests with stand-ins for modules of the delivery.
func (c *pytestCriterion) runAlone(ctx context.Context, j *examination, absent []string) (report, *RunRecord, error) {
	o, _, err := c.newOrder(false)
	if err != nil {
		return report{}, nil, err
	}
	o.Absent = absent
	stdin, err := json.Marshal(o)
	if err != nil {
		return report{}, nil, err
	}
	s := sandbox.Spec{
		Argv: j.python(), Program: inprocProgram, Env: environment("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", places()),
		Copies: j.layout.copies(false, nil), Limits: j.limits(),
	}
	j.showTests(&s)
	var f Finding
	run, err := j.run(ctx, &f, s, string(stdin))
	if err != nil {
		return report{}, nil, err
	}
	run.Argv = append(j.python(), "-c", inprocProgram.Name)
	return readReport(run.Results, o.Word), run, nil
}

// modules returns the names of the Python modules of the workspace, without those inside of packages.
func (l layout) modules() []string {
	names := []string{}
	for name := range l.seen {
		top, _, inside := strings.Cut(strings.TrimPrefix(filepath.ToSlash(name), "src/"), "/")
		module, end, _ := strings.Cut(top, ".")
		if inside || strings.HasSuffix(end, "py") || strings.HasSuffix(end, "so") {
			names = append(names, module)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// absentModule matches Python's messages about a module that is not found.
var absentModule = regexp.MustCompile(`(?:No module named|could not import) '([A-Za-z_][A-Za-z_0-9]*)`)

// blameMachine blames this machine for the tests that lack a Python package. A module that is neither delivered nor
// installed is a package if the bundle requires it by a requirements.txt, or if it is well known and the tests import
// it. Any other may be what was to be delivered.
func (j *examination) blameMachine(ctx context.Context, f *Finding) {
	required := j.requirements()
	source := ""
	for i := range f.Tests {
		t := &f.Tests[i]
		found := absentModule.FindStringSubmatch(t.Message)
		if found == nil || t.State == guild.TestPassed || t.Blame != "" {
			continue
		}
		name := found[1]
		if !required[strings.ToLower(name)] {
			if !slices.Contains(wellKnown(), name) {
				continue
			}
			source = cmp.Or(source, sourceOf(j.tests, pythonFile))
			if !regexp.MustCompile(`\b(import|from|importorskip\(["'])\s*` + name + `\b`).MatchString(source) {
				continue
			}
		}
		if j.installed(ctx, name) { // the delivery says that it is not
			continue
		}
		t.Blame, t.Because = guild.BlameMachine, "the Python package "+name+" is not installed here"
	}
}

// installed reports whether the Python of the tests has a package. The name is an identifier.
func (j *examination) installed(ctx context.Context, name string) bool {
	argv := append(j.python(), "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec("+strconv.Quote(name)+") is None)")
	return exec.CommandContext(ctx, argv[0], argv[1:]...).Run() == nil
}

//go:embed python/packages.txt
var packages string

// wellKnown returns the import names of packages that tests often use and nobody is asked to write.
func wellKnown() []string { return strings.Fields(packages) }

// requirement matches the name at the start of a line of a requirements.txt.
var requirement = regexp.MustCompile(`(?m)^[A-Za-z][A-Za-z0-9._-]*`)

// requirements returns the packages that the bundle requires, as import names in lower case.
func (j *examination) requirements() map[string]bool {
	names := map[string]bool{}
	for _, dir := range []string{j.tests, j.layout.files} {
		root, err := os.OpenRoot(cmp.Or(dir, "/nonexistent"))
		if err != nil {
			continue
		}
		text, err := readSome(root.FS(), "requirements.txt")
		root.Close()
		if err == nil {
			for _, name := range requirement.FindAllString(string(text), -1) {
				names[strings.ToLower(strings.NewReplacer("-", "_", ".", "_").Replace(name))] = true
			}
		}
	}
	return names
}

// pythonFile matches names of Python's modules.
var pythonFile = regexp.MustCompile(`\.py$`)

// sourceOf returns the text of all files below a directory whose names match, up to a limit.
func sourceOf(dir string, names *regexp.Regexp) string {
	var all strings.Builder
	readAll(dir, names, func(_, text string) { all.WriteString(text) })
	return all.String()
}

// readAll calls f with the name and the text of each file below a directory whose name matches, up to a limit.
func readAll(dir string, names *regexp.Regexp, f func(name, text string)) {
	root, err := os.OpenRoot(cmp.Or(dir, "/nonexistent"))
	if err != nil {
		return
	}
	defer root.Close()
	size := 0
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !names.MatchString(name) || size > maxCriteriaFile {
			return nil
		}
		if text, err := readSome(root.FS(), name); err == nil {
			size += len(text)
			f(name, string(text))
		}
		return nil
	}) // the function returns no error
}

// blameGo blames the tests where the compiler rejects them for a reason that no delivery can change. Only the compiler
// writes the events of a build, and only the go command writes to its standard error. own reports whether a package was to be
// delivered.
func (f *Finding) blameGo(run *RunRecord, own func(importPath string) bool) {
	output := run.Stderr
	for line := range strings.Lines(run.Stdout) {
		var e struct{ Action, Output string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Action == "build-output" {
			output += e.Output
		}
	}
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		missing := goImportFault.FindStringSubmatch(line)
		if !goTestFault.MatchString(line) && (missing == nil || own(missing[1]+missing[2])) {
			continue
		}
		f.excuse(guild.BlameTests, "the tests do not compile, whatever is delivered: "+line, func(t guild.Test) bool {
			return t.State == guild.TestMissing
		})
	}
}

// goTestFault matches the compiler's messages about test files that do not depend on other files, and goImportFault those
// about a package that they import. A variable with an upper case name may be unused because a delivered type is a struct with such
// a field.
var (
	goTestFault   = regexp.MustCompile(`^[\w./-]*_test\.go:\d+:\d+: (declared and not used: \P{Lu}.*|missing return|label .* defined and not used)`)
	goImportFault = regexp.MustCompile(`^[\w./-]*_test\.go:\d+:\d+: (?:"(.*)" imported (?:as \w+ )?and not used|` +
		`(?:no required module provides|cannot find module providing) package ([^\s;:]+))`)
)

// notFound is a shell's exit code for a program that is not found.
const notFound = 127

// blameProgram blames this machine if the program of a run is one of the system's and is not installed.
func (f *Finding) blameProgram(run *RunRecord) {
	name := run.Argv[0]
	if run.Result.Exit != notFound || strings.Contains(name, "/") {
		return
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return
		}
	}
	f.excuse(guild.BlameMachine, fmt.Sprintf("the program %.100s is not installed here", name), every)
}

// shellMisses matches what a shell says of a program that it looked for and did not find. A name with a slash is that of a
// file, which may be delivered.
var shellMisses = regexp.MustCompile(`: ([^\s/:]+): (?:command )?not found$`)

// missingProgram returns the program that a script of the customer's did not find on the bundle's own files, or "". It is not
// for a delivery, which could print the same.
func missingProgram(f Finding) string {
	for _, run := range f.Runs {
		if said := shellMisses.FindStringSubmatch(lastLine(run.Stderr)); run.Result.Exit == notFound && said != nil {
			return said[1]
		}
	}
	return ""
}
