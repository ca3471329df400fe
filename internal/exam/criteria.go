package exam

import (
	"encoding/json"
	"fmt"
	"time"
)

// Frameworks that a criterion can be judged by.
const (
	shell    = "shell"
	pytest   = "pytest"
	goTest   = "go-test"
	jest     = "jest"
	nodeTest = "node-test"
	custom   = "custom"
	ioCase   = "io"
	apiTest  = "api_test"
	sqlCheck = "sql_check"
)

var frameworks = []string{shell, pytest, goTest, jest, nodeTest, custom, ioCase, apiTest, sqlCheck}

// How Python tests are run: the examiner in a sandbox of its own, or beside the delivery in one process.
const (
	modeSplit  = "split"
	modeInproc = "inproc"
)

// Engines of a sql_check.
const (
	sqlite   = "sqlite"
	postgres = "postgresql"
)

// reportTAP is the report of a shell or custom criterion that prints one line for each test.
const reportTAP = "tap"

// defaultDatabase is where a sql_check finds the file unless it says otherwise.
const defaultDatabase = "database.sqlite"

// Bounds of what is read.
const (
	maxCriteriaFile = 1 << 20
	maxCriteria     = 1000 // and cases, and tests of one criterion
	defaultTime     = 10   // seconds
	maxTime         = 3600 // seconds
	maxPattern      = 1000 // bytes of a regular expression
	maxCaseFiles    = 100
	defaultPort     = 8080
)

// Criteria is tests/criteria.json (the Nutshell specification, section 9), the part of it that the judge reads.
// docs/CRITERIA.md explains it, with an example of each kind that a test runs.
//
// A type that is not a framework's name is the bundle's own word; such a criterion is judged by test_framework,
// and needs a script. A bundle without criteria.json has its acceptance.test_scripts run as shell criteria.
type Criteria struct {
	Version    string      `json:"criteria_version"`
	Framework  string      `json:"test_framework"` // what a criterion without a type of its own is judged by
	Verifiable *bool       `json:"auto_verifiable,omitempty"`
	Review     bool        `json:"human_review_required,omitempty"`
	TimeLimit  int         `json:"time_limit_seconds"`    // processor time of each run, and wall time with a few seconds to start; 10 if absent
	PythonMode string      `json:"python_mode,omitempty"` // split if empty, or inproc
	Service    *Service    `json:"service,omitempty"`     // what api_test criteria without one of their own ask
	Criteria   []Criterion `json:"criteria"`
}

// Criterion is one entry of Criteria. What a case may have stands in the criterion itself when it is a single
// case; with cases, the criterion's own arguments, files and headers hold for each of them.
type Criterion struct {
	Case
	Cases Cases `json:"cases,omitempty"`

	Type   string `json:"type"`
	Mode   string `json:"mode,omitempty"` // of pytest, instead of python_mode
	Review bool   `json:"human_review_required,omitempty"`

	Service         // its script is relative to the bundle
	Database string `json:"database,omitempty"` // of sql_check: the file below the workspace
	Engine   string `json:"engine,omitempty"`   // of sql_check: sqlite if empty, or postgresql
	Report   string `json:"report,omitempty"`   // of shell and custom: empty, or tap
	Tests    int    `json:"tests,omitempty"`    // of tap, jest and node-test: how many there must be

	Framework    string `json:"-"` // what judges it, once resolved
	Unverifiable string `json:"-"` // why no program can judge it; empty if one can

	usual bool // the bundle does not name the database of a sql_check
}

// Service is a command, or a script of the bundle, and the port of a service that it starts.
type Service struct {
	Script  string   `json:"script,omitempty"`
	Command []string `json:"command,omitempty"`
	Port    int      `json:"port,omitempty"` // 8080 if 0
}

// Case is one test of a criterion of type io, api_test or sql_check.
type Case struct {
	ID          string `json:"id"`
	Description string `json:"description,omitempty"`
	Layer       string `json:"layer,omitempty"` // one of the guild.Layer constants

	Args  []string          `json:"args,omitempty"` // of io, after the command
	Stdin string            `json:"stdin,omitempty"`
	Files map[string]string `json:"files,omitempty"` // of io, laid over the workspace: name → content

	Method   string            `json:"method,omitempty"`   // of api_test; GET, or POST if there is a body
	Endpoint string            `json:"endpoint,omitempty"` // "/users?page=2", "POST /users" or "http://127.0.0.1:8080/users"
	Headers  map[string]string `json:"headers,omitempty"`
	Body     json.RawMessage   `json:"body,omitempty"` // a string is sent as it is, anything else as JSON

	Query string `json:"query,omitempty"` // of sql_check

	Expected Expected `json:"expected,omitzero"`
}

// Cases are the cases of a criterion.
type Cases []Case

// UnmarshalJSON refuses members that it does not know: a misspelt one would let a case pass that says nothing.
func (c *Cases) UnmarshalJSON(b []byte) error {
	if err := strict(b, (*[]Case)(c)); err != nil {
		return fmt.Errorf("cases: %w", err)
	}
	return nil
}

// timeLimit is what one run may take.
func (c Criteria) timeLimit() time.Duration { return time.Duration(c.TimeLimit) * time.Second }

// scripts are the criteria of a bundle that only lists its scripts.
func scripts(list []string) (Criteria, error) {
	c := Criteria{Framework: shell}
	for _, s := range list {
		c.Criteria = append(c.Criteria, Criterion{Case: Case{ID: s}, Type: shell, Service: Service{Script: s}})
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
