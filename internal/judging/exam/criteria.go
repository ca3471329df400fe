package exam

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"guild"
)

// Limits on a criteria file.
const (
	maxCriteriaFile = 1 << 20
	maxCriteria     = 1000 // also limits the cases, and the tests of one criterion
	defaultTime     = 10   // seconds
	maxTime         = 3600 // seconds
)

// criterion is a parsed and checked criterion. Each framework has its own struct, in its own file, with only the fields
// of that framework.
type criterion interface {
	// planned returns the tests of a criterion that was not run, as far as their ids are known without running it: id →
	// number of tests with that id.
	planned(j *examination) map[string]int

	// examine runs the criterion and adds the results to f. An error means that the run says nothing about the delivery.
	examine(ctx context.Context, j *examination, f *Finding) error
}

// framework is a kind of criterion.
type framework struct {
	name   string                                         // name in a criterion's type or test_framework
	counts bool                                           // the bundle may give the number of tests
	read   func(e *Entry, c *Criteria) (criterion, error) // parses e, and sets the defaults
}

// frameworks lists all frameworks. CONTRIBUTING.md explains how to add one.
var frameworks = []framework{
	{name: "shell", read: readShell},
	{name: "pytest", read: readPytest},
	{name: "go-test", read: readGoTest},
	{name: "jest", read: readJest, counts: true},
	{name: "node-test", read: readNodeTest, counts: true},
	{name: "custom", read: readCustom},
	{name: "io", read: readIO},
	{name: "api_test", read: readAPI},
	{name: "sql_check", read: readSQL},
}

// Criteria is the part of tests/criteria.json (the Nutshell specification, section 9) that the judge reads.
// docs/CRITERIA.md explains it, with a tested example of each framework.
//
// A type that is not a framework is a word of the bundle's own; test_framework then judges the criterion, which needs a
// script. For a bundle without criteria.json, the judge runs acceptance.test_scripts as shell criteria.
type Criteria struct {
	Version    string   `json:"criteria_version"`
	Framework  string   `json:"test_framework"` // framework of criteria whose type is not a framework
	Verifiable *bool    `json:"auto_verifiable,omitempty"`
	Review     bool     `json:"human_review_required,omitempty"`
	TimeLimit  int      `json:"time_limit_seconds"`    // processor time of each run; the wall time is a few seconds longer, for the start; 10 if absent
	PythonMode string   `json:"python_mode,omitempty"` // split (default) or inproc
	Service    *Service `json:"service,omitempty"`     // for api_test criteria without a service
	Criteria   []Entry  `json:"criteria"`
}

// Entry is one criterion of the file, with defaults filled in; the evidence contains it in this form. A single case may
// be in the entry itself. With several cases, the entry's own arguments, files and headers apply to each of them. The
// embedded structs have fields of particular frameworks; other frameworks ignore them.
type Entry struct {
	Case
	Cases Cases `json:"cases,omitempty"`

	Type string `json:"type"`
	pythonMode
	nodeFields
	Review bool `json:"human_review_required,omitempty"`

	Service // its script is relative to the bundle
	databaseFields
	reportFields

	Framework    string `json:"-"` // name of the framework that judges it
	Unverifiable string `json:"-"` // why no program can judge it; empty if one can

	criterion criterion
	hidden    bool // from tests/hidden/criteria.json
}

// Service is a command, or a script of the bundle, that starts a service on a port.
type Service struct {
	Script  string   `json:"script,omitempty"`
	Command []string `json:"command,omitempty"`
	Port    int      `json:"port,omitempty"` // 8080 if 0
}

// empty reports whether there is neither a command nor a script.
func (s Service) empty() bool { return s.Script == "" && len(s.Command) == 0 }

// Case is one test of a criterion of type io, api_test or sql_check.
type Case struct {
	caseName
	ioInput
	requestFields
	queryFields
	Expected Expected `json:"expected,omitzero"`
}

// caseName has the fields that a case has in every framework.
type caseName struct {
	ID          string `json:"id"`
	Description string `json:"description,omitempty"`
	Layer       string `json:"layer,omitempty"` // one of the guild.Layer constants
}

