package exam

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
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
	"guild/internal/sandbox"
)

// reporter is what node --test reports with; it writes one line of JSON for each test.
//
//go:embed reporter.mjs
var reporter string

// nodeTests is the directory that the customer's tests have in the workspace, so that "../src/x.js" is the
// delivery's as it is in any project.
const nodeTests = sandbox.Workspace + "/tests"

// testFile are the names of test files that are found in a directory.
var testFile = regexp.MustCompile(`(^|/)(test-[^/]+|[^/]+[._-](test|spec)|test)\.[cm]?[jt]sx?$`)

// jestConfigs are the files that a project configures jest with, in the order in which they are looked for.
var jestConfigs = []string{"jest.config.js", "jest.config.cjs", "jest.config.mjs", "jest.config.json"}

// nodeReport is one test that a runner for JavaScript reported.
type nodeReport struct {
	ID      string // "tests/a.test.js::group > name"
	State   string
	Message string
}

// node runs the customer's tests in JavaScript beside the delivery, by jest or by node --test. The tests that count
// are those that the same runner reports without the delivery, or as many as the criterion says there are.
func (j *examination) node(ctx context.Context, c Criterion, f *Finding) error {
	f.Because = "the tests ran in the process of the code that they test"
	files, err := nodeFiles(j.tests, c.Script)
	if err != nil {
		return undecided("%w", err)
	}
	if !slices.ContainsFunc([]string{"/usr/local/bin/node", "/usr/bin/node", "/bin/node"}, isFile) {
		return undecided("Node.js is not installed: apt-get install nodejs")
	}
	if name := j.inTheWay(j.tests, "tests"); name != "" {
		f.Fault = "the delivery has a directory or a file in the way of " + name
		f.Tests = missing(map[string]int{c.ID: max(1, c.Tests)})
		return nil
	}
	expected := map[string]int{}
	if c.Tests == 0 {
		if expected, err = j.listNode(ctx, c, files); err != nil {
			return err
		}
	}
	reports, run, err := j.runNode(ctx, c, f, files, true)
	if err != nil {
		return err
	}
	if c.Tests > 0 {
		f.Tests = nodeCount(reports, c.ID, c.Tests)
	} else {
		f.Tests = nodeMatch(reports, expected)
	}
	f.distrust(run.Result)
	return nil
}

// listNode finds the tests by running them without the delivery, on what the bundle's files/ has in its place.
func (j *examination) listNode(ctx context.Context, c Criterion, files []string) (map[string]int, error) {
	var f Finding
	reports, run, err := j.runNode(ctx, c, &f, files, false)
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

// runNode runs the test files, with the delivery or without, and reads what the runner reports.
func (j *examination) runNode(ctx context.Context, c Criterion, f *Finding, files []string, delivered bool) ([]nodeReport, *RunRecord, error) {
	s := sandbox.Spec{
		Env:    environment("NODE_ENV=test", "CI=1"),
		Copies: append(j.layout.copies(delivered, j.notNode), sandbox.Copy{Host: j.tests, Inside: nodeTests, Skip: private}),
		Limits: j.limits(),
	}
	s.Limits.Output = buildOutput
	if c.Framework == jest {
		return j.runJest(ctx, f, s, files)
	}
	s.Argv = append([]string{"node", "--test", "--test-reporter-destination=stdout",
		"--test-reporter=data:text/javascript;base64," + base64.StdEncoding.EncodeToString([]byte(reporter))}, files...)
	run, err := j.run(ctx, f, s, "")
	if err != nil {
		return nil, nil, err
	}
	return readNode(run.Results), run, nil
}

// runJest runs jest, which leaves its results in a file.
func (j *examination) runJest(ctx context.Context, f *Finding, s sandbox.Spec, files []string) ([]nodeReport, *RunRecord, error) {
	program, config, err := j.jest()
	if err != nil {
		return nil, nil, err
	}
	results := "jest-" + rand.Text() + ".json" // what nobody has by accident
	s.Argv = append([]string{"node", program, "--ci", "--runInBand", "--rootDir", sandbox.Workspace, "--config", config,
		"--json", "--outputFile=" + sandbox.Workspace + "/" + results, "--runTestsByPath"}, files...)
	s.Collect = []string{results}
	archive := &sandbox.Head{Most: maxArchive}
	run, err := j.runFiles(ctx, f, s, "", archive)
	if err != nil {
		return nil, nil, err
	}
	return readJest(string(collected(archive.Bytes(), s.Collect)[results])), run, nil
}

// notNode reports whether a delivered file stays out: one that would stand beside the tests, configure the runner
// or replace the packages that the customer brought along.
func (j *examination) notNode(name string) bool {
	top, _, _ := strings.Cut(filepath.ToSlash(name), "/")
	return top == "tests" || slices.Contains(jestConfigs, name) ||
		top == "node_modules" && isDir(filepath.Join(j.layout.files, "node_modules"))
}

// jest finds jest in the bundle's files or on this machine, and what configures it.
func (j *examination) jest() (program, config string, err error) {
	config = `{"testEnvironment":"node","testMatch":["**/*"]}`
	for _, name := range slices.Backward(jestConfigs) {
		if j.layout.files != "" && isFile(filepath.Join(j.layout.files, name)) {
			config = sandbox.Workspace + "/" + name
		}
	}
	const in = "node_modules/jest/bin/jest.js"
	if j.layout.files != "" && isFile(filepath.Join(j.layout.files, in)) {
		return sandbox.Workspace + "/" + in, config, nil
	}
	for _, dir := range []string{"/usr/local/lib/", "/usr/lib/", "/usr/share/nodejs/"} {
		for _, p := range []string{dir + in, dir + strings.TrimPrefix(in, "node_modules/")} {
			if isFile(p) {
				return p, config, nil
			}
		}
	}
	return "", "", undecided("jest is neither in the bundle's files/node_modules nor installed: npm install --global jest")
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// nodeFiles lists the customer's test files below script, as "tests/a.test.js".
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
		err = errors.New("there are no JavaScript tests")
	}
	return files, err
}

