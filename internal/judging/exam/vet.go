package exam

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"guild"
	"guild/internal/judging/strength"
)

// vetVersion is part of the name under which a vetting is kept. It changes with the table of lies.
const vetVersion = "5"

// Vetting says what the criteria of a request bundle can show, found before there is a delivery.
type Vetting struct {
	Strength guild.Strength    `json:"strength"` // the strongest that a verdict can become
	Criteria []VettedCriterion `json:"criteria"`
	Problems []string          `json:"problems"` // why a delivery should not be judged by them
	Hints    []string          `json:"hints"`    // what would make them show more
}

// VettedCriterion says how strong one criterion can become.
type VettedCriterion struct {
	ID        string         `json:"id"`
	Framework string         `json:"framework"`
	Strength  guild.Strength `json:"strength"`
	Because   string         `json:"because,omitempty"`  // why it is not strong
	Unproven  []string       `json:"unproven,omitempty"` // delivered names that a lie can answer for, each with the lie
	Untried   string         `json:"untried,omitempty"`  // why its tests were not tried on lies, or not all
	Tests     []VettedTest   `json:"tests"`
}

// VettedTest says whether one test shows anything.
type VettedTest struct {
	ID       string         `json:"id"`
	Layer    string         `json:"layer"`
	Exposure guild.Exposure `json:"exposure"`
	State    string         `json:"state"` // with the bundle's own files, as in guild.Test
	Nothing  bool           `json:"nothing,omitempty"`
	Because  string         `json:"because,omitempty"` // why it shows nothing
}

// Vet finds what the criteria of the request bundle unpacked in bundleDir can show, without a delivery: it runs them on
// the bundle's own files, and tests that run apart on deliveries that lie. hiddenDir is as for ExamineHidden. keepGreen
// says that the work must only not break what passes, so that no test needs to fail now.
//
// An error means that the criteria cannot be run: it matches ErrUndecided, or is a *sandbox.UnusableError. A Vetting is
// kept in the engine's cache, by the hash of all that it depends on.
func (e *Engine) Vet(ctx context.Context, bundleDir, hiddenDir string, keepGreen bool) (Vetting, error) {
	kept, err := e.keptVetting(bundleDir, hiddenDir)
	if err != nil {
		return Vetting{}, err
	}
	var v Vetting
	raw, err := os.ReadFile(cmp.Or(kept, "/nonexistent"))
	if err != nil || json.Unmarshal(raw, &v) != nil {
		if v, err = e.vet(ctx, bundleDir, hiddenDir); err != nil {
			return Vetting{}, err
		}
		if raw, err = json.Marshal(v); err == nil && kept != "" {
			_ = errors.Join(os.MkdirAll(filepath.Dir(kept), 0o700), os.WriteFile(kept, raw, 0o600)) // it is only for speed
		}
	}
	if !keepGreen && v.green() {
		v.Problems = append(v.Problems, "every test passes on the bundle's own files already, so a delivery of nothing would be accepted")
	}
	return v, nil
}

// green reports whether every functional test passes on the bundle's own files.
func (v Vetting) green() bool {
	tests := 0
	for _, c := range v.Criteria {
		for _, t := range c.Tests {
			if functional(t.Layer) && t.State != guild.TestPassed {
				return false
			}
			tests++
		}
	}
	return tests > 0
}

func functional(layer string) bool {
	return layer == guild.LayerSmoke || layer == guild.LayerCorrectness
}

