package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/probe"
	"guild/internal/judging/sandbox/tiers"
)

func (p *program) judgeDoctorCommand() *cobra.Command {
	var tier string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Test every sandbox with hostile programs",
		Long: `doctor runs small hostile programs in each sandbox that this machine can build:
they connect, trace, mount, write to /usr, read /root, fork without end and
more. It prints what held and what did not, what was reported, and what would
help. The programs do no harm even if a sandbox does not hold.

It exits 1 if no sandbox is usable, or the one that would be used does not hold.`,
		Example: "  guild judge doctor\n  guild judge doctor --tier landlock --json",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.runJudgeDoctor(cmd.Context(), tier, cli.AsJSON(cmd))
		},
	}
	cmd.Flags().StringVar(&tier, "tier", "", "only this sandbox")
	cli.JSONFlag(cmd, "print JSON")
	return cmd
}

// examined is doctor's report on one sandbox.
type examined struct {
	Tier     string   `json:"tier"`
	Usable   bool     `json:"usable"`
	Used     bool     `json:"used"` // it is the one that judges by default
	Held     bool     `json:"held"` // everything that was tried
	Reason   string   `json:"reason,omitempty"`
	MAC      string   `json:"mac,omitempty"`
	Rootfs   string   `json:"rootfs,omitempty"`
	Checks   []check  `json:"checks"`
	Gaps     []string `json:"gaps"`
	Remedies []string `json:"remedies"`
}

// check is one thing that was tried.
type check struct {
	Name     string `json:"name"`
	Held     bool   `json:"held"`
	Reported bool   `json:"reported"`
	Skipped  bool   `json:"skipped,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

var errNoWalls = errors.New("no sandbox here holds what judging needs")

func (p *program) runJudgeDoctor(ctx context.Context, tier string, asJSON bool) error {
	var all []examined
	used, holds := false, false
	names := tiers.Names()
	for i, r := range tiers.All() {
		if tier != "" && tier != names[i] {
			continue
		}
		one, err := examineTier(ctx, r)
		if err != nil {
			return err
		}
		if one.Usable && !used {
			one.Used, used, holds = true, true, one.Held
		}
		all = append(all, one)
		if !asJSON {
			p.writeExamined(one)
		}
	}
	if asJSON && len(all) > 0 {
		if err := cli.PrintJSON(p.out, all); err != nil {
			return err
		}
	}
	switch {
	case len(all) == 0:
		unknown := tiers.Unknown(tier)
		return cli.WithHint(cli.Usage(errors.New(unknown.Reason)), unknown.Remedy)
	case !holds:
		remedy := ""
		for _, one := range all {
			if len(one.Remedies) > 0 {
				remedy = one.Remedies[0]
				break
			}
		}
		err := cli.WithHint(errNoWalls, remedy)
		if asJSON {
			return cli.Answered(err)
		}
		return err
	}
	return nil
}

// examineTier tries one sandbox.
func examineTier(ctx context.Context, r sandbox.Runner) (examined, error) {
	report, err := probe.Examine(ctx, r)
	if err != nil {
		return examined{}, err
	}
	c := report.Caps
	one := examined{Tier: c.Tier, Usable: c.Usable, Held: report.Held(), Reason: c.Reason, MAC: c.MAC, Rootfs: c.Rootfs,
		Checks: []check{}, Gaps: append([]string{}, c.Gaps...), Remedies: append([]string{}, report.Remedies...)}
	for _, c := range report.Checks {
		one.Checks = append(one.Checks, check(c))
	}
	return one, nil
}

func (p *program) writeExamined(one examined) {
	colour := colours()
	good, bad := colour.good.Render("✓"), colour.bad.Render("✗")
	switch {
	case !one.Usable:
		line(p.out, "%s %s: not usable: %s", bad, one.Tier, cli.Clean(one.Reason))
	case one.Used:
		line(p.out, "%s %s: used to judge; %s; %s", good, one.Tier, cli.Clean(one.Rootfs), orNone(one.MAC))
	default:
		line(p.out, "%s %s: usable; %s; %s", good, one.Tier, cli.Clean(one.Rootfs), orNone(one.MAC))
	}
	for _, c := range one.Checks {
		mark, told := good, ""
		if !c.Held {
			mark = bad
		}
		if c.Skipped {
			mark = "–"
		}
		if c.Reported {
			told = ", reported"
		}
		line(p.out, "    %s %-34s %s%s", mark, cli.Clean(c.Name), cli.Cut(cli.Clean(c.Detail), 60), told)
	}
	for _, gap := range one.Gaps {
		line(p.out, "    gap: %s", cli.Clean(gap))
	}
	for _, remedy := range one.Remedies {
		line(p.out, "    do:  %s", cli.Clean(remedy))
	}
}
