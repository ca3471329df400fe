package exam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Frameworks that a criterion can be judged by.
const (
	shell  = "shell"
	pytest = "pytest"
	goTest = "go-test"
	ioCase = "io"
)

// Bounds of what is read.
const (
	maxCriteriaFile = 1 << 20
	maxCriteria     = 1000
	defaultTime     = 10   // seconds
	maxTime         = 3600 // seconds
)

// Criteria is tests/criteria.json (the Nutshell specification, section 9), the part of it that the judge reads:
//
//	{
//	  "criteria_version": "0.2.0",
//	  "test_framework": "pytest",        shell, pytest, go-test or io; what a criterion without a type of
//	                                     its own is judged by
//	  "time_limit_seconds": 3,           processor time of each criterion's run and, with a few seconds to
//	                                     start, wall time; 10 if absent, 3600 at most
//	  "criteria": [
//	    {"id": "AC-1", "type": "pytest", "script": "tests/test_solution.py"},
//	    {"id": "AC-2", "type": "shell", "script": "tests/scripts/check.sh", "expected": {"exit_code": 0}},
//	    {"id": "AC-3", "type": "go-test", "script": "tests/stack_test.go"},
//	    {"id": "AC-4", "type": "io", "command": ["python3", "wc.py", "-l"], "stdin": "a\nb\n",
//	     "expected": {"stdout": "2\n"}}
//	  ]
//	}
//
// A pytest script is a file or directory below tests/, or one test as "tests/test_x.py::test_y". A go-test
// script is a file or directory below tests/, which is laid over the workspace: tests/queue/queue_test.go
// becomes queue/queue_test.go. A shell script runs in the workspace, by the interpreter of its #! line or by
// sh. Without a script, pytest and go-test take all of tests/. An io command runs in the workspace and sees no
// tests at all.
//
// A shell script and an io command pass when they exit with expected.exit_code (0 if absent), print exactly
// expected.stdout if it is there, and contain expected.stdout_contains if that is. An expectation that is none
// of these is not ignored: the criterion cannot be judged.
//
// A type that is not a framework's name (the format's examples have api_test) is the bundle's own word; such a
// criterion is judged by test_framework, and needs a script.
//
// A bundle without criteria.json has its acceptance.test_scripts run as shell criteria.
type Criteria struct {
	Version   string      `json:"criteria_version"`
	Framework string      `json:"test_framework"`
	TimeLimit int         `json:"time_limit_seconds"`
	Criteria  []Criterion `json:"criteria"`
}

