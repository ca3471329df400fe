package exam

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/strength"
)

// nodePrograms are the programs of JavaScript examinations. Their own comments say what they guarantee.
//
//go:embed javascript/*.cjs javascript/*.mjs
var nodePrograms embed.FS

// nodePlace is the directory of the programs in a sandbox. jest does not transform what is below node_modules.
const nodePlace = judgeDir + "/node_modules/guild"

// nodeModule matches names of modules that the tests may import of a delivery.
var nodeModule = regexp.MustCompile(`\.([cm]?[jt]s|[jt]sx|json)$`)

// nodeStub is the text of the file in the place of a delivered module. node never reads it; jest runs it, once in each
// of its contexts.
const nodeStub = `// @ts-nocheck
// The delivery has this module in another sandbox. A test that reads or starts this file needs mode inproc.
const key = Symbol.for("guild.split");
module.exports = (globalThis[key] || require(process.env.GUILD_SPLIT + "/jest.cjs"))(__filename);
`

// nodeRecord is one line of the report of a split examination.
type nodeRecord struct {
	Type    string `json:"type"` // guild:test, guild:used, guild:closed, guild:ran, guild:beyond, guild:broken, or of a runner
	Name    string `json:"name"`
	Message string `json:"message"`
	Decided int    `json:"decided"` // as in guild.Test
	Refused bool   `json:"refused"` // split mode cannot do what the test did
	Beyond  string `json:"beyond"`  // the same, where the delivery cannot have caused it
	Status  string `json:"status"`  // of jest
	Micros  int64  `json:"us"`
}

// nodeParts has the common parts of the runs of a split examination.
type nodeParts struct {
	programs string   // host directory of the programs and the order
	stubs    string   // host directory of the stubs
	modules  []string // names of the modules of the delivery
	config   string   // of jest
	jest     string   // jest's program; empty for node --test
}

// split runs each file of the customer's tests in one sandbox and the delivery in another, as the Python examination
// does. So no delivered code runs in the process that writes the results, and none can read the expected values. What
// remains is a test that asks the delivery's own objects, for example whether two of them are equal: weaken handles
// that.
//
// A file has sandboxes of its own, since a runner gives each file fresh modules, too.
func (c *nodeCriterion) split(ctx context.Context, j *examination, f *Finding, files []string) error {
	p, err := c.parts(j)
	if err != nil {
		return err
	}
	expected, endless, err := c.listSplit(ctx, j, p, files)
	if err != nil {
		return err
	}
	var again []rerun
	var reports []nodeReport
	broken, beyond, ran, tired := map[string]string{}, map[string]string{}, "", ""
	for _, file := range files {
		examiner, subject, recording, err := c.pair(ctx, j, p, file)
		if err != nil {
			return err
		}
		again = append(again, rerun{strength.Run{Recording: recording, Prefix: file + "::"}, c.again(j, p, file)})
		for _, h := range []*half{examiner, subject} {
			run := h.record("")
			run.Argv = h.spec.Argv
			f.Runs = append(f.Runs, run)
		}
		f.Usage = f.Usage.Add(subject.result.Usage)
		f.Breaches = append(f.Breaches, subject.result.Breaches...)
		f.Warnings = append(f.Warnings, subject.result.Warnings...)
		if err := c.blame(ctx, j, f, p, file, examiner.result.Breaches); err != nil {
			return err
		}
		got, records := nodeSplitReports(examiner.results.String(), file)
		reports = append(reports, got...)
		broken[file] = nodeCause(records, examiner.stderr.String())
		for _, r := range records {
			if r.Type == "guild:ran" {
				ran = cmp.Or(ran, r.Message+" in "+file)
			}
			if r.Type == "guild:beyond" {
				beyond[file] = cmp.Or(beyond[file], r.Message)
			}
		}
		if slices.Contains(endless, file) {
			tired = cmp.Or(tired, idle(examiner.result, subject.result))
		}
		if f.Fault == "" {
			f.Fault, f.OverLimit = nodeFault(got, records, examiner, subject)
		}
	}
	if c.tests > 0 {
		f.Tests = nodeCount(reports, c.id, c.tests)
	} else {
		f.Tests = nodeMatch(reports, nodeExpected(reports, expected))
	}
	for i := range f.Tests {
		t := &f.Tests[i]
		f.Decided += t.Decided
		file, _, _ := strings.Cut(t.ID, "::")
		if t.State == guild.TestMissing && t.Message == "" {
			t.Message = cut(broken[file])
		}
	}
	if tired != "" {
		return undecided("tests do not end, with the delivery or without it: %s", tired)
	}
	if err := c.blameTests(ctx, j, f, p, files, beyond); err != nil {
		return err
	}
	if ran != "" {
		f.Strength, f.Decided = guild.Weak, max(f.Decided, 1)
		f.Because = "what the delivery may have made ran beside the tests: " + cut(ran)
		return nil
	}
	// The runner names a test as the report does, without what stands before the names of a number of tests.
	return j.proveRounds(ctx, f, strength.JavaScript, again, passedTests(f.Tests), func(id string) string {
		if _, name, counted := strings.Cut(id, "] "); counted && c.tests > 0 {
			return name
		}
		return id
	})
}

