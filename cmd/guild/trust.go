package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/step/trust"
)

func (p *program) trustCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "trust",
		Short:   "Show and set the trust in providers",
		Example: "  guild trust ls\n  guild trust history npub1…\n  guild trust set npub1… --task python 0.7 --because \"audited by hand\"",
	}, p.trustLsCommand(), p.trustShowCommand(), p.trustHistoryCommand(), p.trustSetCommand(), p.trustRollbackCommand(),
		p.trustExportCommand(), p.trustImportCommand(), p.trustPolicyCommand())
}

func (p *program) trustLsCommand() *cobra.Command {
	cmd := call(p, p.reading, control.Trust, &cobra.Command{
		Use:   "ls",
		Short: "List the trust in providers, by task",
		Long: `ls lists the routing matrix: for each task the services that were judged, the
most trusted first, with their state. Below it are alerts, and the values beside
trust that differ from the configuration.`,
		Example: "  guild trust ls\n  guild trust ls --task python --json",
	}, p.showTrust)
	cmd.Flags().String("task", "", "only this task")
	return cmd
}

func (p *program) showTrust(m control.Matrix) error {
	none := "nobody was judged yet; guild market bench tries a provider, and guild hire learns from each job"
	err := table(p, none, "TASK,NAME,PROVIDER,STATE,TRUST,RUN,CHANGED", func(e control.TrustEntry) []string {
		changed := "-"
		if e.Changed != 0 {
			changed = age(p.now(), e.Changed)
		}
		return []string{cli.Cut(cli.Clean(e.Task), 18), cli.Cut(cli.Clean(e.Name), 12), cli.ShortNpub(e.Npub), inShort(e.State, e.Provisional),
			fmt.Sprintf("%.2f", e.Trust), fmt.Sprint(e.Runs), changed}
	})(m.Entries)
	if err != nil {
		return err
	}
	for _, v := range m.Variables {
		judged := func(e control.TrustEntry) bool { return e.Npub == v.Npub }
		if v.Npub != "" && !slices.ContainsFunc(m.Entries, judged) {
			continue // --json has those of providers that were never judged
		}
		fmt.Fprintln(p.out, describeVariable(v))
	}
	for _, a := range m.Alerts {
		if a.Rule == trust.AlertConfidence && len(m.Entries) < 5 {
			continue // of so few it says only that they are new
		}
		fmt.Fprintf(p.err, "look: %s\n", cli.Clean(a.Text))
		if a.Hint != "" {
			fmt.Fprintf(p.err, "      %s\n", cli.Clean(a.Hint))
		}
	}
	return nil
}

// describeVariable returns a variable with its key, its value and the reason.
func describeVariable(v control.Variable) string {
	text := v.Name
	about := cli.Clean(v.Key)
	switch {
	case v.Npub != "" && v.Provider != "":
		text += " " + cli.Cut(cli.Clean(v.Provider), 20) + " " + cli.ShortNpub(v.Npub)
	case v.Npub != "":
		text += " " + cli.ShortNpub(v.Npub)
	case about != "":
		text += " " + cli.Cut(about, 40)
	}
	text += " = " + cli.Clean(string(v.Value))
	if v.Why != "" {
		text += "\n  " + cli.Clean(v.Why)
	}
	return text
}

func (p *program) trustShowCommand() *cobra.Command {
	cmd := call(p, p.reading, control.Standings, &cobra.Command{
		Use:     "show PROVIDER",
		Short:   "Show trust in a provider, its state, and what comes next",
		Example: "  guild trust show npub1…\n  guild trust show npub1… --json",
	}, p.showStandings)
	cmd.Flags().String("d", "", "only this service")
	return cmd
}

