package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/step/agents"
)

func (p *program) agentLessonsCommand() *cobra.Command {
	cmd := call(p, p.reading, control.Lessons, &cobra.Command{
		Use:   "lessons",
		Short: "List lessons and drafts, accept, measure and retire them",
		Long: `lessons lists what the agents of this node learned. A worker leaves lessons/*.md
in its delivery directory, or [agents] learn names a command that writes one
after a verdict. That is a draft; once you accept it, the agent publishes it
(kind 4129) and works by it. GAIN is how much larger the share of passed tries
was with the lesson, with its 95 % interval. Lessons of strangers are listed and
never applied.`,
		Example: "  guild agent lessons\n  guild agent lessons review\n  guild agent lessons measure 5f21c9aa ./my-task --agent claude-code",
	}, p.showLessons)
	cmd.Flags().String("agent", "", "only those of this agent")
	cmd.AddCommand(p.lessonsReviewCommand(), p.lessonVerb("accept", "Make a draft a lesson"), p.lessonVerb("reject", "Drop a draft"),
		p.lessonVerb("retire", "End the effect of a lesson"), p.lessonVerb("comment", "Publish a comment that applies with a lesson"), p.lessonTeachCommand(), p.lessonsMeasureCommand())
	return cmd
}

func (p *program) showLessons(all []agents.Lesson) error {
	return table(p, "no lessons yet; guild agent lessons teach, or --help", "ID,AGENT,LESSON,APPLIES,TRIES,GAIN", func(l agents.Lesson) []string {
		id := l.Draft
		if id == "" {
			id = l.ID.Hex()
		}
		applies, gain := "yes: "+l.Why, ""
		if !l.Applies {
			applies = "no: " + l.Why
		}
		sum := agents.Sum(l.Trials)
		if sum.Pairs() > 0 {
			by, from, to := sum.Gain()
			gain = fmt.Sprintf("%+.2f (%+.2f to %+.2f)", by, from, to)
		}
		return []string{id[:8], l.Agent, cli.Cut(cli.Clean(l.Title), 30), cli.Cut(cli.Clean(applies), 34), fmt.Sprint(sum.Pairs()), gain}
	})(all)
}

// lessonVerb makes a verb that acts on one lesson or draft.
func (p *program) lessonVerb(act, short string) *cobra.Command {
	use, example, want := act+" ID", "  guild agent lessons "+act+" 5f21c9aa", "the id of a draft or lesson"
	switch act {
	case "comment":
		use, example, want = use+" TEXT", example+" 'it also holds for dates'", "the id of a lesson, and a text"
	case "retire":
		use, example, want = use+" REASON", example+" 'the API has changed'", "the id of a lesson, and a reason"
	}
	return send(p, p.acting, control.ActOnLesson, &cobra.Command{
		Use: use, Short: short, Example: example, Args: cli.Arity(cobra.ExactArgs(strings.Count(use, " ")), want),
	}, func(_ *cobra.Command, args []string) (control.LessonAct, []string, error) {
		return control.LessonAct{Text: strings.Join(args[1:], "")}, []string{args[0], act}, nil
	}, func(l agents.Lesson) error { return p.showLessons([]agents.Lesson{l}) })
}

func (p *program) lessonTeachCommand() *cobra.Command {
	var d control.Draft
	cmd := send(p, p.acting, control.TeachAgent, &cobra.Command{
		Use:     "teach AGENT TEXT",
		Short:   "Have an agent publish a lesson that you write",
		Long:    "teach has the agent publish a lesson; it applies at once. The first line of the\ntext is its title.",
		Example: "  guild agent lessons teach fixer 'Dates: accept both forms' --task python",
		Args:    cli.Arity(cobra.ExactArgs(2), "the name of an agent, and a text"),
	}, func(_ *cobra.Command, args []string) (control.Draft, []string, error) {
		d.Agent, d.Text = args[0], args[1]
		return d, nil, nil
	}, func(l agents.Lesson) error { return p.showLessons([]agents.Lesson{l}) })
	cmd.Flags().StringVar(&d.Task, "task", "", "the task that it is about: its category")
	return cmd
}

func (p *program) lessonsReviewCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "review",
		Short:   "Go through the drafts, and accept or reject each",
		Long:    "review shows each draft and asks. Without a terminal, use accept and reject.",
		Example: "  guild agent lessons review",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return p.acting(ctx, func(client *control.Client, _ bool) error {
				all, err := control.Lessons.Call(ctx, client)
				if err != nil {
					return err
				}
				return p.reviewDrafts(ctx, client, all)
			})
		},
	}
}