// parts prepares what the runs have in common. Where nothing is delivered, what the tests import is taken for it.
func (c *nodeCriterion) parts(j *examination) (p nodeParts, err error) {
	if c.jest {
		if p.jest, p.config, err = j.findJest(); err != nil {
			return p, err
		}
		// Else the tests' side begins with the first module of the delivery, perhaps within a test.
		if rest, own := strings.CutPrefix(p.config, "{"); own {
			p.config = `{"setupFilesAfterEnv":["` + nodePlace + `/jest-setup.cjs"],` + rest
		}
	}
	stubs := map[string]string{}
	if len(j.layout.artifacts) == 0 {
		for _, name := range j.importedModules() {
			stubs[name] = nodeStub
		}
	}
	for _, dir := range append([]string{j.layout.files}, j.layout.artifacts...) {
		if dir == "" {
			continue
		}
		names, err := survey(dir, map[string]bool{})
		if err != nil {
			return p, undecided("%w", err)
		}
		for _, name := range names {
			if text, ok := j.nodeStub(dir, filepath.ToSlash(name)); ok {
				stubs[name] = text
			}
		}
	}
	for name := range stubs {
		if filepath.Base(name) != "package.json" {
			p.modules = append(p.modules, filepath.ToSlash(name))
		}
	}
	slices.Sort(p.modules)
	if p.stubs, err = j.writeFiles(stubs); err != nil {
		return p, err
	}
	programs := map[string]string{}
	entries, err := nodePrograms.ReadDir("javascript")
	if err != nil {
		return p, err
	}
	for _, e := range entries {
		text, err := nodePrograms.ReadFile("javascript/" + e.Name())
		if err != nil {
			return p, err
		}
		programs[e.Name()] = string(text)
	}
	order, err := json.Marshal(map[string]any{"modules": append([]string{}, p.modules...), "build": len(c.build) > 0})
	if err != nil {
		return p, err
	}
	programs["order.json"] = string(order)
	p.programs, err = j.writeFiles(programs)
	return p, err
}

// nodeStub returns what the tests' sandbox has in the place of a file of the workspace. The customer's own files there
// stay as they are if nothing replaces them and they are at the top, where runners are configured, or packages. Of a
// delivered package.json, only how its modules are loaded is taken over: it could give others to the tests.
func (j *examination) nodeStub(dir, name string) (text string, ok bool) {
	base := filepath.Base(name)
	top, _, nested := strings.Cut(name, "/")
	delivered := dir != j.layout.files
	switch {
	case strings.Contains("/"+name, "/node_modules/"), top == "tests", strings.Contains("/"+name, "/__mocks__/"):
		return "", false
	case base == "package.json":
		if !delivered || j.layout.files != "" && isFile(filepath.Join(j.layout.files, name)) {
			return "", false
		}
		return nodePackage(filepath.Join(dir, name))
	case !nodeModule.MatchString(name), strings.Contains(base, ".config."), base == "package-lock.json", strings.HasPrefix(base, "tsconfig"):
		return "", false
	}
	return nodeStub, delivered || nested
}

// nodePackage returns the part of a delivered package.json that says how its modules are loaded.
func nodePackage(name string) (text string, ok bool) {
	b, err := os.ReadFile(name)
	var p struct {
		Type string `json:"type,omitempty"`
		Main string `json:"main,omitempty"`
	}
	if err != nil || json.Unmarshal(b, &p) != nil {
		return "", false
	}
	if p.Type != "module" {
		p.Type = ""
	}
	main := path.Clean(p.Main)
	if top, _, _ := strings.Cut(main, "/"); !local(main) || top == "tests" || top == "node_modules" {
		p.Main = "" // it leads to what is not the delivery's
	}
	b, err = json.Marshal(p)
	return string(b), err == nil
}

