package exam

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
)

// reporter is a reporter for node --test that writes one line of JSON for each test.
//
//go:embed javascript/reporter.mjs
var reporter string

// nodeTests is the directory of the customer's tests in the workspace, so that they can import the delivery as
// "../src/x.js".
const nodeTests = sandbox.Workspace + "/tests"

// testFile matches names of test files.
var testFile = regexp.MustCompile(`(^|/)(test-[^/]+|[^/]+[._-](test|spec)|test)\.[cm]?[jt]sx?$`)

// nodeReport is one test in the report of a JavaScript runner.
type nodeReport struct {
	ID      string // "tests/a.test.js::group > name"
	State   string
	Message string
	Micros  int64
	Decided int    // as in guild.Test
	Beyond  string // what the test needs that the judge cannot do
	Used    bool   // without the delivery: the test did something with what stands for it
}

// test returns the test of a report, with another id.
func (r nodeReport) test(id string) guild.Test {
	t := guild.Test{ID: id, State: r.State, Message: cut(r.Message), Micros: r.Micros, Decided: r.Decided}
	if r.Beyond != "" && r.State != guild.TestPassed {
		t.Blame, t.Because = guild.BlameJudge, cut(r.Beyond)
	}
	return t
}

// nodeRunner runs test files in the sandbox s and returns the tests that the runner reports.
type nodeRunner func(ctx context.Context, j *examination, f *Finding, s sandbox.Spec, files []string) ([]nodeReport, *RunRecord, error)

// nodeCriterion runs the customer's JavaScript tests beside the delivery, by jest or node --test. The expected tests
// are those that the same runner reports without the delivery, or the number that the criterion gives.
type nodeCriterion struct {
	id, script string
	tests      int      // number of tests; 0 means that they must be listed
	build      []string // command that builds the delivery's modules, or nothing
	inproc     bool
	jest       bool
	run        nodeRunner // for inproc
}

// nodeFields has the fields of a criterion for JavaScript.
type nodeFields struct {
	Build []string `json:"build,omitempty"` // command that builds the delivery before the tests, in mode split
}

func readNodeTest(e *Entry, _ *Criteria) (criterion, error) { return readNode(e, runNode, false) }

func readNode(e *Entry, run nodeRunner, jest bool) (criterion, error) {
	if err := e.noCases(); err != nil {
		return nil, err
	}
	inproc := e.Mode == modeInproc
	if len(e.Build) > 0 && (inproc || jest) {
		return nil, errors.New("build is for node-test in mode split; jest transforms the files itself, in mode inproc")
	}
	return &nodeCriterion{id: e.ID, script: e.Script, tests: e.Tests, build: e.Build, inproc: inproc, jest: jest, run: run}, e.only()
}

func (c *nodeCriterion) planned(*examination) map[string]int { return map[string]int{c.id: 1} }

// examine first lists the tests without the delivery, unless their number is given: a hostile delivery could otherwise
// remove tests from the list.
func (c *nodeCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	files, err := nodeFiles(j.tests, c.script)
	if err != nil {
		return undecided("%w", err)
	}
	if lack := lackOfNode(); lack != "" {
		return undecided("%s", lack)
	}
	if name := j.inTheWay(j.tests, "tests"); name != "" {
		f.Fault = "the delivery has a directory or a file in the way of " + name
		f.Tests = missing(map[string]int{c.id: max(1, c.tests)})
		return nil
	}
	if !c.inproc {
		return c.split(ctx, j, f, files)
	}
	f.Because = "the tests ran in the process of the code that they test"
	var expected map[string]int
	if c.tests == 0 {
		if expected, err = c.list(ctx, j, files); err != nil {
			return err
		}
	}
	reports, run, err := c.run(ctx, j, f, j.nodeSpec(true), files)
	if err != nil {
		return err
	}
	if c.tests > 0 {
		f.Tests = nodeCount(reports, c.id, c.tests)
	} else {
		f.Tests = nodeMatch(reports, expected)
	}
	f.distrust(run.Result)
	return nil
}

// list returns the tests by running them without the delivery, with the bundle's files/ in its place.
func (c *nodeCriterion) list(ctx context.Context, j *examination, files []string) (map[string]int, error) {
	var f Finding
	reports, run, err := c.run(ctx, j, &f, j.nodeSpec(false), files)
	if err != nil {
		return nil, err
	}
	expected := map[string]int{}
	listed := map[string]bool{}
	for _, r := range reports {
		expected[r.ID]++
		file, _, _ := strings.Cut(r.ID, "::")
		listed[file] = true
	}
	for _, name := range files {
		if !listed[name] {
			return nil, undecided("the tests of %s cannot be listed without the delivery: put something into files/ that they "+
				"can load, or say how many tests there are (%q): %s", name, "tests", cut(lastLine(run.Stderr)))
		}
	}
	return expected, nil
}