func (p *program) showStandings(all []control.Standing) error {
	for i, s := range all {
		if i > 0 {
			fmt.Fprintln(p.out)
		}
		fmt.Fprintf(p.out, "%s  %s  %s\n", cli.Clean(s.Name), s.Npub, cli.Clean(s.D))
		field := func(name, format string, args ...any) {
			fmt.Fprintf(p.out, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
		}
		field("state", "%s", inFull(s.State, s.Provisional))
		if s.Cause != "" {
			field("because", "%s", cli.Cut(cli.Clean(s.Cause), 66))
		}
		if s.Next != "" {
			field("next", "%s", cli.Cut(cli.Clean(s.Next), 66))
		}
		if len(s.Owners) > 0 {
			field("owner", "%s", ownersText(s.Owners))
		}
		if s.State == "suspended" {
			field("or", "guild trust set PROVIDER --state reinstated --because WHY")
		}
		for _, t := range s.Trust {
			field("trust", "%s %.3f, %s", cli.Clean(t.Task), t.Trust, cli.Count(t.Runs, "success in a row", "successes in a row"))
		}
		for _, r := range s.Reviews {
			if r.Counted > 0 {
				field("others", "%.1f of 5 in %s that count, of %d", r.Rating, cli.Count(r.Counted, "review", "reviews"), r.Count)
			}
		}
	}
	return nil
}

type trustSetOptions struct {
	Task, State, Because string
	Force                bool
}

func (p *program) trustSetCommand() *cobra.Command {
	var o trustSetOptions
	cmd := send(p, p.acting, control.ChangeTrust, &cobra.Command{
		Use:   "set PROVIDER [TRUST]",
		Short: "Set trust, or a provider's state, yourself",
		Long: `set overrides experience: trust for a task (0.1 to 0.9), or a state.

  suspended   gets no work until you set another state
  reinstated  is benchmarked again, and works if it passes; at once with --force
  removed     never gets work again, with all services of its key
  allowed     is no longer removed, and counts as unknown

The reason is kept with the change. Your setting is only undone by an attempt to
break out of the sandbox.`,
		Example: "  guild trust set npub1… 0.7 --task python --because \"audited by hand\"\n  guild trust set npub1… --state suspended --because \"they asked for a pause\"",
		Args:    cli.Arity(cobra.RangeArgs(1, 2), "a provider, and trust unless --state is given"),
	}, func(cmd *cobra.Command, args []string) (control.SetTrust, []string, error) {
		set, err := o.change(args[1:])
		if err != nil {
			return set, nil, err
		}
		set.D = givenFlag(cmd, "d")
		key, err := resolveProvider(cmd.Context(), args[0])
		return set, []string{key}, err
	}, p.showStandings)
	f := cmd.Flags()
	f.StringVar(&o.Task, "task", "", "the task that trust is for")
	f.StringVar(&o.State, "state", "", "suspended, reinstated, removed or allowed")
	f.String("d", "", "which of its services (default: the only one)")
	f.StringVar(&o.Because, "because", "", "the reason, which is kept (required)")
	f.BoolVar(&o.Force, "force", false, "reinstate without another benchmark")
	cli.Exclusive(cmd, "task", "state")
	cli.Choices(cmd, "state", "suspended", "reinstated", "removed", "allowed")
	return cmd
}

// change reads the new trust or state.
func (o trustSetOptions) change(value []string) (control.SetTrust, error) {
	set := control.SetTrust{Task: o.Task, State: o.State, Force: o.Force, Reason: o.Because}
	switch {
	case o.Because == "":
		return set, errors.New("--because is missing: say why, for whoever reads the history")
	case len(value) == 0 && o.State == "":
		return set, errors.New("give a trust from 0.1 to 0.9, or --state")
	case o.Force && o.State != "reinstated":
		return set, errors.New("--force is for --state reinstated")
	case len(value) == 1 && o.State != "":
		return set, errors.New("give a trust or --state, not both")
	case len(value) == 1 && strings.TrimSpace(o.Task) == "":
		return set, errors.New("--task is missing: trust is set for one task")
	case strings.ContainsFunc(o.Task, unicode.IsControl):
		return set, fmt.Errorf("--task %.40q: a task is text without control characters", o.Task)
	case len(value) == 1:
		t, err := decimal(value[0])
		if err != nil || !(t >= 0.1 && t <= 0.9) {
			return set, fmt.Errorf("trust %.20q: want a number from 0.1 to 0.9", value[0])
		}
		set.Trust = &t
	}
	return set, nil
}