// Criterion is one entry of Criteria.
type Criterion struct {
	ID          string   `json:"id"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Script      string   `json:"script"` // relative to the bundle
	Command     []string `json:"command"`
	Stdin       string   `json:"stdin"`
	Expected    Expected `json:"expected"`

	Framework string `json:"-"` // what judges it, once resolved
}

// Expected is what a shell script or an io command must do.
type Expected struct {
	ExitCode       int     `json:"exit_code"`
	Stdout         *string `json:"stdout"`
	StdoutContains string  `json:"stdout_contains"`
}

// UnmarshalJSON refuses what the judge would otherwise silently not check.
func (e *Expected) UnmarshalJSON(b []byte) error {
	type plain Expected
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(e))
}

// readCriteria finds and checks the criteria of an unpacked request bundle.
func readCriteria(bundleDir string) (Criteria, error) {
	root, err := os.OpenRoot(bundleDir)
	if err != nil {
		return Criteria{}, err
	}
	defer root.Close()
	var manifest struct {
		Acceptance struct {
			File    string   `json:"criteria_file"`
			Scripts []string `json:"test_scripts"`
		} `json:"acceptance"`
	}
	if err := readJSON(root, "nutshell.json", &manifest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Criteria{}, undecided("nutshell.json: %w", err)
	}
	a := manifest.Acceptance
	file := a.File
	if file == "" {
		file = "tests/criteria.json"
	}
	b, err := readSome(root, file)
	switch {
	case err == nil:
		return parseCriteria(b)
	case errors.Is(err, fs.ErrNotExist) && a.File == "" && len(a.Scripts) > 0:
		return scripts(a.Scripts)
	default:
		return Criteria{}, undecided("acceptance criteria: %w", err)
	}
}

// readJSON reads a small file of the bundle.
func readJSON(root *os.Root, name string, v any) error {
	b, err := readSome(root, name)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func readSome(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(path.Clean(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCriteriaFile+1))
	if err == nil && len(b) > maxCriteriaFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxCriteriaFile)
	}
	return b, err
}

// timeLimit is what one run may take.
func (c Criteria) timeLimit() time.Duration { return time.Duration(c.TimeLimit) * time.Second }

// scripts are the criteria of a bundle that only lists its scripts.
func scripts(list []string) (Criteria, error) {
	c := Criteria{Framework: shell}
	for _, s := range list {
		c.Criteria = append(c.Criteria, Criterion{ID: s, Type: shell, Script: s})
	}
	return c, c.resolve()
}

// parseCriteria reads and checks criteria.json.
func parseCriteria(b []byte) (Criteria, error) {
	var c Criteria
	if err := json.Unmarshal(b, &c); err != nil {
		return Criteria{}, undecided("criteria: %w", err)
	}
	return c, c.resolve()
}

// resolve fills in what was left out and refuses what cannot be judged.
func (c *Criteria) resolve() error {
	if c.TimeLimit == 0 {
		c.TimeLimit = defaultTime
	}
	switch {
	case c.TimeLimit < 1 || c.TimeLimit > maxTime:
		return undecided("criteria: time_limit_seconds %d: want 1 to %d", c.TimeLimit, maxTime)
	case len(c.Criteria) == 0:
		return undecided("criteria: there are none")
	case len(c.Criteria) > maxCriteria:
		return undecided("criteria: %d are more than %d", len(c.Criteria), maxCriteria)
	}
	for i := range c.Criteria {
		if err := c.Criteria[i].resolve(c.Framework, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *Criterion) resolve(framework string, i int) error {
	if c.ID == "" {
		c.ID = fmt.Sprintf("AC-%d", i+1)
	}
	known := []string{shell, pytest, goTest, ioCase}
	switch {
	case slices.Contains(known, c.Type):
		c.Framework = c.Type
	case slices.Contains(known, framework):
		c.Framework = framework
	default:
		return undecided("criterion %s: no framework %q", c.ID, framework)
	}
	switch {
	case c.Framework == ioCase && len(c.Command) == 0:
		return undecided("criterion %s: an io criterion needs a command", c.ID)
	case c.Framework == ioCase || c.Script == "" && c.Framework != shell && c.Type == c.Framework:
		return nil
	case c.Script == "":
		return undecided("criterion %s: %q needs a script", c.ID, c.Type)
	}
	return c.resolveScript()
}

// resolveScript wants a place below tests/, the only part of a bundle that the judge shows to a run as tests.
func (c *Criterion) resolveScript() error {
	file, test, selected := strings.Cut(c.Script, "::")
	clean := path.Clean(file)
	if clean != "tests" && !strings.HasPrefix(clean, "tests/") || strings.ContainsRune(clean, 0) {
		return undecided("criterion %s: script %q is not below tests/", c.ID, c.Script)
	}
	if c.Script = clean; selected {
		c.Script += "::" + test
	}
	return nil
}

// met compares what a run printed with what was expected, and says why it differs.
func (e Expected) met(exit int, stdout string) (why string) {
	switch {
	case exit != e.ExitCode:
		return fmt.Sprintf("exit code %d, want %d", exit, e.ExitCode)
	case e.Stdout != nil && stdout != *e.Stdout:
		return fmt.Sprintf("stdout %s, want %s", quote(stdout), quote(*e.Stdout))
	case !strings.Contains(stdout, e.StdoutContains):
		return fmt.Sprintf("stdout %s does not contain %s", quote(stdout), quote(e.StdoutContains))
	default:
		return ""
	}
}

// quote makes text short and printable for a message.
func quote(s string) string {
	const most = 150
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// maxMessage is how long a guild.Test's message may be, in bytes.
const maxMessage = 500

// cut shortens a message without breaking a character.
func cut(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage]
	}
	return strings.ToValidUTF8(s, "")
}
