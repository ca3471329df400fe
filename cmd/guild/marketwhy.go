package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/journal/fact"
)

func (p *program) whyCommand() *cobra.Command {
	return call(p, p.reading, control.Choices, &cobra.Command{
		Use:   "why JOB",
		Short: "Explain why each provider of a job was asked",
		Long: `why shows each routing decision of a job as it was made: the candidates with the
terms of their scores, the excluded providers with the rules, the dice, and the
rules that could not be kept. A score is the sum of its weighted terms.`,
		Example: "  guild market why 5f21c9aa\n  guild market why 5f21c9aa --json",
	}, func(all []control.Decision) error {
		if len(all) == 0 {
			fmt.Fprintln(p.err, "no provider was asked for this job; guild job show says why, or what it waits for")
		}
		for i, d := range all {
			if i > 0 {
				fmt.Fprintln(p.out)
			}
			showDecision(p.out, i+1, d)
		}
		return nil
	})
}

// showDecision prints one decision.
func showDecision(w io.Writer, turn int, d control.Decision) {
	fmt.Fprintf(w, "%d. %s  %s  for %s at %s", turn, cli.Cut(cli.Clean(d.Name), 20), cli.ShortNpub(d.Provider), cli.Clean(d.Task), clock(d.At))
	if d.State != "" {
		fmt.Fprintf(w, ": %s", d.State)
	}
	fmt.Fprintln(w)
	c := d.Choice
	if c == nil {
		fmt.Fprintln(w, "   it was asked before choices were recorded")
		return
	}
	fmt.Fprintf(w, "   %s\n", describeRule(*c))
	chosen := guild.Service{D: d.D}
	rows := [][]string{{"", "NAME", "PROVIDER", "TIER", "SCORE", "TRUST", "COST", "TIME", "LOAD", "NEW"}} // 80 columns
	for _, one := range c.Candidates {
		mark := ""
		if npub(one.Service.PubKey) == d.Provider && one.Service.D == d.D {
			mark, chosen = ">", one.Service
		}
		rows = append(rows, []string{
			mark, cli.Cut(cli.Clean(one.Name), 8), cli.ShortNpub(npub(one.Service.PubKey)), one.Tier, micro(one.Score),
			micro(one.Terms.Trust), micro(one.Terms.Cost), micro(one.Terms.Latency), micro(one.Terms.Load), micro(one.Terms.Exploration),
		})
	}
	if len(rows) > 1 {
		cli.Table(w, rows)
	}
	if more := c.Count - len(c.Candidates); more > 0 {
		fmt.Fprintf(w, "   and %d more candidates\n", more)
	}
	showExcluded(w, *c, chosen)
}

// describeRule says for a person by which rule a provider was chosen.
func describeRule(c fact.Choice) string {
	switch c.Rule {
	case "best":
		return fmt.Sprintf("the best of the tier %s (drawn %s: below %s somebody little-known is asked; drawn %s for the tier)",
			c.Tier, micro(c.Dice[0]), micro(c.Epsilon), micro(c.Dice[1]))
	case "sampled":
		return fmt.Sprintf("the highest score, with each provider's trust drawn from its latest outcomes (drawn by %s %s %s)",
			micro(c.Dice[0]), micro(c.Dice[1]), micro(c.Dice[2]))
	case "explored":
		return fmt.Sprintf("to learn more about a little-known provider (drawn %s, below %s)", micro(c.Dice[0]), micro(c.Epsilon))
	case "unmet":
		return "no provider is qualified: an unknown one, for a job of low criticality"
	case "named":
		return "named by the customer"
	case "offered":
		return "the best of the offers"
	case "meeting":
		return "a benchmark"
	}
	return c.Rule
}

// showExcluded prints the excluded providers with the rules, and the rules that could not be kept. A rule that the chosen
// provider breaks was not kept; it does not count as excluded.
func showExcluded(w io.Writer, c fact.Choice, chosen guild.Service) {
	barred := maps.Clone(c.Barred)
	var excluded []fact.Exclusion
	for _, e := range c.Excluded {
		relaxed := slices.ContainsFunc(c.Relaxed, func(rule string) bool { return strings.HasPrefix(rule, e.By+":") })
		if e.Service == chosen && relaxed {
			barred[e.By]--
			continue
		}
		excluded = append(excluded, e)
	}
	var parts []string
	for _, by := range slices.Sorted(maps.Keys(barred)) {
		if barred[by] > 0 {
			parts = append(parts, fmt.Sprintf("%d by the rule %q", barred[by], cli.Clean(by)))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "   excluded: %s\n", strings.Join(parts, ", "))
	}
	for _, e := range excluded {
		fmt.Fprintf(w, "     %s  %s\n", cli.ShortNpub(npub(e.Service.PubKey)), cli.Clean(e.Reason))
	}
	for _, rule := range c.Relaxed {
		name, why, _ := strings.Cut(rule, ": ")
		fmt.Fprintf(w, "   an exception from the rule %q: %s\n", cli.Clean(name), cli.Clean(why))
	}
}

// micro formats a number in millionths.
func micro(t guild.Trust) string { return fmt.Sprintf("%.3f", t.Float()) }
