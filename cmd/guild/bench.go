package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/judging/suite"
)

type benchOptions struct {
	Provider string // npub, hex or NIP-05 name
	Task     string // any that it offers when empty
	Type     string
	Modules  []string
	D        string
	GivenD   bool // D was given, possibly empty
	List     bool
}

func (p *program) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench NPUB | --ls",
		Short: "Benchmark a provider now",
		Long: `bench gives benchmarks to a provider, judges the deliveries, and decides its
state: active, conditional or rejected. A success at once decides, by the policy
partnership three of them; else three runs, or five if those do not agree. A
running node benchmarks new providers by itself, within a daily
budget (meeting.daily_msat); this verb does not count against it.

Each provider gets exercises of its own, and each run others. The provider is
told their rules, but not the tests that decide.

There are benchmarks for the tasks ` + strings.Join(suite.Tasks(), ", ") + `. One that
--task names need not be in the provider's announcement, as with guild hire
--provider; the request says so.

Exit codes: 0 active, 1 anything else, 2 usage, 5 the provider tried to break
out of the sandbox, 130 interrupted (a running node goes on).`,
		Example: "  guild market bench npub1…\n" +
			"  guild market bench npub1… --task python --type stress --modules memory,io\n" +
			"  guild market bench --ls",
		Args: func(cmd *cobra.Command, args []string) error {
			if o.List {
				return cli.NoArgs()(cmd, args)
			}
			return cli.OneArg("a provider")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.List {
				return p.runBenchLs(cmd.Context(), cli.AsJSON(cmd))
			}
			o.Provider, o.GivenD = args[0], cmd.Flags().Changed("d")
			return p.runBench(cmd.Context(), o, cli.AsJSON(cmd))
		},
	}
	cli.JSONFlag(cmd, "print JSON, one meeting a line whenever it changes")
	f := cmd.Flags()
	f.StringVar(&o.Task, "task", "", "task to try it with (default: one that it offers)")
	f.StringVar(&o.Type, "type", suite.Variants[0], "type of benchmark: "+strings.Join(suite.Variants, ", "))
	f.StringSliceVar(&o.Modules, "modules", suite.Modules, "parts of it")
	f.StringVar(&o.D, "d", "", "which of its services (default: the one that surest does the task)")
	f.BoolVar(&o.List, "ls", false, "list the meetings so far")
	cli.Choices(cmd, "task", suite.Tasks()...)
	cli.Choices(cmd, "type", suite.Variants...)
	cli.Choices(cmd, "modules", suite.Modules...)
	return cmd
}

func (p *program) runBench(ctx context.Context, o benchOptions, asJSON bool) error {
	if _, _, err := suite.Check(cmp.Or(o.Task, suite.Tasks()[0]), o.Type, o.Modules); err != nil {
		return cli.Usage(err)
	}
	key, err := resolveProvider(ctx, o.Provider)
	if err != nil {
		return cli.Usage(err)
	}
	client, own, err := p.anyNode(ctx)
	if err != nil {
		return err
	}
	asked := control.Bench{Provider: key, Task: o.Task, Type: o.Type, Modules: o.Modules}
	if o.GivenD {
		asked.D = &o.D
	}
	m, err := onceHeard(ctx, own != nil, func() (control.Meeting, error) { return control.BeginMeeting.Call(ctx, client, asked) })
	if err == nil {
		m, err = p.followMeeting(ctx, client, m, asJSON)
	}
	switch {
	case m.ID != "" && ctx.Err() != nil:
		err = cli.WithHint(cli.WithCode(fmt.Errorf("the meeting %s goes on with the node", short(m.ID)), exitInterrupted), "guild market bench --ls")
	case m.ID != "" && isLost(err):
		err = cli.WithHint(fmt.Errorf("the connection to the node was lost; the meeting %s goes on when it is started again", short(m.ID)),
			"guild up, then guild market bench --ls")
	case err == nil:
		err = meetingError(m)
	}
	if own == nil {
		return err
	}
	return errors.Join(err, own(rest(ctx, err)))
}

