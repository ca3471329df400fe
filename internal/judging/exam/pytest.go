package exam

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
)

// Parts of the programs that run in the sandboxes. Their own comments say what they guarantee.
var (
	//go:embed python/plan.py
	planSource string
	//go:embed python/examiner.py
	inprocSource string
	//go:embed python/alone.py
	aloneSource string
	//go:embed python/wire.py
	wireSource string
	//go:embed python/values.py
	valuesSource string
	//go:embed python/mirror.py
	mirrorSource string
	//go:embed python/sharing.py
	sharingSource string
	//go:embed python/proxies.py
	proxiesSource string
	//go:embed python/lending.py
	lendingSource string
	//go:embed python/arrival.py
	arrivalSource string
	//go:embed python/link.py
	linkSource string
	//go:embed python/twins.py
	twinsSource string
	//go:embed python/modules.py
	modulesSource string
	//go:embed python/running.py
	runningSource string
	//go:embed python/smoke.py
	smokeSource string
	//go:embed python/split.py
	splitSource string
	//go:embed python/subject.py
	subjectSource string
)

// The programs, composed of the parts. A runner that forks keeps one warm interpreter for each program.
var (
	inprocProgram   = &sandbox.Program{Name: "inproc.py", Setup: planSource + aloneSource + inprocSource}
	examinerProgram = &sandbox.Program{
		Name: "examiner.py",
		Setup: planSource + wireSource + valuesSource + mirrorSource + sharingSource + proxiesSource + lendingSource +
			arrivalSource + twinsSource + linkSource + modulesSource + runningSource + smokeSource + splitSource,
	}
	subjectProgram = &sandbox.Program{Name: "subject.py", Setup: wireSource + valuesSource + mirrorSource + subjectSource}
)

// Exit codes of pytest: some tests failed; no tests were found.
const (
	pytestFailed  = 1
	pytestNothing = 5
)

// order is the examiner's task, passed on standard input.
type order struct {
	Word       string `json:"word"` // marks the examiner's own records
	Script     string `json:"script"`
	Descriptor int    `json:"descriptor"` // where it hides the descriptor of the results
	Collect    bool   `json:"collect"`    // only list the tests
	First      bool   `json:"first"`      // find the classes of values, for the run with twins
	Seed       string `json:"seed"`       // of what the tests draw at random, the same when they run again

	Without []string `json:"without"` // tests that are not run

	Twins  map[string][]string `json:"twins"`  // classes of values, see twins.py
	Absent []string            `json:"absent"` // modules of the delivery, which is absent, for which there are stand-ins
}

// record is one line of the examiner's report.
type record struct {
	Word string `json:"word"`
	Kind string `json:"kind"` // plan, test, broken, item, ran, touched, end

	ID      string `json:"id"`
	State   string `json:"state"`
	Message string `json:"message"`
	Judge   string `json:"judge"` // what a test or a module of tests needs that the judge cannot do

	Tests   map[string]int `json:"tests"` // test → number of its cases, 0 if the source does not show it
	Certain bool           `json:"certain"`
	Python  string         `json:"python"`
	Pytest  string         `json:"pytest"`

	Layer   string `json:"layer"`   // one of the guild.Layer constants, or empty
	Micros  int64  `json:"us"`      // duration of a test's call
	Drawn   bool   `json:"drawn"`   // a test drew random numbers
	Decided int    `json:"decided"` // as in guild.Test; in the last record, for all tests and for code outside of tests

	Code     int      `json:"code"`
	Reported int      `json:"reported"`
	Notes    []string `json:"notes"`  // what the examiner could not do
	Closed   string   `json:"closed"` // why the subject could no longer be asked

	Twins map[string][]string `json:"twins"` // classes of values that were found
}

// report holds the accepted records of an examiner.
type report struct {
	plan   *record
	tests  []record
	broken []record
	items  []string
	ran    string   // code that may be the delivery's and ran among the tests
	used   []string // tests, and modules of tests, that used a stand-in
	end    *record
	forged int // lines that the examiner did not write, or that came after its last record
}

// Modes of Python tests: the examiner in its own sandbox, or in one process with the delivery.
const (
	modeSplit  = "split"
	modeInproc = "inproc"
)

// pythonMode has the field for the mode. Every criterion has it, because python_mode is a field of the whole file.
type pythonMode struct {
	Mode string `json:"mode,omitempty"` // of pytest; overrides python_mode
}

// pytestCriterion runs the customer's Python tests. Their ids are determined before any submitted code runs, or in a
// sandbox without it. Only those tests count, and each must be reported as passed.
type pytestCriterion struct {
	id, script string
	inproc     bool
}

