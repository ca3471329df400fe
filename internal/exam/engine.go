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
// A verdict is strong when all that it says was decided outside the process that ran the delivery, by a
// comparison with something that the delivery could not see (criteria of type io). It is weak when tests ran
// beside the judged code (pytest, go-test) or could be read by it (shell scripts): hostile code can forge
// those, whatever the judge does. It is as weak as its weakest criterion.
package exam

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
	if e.Runner == nil {
		return Report{}, &sandbox.UnusableError{
			Reason: "the judge was given none",
			Remedy: "guild doctor says what to install",
		}
	}
	bundleDir, err := filepath.Abs(bundleDir)
	if err != nil {
		return Report{}, err
	}
	if deliveryDir, err = filepath.Abs(deliveryDir); err != nil {
		return Report{}, err
	}
	criteria, err := readCriteria(bundleDir)
	if err != nil {
		return Report{}, err
	}
	j := &examination{engine: e, criteria: criteria, bundle: bundleDir}
	if err := j.layOut(deliveryDir); err != nil {
		return Report{}, err
	}
	r := Report{Criteria: criteria, Delivered: j.layout.Delivered}
	for _, c := range criteria.Criteria {
		f, err := j.examine(ctx, c)
		if err != nil {
			return Report{}, fmt.Errorf("criterion %s: %w", c.ID, err)
		}
		r.Findings = append(r.Findings, f)
		if len(f.Breaches) > 0 {
			break // whoever tries to break out is not asked again
		}
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
	engine   *Engine
	criteria Criteria
	bundle   string // directory of the request bundle
	layout   layout
}

// Finding is what one criterion came to.
type Finding struct {
	Criterion string            `json:"criterion"`
	Framework string            `json:"framework"`
	Strength  guild.Strength    `json:"strength"`
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

// examine runs one criterion by its framework.
func (j *examination) examine(ctx context.Context, c Criterion) (Finding, error) {
	f := Finding{Criterion: c.ID, Framework: c.Framework, Strength: guild.Weak}
	if j.layout.fault != "" {
		f.Fault = j.layout.fault
		f.Tests = []guild.Test{{ID: c.ID, State: guild.TestMissing, Message: f.Fault}}
		return f, nil
	}
	var err error
	switch c.Framework {
	case pytest:
		err = j.pytest(ctx, c, &f)
	case goTest:
		err = j.goTest(ctx, c, &f)
	case ioCase:
		err = j.compare(ctx, c, &f)
	default:
		err = j.shell(ctx, c, &f)
	}
	return f, err
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
