package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/judging/suite"
)

func (p *program) marketCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "market",
		Short:   "List providers, benchmark and recommend them",
		Example: "  guild market ls --task python\n  guild market show npub1…\n  guild market bench npub1…",
	}, p.marketLsCommand(), p.marketShowCommand(), p.marketWatchCommand(), p.benchCommand(), p.recommendCommand(), p.whyCommand(), p.rechooseCommand())
}

type marketOptions struct {
	Task  string // only providers of this task
	Limit int    // rows of the table; all if zero
}

func (p *program) marketLsCommand() *cobra.Command {
	var o marketOptions
	cmd := p.local(&cobra.Command{
		Use:   "ls",
		Short: "List known providers with their offers and trust",
		Long: `ls lists the announced services. FIT says how surely a provider does the task: 1
if it names the task, 0.8 for a synonym, 0.6 if it is inferred. DONE counts its
accepted jobs of this node, and all of them. Providers that this node has asked
before come first.`,
		Example: "  guild market ls\n  guild market ls --task python",
	}, func(cmd *cobra.Command, _ []string) (*cli.Result, error) { return p.runMarketLs(cmd.Context(), o) })
	cmd.Flags().StringVar(&o.Task, "task", "", "only those who offer this task")
	cmd.Flags().IntVar(&o.Limit, "limit", 50, "rows of the table; 0 for all (--json has all)")
	return cmd
}