func readPytest(e *Entry, _ *Criteria) (criterion, error) {
	if err := e.noCases(); err != nil {
		return nil, err
	}
	return &pytestCriterion{id: e.ID, script: cmp.Or(e.Script, "tests"), inproc: e.Mode == modeInproc}, e.only()
}

func (c *pytestCriterion) planned(*examination) map[string]int { return map[string]int{c.id: 1} }

// examine runs the tests in the mode of the criterion. In one process with the delivery, a record without the word can
// only come from delivered code, so it is a breach.
func (c *pytestCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	if !c.inproc {
		return c.split(ctx, j, f)
	}
	f.Because = "the tests ran in the process of the code that they test"
	rep, run, err := c.runInproc(ctx, j, f, false)
	if err != nil {
		return err
	}
	if err := c.believe(ctx, j, f, &rep, &run.Result, run.Stderr); err != nil {
		return err
	}
	if rep.forged > 0 {
		detail := fmt.Sprintf("%d records that are not the judge's own", rep.forged)
		f.Breaches = append(f.Breaches, guild.Breach{Syscall: "results", Detail: detail})
	}
	if f.Fault == "" {
		f.Fault = rep.fault(run.Result)
	}
	return c.blameTests(ctx, j, f, &rep, "")
}

// believe adds the examiner's report on the expected tests to the finding.
func (c *pytestCriterion) believe(ctx context.Context, j *examination, f *Finding, rep *report, res *sandbox.Result, stderr string) error {
	if rep.plan == nil {
		if strings.Contains(stderr, "No module named 'pytest'") {
			return undecided("pytest is not installed for %s: apt-get install python3-pytest", j.python()[0])
		}
		if f.Fault != "" || len(f.Breaches) > 0 || res.Killed != "" {
			f.Tests = missing(c.planned(j))
			return nil
		}
		return undecided("the tests cannot be read: %s", cut(lastLine(stderr)))
	}
	f.Tools = map[string]string{"python": rep.plan.Python, "pytest": rep.plan.Pytest}
	expected, err := c.expected(ctx, j, rep)
	if err != nil {
		return err
	}
	if len(expected) == 0 && len(rep.broken) == 0 {
		return undecided("no tests")
	}
	if len(expected) == 0 { // they cannot be imported, and their source does not show them
		expected = c.planned(j)
	}
	f.Tests = rep.match(expected)
	for _, t := range f.Tests {
		f.Decided += t.Decided
	}
	if rep.end != nil {
		f.Decided = max(f.Decided, rep.end.Decided)
		f.Warnings = append(f.Warnings, rep.end.Notes...)
	}
	return nil
}

// newOrder creates an order. The word and the descriptor are no protection against code that searches for them; they
// only keep out code that does not.
func (c *pytestCriterion) newOrder(collect bool) (order, []byte, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(800))
	if err != nil {
		return order{}, nil, err
	}
	o := order{
		Word: rand.Text(), Script: c.script, Descriptor: 100 + int(n.Int64()), Collect: collect, First: !collect, Seed: rand.Text(), Without: []string{}, Twins: map[string][]string{},
	}
	stdin, err := json.Marshal(o)
	return o, stdin, err
}

// places returns the environment variable with the directories of the tests and of modules, which are searched after
// Python's library. It is an environment variable, because a runner with other directory names translates them there.
func places(more ...string) string {
	return "GUILD_PLACES=" + strings.Join(append([]string{testsDir, judgeDir}, more...), ":")
}

// runInproc runs the examiner in one process with the delivery or, to list the tests, without the delivery.
func (c *pytestCriterion) runInproc(ctx context.Context, j *examination, f *Finding, collect bool) (report, *RunRecord, error) {
	o, stdin, err := c.newOrder(collect)
	if err != nil {
		return report{}, nil, err
	}
	s := sandbox.Spec{
		Argv: j.python(), Program: inprocProgram,
		Env:    environment("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", places(sandbox.Workspace, sandbox.Workspace+"/src")),
		Copies: j.layout.copies(!collect, nil), Limits: j.limits(),
	}
	if collect {
		j.showTests(&s)
	} else {
		j.showTestsBeside(&s)
	}
	run, err := j.run(ctx, f, s, string(stdin))
	if err != nil {
		return report{}, nil, err
	}
	run.Argv = append(j.python(), "-c", inprocProgram.Name)
	return readReport(run.Results, o.Word), run, nil
}