// readNode reads the lines of our own reporter. A file that is reported as a whole has not told its tests.
func readNode(results string) []nodeReport {
	var reports []nodeReport
	above := map[string][]string{} // the names that a test of a file is in
	lines := bufio.NewScanner(strings.NewReader(results))
	lines.Buffer(nil, buildOutput)
	for lines.Scan() {
		var e struct {
			Type, Name, File, Message string
			Nesting                   int
			Suite, Skip               bool
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
			r := nodeReport{ID: relative(e.File) + "::" + strings.Join(names, " > "), State: guild.TestFailed, Message: e.Message}
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

// relative is a file's name below the workspace, wherever a runner may have that.
func relative(file string) string {
	if _, name, inside := strings.Cut(file, sandbox.Workspace+"/"); inside {
		return name
	}
	return file
}

// readJest reads the JSON that jest writes when it is done.
func readJest(results string) []nodeReport {
	var all struct {
		TestResults []struct {
			Name             string
			AssertionResults []struct {
				AncestorTitles  []string
				Title, Status   string
				FailureMessages []string
			}
		}
	}
	if json.Unmarshal([]byte(results), &all) != nil {
		return nil
	}
	var reports []nodeReport
	for _, file := range all.TestResults {
		for _, a := range file.AssertionResults {
			names := append(slices.Clone(a.AncestorTitles), a.Title)
			r := nodeReport{ID: relative(file.Name) + "::" + strings.Join(names, " > "), State: guild.TestSkipped}
			switch a.Status {
			case "passed":
				r.State = guild.TestPassed
			case "failed":
				r.State, r.Message = guild.TestFailed, strings.Join(a.FailureMessages, "\n")
			}
			reports = append(reports, r)
		}
	}
	return reports
}

// nodeMatch holds what was reported against what was expected. A test that is reported more or less often than it
// exists has not passed.
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
				list[i].State, list[i].Message = got[id][i].State, cut(got[id][i].Message)
			}
		}
		tests = append(tests, list...)
	}
	return tests
}

// nodeCount holds what was reported against a number. The tests that failed come first, so that others cannot push
// them out.
func nodeCount(reports []nodeReport, id string, n int) []guild.Test {
	worst := func(r nodeReport) int {
		return slices.Index([]string{guild.TestFailed, guild.TestSkipped, guild.TestPassed}, r.State)
	}
	slices.SortStableFunc(reports, func(a, b nodeReport) int { return cmp.Compare(worst(a), worst(b)) })
	tests := missing(map[string]int{id: n})
	for i := range min(n, len(reports)) {
		tests[i] = guild.Test{ID: fmt.Sprintf("%s[%d] %s", id, i, cut(reports[i].ID)), State: reports[i].State, Message: cut(reports[i].Message)}
	}
	return tests
}
