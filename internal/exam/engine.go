// Package exam runs a request bundle's acceptance criteria on a delivery, in sandboxes, and finds out which of
// them hold. It owns how each kind of criterion is run and how strong its answer is; what the answers make of the
// provider is the judge's. It never trusts what it examines: a delivery is run by a sandbox.Runner or not at all,
// its files cannot replace a test or the examiner's own configuration, and what decides is compared outside the
// sandbox wherever the criterion allows it.
//
// # What is laid out
//
// The request bundle's files/ and, over it, the delivery's delivery/artifacts/ are copied to the workspace of a
// fresh sandbox, where the criteria run. Paths below artifacts/ are relative to files/: artifacts/solution.py
// replaces files/solution.py. A delivery that repeats the directory (artifacts/files/solution.py) means the
// same. The request bundle's tests/, without criteria.json, is visible read-only at /judge/tests. Python finds
// modules in its own library first, then in tests/, then in the workspace, then in the workspace's src/.
//
// # How strong a verdict is
//
// A verdict is strong when all that it says was decided outside the process that ran the delivery: by a
// comparison with something that the delivery could not see (io, api_test, sql_check of a file), or by tests in
// a sandbox of their own (pytest) that did not ask the delivery what is true. It is weak when tests ran beside
// the judged code (go-test, jest, node-test) or could be read by it (shell, custom): hostile code can forge
// those, whatever the judge does. It is as weak as its weakest criterion. docs/CRITERIA.md has the whole list.
package exam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"guild"
	"guild/internal/sandbox"
)

// Engine runs a request bundle's acceptance criteria on a delivery. The zero value of every field but Runner
// works.
type Engine struct {
	Runner sandbox.Runner

	Python string // the real interpreter, no shim; /usr/bin/python3 if empty
	Go     string // the Go installation; the one on PATH or /usr/local/go if empty
	Cache  string // a directory for what makes judging Go code faster; nothing is kept if empty

	preparing sync.Mutex // held while Cache is filled
}

// ErrUndecided is what an error of Examine wraps when the criteria cannot be decided here, however good the
// delivery is: they are missing, malformed, or need a tool that is not installed.
var ErrUndecided = errors.New("undecided")

func undecided(format string, a ...any) error {
	return fmt.Errorf("%w: %w", ErrUndecided, fmt.Errorf(format, a...))
}

// Examine runs the criteria of the request bundle unpacked at bundleDir on the delivery unpacked at deliveryDir.
// The delivery is hostile. An error means that the examination itself failed and nothing is known about the
// delivery; it is a *sandbox.UnusableError when there is no sandbox, for a delivery is never run outside one.
func (e *Engine) Examine(ctx context.Context, bundleDir, deliveryDir string) (Report, error) {
	return e.ExamineHidden(ctx, bundleDir, deliveryDir, "")
}

