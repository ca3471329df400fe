// Package exam runs the acceptance criteria of a request bundle on a delivery, in sandboxes, and determines which of
// them hold. It defines how each framework is run and how strong its result is; the judge decides what the results say
// about the provider. The package never trusts a delivery: only a sandbox.Runner runs it; delivered files cannot
// replace a test or the examiner's configuration; and results are compared outside the sandbox if the criterion allows
// it.
//
// # Files of a run
//
// The bundle's files/ and, over it, the delivery's delivery/artifacts/ are copied to the workspace of a new sandbox,
// where the criteria run: artifacts/solution.py replaces files/solution.py, and so does artifacts/files/solution.py.
// The bundle's tests/, without criteria.json, can be read at /judge/tests. Python finds modules in its library, then in
// tests/, in the workspace, and in the workspace's src/.
//
// # Strength of a finding
//
// A finding is strong if what its tests prove was decided outside the process that ran the delivery: by a comparison with
// values that the delivery could not see (io, api_test, sql_check of a file), or by tests in their own sandbox (pytest,
// node-test, jest, external Go tests). It is weak if tests ran in the process of the judged code (other Go tests, mode
// inproc) or beside it (shell, custom), because hostile code can forge their results. docs/JUDGE.md has the whole rule.
//
// # Frameworks
//
// Each framework has a file with its fields, their checks, its expected tests and its run, and a line in the table in
// criteria.go.
package exam

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
)

// Engine runs the acceptance criteria of request bundles on deliveries. Only Runner is required.
type Engine struct {
	Runner sandbox.Runner

	Python string // the real interpreter, not a wrapper script; /usr/bin/python3 if empty
	Go     string // the Go installation; the one on PATH or /usr/local/go if empty
	Jest   string // directory whose node_modules has jest, for bundles without it; the one that is installed if empty
	Cache  string // directory for a build cache of Go's standard library; no cache if empty

	patience  time.Duration // for a run of a test that runs again, in tests of this package
	preparing sync.Mutex    // held while Cache is filled
}

// ErrUndecided means that the criteria cannot be decided on this machine, whatever the delivery is: they are missing or
// malformed, or need a tool that is not installed.
var ErrUndecided = errors.New("undecided")

func undecided(format string, a ...any) error {
	return fmt.Errorf("%w: %w", ErrUndecided, fmt.Errorf(format, a...))
}

// Examine runs the criteria of the request bundle unpacked in bundleDir on the hostile delivery unpacked in
// deliveryDir. An error means that the examination failed and says nothing about the delivery: it matches ErrUndecided,
// or is a *sandbox.UnusableError if there is no sandbox.
func (e *Engine) Examine(ctx context.Context, bundleDir, deliveryDir string) (Report, error) {
	return e.ExamineHidden(ctx, bundleDir, deliveryDir, "")
}

// ExamineHidden does the same as Examine, and also runs the customer's hidden tests. The bundle contains only
// commitments to them. hiddenDir is the tests/hidden of the directory from which the bundle was packed, with the file
// of salts; if it is empty, bundleDir's tests/hidden is used, if any. A hidden test that is missing or does not match
// its commitment leaves the criteria undecided: otherwise the customer could change a test after it has seen the
// delivery.
func (e *Engine) ExamineHidden(ctx context.Context, bundleDir, deliveryDir, hiddenDir string) (r Report, err error) {
	if e.Runner == nil {
		return Report{}, errNoSandbox
	}
	j := &examination{engine: e, progress: toTell(ctx)}
	for dir, given := range map[*string]string{&j.bundle: bundleDir, &deliveryDir: deliveryDir} {
		if *dir, err = filepath.Abs(given); err != nil {
			return Report{}, err
		}
	}
	defer func() { err = errors.Join(err, j.clean()) }()
	if err := j.readBundle(ctx, hiddenDir); err != nil {
		return Report{}, err
	}
	if err := j.layOut(deliveryDir); err != nil {
		return Report{}, err
	}
	j.unverifiable()
	r = Report{
		Criteria: j.criteria, Delivered: j.layout.Delivered,
		Claims: claims(deliveryDir), Person: j.person(), Hidden: j.hidden,
	}
	if r.Findings, err = j.examineAll(ctx); err != nil {
		return Report{}, err
	}
	if len(r.Findings) > 0 {
		r.Findings[0].Warnings = append(r.Findings[0].Warnings, j.warnings...)
	}
	return r, nil
}

var errNoSandbox = &sandbox.UnusableError{Reason: "the judge has no sandbox", Remedy: "guild doctor says what to install"}

// unverifiable notes which criteria cannot be verified, where that depends on the files.
func (j *examination) unverifiable() {
	for i := range j.criteria.Criteria {
		e := &j.criteria.Criteria[i]
		if late, ok := e.criterion.(interface{ unverifiable(layout) string }); ok {
			e.Unverifiable = late.unverifiable(j.layout)
		}
	}
}

// clean removes what the examination wrote on the host.
func (j *examination) clean() error {
	if j.scratch == "" {
		return nil
	}
	return os.RemoveAll(j.scratch)
}