func (p *program) runMarketLs(ctx context.Context, o marketOptions) (*cli.Result, error) {
	if o.Limit < 0 {
		return nil, cli.Usage(fmt.Errorf("--limit %d is negative", o.Limit))
	}
	var all []control.Provider
	var live bool
	err := p.reading(ctx, func(client *control.Client, _ bool) (err error) {
		live = client.Socket() != ""
		all, err = control.Providers.Call(ctx, client, o.Task)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &cli.Result{JSON: all, Show: func() error {
		if !live {
			fmt.Fprintln(p.err, "no node is running: this is what was known last; guild up listens for more")
		}
		if len(all) == 0 {
			fmt.Fprintln(p.err, nobodyKnown(o.Task, live))
			return nil
		}
		return p.listProviders(all, o)
	}}, nil
}

// listProviders prints the table, providers that were asked or judged here first.
func (p *program) listProviders(all []control.Provider, o marketOptions) error {
	slices.SortStableFunc(all, func(a, b control.Provider) int {
		known := isKnown(a)
		switch {
		case known == isKnown(b):
			return 0
		case known:
			return -1
		}
		return 1
	})
	more := 0
	if o.Limit > 0 && len(all) > o.Limit {
		all, more = all[:o.Limit], len(all)-o.Limit
	}
	rows := [][]string{{"NAME", "PROVIDER", "STATE", "SEEN", "FIT", "TASKS", "DONE", "TRUST"}}
	for _, v := range all {
		fit, done := "-", "-"
		if o.Task != "" {
			fit = fmt.Sprintf("%.1f", v.Confidence)
		}
		if v.Observed != nil {
			done = fmt.Sprintf("%d/%d", v.Observed.Accepted, v.Observed.Asked)
		}
		rows = append(rows, []string{
			cli.Cut(cli.Clean(v.Name), 12), cli.ShortNpub(v.Npub), inShort(v.State, v.Provisional), age(p.now(), v.SeenMs), fit,
			cli.Cut(cli.Clean(strings.Join(v.Tasks, ",")), 13), done, describeTrust(v),
		})
	}
	if err := cli.Table(p.out, rows); err != nil || more == 0 {
		return err
	}
	_, err := fmt.Fprintf(p.out, "and %d more: --limit 0 shows all, --task only those who offer a task\n", more)
	return err
}

// inShort returns a provider's state for a table.
func inShort(state string, provisional bool) string {
	if provisional && state == string(guild.Active) {
		return "provisional"
	}
	return state
}

// inFull returns a provider's state with what fixes it.
func inFull(state string, provisional bool) string {
	if provisional {
		return state + ", provisionally: three deliveries or a benchmark fix it"
	}
	return state
}

// isKnown reports whether a provider was asked or judged here.
func isKnown(v control.Provider) bool { return v.Observed != nil || len(v.Trust) > 0 }

func nobodyKnown(task string, live bool) string {
	if !live && task == "" {
		return "no providers known"
	}
	if task == "" {
		return "no provider is announced on the relays yet"
	}
	return fmt.Sprintf("no provider offers the task %q; guild market ls lists all that is offered", task)
}

// describeTrust lists the trust in a provider for each task that it was judged on.
func describeTrust(v control.Provider) string {
	var parts []string
	for _, task := range slices.Sorted(maps.Keys(v.Trust)) {
		parts = append(parts, fmt.Sprintf("%.2f", v.Trust[task]))
	}
	if len(parts) == 0 {
		return "new"
	}
	return strings.Join(parts, " ")
}

func (p *program) marketShowCommand() *cobra.Command {
	cmd := call(p, p.reading, control.Cards, &cobra.Command{
		Use:   "show PROVIDER",
		Short: "Compare a provider's claims with measurements",
		Long: `show compares a provider's announcement with this node's measurements, and says
since when they are made. A provider is named by its npub, also shortened as
market ls shows it or by its start alone, its key in hex, the name that market
ls shows, if only one has it, or else a NIP-05 name.`,
		Example: "  guild market show npub1…\n  guild market show bob --d python --json",
	}, func(cards []control.Card) error {
		for i, card := range cards {
			if i > 0 {
				fmt.Fprintln(p.out)
			}
			p.showCard(p.out, card)
		}
		return nil
	})
	cmd.Flags().String("d", "", "only this service")
	return cmd
}

// namedProvider resolves an npub or nprofile to a key, and passes on anything else, such as the start of an npub or a name
// from a list, which the node resolves.
func namedProvider(ctx context.Context, text string) (string, error) {
	const whole = 63 // characters of an npub
	if strings.HasPrefix(text, "npub1") && len(text) >= whole && !isShortened(text) || strings.HasPrefix(text, "nprofile1") {
		return resolveProvider(ctx, text)
	}
	return text, nil
}

// isUnknownName reports whether a node knows no provider with a name, and the name may be one of NIP-05. Its domain is asked
// only then, since a provider may call itself so, and asking tells the domain whom one looks for.
func isUnknownName(name string, err error) bool {
	problem, ok := errors.AsType[*control.ProblemError](err)
	return ok && problem.Problem.Code == "usage" && strings.ContainsAny(name, "@.") && !isShortened(name)
}

// showCard prints one service.
func (p *program) showCard(w io.Writer, c control.Card) {
	fmt.Fprintf(w, "%s  %s\n", cli.Clean(c.Name), c.Npub)
	field := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	field("service", "%s", cli.Clean(c.Display))
	if c.About != "" {
		field("about", "%s", cli.Cut(cli.Clean(c.About), 64))
	}
	field("state", "%s", inFull(c.State, c.Provisional))
	field("trust", "%s", trustByTask(c.Trust))
	field("announced", "%s ago, first seen %s ago", age(p.now(), c.SeenMs), age(p.now(), c.FirstSeen))
	field("does", "%s", cli.Cut(cli.Clean(strings.Join(c.Tasks, ", ")), 64))
	field("owner", "%s", ownersText(c.Owners))
	if c.Claimed.Behaviour != "" {
		field("behaviour", "%s", c.Claimed.Behaviour)
	}
	if len(c.Recommenders) > 0 {
		field("recommended", "by %d whom you follow", len(c.Recommenders))
	}
	fmt.Fprintln(w)
	cli.Table(w, claimsBeside(c))
	if o := c.Observed; o != nil {
		fmt.Fprintf(w, "\n  measured over %d requests in %s\n", o.Asked, age(p.now(), o.Since))
	} else {
		fmt.Fprintf(w, "\n  never asked from here: %s\n", firstJob(c))
	}
	for _, contradiction := range c.Contradictions {
		fmt.Fprintf(w, "  contradicts itself: %s\n", cli.Clean(contradiction))
	}
}

// firstJob returns a hint how to get to know a provider.
func firstJob(c control.Card) string {
	if slices.ContainsFunc(c.Tasks, func(task string) bool { return suite.Name(task) != "" }) {
		return "guild market bench " + c.Npub
	}
	return "hire it three times without --criticality (guild hire DIR --provider " + c.Npub + ")"
}

func trustByTask(trust map[string]float64) string {
	var parts []string
	for _, task := range slices.Sorted(maps.Keys(trust)) {
		parts = append(parts, fmt.Sprintf("%s %.2f", cli.Clean(task), trust[task]))
	}
	if len(parts) == 0 {
		return "none yet"
	}
	return strings.Join(parts, ", ")
}