// test returns the test of a case, with a state.
func (n caseName) test(state, message string) guild.Test {
	return guild.Test{ID: n.ID, State: state, Message: cut(message), Layer: n.Layer}
}

// tests returns the tests of cases that all have the same result.
func tests[C interface {
	test(state, message string) guild.Test
}](cases []C, state, message string) []guild.Test {
	var list []guild.Test
	for _, one := range cases {
		list = append(list, one.test(state, message))
	}
	return list
}

// ids returns the ids of the cases' tests, each with a count of one.
func ids[C interface {
	test(state, message string) guild.Test
}](cases []C) map[string]int {
	count := map[string]int{}
	for _, one := range cases {
		count[one.test("", "").ID] = 1
	}
	return count
}

// Cases lists the cases of a criterion.
type Cases []Case

// UnmarshalJSON rejects unknown members: otherwise a case with a misspelt expectation would always pass.
func (c *Cases) UnmarshalJSON(b []byte) error {
	if err := strict(b, (*[]Case)(c)); err != nil {
		return fmt.Errorf("cases: %w", err)
	}
	return nil
}

// Expected is the expected result of a run, a request or a query. All of its parts must hold.
type Expected struct {
	outputExpected
	filesExpected
	answerExpected
	rowsExpected
}

// UnmarshalJSON rejects unknown members, which the judge would otherwise ignore without a notice.
func (e *Expected) UnmarshalJSON(b []byte) error {
	type plain Expected
	if err := strict(b, (*plain)(e)); err != nil {
		return fmt.Errorf("expected: %w", err)
	}
	return nil
}

// given returns the names of the expectations that are set.
func (e Expected) given() []string {
	return slices.Concat(e.outputExpected.given(), e.filesExpected.given(), e.answerExpected.given(), e.rowsExpected.given())
}

