package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/policy"
)

type rechooseOptions struct {
	Epsilon float64
	Weights []string // name=value
	Tiers   []float64
	Policy  string
	Task    string
	Since   string
}

func (p *program) rechooseCommand() *cobra.Command {
	var o rechooseOptions
	cmd := send(p, p.reading, control.ReplayRouting, &cobra.Command{
		Use:   "replay",
		Short: "Replay routing decisions with other settings",
		Long: `replay makes the routing decisions of the journal again with other settings, and
compares their cost and score. The results of providers that were not chosen are
estimated from their other verdicts, and SURE says how much data that rests on.
A decision has its sixteen best candidates. Nothing is changed.`,
		Example: "  guild market replay --epsilon 0\n  guild market replay --weights trust=0.5,cost=0.3,latency=0.2\n  guild market replay --policy measured --task python --since 168h",
	}, func(cmd *cobra.Command, _ []string) (control.RouterSettings, []string, error) {
		how, err := p.settings(o, cmd.Flags().Changed("epsilon"))
		return how, nil, err
	}, p.showReplayed)
	f := cmd.Flags()
	f.Float64Var(&o.Epsilon, "epsilon", 0, "share of decisions that explore, at first (default: the policy's)")
	f.StringSliceVar(&o.Weights, "weights", nil, "trust, cost, latency, load and exploration, as trust=0.5,cost=0.3; others are 0")
	f.Float64SliceVar(&o.Tiers, "tiers", nil, "shares of primary, secondary and tertiary, as 1,0,0")
	f.StringVar(&o.Policy, "policy", "", "begin from this policy instead of the one in force")
	f.StringVar(&o.Task, "task", "", "only the decisions for this task")
	f.StringVar(&o.Since, "since", "", "only those from then on: a duration ago, or a moment")
	cli.Choices(cmd, "policy", policy.Names()...)
	return cmd
}

// settings reads the changed settings of the router.
func (p *program) settings(o rechooseOptions, explores bool) (control.RouterSettings, error) {
	how := control.RouterSettings{Policy: o.Policy, Task: o.Task, Tiers: o.Tiers, Weights: map[string]float64{}}
	if explores {
		if math.IsNaN(o.Epsilon) || math.IsInf(o.Epsilon, 0) {
			return how, fmt.Errorf("--epsilon %v: want a share from 0 to 1", o.Epsilon)
		}
		how.Epsilon = &o.Epsilon
	}
	for _, share := range o.Tiers {
		if math.IsNaN(share) || math.IsInf(share, 0) {
			return how, fmt.Errorf("--tiers %v: want shares from 0 to 1, as 1,0,0", share)
		}
	}
	for _, text := range o.Weights {
		name, value, found := strings.Cut(text, "=")
		weight, err := decimal(value)
		if !found || err != nil || math.IsNaN(weight) || math.IsInf(weight, 0) {
			return how, fmt.Errorf("--weights %.40q: want name=number, as trust=0.5", text)
		}
		how.Weights[name] = weight
	}
	if o.Since != "" {
		at, err := p.moment(o.Since)
		if err != nil {
			return how, fmt.Errorf("--since %w", err)
		}
		how.Since = at.UnixMilli()
	}
	return how, nil
}

func (p *program) showReplayed(r control.RouterReplay) error {
	if r.Decisions == 0 {
		fmt.Fprintln(p.err, "the router has decided nothing yet: named providers, offers and benchmarks are not its choice")
		return nil
	}
	rows := [][]string{{"AT", "JOB", "TASK", "CHOSE", "WOULD CHOOSE", "NAME", "SCORE", "BY"}}
	for _, c := range r.Choices {
		rows = append(rows, []string{
			time.UnixMilli(c.At).Format("2 Jan 15:04"), short(c.Job), cli.Cut(cli.Clean(c.Task), 12), cli.ShortNpub(c.Chosen), cli.ShortNpub(c.Instead),
			cli.Cut(cli.Clean(c.Name), 12), fmt.Sprintf("%.2f", c.Would), c.Rule,
		})
	}
	if len(rows) > 1 {
		if err := cli.Table(p.out, rows); err != nil {
			return err
		}
		fmt.Fprintln(p.out)
	}
	fmt.Fprintf(p.out, "%s, %d would be another; %d were not the router's\n", cli.Count(r.Decisions, "decision", "decisions"), r.Changed, r.Kept)
	cli.Table(p.out, [][]string{
		{"", "COST", "MEAN SCORE", "EXPLORED"},
		{"was", fmt.Sprintf("%d msat", r.Cost), fmt.Sprintf("%.3f", r.Score), fmt.Sprint(r.DidBefore)},
		{"would be", fmt.Sprintf("%d msat", r.WouldCost), fmt.Sprintf("%.3f", r.Would), fmt.Sprint(r.Explored)},
	})
	fmt.Fprintf(p.out, "sure to %.0f %%: what others would have delivered is an estimate from their own verdicts\n", 100*r.Sure)
	return nil
}