// ExamineHidden is Examine with the customer's hidden tests, which the bundle only commits to: hiddenDir is the
// directory that is tests/hidden where the bundle was made, with the side file that has the salts. Empty, it is
// the bundle directory's own tests/hidden, if that has one. A hidden test that does not match the commitment to
// it, or that is not there, leaves the criteria undecided.
func (e *Engine) ExamineHidden(ctx context.Context, bundleDir, deliveryDir, hiddenDir string) (r Report, err error) {
	if e.Runner == nil {
		return Report{}, &sandbox.UnusableError{
			Reason: "the judge was given none",
			Remedy: "guild doctor says what to install",
		}
	}
	j := &examination{engine: e}
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
	for i := range j.criteria.Criteria {
		e := &j.criteria.Criteria[i]
		if late, ok := e.criterion.(interface{ unverifiable(layout) string }); ok {
			e.Unverifiable = late.unverifiable(j.layout)
		}
	}
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

// Report is all that an examination came to.
type Report struct {
	Criteria  Criteria  `json:"criteria"`
	Delivered []string  `json:"delivered"` // names of the delivery's files
	Findings  []Finding `json:"findings"`  // one for each criterion, in their order

	Claims *guild.Claims      `json:"claims,omitempty"` // what the delivery says of itself
	Person string             `json:"person,omitempty"` // why a person must decide; empty if the criteria suffice
	Hidden []guild.Commitment `json:"hidden,omitempty"` // hidden tests that were used, each as it was committed to
}

// examination is one call of Examine.
type examination struct {
	engine     *Engine
	criteria   Criteria
	acceptance acceptance
	bundle     string // directory of the request bundle
	tests      string // directory on the host that runs see as tests/; empty if there is none
	layout     layout
	scratch    string // directory of this examination on the host; empty until something needs it

	hidden      []guild.Commitment // hidden tests that are used
	uncommitted bool               // some are used that nobody committed to
	warnings    []string
}

// Finding is what one criterion came to.
type Finding struct {
	Criterion string            `json:"criterion"`
	Framework string            `json:"framework"`
	Strength  guild.Strength    `json:"strength"`
	Because   string            `json:"because,omitempty"` // why it is that strong
	Tests     []guild.Test      `json:"tests"`
	Fault     string            `json:"fault,omitempty"`      // why it is an ERROR: a crash, or the limit passed
	OverLimit bool              `json:"over_limit,omitempty"` // the fault is a limit
	Breaches  []guild.Breach    `json:"violations,omitempty"`
	Usage     guild.Usage       `json:"usage"`
	Tools     map[string]string `json:"tools,omitempty"`    // name → version
	Warnings  []string          `json:"warnings,omitempty"` // of the sandboxes
	Decided   int               `json:"decided,omitempty"`  // as in guild.Test
	Runs      []RunRecord       `json:"runs"`
}

// examineAll runs the criteria, those of the smoke layer first. Whoever fails a smoke test, or tries to break
// out, is not asked again: the tests that are left are missing. The findings are in the criteria's order.
func (j *examination) examineAll(ctx context.Context) ([]Finding, error) {
	criteria := j.criteria.Criteria
	order := make([]int, len(criteria))
	for i := range order {
		order[i] = i
	}
	later := func(i int) int {
		if criteria[i].layer() == guild.LayerSmoke {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(later(a), later(b)) })
	findings := make([]Finding, len(criteria))
	stopped := ""
	for _, i := range order {
		f, err := j.examine(ctx, criteria[i], stopped)
		if err != nil {
			return nil, fmt.Errorf("criterion %s: %w", criteria[i].ID, err)
		}
		f.settle(criteria[i])
		if findings[i] = f; stopped == "" {
			stopped = f.stops()
		}
	}
	return findings, nil
}

// stops says why nothing more is to be run after a finding; empty if the rest is.
func (f Finding) stops() string {
	if len(f.Breaches) > 0 {
		return "not run: the delivery tried what it must not"
	}
	for _, t := range f.Tests {
		if t.Layer == guild.LayerSmoke && t.State != guild.TestPassed {
			return "not run: the smoke test " + t.ID + " did not pass"
		}
	}
	return ""
}

// examine runs one criterion, unless there is a reason not to run anything any more.
func (j *examination) examine(ctx context.Context, e Entry, stopped string) (Finding, error) {
	f := Finding{Criterion: e.ID, Framework: e.Framework, Strength: guild.Weak}
	switch {
	case j.layout.fault != "":
		f.Fault, stopped = j.layout.fault, j.layout.fault
	case e.Unverifiable != "":
		stopped = "this criterion cannot be verified: " + e.Unverifiable
	}
	if stopped == "" {
		err := e.criterion.examine(ctx, j, &f)
		return f, err
	}
	f.Strength, f.Because = guild.Strong, stopped // nothing ran that could have forged it
	f.Tests = missing(e.criterion.planned(j))
	for i := range f.Tests {
		f.Tests[i].Message = cut(stopped)
	}
	return f, nil
}

// What a run may take on top of the bundle's time limit: an interpreter must start, and a busy machine makes
// everybody wait who does nothing wrong.
const (
	startCPU  = 250 * time.Millisecond
	startWall = 5 * time.Second
)

// limits are those of the criteria for one run. A loop is cut by its processor time, a sleeper by the clock.
func (j *examination) limits() sandbox.Limits {
	t := j.criteria.timeLimit()
	return sandbox.Limits{Wall: t + startWall, CPU: min(t+startCPU, sandbox.DefaultCPU)}
}