// spec returns the sandbox in which a file of the tests runs, without the delivery.
func (c *nodeCriterion) spec(j *examination, p nodeParts, file string) sandbox.Spec {
	s := j.nodeSpec(false)
	s.Env = append(s.Env, "GUILD_SPLIT="+nodePlace)
	tests := s.Copies[len(s.Copies)-1]
	s.Copies = append(s.Copies[:len(s.Copies)-1:len(s.Copies)-1],
		sandbox.Copy{Host: p.stubs, Inside: sandbox.Workspace}, tests,
		sandbox.Copy{Host: p.programs, Inside: nodePlace, ReadOnly: true})
	if c.jest {
		s.Argv = jestCommand(p.jest, p.config, "--reporters", nodePlace+"/jest-reporter.cjs", "--runTestsByPath", file)
	} else {
		s.Argv = []string{"node", "--require", nodePlace + "/node.cjs", "--test-reporter-destination=stdout",
			"--test-reporter", nodePlace + "/reporter.mjs", file}
	}
	return s
}

// pair runs one file of the tests, and the delivery.
func (c *nodeCriterion) pair(ctx context.Context, j *examination, p nodeParts, file string) (examiner, subject *half, recording *strength.Recording, err error) {
	examiner = &half{spec: c.spec(j, p, file)}
	examiner.spec.Env = append(examiner.spec.Env, "GUILD_MARKS=1")
	examiner.spec.Limits.Wall += examinerWall
	examiner.spec.Limits.CPU = min(examiner.spec.Limits.CPU+examinerCPU, sandbox.DefaultCPU)
	subject = &half{spec: j.nodeSpec(true)}
	subject.spec.Copies[len(subject.spec.Copies)-1] = sandbox.Copy{Host: p.programs, Inside: nodePlace, ReadOnly: true}
	subject.spec.Argv = []string{"node", nodePlace + "/subject.cjs"}
	if len(c.build) > 0 {
		build, err := json.Marshal(c.build)
		if err != nil {
			return nil, nil, nil, err
		}
		subject.spec.Env = append(subject.spec.Env, "GUILD_BUILD="+string(build))
	}
	recording, err = j.runBoth(ctx, examiner, subject, nil)
	return examiner, subject, recording, err
}

// again returns the sandbox in which a file of the tests runs again, answered by the judge.
func (c *nodeCriterion) again(j *examination, p nodeParts, file string) sandbox.Spec {
	s := c.spec(j, p, file)
	s.Env = append(s.Env, "GUILD_MARKS=1", "GUILD_AGAIN=1")
	if c.jest {
		s.Argv = append(s.Argv, "--testTimeout=2000")
	} else {
		s.Argv = []string{"node", "--require", nodePlace + "/node.cjs", "--test-reporter-destination=stdout",
			"--test-reporter=data:text/javascript,export default async function* (all) { for await (const one of all); }",
			nodePlace + "/rounds.mjs", file}
	}
	return s
}

// alone runs one file of the tests with something in the place of the delivery that answers everything with itself, or
// with nothing.
func (c *nodeCriterion) alone(ctx context.Context, j *examination, p nodeParts, file, with string) ([]nodeReport, *Finding, error) {
	s := c.spec(j, p, file)
	s.Env = append(s.Env, "GUILD_BLANK="+with)
	if c.jest {
		s.Argv = append(s.Argv, "--testTimeout=1000") // a callback of the delivery's never comes
	}
	var f Finding
	run, err := j.run(ctx, &f, s, "")
	if err != nil {
		return nil, nil, err
	}
	reports, records := nodeSplitReports(run.Results, file)
	f.Fault, f.OverLimit = nodeCause(records, run.Stderr), run.Result.Killed != ""
	return reports, &f, nil
}

