package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/judging/exam"
	"guild/internal/step/judge"
	"guild/nutshell"
	"guild/verify"
)

// judgeOptions are the flags of judge run.
type judgeOptions struct {
	tier    string
	against string
	hidden  string
	keep    bool
}

func (p *program) judgeRunCommand() *cobra.Command {
	var o judgeOptions
	cmd := p.local(&cobra.Command{
		Use:   "run BUNDLE DELIVERY",
		Short: "Judge a delivery by a bundle's criteria, without a node",
		Long: `run judges a delivery by the acceptance criteria of a request bundle, in a
sandbox, and prints the verdict. It needs no node and no identity. BUNDLE and
DELIVERY are each a directory or a .nut file. docs/CRITERIA.md describes the
criteria, and docs/JUDGE.md the verdict.

With --keep the verdict, the evidence and the unpacked files stay in a
directory. With --against the delivery is judged again and compared with an
earlier verdict.

Exit codes: 0 SUCCESS, 1 ERROR or nothing could be judged, 2 wrong usage, 5
SECURITY_VIOLATION, 6 a person must decide (with --json the outcome is then
empty, and so_far has the outcome by programs), 7 PARTIAL or FAILURE.`,
		Example: "  guild judge run ./my-task ./its-delivery\n" +
			"  guild judge run task.nut delivery.nut --json | jq .outcome",
		Args: cli.Arity(cobra.ExactArgs(2), "a bundle and a delivery"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		return p.runJudge(cmd.Context(), args[0], args[1], o)
	})
	cmd.Flags().StringVar(&o.tier, "tier", "", "the sandbox to use (default: the best that works; guild judge doctor lists them)")
	cmd.Flags().StringVar(&o.hidden, "hidden", "", "directory of the hidden tests, or hidden.json of an export (default: the bundle's tests/hidden)")
	cmd.Flags().StringVar(&o.against, "against", "", "a verdict.json to compare with")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "keep the verdict, the evidence and what was unpacked")
	return cmd
}

func (p *program) runJudge(ctx context.Context, bundle, delivery string, o judgeOptions) (*cli.Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "guild-judge-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if !o.keep {
			os.RemoveAll(scratch)
		}
	}()
	var whole judge.Evidence
	hidden, err := revealedTests(o.hidden, scratch)
	if err != nil {
		return nil, err
	}
	v, evidence, person, err := p.judgeFiles(ctx, bundle, delivery, scratch, hidden, o, func(e judge.Evidence) { whole = e })
	if errors.Is(err, exam.ErrUndecided) {
		return p.undecidedResult(v, err), err
	}
	if err != nil {
		return nil, err
	}
	kept := ""
	if o.keep {
		if kept, err = scratch, keepVerdict(scratch, v, evidence, whole); err != nil {
			o.keep = false // nothing half-written stays
			return nil, cli.WithHint(fmt.Errorf("keep the verdict: %w", err), "TMPDIR says where it is kept")
		}
	}
	result := p.judgedResult(v, whole, person, kept)
	if o.against != "" {
		then, err := readVerdict(o.against)
		if err == nil {
			err = compare(then, v)
		}
		return result, err
	}
	return result, hintArtifacts(judgedError(v, person), delivery)
}

// hintArtifacts adds a hint to an error about a delivery that is a directory without one for its files.
func hintArtifacts(err error, delivery string) error {
	info, statErr := os.Stat(delivery)
	if err == nil || statErr != nil || !info.IsDir() {
		return err
	}
	artifacts := filepath.Join(delivery, nutshell.ArtifactsDir)
	if _, statErr = os.Stat(artifacts); statErr == nil {
		return err
	}
	return cli.WithHint(err, "what was made belongs into "+artifacts)
}

// judgeFiles judges a delivery. Packed bundles are unpacked below scratch. person is nil unless a person must decide.
func (p *program) judgeFiles(ctx context.Context, bundle, delivery, scratch, hidden string, o judgeOptions, whole func(judge.Evidence)) (v guild.Verdict, evidence judge.Evidence, person *judge.PersonNeeded, err error) {
	hearing := judge.Case{Hidden: hidden, Whole: whole}
	if hearing.Bundle, err = opened(ctx, bundle, scratch); err != nil {
		return v, nil, nil, err
	}
	if hearing.Delivery, err = opened(ctx, delivery, scratch); err != nil {
		return v, nil, nil, err
	}
	shown := &judge.Activity{Now: p.now}
	hearing.Progress = shown.Note
	j, err := p.openJudge(ctx, o.tier)
	if err != nil {
		return v, nil, nil, err
	}
	defer j.Close()
	if err := p.readyForTyped(ctx, j, hearing.Bundle, scratch); err != nil {
		return v, nil, nil, err
	}
	done := p.waiting(doing("judging", shown))
	v, evidence, err = j.Hear(ctx, hearing)
	done()
	if person, held := errors.AsType[*judge.PersonNeeded](err); held {
		return v, evidence, person, nil
	}
	return v, evidence, nil, err
}