// followMeeting shows a meeting until it has ended.
func (p *program) followMeeting(ctx context.Context, client *control.Client, m control.Meeting, asJSON bool) (control.Meeting, error) {
	if !asJSON {
		fmt.Fprintf(p.out, "meeting %s  %s  %s (%s; %s)\n", short(m.ID), cmp.Or(cli.Clean(m.Name), cli.ShortNpub(m.Npub)), cli.Clean(m.Task), m.Type,
			strings.Join(m.Modules, ", "))
	}
	shown := -1 // runs that were followed to their end
	for {
		now, err := control.OneMeeting.Call(ctx, client, m.ID)
		if err != nil {
			return m, err
		}
		if asJSON && (shown < 0 || !sameMeeting(m, now)) {
			if err := cli.PrintLine(p.out, now); err != nil {
				return now, err
			}
		}
		m, shown = now, max(shown, 0)
		switch {
		case !asJSON && shown < len(m.Runs):
			if err := p.followRun(ctx, client, m.Runs[shown].Job, shown+1); err != nil {
				return m, err
			}
			shown++
			continue
		case m.Ended != 0 && (asJSON || m.To == ""):
			return m, nil
		case m.Ended != 0:
			_, err := fmt.Fprintf(p.out, "%-8s score %.2f  %s\n", m.To, scoreOr0(m.Score), cli.Clean(m.Cause))
			return m, err
		}
		select {
		case <-ctx.Done():
			return m, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func sameMeeting(a, b control.Meeting) bool {
	return a.Ended == b.Ended && slices.EqualFunc(a.Runs, b.Runs, func(x, y control.MeetingRun) bool {
		return x.Job == y.Job && x.Closed == y.Closed && x.Outcome == y.Outcome
	})
}

// followRun shows one benchmark as it goes.
func (p *program) followRun(ctx context.Context, client *control.Client, job string, run int) error {
	fmt.Fprintf(p.out, "run %d    job %s\n", run, short(job))
	_, err := writeUpdates(client.Watch(ctx, job), printEvents(p.out, ""))
	return err
}

// meetingError returns an error unless the meeting made the provider an active partner.
func meetingError(m control.Meeting) error {
	what := fmt.Sprintf("%s is %s", cli.ShortNpub(m.Npub), m.To)
	switch m.To {
	case guild.Active:
		return nil
	case guild.Removed:
		err := cli.WithCode(fmt.Errorf("%s: %s", what, cli.Clean(m.Cause)), exitViolation)
		return cli.WithHint(err, "nothing of this provider is asked for again")
	case "":
		err := fmt.Errorf("nothing was learned about %s: %s", cli.ShortNpub(m.Npub), cli.Clean(m.Cause))
		return cli.WithHint(err, "guild market show "+m.Npub+" says when it was last heard of")
	}
	hint := "it gets uncritical work only"
	if m.To == guild.Unqualified {
		hint = "it gets no work until it has been tried again"
	}
	if len(m.Runs) > 0 {
		hint += "; guild judge explain " + short(m.Runs[len(m.Runs)-1].Job) + " says what was wrong"
	}
	return cli.WithHint(fmt.Errorf("%s: %s, score %.2f", what, cli.Clean(m.Cause), scoreOr0(m.Score)), hint)
}

func scoreOr0(s *float64) float64 {
	if s == nil {
		return 0
	}
	return *s
}

func (p *program) runBenchLs(ctx context.Context, asJSON bool) error {
	return p.reading(ctx, func(client *control.Client, _ bool) error {
		all, err := control.Meetings.Call(ctx, client)
		if err != nil {
			return err
		}
		return printed(p, asJSON, all, table(p, "", "MEETING,PROVIDER,TASK,BEGAN,RUNS,SCORE,CAME TO", func(m control.Meeting) []string {
			came, score := "goes on", "-"
			if m.Ended != 0 {
				came = cmp.Or(string(m.To), "nothing")
			}
			if m.Score != nil {
				score = fmt.Sprintf("%.2f", *m.Score)
			}
			return []string{short(m.ID), cli.ShortNpub(m.Npub), cli.Cut(cli.Clean(m.Task), 16), age(p.now(), m.Began), fmt.Sprint(len(m.Runs)), score, came}
		}))
	})
}
