package analysis

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
)

// The tools' own sources. reading.py is prepended to each of the others.
var (
	//go:embed tools/reading.py
	readingSource string
	//go:embed tools/patterns.py
	patternsSource string
	//go:embed tools/bandit.py
	banditSource string
	//go:embed tools/pylint.py
	pylintSource string
	//go:embed tools/mypy.py
	mypySource string
	//go:embed tools/coverage.py
	coverageSource string
)

// job is one tool with its task.
type job struct {
	tool   string
	source string
	order  order
	bundle string // directory of the bundle whose files and tests are copied too; "" for none
}

// order is a tool's task, passed on standard input.
type order struct {
	Files   []string `json:"files"`             // paths in the sandbox
	Root    string   `json:"root,omitempty"`    // directory of the tests
	Scripts []string `json:"scripts,omitempty"` // for pytest
	Path    []string `json:"path,omitempty"`    // appended to sys.path
	Learn   bool     `json:"learn,omitempty"`   // only create the cache for later runs
	Kept    string   `json:"kept,omitempty"`    // path of the cache
}

// ask runs one tool in its own sandbox.
func (a *Analyst) ask(ctx context.Context, j job, f files) answer {
	switch {
	case a.Warm && (j.tool == Mypy || j.tool == Pylint):
		j.source += "\n\nahead()\n"
	case j.tool == Mypy:
		a.useCache(ctx, &j)
	}
	spec := a.spec(j)
	spec.Copies = append(spec.Copies, f.copies()...)
	if j.bundle != "" {
		spec.Copies = f.workspace(j.bundle)
	}
	raw, used, failed := a.run(ctx, spec, j.order)
	got := answer{unknown: failed}
	if failed == "" {
		got = read(raw, f.python)
	}
	got.usage = used
	// Such as after an update of mypy.
	if got.Stale {
		a.dropCache()
	}
	return got
}

// spec returns the sandbox of a tool, without the files that it reads.
func (a *Analyst) spec(j job) sandbox.Spec {
	s := sandbox.Spec{
		Argv:    []string{cmp.Or(a.Python, "/usr/bin/python3"), "-I", "-B"},
		Program: &sandbox.Program{Name: j.tool, Setup: readingSource + "\n\n" + j.source}, // a runner may keep it warm
		Env: []string{
			"PATH=/usr/bin:/bin", "HOME=" + sandbox.Home, "LANG=C.UTF-8", "TMPDIR=" + sandbox.Temp, "PYTHONDONTWRITEBYTECODE=1",
			"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",
		},
		Limits: sandbox.Limits{Wall: cmp.Or(a.Time, defaultTime), CPU: 20 * time.Second, Memory: 1 << 30},
	}
	if j.order.Kept != "" {
		s.Copies = []sandbox.Copy{{Host: a.kept(), Inside: keptInside, ReadOnly: true}}
	}
	return s
}

// run runs a tool and returns its answer, or the reason why there is none.
func (a *Analyst) run(ctx context.Context, s sandbox.Spec, o order) (raw []byte, used guild.Usage, failed string) {
	stdin, err := json.Marshal(o)
	if err != nil {
		return nil, used, brief(err.Error())
	}
	var results, stderr bytes.Buffer
	res, err := a.Runner.Run(ctx, s, sandbox.IO{Stdin: bytes.NewReader(stdin), Stderr: &stderr, Results: &results})
	switch {
	case err != nil:
		failed = brief("the sandbox: " + err.Error())
	case res.Killed != "":
		failed = "ran over its limit of " + res.Killed
	case results.Len() == 0:
		text := strings.TrimSpace(stderr.String())
		failed = brief(fmt.Sprintf("ended with exit code %d: %s", res.Exit, text[strings.LastIndexByte(text, '\n')+1:]))
	}
	return results.Bytes(), res.Usage, failed
}

// brief shortens and cleans a reason, which strangers may have written.
func brief(s string) string { return guild.Cut(guild.Clean(s), maxText) }

// Limits of an answer.
const (
	maxText     = 300
	maxCode     = 40
	maxFindings = 200
	maxCount    = 1_000_000_000 // of lines, branches and findings
	maxGrade    = 10_000
)

// answer is a tool's answer. Only checked values are kept in it.
type answer struct {
	Version  string         `json:"version"`
	Absent   bool           `json:"absent"` // the tool is not installed
	Failed   string         `json:"failed"` // why it could not read the files
	Stale    bool           `json:"stale"`  // the cache is invalid
	Count    int            `json:"count"`  // number of all findings
	Findings []guild.Notice `json:"findings"`

	Grade      int64 `json:"grade"` // pylint's grade, in thousandths
	Statements int64 `json:"statements"`

	Covered  int64 `json:"covered"`  // statements that ran
	Branches int64 `json:"branches"` // all branches
	Taken    int64 `json:"taken"`    // branches that ran

	unknown string // the reason if the answer is unknown
	usage   guild.Usage
}

// read parses an answer from a sandbox, which may be forged. A number outside its limits makes the whole answer
// unknown, and findings in files that were not delivered are dropped.
func read(raw []byte, delivered []string) answer {
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return answer{unknown: "its answer is not JSON"}
	}
	a.Version = guild.Cut(guild.Clean(a.Version), maxCode)
	switch {
	case a.Absent:
		return answer{unknown: "is not installed"}
	case a.Failed != "":
		return answer{Version: a.Version, unknown: brief(a.Failed)}
	case !a.plausible():
		return answer{unknown: "its answer is not plausible"}
	}
	there := map[string]bool{}
	for _, name := range delivered {
		there[filepath.ToSlash(name)] = true
	}
	findings := a.Findings[:min(len(a.Findings), maxFindings)]
	a.Findings = nil
	for _, n := range findings {
		if there[n.File] && slices.Contains(severities(), n.Severity) && 0 <= n.Line && n.Line <= maxCount {
			n.Code, n.Text = guild.Cut(guild.Clean(n.Code), maxCode), brief(n.Text)
			a.Findings = append(a.Findings, n)
		}
	}
	return a
}

// plausible reports whether the numbers are within their limits.
func (a answer) plausible() bool {
	within := func(n, most int64) bool { return 0 <= n && n <= most }
	return a.Version != "" && within(a.Grade, maxGrade) && within(int64(a.Count), maxCount) && within(a.Statements, maxCount) &&
		within(a.Covered, a.Statements) && within(a.Branches, maxCount) && within(a.Taken, a.Branches)
}