// check checks the files that the flags name, before anything is judged.
func (o judgeOptions) check() error {
	if o.hidden != "" {
		if _, err := os.Stat(o.hidden); err != nil {
			return cli.Usage(fmt.Errorf("--hidden: %w", err))
		}
	}
	if o.against != "" {
		_, err := readVerdict(o.against)
		return err
	}
	return nil
}

// revealedTests returns the directory of the hidden tests. Those in the hidden.json of an export are unpacked below
// scratch.
func revealedTests(name, scratch string) (string, error) {
	if name == "" {
		return "", nil
	}
	if info, err := os.Stat(name); err != nil || info.IsDir() {
		return name, err
	}
	wrong := func(err error) error {
		return cli.WithHint(cli.Usage(fmt.Errorf("--hidden: %s: %w", name, err)), "give a directory, or hidden.json of an export with --reveal")
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return "", wrong(err)
	}
	tests, err := verify.ParseHidden(raw)
	if err != nil {
		return "", wrong(err)
	}
	dir := filepath.Join(scratch, "hidden")
	var commitments []guild.Commitment
	for _, t := range tests {
		file := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(t.Path, nutshell.HiddenDir)))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, t.Content, 0o600)); err != nil {
			return "", err
		}
		commitments = append(commitments, guild.Commitment{Path: t.Path, Hash: t.Hash, Salt: t.Salt})
	}
	salts, err := nutshell.Salts(commitments)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, filepath.Base(nutshell.SaltsFile)), salts, 0o600)
}

// readVerdict reads a verdict that judge run kept.
func readVerdict(file string) (guild.Verdict, error) {
	var v guild.Verdict
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err == nil && v.Outcome == "" {
		err = fmt.Errorf("%s is not a verdict", file)
	}
	if err != nil {
		return v, cli.WithHint(cli.Usage(fmt.Errorf("--against: %w", err)), "guild judge run --keep writes a verdict.json")
	}
	return v, nil
}

// opened returns the directory of a bundle. A packed one is unpacked below scratch.
func opened(ctx context.Context, path, scratch string) (string, error) {
	dir, _, err := exam.Open(ctx, path, scratch)
	if err != nil {
		return "", cli.WithHint(cli.Usage(err), "give a directory or a .nut bundle")
	}
	return dir, nil
}

// openJudge opens the judge that the configuration of this home describes, or the default one.
func (p *program) openJudge(ctx context.Context, tier string) (*judge.Judge, error) {
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	return judge.Open(ctx, judge.Config{Tier: cmp.Or(tier, c.Judge.Tier), Analysis: c.Judge.Analysis, Cache: judgeCache()})
}

// doing returns what p.waiting shows of the judge.
func doing(verb string, a *judge.Activity) func() string {
	return func() string {
		if text := a.Text(); text != "" {
			return verb + ": " + text
		}
		return verb
	}
}

// judgeCache returns the directory for what makes judging faster, which all homes of a user share. It is empty if the
// user has no directory for caches.
func judgeCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "guild", "judge")
}

// keepVerdict writes the verdict and its evidence, and beside them the evidence with what hidden tests showed, if there
// are any.
func keepVerdict(dir string, v guild.Verdict, evidence, whole judge.Evidence) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "verdict.json"), append(raw, '\n'), 0o600),
		os.WriteFile(filepath.Join(dir, "evidence.json"), evidence, 0o600),
	)
	if whole != nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "evidence-hidden.json"), whole, 0o600))
	}
	return err
}