// listSplit runs the tests without the delivery, and returns them with their number, and the files that do not end.
func (c *nodeCriterion) listSplit(ctx context.Context, j *examination, p nodeParts, files []string) (expected map[string]int, endless []string, err error) {
	expected = map[string]int{}
	for _, file := range files {
		reports, f, err := c.alone(ctx, j, p, file, "itself")
		if err != nil {
			return nil, nil, err
		}
		if f.OverLimit {
			endless = append(endless, file)
		}
		if len(reports) == 0 && c.tests == 0 {
			return nil, nil, undecided("the tests of %s cannot be listed without the delivery: say how many tests there are (%q): %s",
				file, "tests", cut(f.Fault))
		}
		for _, r := range reports {
			expected[r.ID]++
		}
	}
	return expected, endless, nil
}

// blame determines the cause of breaches in the tests' sandbox, as that of a Python criterion does.
func (c *nodeCriterion) blame(ctx context.Context, j *examination, f *Finding, p nodeParts, file string, breaches []guild.Breach) error {
	if len(breaches) == 0 {
		return nil
	}
	_, alone, err := c.alone(ctx, j, p, file, "itself")
	if err != nil {
		return err
	}
	f.attribute(breaches, alone.Breaches)
	return nil
}

// nodeSplitReports returns the tests in the report of an examiner, and its own records.
func nodeSplitReports(results, file string) ([]nodeReport, []nodeRecord) {
	var records []nodeRecord
	var reports []nodeReport
	told, used := map[string][]nodeRecord{}, map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(results))
	lines.Buffer(nil, buildOutput)
	for lines.Scan() {
		var r nodeRecord
		if json.Unmarshal(bytes.TrimSpace(lines.Bytes()), &r) != nil {
			continue
		}
		switch {
		case r.Type == "guild:test":
			told[r.Name] = append(told[r.Name], r)
		case r.Type == "guild:used":
			used[r.Name] = true
		case strings.HasPrefix(r.Type, "guild:"):
			records = append(records, r)
		case r.Type == "jest:test":
			state := map[string]string{"passed": guild.TestPassed, "failed": guild.TestFailed}[r.Status]
			reports = append(reports, nodeReport{ID: r.Name, State: cmp.Or(state, guild.TestSkipped), Message: r.Message, Micros: r.Micros})
		}
	}
	if len(reports) == 0 {
		reports = nodeReports(results)
		for i := range reports {
			_, reports[i].ID, _ = strings.Cut(reports[i].ID, "::")
		}
	}
	for i := range reports {
		r := &reports[i]
		if of := told[r.ID]; len(of) > 0 {
			r.Decided = of[0].Decided
			if of[0].Refused && r.State == guild.TestPassed {
				r.State = guild.TestFailed
			}
			if of[0].Message != "" && r.State == guild.TestFailed {
				r.Message = strings.TrimSpace(of[0].Message + "\n" + r.Message)
			}
			r.Beyond = of[0].Beyond
			told[r.ID] = of[1:]
		}
		r.Used = used[r.ID]
		r.ID = file + "::" + r.ID
	}
	return reports, records
}

// nodeError matches the line of an uncaught error.
var nodeError = regexp.MustCompile(`(?m)^\s*(?:\w*Error\b.*: .*|.*needs mode inproc.*)$`)

// nodeCause returns why a file of tests broke off, or "".
func nodeCause(records []nodeRecord, stderr string) string {
	for _, r := range records {
		if r.Type == "guild:broken" {
			return r.Message
		}
	}
	return strings.TrimSpace(cmp.Or(nodeError.FindString(stderr), lastLine(stderr)))
}

// nodeFault returns why the two halves did not end properly.
func nodeFault(reports []nodeReport, records []nodeRecord, examiner, subject *half) (fault string, limit bool) {
	closed := ""
	for _, r := range records {
		if r.Type == "guild:closed" {
			closed = cmp.Or(closed, r.Message)
		}
	}
	if fault, limit = halvesFault(closed, false, examiner, subject); fault != "" {
		return fault, limit
	}
	res := examiner.result
	failed := slices.ContainsFunc(reports, func(r nodeReport) bool { return r.State != guild.TestPassed })
	switch {
	case res.Signal != "":
		return "ended by " + res.Signal, false
	case res.Cut:
		return "the report is too long", false
	case res.Exit != 0 && !failed && len(reports) > 0:
		return "the report does not agree with how the run ended", false
	}
	return "", false
}

// jestCommand returns jest's command line.
func jestCommand(program, config string, more ...string) []string {
	return append([]string{"node", program, "--ci", "--runInBand", "--rootDir", sandbox.Workspace, "--config", config}, more...)
}
