package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
	"guild/internal/step/judge"
	"guild/nutshell"
	nutcheck "guild/nutshell/check"
)

// vetOptions are the flags of judge vet.
type vetOptions struct {
	tier, hidden string
	keepGreen    bool
}

func (p *program) judgeVetCommand() *cobra.Command {
	var o vetOptions
	cmd := p.local(&cobra.Command{
		Use:   "vet BUNDLE",
		Short: "Find what a bundle's tests can show, before anybody is hired",
		Long: `vet runs the acceptance criteria of a request bundle without a delivery: on the
bundle's own files, where at least one test must fail, and, where tests run
apart from what they test, on deliveries that compute nothing. It names the
tests that pass even so, and says how strong a verdict can become. guild hire
does the same before it sends anything.

With --keep-green the work must only not break what passes now, and no test
needs to fail.

Exit codes: 0 the tests are fit, 1 they are not, or cannot be run here, 2 wrong
usage.`,
		Example: "  guild judge vet ./my-task\n  guild judge vet ./my-task --json | jq .strength",
		Args:    cli.OneArg("a bundle"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		v, err := p.vetting(cmd.Context(), args[0], o)
		if errors.Is(err, fs.ErrNotExist) && cli.HintOf(err) == "" {
			err = cli.WithHint(err, `guild nut check says what a bundle lacks; guild hire DIR --dry-run "WHAT-IS-TO-BE-DONE" makes one of a project`)
		}
		if err != nil {
			return nil, err
		}
		return &cli.Result{JSON: v, Show: func() error { p.showVetting(v); return nil }}, unfit(v)
	})
	cmd.Flags().StringVar(&o.tier, "tier", "", "the sandbox to use (default: the best that works; guild judge doctor lists them)")
	cmd.Flags().StringVar(&o.hidden, "hidden", "", "directory of the hidden tests (default: the bundle's tests/hidden)")
	cmd.Flags().BoolVar(&o.keepGreen, "keep-green", false, "no test needs to fail on the bundle's own files")
	return cmd
}

// vetting is vet, and shows meanwhile on a terminal what runs.
func (p *program) vetting(ctx context.Context, bundle string, o vetOptions) (exam.Vetting, error) {
	shown := &judge.Activity{Now: p.now}
	defer p.waiting(doing("vetting the tests", shown))()
	return p.vet(exam.WithProgress(ctx, shown.Note), bundle, o)
}

// vet vets the criteria of a bundle, which is a directory or a .nut file.
func (p *program) vet(ctx context.Context, bundle string, o vetOptions) (exam.Vetting, error) {
	scratch, err := os.MkdirTemp("", "guild-vet-")
	if err != nil {
		return exam.Vetting{}, err
	}
	defer os.RemoveAll(scratch)
	dir, err := opened(ctx, bundle, scratch)
	if err != nil {
		return exam.Vetting{}, err
	}
	kept := &exam.Engine{Cache: judgeCache()}
	v, err := kept.Vet(ctx, dir, o.hidden, o.keepGreen)
	if _, unknown := errors.AsType[*sandbox.UnusableError](err); unknown {
		j, opened := p.openJudge(ctx, o.tier)
		if opened != nil {
			return exam.Vetting{}, opened
		}
		defer j.Close()
		v, err = j.Exam.Vet(ctx, dir, o.hidden, o.keepGreen)
	}
	for _, p := range nutcheck.Idle(os.DirFS(dir)) {
		v.Hints = append(v.Hints, cli.Clean(p)+" is never run: no criterion names it")
	}
	return v, err
}

// unfit returns why nobody should be judged by the tests, nil if they are fit.
func unfit(v exam.Vetting) error {
	if len(v.Problems) == 0 {
		return nil
	}
	return cli.WithCode(errors.New("the tests are not fit to judge by: "+strings.Join(v.Problems, "; ")), exitFailed)
}

func (p *program) showVetting(v exam.Vetting) {
	colour := colours()
	mark := colour.good.Render("✓")
	if len(v.Problems) > 0 {
		mark = colour.bad.Render("✗")
	}
	line(p.out, "%s a verdict can become %s", mark, v.Strength)
	for _, c := range v.Criteria {
		text := fmt.Sprintf("  %s (%s) %s", cli.Clean(c.ID), c.Framework, c.Strength)
		if c.Because != "" {
			text += ": " + cli.Clean(c.Because)
		}
		line(p.out, "%s", text)
		if c.Untried != "" {
			line(p.out, "    not tried on lies: %s", cli.Clean(c.Untried))
		}
		for _, t := range c.Tests {
			p.showVetted(t, colour)
		}
	}
	for _, text := range v.Hints {
		line(p.out, "  hint: %s", text)
	}
}

func (p *program) showVetted(t exam.VettedTest, colour palette) {
	now := "fails on the bundle's own files"
	if t.State == guild.TestPassed {
		now = "passes on the bundle's own files"
	}
	if t.Nothing {
		line(p.out, "    %s %s shows nothing: %s", colour.bad.Render("✗"), cli.Clean(t.ID), cli.Clean(t.Because))
		return
	}
	line(p.out, "    %s %s %s", colour.good.Render("✓"), cli.Clean(t.ID), now)
}

// vetBundle vets the packed bundle of a job, before anybody is hired, and says what a verdict can become.
func (p *program) vetBundle(ctx context.Context, o hireOptions, packed []byte) (exam.Vetting, error) {
	scratch, err := os.MkdirTemp("", "guild-vet-")
	if err != nil {
		return exam.Vetting{}, err
	}
	defer os.RemoveAll(scratch)
	file := filepath.Join(scratch, "bundle.nut")
	if err := os.WriteFile(file, packed, 0o600); err != nil {
		return exam.Vetting{}, err
	}
	vet := vetOptions{keepGreen: o.KeepGreen}
	hidden := filepath.Join(o.Source, nutshell.HiddenDir)
	if info, err := os.Stat(hidden); err == nil && info.IsDir() {
		vet.hidden = hidden
	}
	v, err := p.vetting(ctx, file, vet)
	if errors.Is(err, exam.ErrUndecided) {
		return v, cli.WithHint(fmt.Errorf("a delivery could not be judged: %w", err), o.fixHint())
	}
	if err != nil {
		return v, err
	}
	if err := unfit(v); err != nil {
		return v, cli.WithHint(err, o.unfitHint())
	}
	if !o.asJSON && o.made == nil && v.Strength != guild.Strong && v.Strength != guild.Unverified {
		fmt.Fprintf(p.err, "guild: a verdict on this can become %s at most; guild judge vet says why\n", v.Strength)
	}
	return v, nil
}
