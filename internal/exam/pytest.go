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
	"guild/internal/sandbox"
)

// examiner is the program that runs pytest inside; its own comment says what it promises.
//
//go:embed examiner.py
var examiner string

// Exit codes of pytest: some tests failed, none were found.
const (
	pytestFailed  = 1
	pytestNothing = 5
)

// order is what the examiner reads from standard input before anything else.
type order struct {
	Word       string   `json:"word"` // marks the examiner's records
	Root       string   `json:"root"`
	Script     string   `json:"script"`
	Path       []string `json:"path"`       // appended to sys.path
	Descriptor int      `json:"descriptor"` // where it hides the results
	Collect    bool     `json:"collect"`    // only list the tests
}

// record is one line of what the examiner reports.
type record struct {
	Word string `json:"word"`
	Kind string `json:"kind"` // plan, test, broken, item, end

	ID      string `json:"id"`
	State   string `json:"state"`
	Message string `json:"message"`

	Tests   map[string]int `json:"tests"` // test → how many of it, 0 if its source does not tell
	Certain bool           `json:"certain"`
	Python  string         `json:"python"`
	Pytest  string         `json:"pytest"`

	Code     int `json:"code"`
	Reported int `json:"reported"`
}

// report is what is believed of the examiner's records.
type report struct {
	plan   *record
	tests  []record
	broken []record
	items  []string
	end    *record
	forged int // lines that were not the examiner's, or came when it had nothing more to say
}

// pytest runs the customer's tests beside the delivery. Their ids are fixed before any submitted code runs;
// only those count, and each must be reported as passed.
func (j *examination) pytest(ctx context.Context, c Criterion, f *Finding) error {
	script := cmp.Or(c.Script, "tests")
	rep, run, err := j.examinePytest(ctx, f, script, false)
	if err != nil {
		return err
	}
	if rep.plan == nil {
		if f.Fault != "" || len(f.Breaches) > 0 {
			f.Tests = missing(map[string]int{c.ID: 1})
			return nil
		}
		return undecided("the tests cannot be read: %s", cut(lastLine(run.Stderr)))
	}
	f.Tools = map[string]string{"python": rep.plan.Python, "pytest": rep.plan.Pytest}
	expected, err := j.expectedTests(ctx, rep.plan, script)
	if err != nil {
		return err
	}
	f.Tests = rep.match(expected)
	if rep.forged > 0 {
		detail := fmt.Sprintf("%d records that are not the judge's own", rep.forged)
		f.Breaches = append(f.Breaches, guild.Breach{Syscall: "results", Detail: detail})
	}
	if f.Fault == "" {
		f.Fault = rep.fault(run.Result)
	}
	return nil
}

// examinePytest runs the examiner, with the delivery or, to list the tests, without.
func (j *examination) examinePytest(ctx context.Context, f *Finding, script string, collect bool) (report, *RunRecord, error) {
	o := order{
		Word: rand.Text(), Root: judgeDir, Script: script, Collect: collect,
		Path:       []string{testsDir, judgeDir, sandbox.Workspace, sandbox.Workspace + "/src"},
		Descriptor: 100 + random(800),
	}
	stdin, err := json.Marshal(o)
	if err != nil {
		return report{}, nil, err
	}
	python := cmp.Or(j.engine.Python, "/usr/bin/python3")
	run, err := j.run(ctx, f, sandbox.Spec{
		Argv:   []string{python, "-I", "-B", "-c", examiner},
		Env:    environment("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"),
		Mounts: j.layout.tests,
		Copies: j.layout.copies(!collect, nil),
		Limits: j.limits(),
	}, string(stdin))
	if err != nil {
		return report{}, nil, err
	}
	run.Argv = []string{python, "-I", "-B", "-c", "examiner.py"} // its text would drown the evidence
	if strings.Contains(run.Stderr, "No module named 'pytest'") && run.Results == "" {
		return report{}, nil, undecided("pytest is not installed for %s: apt-get install python3-pytest", python)
	}
	return readReport(run.Results, o.Word), run, nil
}

// random is a number below n.
func random(n int64) int {
	i, err := rand.Int(rand.Reader, big.NewInt(n))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return int(i.Int64())
}

// readReport sorts the records. The word only keeps out who never looked for it.
func readReport(results, word string) report {
	var rep report
	lines := bufio.NewScanner(strings.NewReader(results))
	lines.Buffer(nil, sandbox.DefaultOutput+1)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.Word != word || rep.end != nil || !rep.take(r) {
			rep.forged++
		}
	}
	return rep
}

// take keeps a record in its place; false if it has none there.
func (rep *report) take(r record) bool {
	switch {
	case r.Kind == "plan" && rep.plan == nil:
		rep.plan = &r
	case rep.plan == nil:
		return false
	case r.Kind == "test":
		rep.tests = append(rep.tests, r)
	case r.Kind == "broken":
		rep.broken = append(rep.broken, r)
	case r.Kind == "item":
		rep.items = append(rep.items, r.ID)
	case r.Kind == "end":
		rep.end = &r
	default:
		return false
	}
	return true
}

// fault says why a report is not one of a run that came to its proper end.
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

// expectedTests is how many of each test there must be. Where the source does not tell, the tests are listed in
// a sandbox without the delivery; if they cannot even be imported there, one of each is expected.
func (j *examination) expectedTests(ctx context.Context, plan *record, script string) (map[string]int, error) {
	if plan.Certain {
		return plan.Tests, someTests(plan.Tests)
	}
	var f Finding
	rep, _, err := j.examinePytest(ctx, &f, script, true)
	if err != nil {
		return nil, err
	}
	expected := map[string]int{}
	for _, id := range rep.items {
		expected[function(id)]++
	}
	for id, n := range plan.Tests {
		expected[id] = max(expected[id], n)
	}
	return expected, someTests(expected)
}

func someTests(expected map[string]int) error {
	if len(expected) == 0 {
		return undecided("there are no tests")
	}
	return nil
}

// function is a test's id without the parameters.
func function(id string) string {
	name, _, _ := strings.Cut(id, "[")
	return name
}

// match holds what was reported against what was expected.
func (rep *report) match(expected map[string]int) []guild.Test {
	states := map[string]*guild.Test{}
	var tests []*guild.Test
	found := map[string]int{}
	for _, r := range rep.tests {
		t := states[r.ID]
		if n, known := expected[function(r.ID)]; !known {
			continue // the delivery's own
		} else if t == nil && n > 0 && found[function(r.ID)] == n {
			continue // more of it than there are
		}
		if t == nil {
			t = &guild.Test{ID: r.ID, State: r.State}
			states[r.ID] = t
			tests = append(tests, t)
			found[function(r.ID)]++
		} else {
			t.State = guild.TestFailed // said twice: a failing teardown, or a forgery
		}
		if t.State != guild.TestPassed {
			t.Message = cut(r.Message)
		}
	}
	all := make([]guild.Test, 0, len(tests))
	for _, t := range tests {
		all = append(all, *t)
	}
	return append(all, rep.unreported(expected, found)...)
}

// unreported are the tests that nothing was heard of.
func (rep *report) unreported(expected, found map[string]int) []guild.Test {
	left := map[string]int{}
	for id, n := range expected {
		if n = max(n, 1) - found[id]; n > 0 {
			left[id] = n
		}
	}
	tests := missing(left)
	for i := range tests {
		for _, b := range rep.broken {
			if strings.HasPrefix(tests[i].ID, b.ID) {
				tests[i].Message = cut(b.Message)
			}
		}
	}
	return tests
}

// missing makes the tests of a count, in order.
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