// nodeSpec returns the sandbox for JavaScript tests, with or without the delivery. The caller sets the command.
func (j *examination) nodeSpec(delivered bool) sandbox.Spec {
	s := sandbox.Spec{
		Env:    environment("NODE_ENV=test", "CI=1", "OPENSSL_CONF=/dev/null"), // node ends if it cannot read the system's
		Copies: append(j.layout.copies(delivered, j.notNode), sandbox.Copy{Host: j.tests, Inside: nodeTests, Skip: j.privateBeside}),
		Limits: j.limits(),
	}
	if j.engine.Jest != "" {
		s.Mounts = []sandbox.Mount{{Host: j.engine.Jest, Inside: jestPlace}}
	}
	s.Limits.Output = buildOutput
	return s
}

// runNode runs node --test with the reporter above.
func runNode(ctx context.Context, j *examination, f *Finding, s sandbox.Spec, files []string) ([]nodeReport, *RunRecord, error) {
	s.Argv = append([]string{"node", "--test", "--test-reporter-destination=stdout",
		"--test-reporter=data:text/javascript;base64," + base64.StdEncoding.EncodeToString([]byte(reporter))}, files...)
	run, err := j.run(ctx, f, s, "")
	if err != nil {
		return nil, nil, err
	}
	return nodeReports(run.Results), run, nil
}

// notNode reports whether a delivered file is omitted: one among the tests, one that configures the runner, or one that
// replaces a package of the customer's. Each could change the results.
func (j *examination) notNode(name string) bool {
	top, _, _ := strings.Cut(filepath.ToSlash(name), "/")
	return top == "tests" || slices.Contains(jestConfigs, name) ||
		top == "node_modules" && isDir(filepath.Join(j.layout.files, "node_modules"))
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// nodeFiles returns the customer's test files below script, as "tests/a.test.js".
func nodeFiles(tests, script string) ([]string, error) {
	if tests == "" {
		return nil, errors.New("the bundle has no tests/")
	}
	from := filepath.Join(tests, strings.TrimPrefix(script, "tests"))
	if isFile(from) {
		return []string{script}, nil
	}
	var files []string
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(tests, p)
		if err == nil && d.Type().IsRegular() && testFile.MatchString(filepath.ToSlash(name)) {
			files = append(files, path.Join("tests", filepath.ToSlash(name)))
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = errors.New("no JavaScript tests")
	}
	return files, err
}

// nodeReports parses the lines of the reporter. It skips suites, and files that are reported as a whole.
func nodeReports(results string) []nodeReport {
	var reports []nodeReport
	above := map[string][]string{} // names of the suites around the current test of a file
	lines := bufio.NewScanner(strings.NewReader(results))
	lines.Buffer(nil, buildOutput)
	for lines.Scan() {
		var e struct {
			Type, Name, File, Message string
			Nesting                   int
			Suite, Skip               bool
			Micros                    int64 `json:"us"`
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Nesting < 0 || e.Nesting > len(above[e.File]) || e.Nesting > 50 {
			continue
		}
		names := append(slices.Clone(above[e.File][:e.Nesting]), e.Name)
		switch {
		case e.Type == "test:start":
			above[e.File] = names
		case e.Suite || e.Name == e.File || e.Type != "test:pass" && e.Type != "test:fail":
		default:
			r := nodeReport{ID: relative(e.File) + "::" + strings.Join(names, " > "), State: guild.TestFailed, Message: e.Message, Micros: e.Micros}
			if e.Skip {
				r.State = guild.TestSkipped
			} else if e.Type == "test:pass" {
				r.State = guild.TestPassed
			}
			reports = append(reports, r)
		}
	}
	return reports
}

// relative returns a file's name relative to the workspace, wherever the runner has the workspace.
func relative(file string) string {
	if _, name, inside := strings.Cut(file, sandbox.Workspace+"/"); inside {
		return name
	}
	return file
}

// nodeMatch compares the reports with the expected tests. A test with more or fewer reports than expected has not
// passed.
func nodeMatch(reports []nodeReport, expected map[string]int) []guild.Test {
	got := map[string][]nodeReport{}
	for _, r := range reports {
		got[r.ID] = append(got[r.ID], r)
	}
	var tests []guild.Test
	for _, id := range slices.Sorted(maps.Keys(expected)) {
		list := missing(map[string]int{id: expected[id]})
		for i := range list {
			switch {
			case len(got[id]) > expected[id]:
				list[i].State, list[i].Message = guild.TestFailed, "it was reported more often than it exists"
			case i < len(got[id]):
				list[i] = got[id][i].test(list[i].ID)
			}
		}
		tests = append(tests, list...)
	}
	return tests
}

// nodeCount compares the reports with a number of tests. Failed ones come first, so that additional reports cannot
// displace them.
func nodeCount(reports []nodeReport, id string, n int) []guild.Test {
	slices.SortStableFunc(reports, worstFirst)
	tests := missing(map[string]int{id: n})
	for i := range min(n, len(reports)) {
		r := reports[i]
		tests[i] = r.test(fmt.Sprintf("%s[%d] %s", id, i, cut(r.ID)))
	}
	return tests
}

// worstFirst orders reports: failed, skipped, passed.
func worstFirst(a, b nodeReport) int {
	states := []string{guild.TestFailed, guild.TestSkipped, guild.TestPassed}
	return cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State))
}