// names returns the keys with the value true, sorted.
func names(there map[string]bool) []string {
	var list []string
	for name, is := range there {
		if is {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// strict decodes JSON and rejects unknown members.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// timeLimit returns the limit on the processor time of one run.
func (c Criteria) timeLimit() time.Duration { return time.Duration(c.TimeLimit) * time.Second }

// parseCriteria parses and checks criteria.json. Its errors match ErrUndecided.
func parseCriteria(b []byte) (Criteria, error) {
	var c Criteria
	if err := json.Unmarshal(b, &c); err != nil {
		return Criteria{}, undecided("criteria: %w", err)
	}
	return c, c.resolve()
}

// resolve sets defaults and rejects criteria that cannot be judged.
func (c *Criteria) resolve() error {
	c.TimeLimit = cmp.Or(c.TimeLimit, defaultTime)
	if c.TimeLimit < 1 || c.TimeLimit > maxTime {
		return undecided("criteria: time_limit_seconds %d: want 1 to %d", c.TimeLimit, maxTime)
	}
	if len(c.Criteria) == 0 {
		return undecided("no criteria")
	}
	seen, total := map[string]bool{}, 0
	for i := range c.Criteria {
		e := &c.Criteria[i]
		e.ID = cmp.Or(e.ID, fmt.Sprintf("AC-%d", i+1))
		// Each of these becomes a test in the verdict, so a bundle must not ask for too many.
		total += max(1, len(e.Cases), e.Tests)
		if total > maxCriteria {
			return undecided("criteria: more than %d of them and their cases", maxCriteria)
		}
		if err := e.resolve(c); err != nil {
			return undecided("criterion %s: %w", e.ID, err)
		}
		for _, one := range e.all() {
			if seen[one.ID] {
				return undecided("criterion %s: duplicate id %s", e.ID, one.ID)
			}
			seen[one.ID] = true
		}
	}
	return nil
}

// resolve selects the framework of the entry, checks the fields that all frameworks share, and lets the framework parse
// the others.
func (e *Entry) resolve(all *Criteria) error {
	i := slices.IndexFunc(frameworks, func(f framework) bool { return f.name == e.Type })
	if i < 0 {
		i = slices.IndexFunc(frameworks, func(f framework) bool { return f.name == all.Framework })
	}
	if i < 0 {
		return fmt.Errorf("no framework %q", cmp.Or(e.Type, all.Framework))
	}
	e.Framework = frameworks[i].name
	if err := e.cleanScript(); err != nil {
		return err
	}
	e.Mode = cmp.Or(e.Mode, all.PythonMode, modeSplit)
	if e.Mode != modeSplit && e.Mode != modeInproc {
		return fmt.Errorf("mode %q is neither %s nor %s", e.Mode, modeSplit, modeInproc)
	}
	if len(e.Cases) > 0 && len(e.Expected.given()) > 0 {
		return errors.New("expected and cases are mutually exclusive")
	}
	for i := range e.Cases {
		e.Cases[i].ID = cmp.Or(e.Cases[i].ID, strconv.Itoa(i+1))
	}
	for _, one := range e.all() {
		if one.Layer != "" && !slices.Contains(layers(), one.Layer) {
			return fmt.Errorf("case %s: no layer %q", one.ID, one.Layer)
		}
		if err := cmp.Or(checkFiles(one.ioInput.Files), checkFiles(one.Expected.Files)); err != nil {
			return fmt.Errorf("case %s: %w", one.ID, err)
		}
	}
	if e.Tests < 0 || e.Tests > 0 && e.Report != reportTAP && !frameworks[i].counts {
		return fmt.Errorf("tests %d: only a tap report, jest and node-test have a number of them", e.Tests)
	}
	var err error
	e.criterion, err = frameworks[i].read(e, all)
	return err
}

// cleanScript checks that the script is below tests/, the only part of a bundle that the judge shows to a run as tests.
// The script may end with "::" and the name of a test.
func (e *Entry) cleanScript() error {
	if e.Script == "" {
		return nil
	}
	file, test, selected := strings.Cut(e.Script, "::")
	clean := path.Clean(file)
	if clean != "tests" && !strings.HasPrefix(clean, "tests/") || strings.ContainsRune(clean, 0) {
		return fmt.Errorf("script %q is not below tests/", e.Script)
	}
	if selected {
		clean += "::" + test
	}
	e.Script = clean
	return nil
}

// noCases rejects cases, and a type of the bundle's own without a script.
func (e *Entry) noCases() error {
	if e.Script == "" && e.Type != "" && e.Type != e.Framework {
		return fmt.Errorf("%q needs a script", e.Type)
	}
	if len(e.Cases) > 0 {
		return fmt.Errorf("a %s criterion has no cases", e.Framework)
	}
	return nil
}

// only rejects expectations that the entry's framework would not check. Exit code 0 is allowed, because it is always
// expected.
func (e *Entry) only(checked ...string) error {
	for _, one := range e.all() {
		for _, name := range one.Expected.given() {
			if name == "exit_code" && *one.Expected.ExitCode == 0 || slices.Contains(checked, name) {
				continue
			}
			return fmt.Errorf("a %s criterion cannot check expected.%s", e.Framework, name)
		}
	}
	return nil
}

// all returns the cases of a criterion, at least one. A single case has the criterion's id; several have ids below it.
func (e *Entry) all() []Case {
	if len(e.Cases) == 0 {
		return []Case{e.Case}
	}
	list := slices.Clone(e.Cases)
	for i := range list {
		one := &list[i]
		one.ID = e.ID + "/" + one.ID
		one.Layer = cmp.Or(one.Layer, e.Layer)
		one.ioInput = e.ioInput.with(one.ioInput)
		one.requestFields = e.requestFields.with(one.requestFields)
	}
	return list
}

// overlay merges two maps; values of the second take precedence.
func overlay(a, b map[string]string) map[string]string {
	both := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			both[k] = v
		}
	}
	return both
}

// local reports whether a name is a clean relative path of a file below a directory.
func local(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && name != "." && !strings.ContainsRune(name, 0)
}