// keptVetting returns the file for a vetting, named by the tests, the bundle's files, what the manifest says of the
// acceptance, and the tools. It returns "" without a cache.
func (e *Engine) keptVetting(bundleDir, hiddenDir string) (string, error) {
	if e.Cache == "" {
		return "", nil
	}
	root, err := os.OpenRoot(bundleDir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	a, err := readAcceptance(root.FS())
	if err != nil {
		return "", err
	}
	h := sha256.New()
	said, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(h, "%s %s\n", vetVersion, said)
	for _, tool := range []string{cmp.Or(e.Python, "/usr/bin/python3"), "/usr/bin/node", cmp.Or(e.Jest, "/nonexistent"), cmp.Or(e.Go, "/usr/local/go") + "/VERSION"} {
		if info, err := os.Stat(tool); err == nil {
			fmt.Fprintln(h, tool, info.Size(), info.ModTime())
		}
	}
	for _, dir := range []string{filepath.Join(bundleDir, "tests"), filepath.Join(bundleDir, "files"), hiddenDir} {
		fmt.Fprintln(h, isDir(dir))
		if !isDir(dir) {
			continue
		}
		if err := hashTree(h, dir); err != nil {
			return "", undecided("%w", err)
		}
	}
	return filepath.Join(e.Cache, "vet", hex.EncodeToString(h.Sum(nil))+".json"), nil
}

// hashTree writes the names and the hashes of the files of a tree to h.
func hashTree(h io.Writer, dir string) error {
	names, err := survey(dir, map[string]bool{})
	if err != nil {
		return err
	}
	for _, name := range names {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %x\n", name, sum.Sum(nil))
	}
	return nil
}

func (e *Engine) vet(ctx context.Context, bundleDir, hiddenDir string) (v Vetting, err error) {
	if e.Runner == nil {
		return Vetting{}, errNoSandbox
	}
	j := &examination{engine: e, progress: toTell(ctx)}
	if j.bundle, err = filepath.Abs(bundleDir); err != nil {
		return Vetting{}, err
	}
	defer func() { err = errors.Join(err, j.clean()) }()
	if err := j.readBundle(ctx, hiddenDir); err != nil {
		return Vetting{}, err
	}
	nothing, err := j.scratchDir("nothing")
	if err != nil {
		return Vetting{}, err
	}
	if err := j.layOut(nothing); err != nil {
		return Vetting{}, err
	}
	j.layout.fault = "" // that nothing is delivered
	j.unverifiable()
	findings, err := j.examineAll(ctx)
	if err != nil {
		return Vetting{}, err
	}
	v = Vetting{Strength: guild.Unverified, Criteria: []VettedCriterion{}, Problems: []string{}, Hints: []string{}}
	for i, f := range findings {
		c, problems, err := j.vetCriterion(ctx, j.criteria.Criteria[i], f)
		if err != nil {
			return Vetting{}, fmt.Errorf("criterion %s: %w", f.Criterion, err)
		}
		v.Criteria = append(v.Criteria, c)
		v.Problems = append(v.Problems, problems...)
	}
	v.sum()
	return v, nil
}

// lied says what tests have shown on deliveries that lie.
type lied struct {
	tests    map[string]strength.Proves // those that were tried
	unproven []string
	problems []string
	weak     map[string]string // tests that run beside the delivery, each with the reason
	untried  string            // why no test was tried
}

// vetter is a criterion whose tests can be tried on lies. It finds nothing if they run in one process with the delivery.
type vetter interface {
	vet(ctx context.Context, j *examination) (lied, error)
}

// vetCriterion says what a criterion can show, from its finding on the bundle's own files.
func (j *examination) vetCriterion(ctx context.Context, e Entry, f Finding) (c VettedCriterion, problems []string, err error) {
	c = VettedCriterion{ID: f.Criterion, Framework: f.Framework, Strength: guild.Strong, Tests: []VettedTest{}}
	var found lied
	known, cases := e.criterion.(interface{ prove() Finding })
	if cases {
		all := known.prove()
		found.unproven, found.tests = all.Unproven, map[string]strength.Proves{}
		for _, t := range all.Tests {
			found.tests[t.ID] = strength.Proves{Nothing: t.Strength == guild.Weak, Because: t.Because}
		}
	}
	if v, ok := e.criterion.(vetter); ok {
		j.hiddenShown = e.showsHidden()
		if found, err = v.vet(ctx, j); err != nil {
			return c, nil, err
		}
	}
	c.Unproven, c.Untried, problems = found.unproven, found.untried, found.problems
	for _, t := range f.Tests {
		if t.State != guild.TestPassed && t.Blame != "" && t.Blame != guild.BlameDelivery {
			problems = append(problems, fmt.Sprintf("%s cannot pass, by a fault of the %s: %s", t.ID, t.Blame, t.Because))
		}
	}
	if name := missingProgram(f); name != "" {
		problems = append(problems, fmt.Sprintf("criterion %s cannot pass: the program %.100s is not installed here", c.ID, name))
	}
	all := listed(f, found.tests)
	// A test that was not tried may be the one that fails when a name lies.
	if i := slices.IndexFunc(all, func(t guild.Test) bool { return !found.tried(t) }); i >= 0 && len(found.tests) > 0 && len(found.tests) < len(all) {
		c.Unproven, c.Untried = nil, cmp.Or(c.Untried, fmt.Sprintf("%s is not tried: %s", all[i].ID, cmp.Or(found.weak[all[i].ID], "it does not begin")))
	}
	counts, shows, weak := 0, 0, ""
	strong := false
	for _, t := range all {
		got := VettedTest{ID: t.ID, Layer: t.Layer, Exposure: t.Exposure, State: t.State}
		if p := found.of(t.ID); p.Nothing && (c.Untried == "" || !p.Asks) {
			got.Nothing, got.Because = true, p.Because
		}
		c.Tests = append(c.Tests, got)
		if !functional(t.Layer) {
			continue
		}
		counts++
		if !got.Nothing {
			shows++
		}
		if why := found.weak[t.ID]; why != "" {
			weak = cmp.Or(weak, t.ID+": "+why)
		} else {
			strong = true
		}
	}
	switch {
	case f.Strength == guild.Weak && f.carried == nil:
		c.Strength, c.Because = guild.Weak, f.Because
	case counts > 0 && shows == 0:
		c.Strength, c.Because = guild.Weak, "none of its tests shows anything"
		problems = append(problems, fmt.Sprintf("criterion %s proves nothing: a delivery that computes nothing passes it", c.ID))
	case weak != "" && !strong:
		c.Strength, c.Because = guild.Weak, weak
	case weak != "":
		c.Strength, c.Because = guild.Mixed, weak
	case len(c.Unproven) > 0:
		c.Strength, c.Because = guild.Mixed, "a lie can answer for "+strings.Join(c.Unproven, ", ")
	}
	c.judged(f)
	return c, problems, nil
}

// judged takes over what was found of a criterion whose functional tests all pass on the bundle's own files. These were recorded, so the
// lies that repeat what was recorded have been tried, too.
func (c *VettedCriterion) judged(f Finding) {
	solved := false
	for _, t := range f.Tests {
		if !functional(t.Layer) {
			continue
		}
		if solved = t.State == guild.TestPassed; !solved {
			return
		}
	}
	if !solved || len(f.Unproven) == 0 { // another reason to be weak, as that they ran beside the tests, is not one of a delivery
		return
	}
	for _, name := range f.Unproven {
		if !slices.Contains(c.Unproven, name) {
			c.Unproven = append(c.Unproven, name)
		}
	}
	order := []guild.Strength{guild.Weak, guild.Mixed, guild.Strong}
	if i := slices.Index(order, f.Strength); i >= 0 && i < slices.Index(order, c.Strength) {
		c.Strength, c.Because = f.Strength, "with the bundle's own files: "+f.Because
	}
}

// of returns what a test has shown. One that has a number before its name is known by its name.
func (l lied) of(id string) strength.Proves {
	if _, name, numbered := strings.Cut(id, "] "); numbered && l.tests[id] == (strength.Proves{}) {
		return l.tests[name]
	}
	return l.tests[id]
}

// tried reports whether a test was tried, or never runs.
func (l lied) tried(t guild.Test) bool {
	_, tried := l.tests[t.ID]
	return tried || t.State == guild.TestSkipped
}

// listed returns the tests of a finding. Where the bundle's own files are not enough to run them, a test stands for all
// its cases, and that of the criterion itself for all tests, which the run on a delivery that lies has found.
func listed(f Finding, proves map[string]strength.Proves) []guild.Test {
	var all []guild.Test
	for _, t := range f.Tests {
		var cases []string
		for id := range proves {
			if t.State == guild.TestMissing && id != t.ID && (function(id) == function(t.ID) || t.ID == f.Criterion) {
				cases = append(cases, id)
			}
		}
		slices.Sort(cases)
		for _, id := range cases {
			if !slices.ContainsFunc(all, func(t guild.Test) bool { return t.ID == id }) {
				one := t
				one.ID = id
				all = append(all, one)
			}
		}
		if cases == nil {
			all = append(all, t)
		}
	}
	return all
}

// sum finds the strongest that a verdict can become, and what would make the tests show more.
func (v *Vetting) sum() {
	strong, some, all, open := true, false, 0, 0
	nothing := 0
	for _, c := range v.Criteria {
		counts := false
		for _, t := range c.Tests {
			counts = counts || functional(t.Layer)
			all++
			if t.Exposure == guild.Visible {
				open++
			}
			if t.Nothing {
				nothing++
			}
		}
		if counts {
			strong = strong && c.Strength == guild.Strong
			some = some || c.Strength != guild.Weak
			v.Strength = guild.Weak
		}
	}
	switch {
	case v.Strength == guild.Weak && strong:
		v.Strength = guild.Strong
	case some:
		v.Strength = guild.Mixed
	}
	if nothing > 0 {
		v.Hints = append(v.Hints, "let the tests that show nothing compare an answer with what it must be")
	}
	if all > 0 && open == all {
		v.Hints = append(v.Hints, "every test is visible to the provider, who could answer from a table: put some into tests/hidden, "+
			"or draw the inputs of Python tests with random")
	}
}

// What the source of Python tests says about names.
var (
	calledName  = regexp.MustCompile(`([A-Za-z_]\w*)\s*\(`)
	awaitedName = regexp.MustCompile(`(?:await|asyncio\.run\(|run_until_complete\(|gather\(|create_task\()\s*(?:\w+\.)*(\w+)\(`)
	raisedName  = regexp.MustCompile(`(?:raises|assertRaises|assertRaisesRegex)\(\s*\(?\s*(?:\w+\.)*([A-Z]\w*)`)
)

// mostRaised limits the exceptions that are tried.
const mostRaised = 8

// vet runs the tests on deliveries that lie: see strength.Vetting. Then it runs them with stand-ins for what they import,
// and returns as problems those that fail before they use one.
func (c *pytestCriterion) vet(ctx context.Context, j *examination) (found lied, err error) {
	if c.inproc {
		return lied{}, nil
	}
	o, _, err := c.newOrder(false)
	if err != nil {
		return lied{}, err
	}
	o.First = false
	stdin, err := json.Marshal(o)
	if err != nil {
		return lied{}, err
	}
	source := sourceOf(j.tests, pythonFile)
	w := strength.Words{
		Absent: map[string]bool{}, Called: matches(calledName, source), Awaited: matches(awaitedName, source),
		Raised: slices.Sorted(maps.Keys(matches(raisedName, source))),
	}
	w.Raised = w.Raised[:min(len(w.Raised), mostRaised)]
	for _, name := range wellKnown() {
		w.Absent[name] = true
	}
	v := strength.NewVetting(strength.Python, w, "")
	lies := func(by strength.Examiner) error { return v.Rounds(0, by) }
	spec := j.examinerSpec()
	spec.Limits.Wall = againWall
	if err := j.serve(ctx, spec, stdin, againWall, lies); err != nil {
		return lied{}, err
	}
	alone, _, err := c.runAlone(ctx, j, v.Modules())
	if err != nil {
		return lied{}, err
	}
	for _, r := range alone.tests {
		used := slices.ContainsFunc(alone.used, func(id string) bool { return id == r.ID || inside(id, r.ID) })
		if r.State == guild.TestFailed && !used && alone.end != nil {
			found.problems = append(found.problems, fmt.Sprintf("%s fails whatever is delivered: %s", r.ID, cut(r.Message)))
		}
	}
	found.tests, found.unproven = v.Result()
	return found, nil
}

// matches returns the names that a pattern finds in a text.
func matches(pattern *regexp.Regexp, source string) map[string]bool {
	names := map[string]bool{}
	for _, name := range pattern.FindAllStringSubmatch(source, -1) {
		names[name[1]] = true
	}
	return names
}