// judged is the output of judge run --json.
type judged struct {
	Outcome    guild.Outcome    `json:"outcome"`
	Cause      string           `json:"cause"`
	Score      float64          `json:"score"` // Micro in decimal form, deprecated
	Micro      guild.Score      `json:"score_micro"`
	Strength   guild.Strength   `json:"strength"`
	Strengths  *guild.Strengths `json:"strengths,omitempty"` // functional tests that passed
	Unproven   []string         `json:"unproven,omitempty"`
	Decided    int              `json:"decided"` // questions that only the delivery's own objects answered
	Tier       string           `json:"tier"`
	Tests      testCounts       `json:"tests"`
	Violations []guild.Breach   `json:"violations"`
	Metrics    guild.Usage      `json:"metrics"`
	Person     string           `json:"person,omitempty"` // why a person must decide; then there is no outcome
	SoFar      guild.Outcome    `json:"so_far,omitempty"` // outcome by programs, if a person must decide
	Kept       string           `json:"kept,omitempty"`   // directory
	Verdict    guild.Verdict    `json:"verdict"`          // all of it, as it is hashed and kept
}

// testCounts are the tests of a verdict by their states.
type testCounts struct {
	Expected int `json:"expected"`
	Passed   int `json:"passed"`
	Failed   int `json:"failed"`
	Skipped  int `json:"skipped"`
	Missing  int `json:"missing"`
}

func countTests(v guild.Verdict) testCounts {
	c := testCounts{Expected: v.Expected, Passed: v.Passed}
	for _, t := range v.Tests {
		switch t.State {
		case guild.TestFailed:
			c.Failed++
		case guild.TestSkipped:
			c.Skipped++
		case guild.TestMissing:
			c.Missing++
		}
	}
	return c
}

// judgedResult shows a verdict: a person sees it with what hidden tests showed, the JSON has it as it is stored.
func (p *program) judgedResult(v guild.Verdict, whole judge.Evidence, person *judge.PersonNeeded, kept string) *cli.Result {
	out := judged{
		Outcome: v.Outcome, Cause: v.Cause, Score: v.Score.Float(), Micro: v.Score, Strength: v.Strength, Tier: v.Tier,
		Tests: countTests(v), Violations: v.Breaches, Metrics: v.Usage, Kept: kept, Verdict: v,
		Strengths: v.Strengths, Unproven: v.Unproven, Decided: v.Decided,
	}
	if out.Violations == nil {
		out.Violations = []guild.Breach{}
	}
	if person != nil {
		out.Person, out.Outcome, out.SoFar = person.Reason, "", v.Outcome
	}
	return &cli.Result{JSON: out, Show: func() error {
		writeVerdict(p.out, unabridged(v, json.RawMessage(whole)), colours())
		if kept != "" {
			fmt.Fprintf(p.out, "kept in %s\n", kept)
		}
		return nil
	}}
}

// undecidedResult shows the tests of a verdict without an outcome, if any were run. The error says why there is none.
func (p *program) undecidedResult(v guild.Verdict, err error) *cli.Result {
	r := p.judgedResult(v, nil, nil, "")
	r.Show = func() error {
		for _, t := range v.Tests {
			writeTest(p.out, t, colours())
		}
		return nil
	}
	out := r.JSON.(judged)
	out.Cause = err.Error()
	r.JSON = out
	return r
}

// judgedError returns the exit code for a verdict that is not SUCCESS. The verdict itself was printed.
func judgedError(v guild.Verdict, person *judge.PersonNeeded) error {
	switch {
	case person != nil:
		return cli.WithCode(person, exitUndecided)
	case v.Outcome == guild.Success:
		return nil
	case v.Outcome == guild.Violation:
		return cli.WithCode(fmt.Errorf("%s: %s", v.Outcome, v.Cause), exitViolation)
	case v.Outcome == guild.Failure || v.Outcome == guild.Partial:
		return cli.WithCode(fmt.Errorf("%s: %s", v.Outcome, v.Cause), exitRejected)
	default:
		return fmt.Errorf("%s: %s", v.Outcome, v.Cause)
	}
}

// compare returns where a verdict differs from an earlier one of the same delivery, apart from times and measurements.
func compare(then, now guild.Verdict) error {
	if then.Outcome != now.Outcome || then.Passed != now.Passed || then.Expected != now.Expected {
		return fmt.Errorf("the earlier verdict says %s with %d of %d passed; now it is %s with %d of %d",
			then.Outcome, then.Passed, then.Expected, now.Outcome, now.Passed, now.Expected)
	}
	states := map[string]string{}
	for _, t := range then.Tests {
		states[t.ID] = t.State
	}
	for _, t := range now.Tests {
		if was, known := states[t.ID]; !known || was != t.State {
			return fmt.Errorf("the earlier verdict says that test %s is %q; now it is %q", t.ID, was, t.State)
		}
	}
	return nil
}