// Report is the result of an examination.
type Report struct {
	Criteria  Criteria  `json:"criteria"`
	Delivered []string  `json:"delivered"` // names of the delivered files
	Findings  []Finding `json:"findings"`  // one for each criterion, in the same order

	Claims *guild.Claims      `json:"claims,omitempty"` // the delivery's own claims
	Person string             `json:"person,omitempty"` // why a person must decide; empty if the criteria suffice
	Hidden []guild.Commitment `json:"hidden,omitempty"` // hidden tests that were used, each with its commitment
}

// examination holds the state of one call of Examine.
type examination struct {
	engine     *Engine
	criteria   Criteria
	acceptance acceptance
	bundle     string // directory of the request bundle
	tests      string // directory on the host that runs see as tests/; empty if there is none
	layout     layout
	scratch    string // directory on the host for this examination; created on first use

	hidden      []guild.Commitment // hidden tests that are used
	hiddenShown bool               // the runs of the current criterion may see them beside the delivery
	uncommitted bool               // some are used without a commitment
	warnings    []string
	current     string // the id of the criterion that runs
	progress    Progress
}

// Finding is the result of one criterion.
type Finding struct {
	Criterion string            `json:"criterion"`
	Framework string            `json:"framework"`
	Strength  guild.Strength    `json:"strength"`
	Because   string            `json:"because,omitempty"` // reason for the strength
	Tests     []guild.Test      `json:"tests"`
	Fault     string            `json:"fault,omitempty"`      // why the outcome is ERROR: a crash, or an exceeded limit
	OverLimit bool              `json:"over_limit,omitempty"` // the fault is an exceeded limit
	Breaches  []guild.Breach    `json:"violations,omitempty"`
	Usage     guild.Usage       `json:"usage"`
	Tools     map[string]string `json:"tools,omitempty"`    // name → version
	Warnings  []string          `json:"warnings,omitempty"` // warnings of the sandboxes
	Decided   int               `json:"decided,omitempty"`  // sum of guild.Test.Decided, see there
	Unproven  []string          `json:"unproven,omitempty"` // delivered names that a lie can answer for, each with the lie
	Runs      []RunRecord       `json:"runs"`

	carried func(ids []string) (guild.Strength, string) // the strength from some of the tests; nil if each has that of the finding
	closed  bool                                        // others must not see what its tests showed; see Report.Public
	hidden  []bool                                      // which of the tests are hidden
}

// examineAll runs the criteria, those of the smoke layer first. After a failed smoke test or a breach it runs nothing
// more, and the remaining tests are missing. The findings are in the order of the criteria.
func (j *examination) examineAll(ctx context.Context) ([]Finding, error) {
	criteria := j.criteria.Criteria
	var smoke, others []int
	for i, e := range criteria {
		if e.layer() == guild.LayerSmoke {
			smoke = append(smoke, i)
		} else {
			others = append(others, i)
		}
	}
	findings := make([]Finding, len(criteria))
	stopped := ""
	var because guild.Test // the test that stopped the examination
	for _, i := range append(smoke, others...) {
		f, err := j.examine(ctx, criteria[i], stopped, because)
		if err != nil {
			return nil, fmt.Errorf("criterion %s: %w", criteria[i].ID, err)
		}
		f.settle(criteria[i])
		j.expose(criteria[i], &f)
		findings[i] = f
		if stopped == "" && len(f.Breaches) > 0 {
			stopped = notRunPrefix + "the delivery tried what it must not"
		}
		for _, t := range f.Tests {
			if stopped == "" && t.Layer == guild.LayerSmoke && t.State != guild.TestPassed {
				stopped, because = notRunPrefix+"the smoke test "+t.ID+" did not pass", t
			}
		}
	}
	return findings, nil
}

// examine runs one criterion, unless stopped gives a reason to run nothing more. because is the test that stopped the
// examination, if one did; its blame is that of the tests that are not run.
func (j *examination) examine(ctx context.Context, e Entry, stopped string, because guild.Test) (Finding, error) {
	f := Finding{Criterion: e.ID, Framework: e.Framework, Strength: guild.Weak}
	switch {
	case j.layout.fault != "":
		f.Fault, stopped = j.layout.fault, j.layout.fault
	case e.Unverifiable != "":
		stopped, because = "this criterion cannot be verified: "+e.Unverifiable, guild.Test{Blame: guild.BlameJudge, Because: e.Unverifiable}
	}
	if stopped == "" {
		j.hiddenShown, j.current = e.showsHidden(), e.ID
		if j.progress != nil {
			j.begins("")
			defer j.progress(e.ID, "", true)
		}
		err := e.criterion.examine(ctx, j, &f)
		f.blameRest()
		return f, err
	}
	f.Strength, f.Because = guild.Strong, stopped // strong, because no code ran that could have forged it
	f.Tests = missing(e.criterion.planned(j))
	for i := range f.Tests {
		f.Tests[i].Message = cut(stopped)
		f.Tests[i].Blame, f.Tests[i].Because = because.Blame, because.Because
	}
	f.blameRest()
	return f, nil
}

// Additions to the bundle's time limit: an interpreter needs time to start, and a busy machine delays honest code.
const (
	startCPU  = 250 * time.Millisecond
	startWall = 5 * time.Second
)

// limits returns the limits of one run. The limit on processor time ends a busy loop; the one on wall time ends a
// sleeping process.
func (j *examination) limits() sandbox.Limits {
	t := j.criteria.timeLimit()
	return sandbox.Limits{Wall: t + startWall, CPU: min(t+startCPU, sandbox.DefaultCPU)}
}