// readReport sorts the records; one that is not allowed at its place counts as forged. The word only keeps out code
// that does not search for it.
func readReport(results, word string) report {
	var rep report
	lines := bufio.NewScanner(strings.NewReader(results))
	lines.Buffer(nil, sandbox.DefaultOutput+1)
	for lines.Scan() {
		var r record
		switch {
		case json.Unmarshal(lines.Bytes(), &r) != nil || r.Word != word || rep.end != nil:
			rep.forged++
		case r.Kind == "plan" && rep.plan == nil:
			rep.plan = &r
		case rep.plan == nil:
			rep.forged++
		case r.Kind == "test":
			rep.tests = append(rep.tests, r)
		case r.Kind == "broken":
			rep.broken = append(rep.broken, r)
		case r.Kind == "item":
			rep.items = append(rep.items, r.ID)
		case r.Kind == "ran":
			rep.ran = cmp.Or(rep.ran, r.Message)
		case r.Kind == "touched":
			rep.used = append(rep.used, r.ID)
		case r.Kind == "end":
			rep.end = &r
		default:
			rep.forged++
		}
	}
	return rep
}

// fault returns why a run did not end properly or contradicts its report, or "".
func (rep *report) fault(res sandbox.Result) string {
	switch {
	case res.Signal != "":
		return "ended by " + res.Signal
	case res.Cut:
		return "the report is too long"
	case rep.end == nil:
		return fmt.Sprintf("the run ended before its tests did, with exit code %d", res.Exit)
	case rep.end.Code != res.Exit || rep.end.Reported != len(rep.tests):
		return "the report does not agree with how the run ended"
	case rep.end.Code > pytestFailed && rep.end.Code != pytestNothing && len(rep.broken) == 0:
		return fmt.Sprintf("pytest failed with exit code %d", rep.end.Code)
	default:
		return ""
	}
}

// expected returns the number of cases of each test. If the source does not show it, an examiner in its own sandbox is
// believed, because no delivered code can influence it. Otherwise, or if the examiner could not import the tests, they
// are listed in a sandbox without the delivery. If that fails too, one case of each test is expected.
func (c *pytestCriterion) expected(ctx context.Context, j *examination, rep *report) (map[string]int, error) {
	if rep.plan.Certain {
		return rep.plan.Tests, nil
	}
	items := rep.items
	if c.inproc || len(items) == 0 || len(rep.broken) > 0 {
		var f Finding
		listed, _, err := c.runInproc(ctx, j, &f, true)
		if err != nil {
			return nil, err
		}
		items = listed.items
	}
	expected := map[string]int{}
	for _, id := range items {
		expected[function(id)]++
	}
	for id, n := range rep.plan.Tests {
		expected[id] = max(expected[id], n)
	}
	return expected, nil
}

// function returns the id of a test without its parameters.
func function(id string) string {
	name, _, _ := strings.Cut(id, "[")
	return name
}

// match compares the reported tests with the expected ones. Those that were not reported come last, as missing.
func (rep *report) match(expected map[string]int) []guild.Test {
	states := map[string]*guild.Test{}
	var tests []*guild.Test
	found := map[string]int{}
	for _, r := range rep.tests {
		t := states[r.ID]
		if n, known := expected[function(r.ID)]; !known {
			continue // a test of the delivery's own
		} else if t == nil && n > 0 && found[function(r.ID)] == n {
			continue // more cases than expected
		}
		if t == nil {
			t = &guild.Test{ID: r.ID, State: r.State, Layer: r.Layer, Micros: r.Micros}
			states[r.ID] = t
			tests = append(tests, t)
			found[function(r.ID)]++
		} else {
			t.State = guild.TestFailed // reported twice: a failing teardown, or a forgery
		}
		t.Decided = max(t.Decided, r.Decided)
		if r.Drawn {
			t.Exposure = guild.Drawn
		}
		if t.State != guild.TestPassed {
			t.Message = cut(r.Message)
		}
	}
	all := make([]guild.Test, 0, len(tests))
	for _, t := range tests {
		all = append(all, *t)
	}
	left := map[string]int{}
	for id, n := range expected {
		if n = max(n, 1) - found[id]; n > 0 {
			left[id] = n
		}
	}
	for _, t := range missing(left) {
		for _, b := range rep.broken {
			if strings.HasPrefix(t.ID, b.ID) || len(tests) == 0 && len(expected) == 1 {
				t.Message = cut(b.Message)
			}
		}
		all = append(all, t)
	}
	return all
}

// missing returns missing tests in the order of their ids; count has the number for each id.
func missing(count map[string]int) []guild.Test {
	var tests []guild.Test
	for _, id := range slices.Sorted(maps.Keys(count)) {
		for i := range count[id] {
			t := guild.Test{ID: id, State: guild.TestMissing}
			if count[id] > 1 {
				t.ID = fmt.Sprintf("%s[%d]", id, i)
			}
			tests = append(tests, t)
		}
	}
	return tests
}