func (p *program) reviewDrafts(ctx context.Context, client *control.Client, all []agents.Lesson) error {
	drafts := 0
	ask := cli.NewPrompt(ctx, p.in, p.err)
	for _, l := range all {
		if l.Draft == "" {
			continue
		}
		drafts++
		fmt.Fprintf(p.out, "\n%s  for %s, about %s\n\n%s\n", cli.Clean(l.Title), l.Agent, cli.Clean(l.Category), cli.Clean(l.Text))
		act, err := ask.Choose("Accept this lesson?", "later", "accept", "reject", "later")
		if errors.Is(err, cli.ErrNoTerminal) {
			return cli.WithHint(cli.Usage(err), "guild agent lessons accept "+l.Draft[:8]+", or reject")
		}
		if err != nil {
			return err
		}
		if act == "later" {
			continue
		}
		if _, err := control.ActOnLesson.Call(ctx, client, control.LessonAct{}, l.Draft, act); err != nil {
			return err
		}
	}
	if drafts == 0 {
		fmt.Fprintln(p.err, "no drafts wait")
	}
	return nil
}

func (p *program) agentNudgeCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "nudge",
		Short: "Keep nudges, which change how an agent works and its tools",
		Long: `nudge keeps a library of nudges (kind 4201). guild work --nudge NAME applies one
to all jobs of a service, and guild hire --nudge asks a provider's agent for
one. With --only the agent has exactly these tools; else --allow adds and --deny
removes.`,
		Example: "  guild agent nudge add careful --deny run --text 'Read before you write.'\n  guild agent nudge ls",
	}, p.nudgeAddCommand(), p.nudgeLsCommand(), p.nudgeRmCommand())
}

func (p *program) nudgeAddCommand() *cobra.Command {
	var k control.KeepNudge
	cmd := send(p, p.acting, control.KeepNudges, &cobra.Command{
		Use:     "add NAME",
		Short:   "Publish a nudge, or keep somebody's",
		Long:    "add publishes a nudge under this node's key and keeps it under NAME. With\n--event it keeps one that somebody published.",
		Example: "  guild agent nudge add readonly --only read --text 'Change nothing.'\n  guild agent nudge add theirs --event nevent1…",
		Args:    cli.OneArg("a name"),
	}, func(_ *cobra.Command, args []string) (control.KeepNudge, []string, error) {
		k.Name = args[0]
		switch {
		case k.Event == "" && k.Text == "" && len(k.Only)+len(k.Allow)+len(k.Deny) == 0:
			return k, nil, errors.New("a nudge needs --text, --only, --allow or --deny, or --event")
		case len(k.Only) > 0 && len(k.Allow)+len(k.Deny) > 0:
			return k, nil, errors.New("with --only the agent has exactly these tools: no --allow or --deny")
		}
		if k.Title == "" && k.Event == "" {
			k.Title = k.Name
		}
		return k, nil, nil
	}, func(n agents.Nudge) error { return p.showNudges([]agents.Nudge{n}) })
	f := cmd.Flags()
	f.StringVar(&k.Event, "event", "", "a published nudge, as nevent or id")
	f.StringVar(&k.Title, "title", "", "title (default: the name)")
	f.StringVar(&k.Text, "text", "", "how to behave")
	f.StringArrayVar(&k.Only, "only", nil, "exactly this tool; repeatable")
	f.StringArrayVar(&k.Allow, "allow", nil, "this tool, too; repeatable")
	f.StringArrayVar(&k.Deny, "deny", nil, "not this tool; repeatable")
	for _, other := range []string{"title", "text", "only", "allow", "deny"} {
		cli.Exclusive(cmd, "event", other)
	}
	return cmd
}

func (p *program) nudgeLsCommand() *cobra.Command {
	return call(p, p.reading, control.Nudges, &cobra.Command{
		Use: "ls", Short: "List the library", Example: "  guild agent nudge ls --json",
	}, p.showNudges)
}

func (p *program) showNudges(all []agents.Nudge) error {
	return table(p, "the library is empty; guild agent nudge add", "NAME,ID,TITLE,TOOLS", func(n agents.Nudge) []string {
		var tools []string
		for _, t := range n.Only {
			tools = append(tools, "only "+t)
		}
		for _, t := range n.Allow {
			tools = append(tools, "+"+t)
		}
		for _, t := range n.Deny {
			tools = append(tools, "-"+t)
		}
		return []string{n.Name, n.ID.Hex()[:8], cli.Cut(cli.Clean(n.Title), 30), cli.Cut(cli.Clean(strings.Join(tools, " ")), 30)}
	})(all)
}

func (p *program) nudgeRmCommand() *cobra.Command {
	return call(p, p.acting, control.RemoveNudge, &cobra.Command{
		Use: "rm NAME", Short: "Remove a nudge from the library", Example: "  guild agent nudge rm careful", Args: cli.OneArg("a name"),
	}, func(struct{}) error { return nil })
}
