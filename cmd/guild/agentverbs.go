package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/step/agents"
	"guild/nipae/agentfile"
)

func (p *program) agentCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "agent",
		Short: "Define agents, teach them, and show whose they are",
		Long: `agent publishes and installs agent definitions (NIP-AE). An agent of this node
has a key of its own; guild work --as NAME has it do jobs by its definition, the
lessons that you accepted, and nudges. docs/AGENTS.md goes through it.`,
		Example: "  guild agent new fixer.md\n  guild agent install npub1…/fixer\n  guild work --task python --agent claude-code --as fixer",
	}, p.agentNewCommand(), p.agentPublishCommand(), p.agentInstallCommand(), p.agentForkCommand(), p.agentEditCommand(), p.agentVersionsCommand(),
		p.agentShowCommand(), p.agentLsCommand(), p.agentRmCommand(), p.agentLessonsCommand(), p.agentNudgeCommand(),
		p.agentClaimCommand(), p.agentDisownCommand(), p.agentVerifyCommand())
}

const agentFileHelp = `FILE is Markdown with the agent's instructions below front matter in TOML
(slug, title, role, use_criteria, description, tools, image), a TOML file with
the same keys and instructions, or an agent file of Claude Code.`

func (p *program) agentNewCommand() *cobra.Command {
	var asked control.Install
	var attached []string
	cmd := p.local(&cobra.Command{
		Use:   "new FILE",
		Short: "Publish a definition, and install an agent that executes it",
		Long: `new publishes the definition in FILE under this node's key, and makes an agent
of this node that executes it: with a key of its own, a profile that names the
definition and you, and your claim. Repeated with the same file it is the same
agent; with a changed one it publishes the next version. If there is no FILE, it
is written for you to edit.

` + agentFileHelp,
		Example: "  guild agent new fixer.md\n  guild agent new .claude/agents/reviewer.md --as rev",
		Args:    cli.OneArg("one file"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		path := args[0]
		if filepath.Ext(path) == "" && path != "" {
			path += ".md"
		}
		file, err := readAgentFile(path)
		if errors.Is(err, os.ErrNotExist) && path != "" {
			err = writeAgentFile(path)
		}
		if err != nil {
			return nil, err
		}
		return p.define(cmd.Context(), file, "", attached, asked)
	})
	attachFlag(cmd, &attached)
	installFlags(cmd, &asked)
	return cmd
}

func attachFlag(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVar(files, "attach", nil, "file that its agents get; repeatable (default: those of the version before)")
}

// publish uploads the attached files and publishes a definition.
func publish(ctx context.Context, client *control.Client, file []byte, fork string, attached []string) (v agents.Version, err error) {
	args := []string{fork}
	for _, path := range attached {
		content, err := os.ReadFile(path)
		if err != nil {
			return v, cli.Usage(err)
		}
		a, err := control.AttachFile.Call(ctx, client, bytes.NewReader(content), filepath.Base(path))
		if err != nil {
			return v, err
		}
		args = append(args, a.ID.Hex())
	}
	return control.PublishDefinition.Call(ctx, client, bytes.NewReader(file), args...)
}

// installFlags gives cmd the flags of an installation.
func installFlags(cmd *cobra.Command, asked *control.Install) {
	cmd.Flags().StringVar(&asked.Name, "as", "", "name of the agent on this node (default: the definition's slug)")
	cmd.Flags().StringVar(&asked.Bunker, "bunker", "", "remote signer with the agent's key, as bunker://… (default: a new key)")
}

// define publishes a definition and installs an agent.
func (p *program) define(ctx context.Context, file []byte, fork string, attached []string, asked control.Install) (*cli.Result, error) {
	d, err := agentfile.Parse(file)
	if err != nil {
		return nil, cli.Usage(err)
	}
	var a agents.Agent
	err = p.acting(ctx, func(client *control.Client, _ bool) error {
		if err := isFree(ctx, client, cmp.Or(asked.Name, d.D), d.D); err != nil { // before anything is published
			return err
		}
		v, err := publish(ctx, client, file, fork, attached)
		if err == nil {
			asked.Definition = v.ID.Hex()
			a, err = control.InstallAgent.Call(ctx, client, asked)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &cli.Result{JSON: a, Show: func() error { return p.showAgent(a) }}, nil
}

// isFree returns an error if the name is of a wrong form, or that of an agent which executes another definition than the slug of this node's key.
func isFree(ctx context.Context, client *control.Client, name, slug string) error {
	if err := agents.CheckName(name); err != nil {
		return cli.WithHint(cli.Usage(err), "a name for the agent: --as NAME")
	}
	a, mine, err := agentNamed(ctx, client, name)
	if problem, ok := errors.AsType[*control.ProblemError](err); ok && problem.Problem.Code == "missing" {
		return nil
	}
	if err == nil && (!mine || a.Definition.Slug != slug) {
		err = cli.WithHint(fmt.Errorf("%s: %w: it executes %s", name, agents.ErrTaken, a.Definition.Address), "another name: --as NAME")
	}
	return err
}

// agentNamed returns an agent, and whether its definition is one of this node's key.
func agentNamed(ctx context.Context, client *control.Client, name string) (a agents.Agent, mine bool, err error) {
	if a, err = control.OneAgent.Call(ctx, client, name); err != nil {
		return a, false, err
	}
	status, err := control.NodeStatus.Call(ctx, client)
	return a, a.Definition.Publisher.Hex() == status.PubKey, err
}

func (p *program) agentPublishCommand() *cobra.Command {
	var fork string
	var attached []string
	cmd := p.local(&cobra.Command{
		Use:     "publish FILE",
		Short:   "Publish a definition, or its next version, for others to install",
		Long:    "publish publishes the definition in FILE under this node's key. If it says the\nsame as the newest version, nothing is published.\n\n" + agentFileHelp,
		Example: "  guild agent publish fixer.md\n  guild agent publish mine.md --fork naddr1…",
		Args:    cli.OneArg("one file"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		file, err := readAgentFile(args[0])
		if err != nil {
			return nil, err
		}
		var v agents.Version
		err = p.acting(cmd.Context(), func(client *control.Client, _ bool) (err error) {
			v, err = publish(cmd.Context(), client, file, fork, attached)
			return err
		})
		if err != nil {
			return nil, err
		}
		return &cli.Result{JSON: v, Show: func() error { return p.showDefinition(v) }}, nil
	})
	attachFlag(cmd, &attached)
	cmd.Flags().StringVar(&fork, "fork", "", "definition that this one, with a new slug, was forked from")
	return cmd
}

func (p *program) agentInstallCommand() *cobra.Command {
	var asked control.Install
	cmd := send(p, p.acting, control.InstallAgent, &cobra.Command{
		Use:   "install DEFINITION",
		Short: "Have an agent of this node execute somebody's definition",
		Long: `install makes an agent of this node, with a key of its own, that executes the
definition: the version that a nevent or an id names, or the newest of a naddr
or npub/slug. Its files are fetched and checked by their hashes. Repeated, it is
the same agent, with the version that is named now.`,
		Example: "  guild agent install npub1…/fixer\n  guild agent install nevent1… --as old-fixer",
		Args:    cli.OneArg("one definition"),
	}, func(_ *cobra.Command, args []string) (control.Install, []string, error) {
		asked.Definition = args[0]
		return asked, nil, nil
	}, p.showAgent)
	installFlags(cmd, &asked)
	return cmd
}

func (p *program) agentForkCommand() *cobra.Command {
	var asked control.Install
	cmd := p.local(&cobra.Command{
		Use:   "fork DEFINITION SLUG",
		Short: "Publish your own copy of a definition, and install it",
		Long: `fork publishes a copy of the definition under this node's key with another slug,
which names what it was forked from, and installs an agent that executes it.
guild agent edit changes the copy.`,
		Example: "  guild agent fork npub1…/fixer my-fixer\n  guild agent edit my-fixer",
		Args:    cli.Arity(cobra.ExactArgs(2), "a definition and a slug"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		from, err := p.definition(cmd.Context(), args[0])
		if err != nil {
			return nil, err
		}
		d, err := agentfile.Parse([]byte(from.File))
		if err != nil {
			return nil, err
		}
		d.D = args[1]
		file, err := agentfile.Format(d)
		if err != nil {
			return nil, err
		}
		return p.define(cmd.Context(), file, from.ID.Hex(), nil, asked)
	})
	installFlags(cmd, &asked)
	return cmd
}

// definition returns the version that a reference names.
func (p *program) definition(ctx context.Context, reference string) (d control.Definition, err error) {
	err = p.acting(ctx, func(client *control.Client, _ bool) error {
		all, err := control.Definitions.Call(ctx, client, reference)
		if err == nil && len(all) > 0 {
			d = all[0]
		}
		return err
	})
	return d, err
}

// ownDefinition returns the newest version of the definition of an agent, which must be of this node's key.
func (p *program) ownDefinition(ctx context.Context, name string) (d control.Definition, err error) {
	err = p.acting(ctx, func(client *control.Client, _ bool) error {
		a, mine, err := agentNamed(ctx, client, name)
		if err == nil && !mine {
			err = cli.WithHint(fmt.Errorf("the definition of %s is one of %s", name, nip19.EncodeNpub(a.Definition.Publisher)),
				"your own copy: guild agent fork "+name+" SLUG")
		}
		return err
	})
	if err != nil {
		return d, err
	}
	return p.definition(ctx, name)
}

func (p *program) agentEditCommand() *cobra.Command {
	cmd := p.local(&cobra.Command{
		Use:   "edit NAME",
		Short: "Publish the next version of an agent's definition",
		Long: `edit opens the definition of an agent of this node in $VISUAL or $EDITOR, and
publishes what you saved as its next version, which the agent executes from then
on. The definition must be yours; guild agent fork makes a copy that is.`,
		Example: "  guild agent edit fixer\n  guild agent edit fixer --file fixer.md",
		Args:    cli.OneArg("the name of an agent"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		now, err := p.ownDefinition(cmd.Context(), args[0])
		if err != nil {
			return nil, err
		}
		next := func(path string) (*cli.Result, error) {
			file, err := readAgentFile(path)
			if err != nil {
				return nil, err
			}
			d, err := agentfile.Parse(file)
			if err != nil {
				return nil, err
			}
			if d.D != now.Slug {
				return nil, cli.Usage(fmt.Errorf("the slug %.80q is another definition's: this one is %q", d.D, now.Slug))
			}
			return p.define(cmd.Context(), file, "", nil, control.Install{Name: args[0]})
		}
		if path := cmd.Flag("file").Value.String(); path != "" {
			return next(path)
		}
		return p.edited(cmd.Context(), args[0], []byte(now.File), next)
	})
	cmd.Flags().String("file", "", "take this file instead of opening an editor")
	return cmd
}

func (p *program) agentVersionsCommand() *cobra.Command {
	return p.local(&cobra.Command{
		Use:     "versions DEFINITION",
		Short:   "List the versions of a definition, the newest first",
		Example: "  guild agent versions fixer\n  guild agent versions npub1…/fixer --json",
		Args:    cli.OneArg("a definition, or the name of an agent"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		var all []control.Definition
		err := p.acting(cmd.Context(), func(client *control.Client, _ bool) (err error) {
			all, err = control.Definitions.Call(cmd.Context(), client, args[0], "true")
			return err
		})
		if err != nil {
			return nil, err
		}
		return &cli.Result{JSON: all, Show: func() error {
			return table(p, "", "VER,AGE,ID,TITLE", func(d control.Definition) []string {
				return []string{fmt.Sprint(d.Ver), age(p.now(), d.At), d.ID.Hex()[:8], cli.Cut(cli.Clean(d.Title), 40)}
			})(all)
		}}, nil
	})
}

func (p *program) agentShowCommand() *cobra.Command {
	var prompt bool
	var task string
	var nudges []string
	cmd := p.local(&cobra.Command{
		Use:   "show NAME",
		Short: "Show an agent of this node, and how it would do a job",
		Long: `show shows an agent with its definition and owner. With --prompt it shows what
its worker would get for a job: the prompt with the source of each part, the
tools, and what was left out.`,
		Example: "  guild agent show fixer\n  guild agent show fixer --prompt --task python --nudge careful",
		Args:    cli.OneArg("the name of an agent"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		if prompt {
			var c control.Composed
			err := p.reading(cmd.Context(), func(client *control.Client, _ bool) (err error) {
				c, err = control.ComposeBehaviour.Call(cmd.Context(), client, control.Compose{Agents: args, Task: task, Nudges: nudges})
				return err
			})
			if err != nil {
				return nil, err
			}
			return &cli.Result{JSON: c, Show: func() error { return p.showComposed(c) }}, nil
		}
		return answerOf(cmd.Context(), p.reading, control.OneAgent, p.showAgent, args[0])
	})
	cmd.Flags().BoolVar(&prompt, "prompt", false, "show how it would do a job")
	cmd.Flags().StringVar(&task, "task", "", "task of the job")
	cmd.Flags().StringArrayVar(&nudges, "nudge", nil, "nudge of the library; repeatable")
	return cmd
}

func (p *program) showAgent(a agents.Agent) error {
	field := func(name, format string, args ...any) {
		fmt.Fprintf(p.out, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	d := a.Definition
	field("agent", "%s", a.Name)
	field("key", "%s", a.Npub)
	field("definition", "%s, version %d", cli.Cut(cli.Clean(d.Title+" ("+d.Slug+")"), 50), d.Ver)
	if a.Newest > d.Ver {
		field("", "version %d is out: guild agent install %s --as %s", a.Newest, a.Name, a.Name)
	}
	field("", "%s", d.Address)
	field("by", "%s", nip19.EncodeNpub(d.Publisher))
	for _, row := range [][2]string{{"about", d.Description}, {"for", d.UseCriteria}} {
		if row[1] != "" {
			field(row[0], "%s", cli.Cut(cli.Clean(strings.Join(strings.Fields(row[1]), " ")), 66))
		}
	}
	if d.Files > 0 {
		field("files", "%d", d.Files)
	}
	field("owner", "%s", ownersText(a.Owners))
	if len(d.Tools) > 0 {
		field("tools", "%s", cli.Cut(cli.Clean(strings.Join(d.Tools, ", ")), 66))
	}
	field("lessons", "%s", cli.Count(a.Lessons, "applies", "apply"))
	if a.Drafts > 0 {
		field("", "%s: guild agent lessons review", cli.Count(a.Drafts, "draft waits", "drafts wait"))
	}
	if a.Waiting > 0 {
		field("waiting", "%s for a relay: guild status", cli.Count(a.Waiting, "event", "events"))
	}
	return nil
}

func (p *program) showDefinition(v agents.Version) error {
	fmt.Fprintf(p.out, "%s, version %d  %s\n%s\n", cli.Cut(cli.Clean(v.Title+" ("+v.Slug+")"), 50), v.Ver, v.ID.Hex()[:8], v.Address)
	return nil
}

func (p *program) showComposed(c control.Composed) error {
	fmt.Fprintf(p.out, "behaviour   %s\n", c.Behaviour)
	tools := "all that the worker has"
	if c.Tools != nil {
		tools = cli.Clean(strings.Join(c.Tools, ", "))
	}
	fmt.Fprintf(p.out, "tools       %s\n\n", tools)
	for text := range strings.Lines(c.Prompt) {
		fmt.Fprintln(p.out, cli.Clean(strings.TrimSuffix(text, "\n")))
	}
	fmt.Fprintln(p.out)
	err := table(p, "", "LINES,EVENT,AUTHOR,WHY", func(s control.ComposedSource) []string {
		lines := fmt.Sprintf("%d-%d", s.From, s.To)
		if s.From == 0 {
			lines = "-"
		}
		return []string{lines, s.Event[:8], s.Author[:8], s.Why}
	})(c.Sources)
	left := c.Left
	if sum := left.OtherDefinition + left.Stranger + left.Retired + left.OverBudget; sum > 0 {
		fmt.Fprintf(p.out, "left out    %d by strangers, %d of another definition or version, %d retired, %d over the budget\n",
			left.Stranger, left.OtherDefinition, left.Retired, left.OverBudget)
	}
	return err
}

func (p *program) agentLsCommand() *cobra.Command {
	return call(p, p.reading, control.Agents, &cobra.Command{
		Use:     "ls",
		Short:   "List the agents of this node",
		Example: "  guild agent ls\n  guild agent ls --json | jq -r '.[].npub'",
	}, table(p, "this node has no agents; guild agent new FILE", "NAME,KEY,DEFINITION,VER,LESSONS,DRAFTS", func(a agents.Agent) []string {
		return []string{a.Name, cli.ShortNpub(a.Npub), cli.Cut(cli.Clean(a.Definition.Slug), 24), fmt.Sprint(a.Definition.Ver), fmt.Sprint(a.Lessons), fmt.Sprint(a.Drafts)}
	}))
}

func (p *program) agentRmCommand() *cobra.Command {
	return call(p, p.acting, control.RemoveAgent, &cobra.Command{
		Use:     "rm NAME",
		Short:   "End an agent of this node; its key stays",
		Long:    "rm ends an agent. Its key and its drafts stay in the home, for another install,\nand your claim stays published until guild agent disown.",
		Example: "  guild agent rm fixer",
		Args:    cli.OneArg("the name of an agent"),
	}, func(struct{}) error { return nil })
}

func (p *program) agentClaimCommand() *cobra.Command {
	return call(p, p.acting, control.ClaimAgent, &cobra.Command{
		Use:   "claim PROVIDER",
		Short: "Declare that an agent is yours",
		Long: `claim adds a key to the list of your agents (kind 14199). The list is first read
from all your relays, so that no entry is lost. Ownership is verified once the
agent's own profile names you: this node's agents do, and the node of another
home does if its [agents] owners has your key.`,
		Example: "  guild agent claim npub1…\n  guild agent verify npub1…",
	}, func(c control.ClaimChange) error {
		fmt.Fprintf(p.out, "%s  %s\n", map[bool]string{true: "claimed", false: "was claimed already"}[c.Changed], cli.ShortNpub(c.Npub))
		return nil
	})
}

func (p *program) agentDisownCommand() *cobra.Command {
	return call(p, p.acting, control.DisownAgent, &cobra.Command{
		Use:     "disown PROVIDER",
		Short:   "Take an agent off the list of yours",
		Long:    "disown removes a key from the list of your agents (kind 14199). Nothing else\ndoes.",
		Example: "  guild agent disown npub1…",
	}, func(c control.ClaimChange) error {
		fmt.Fprintf(p.out, "%s  %s\n", map[bool]string{true: "disowned", false: "was not claimed"}[c.Changed], cli.ShortNpub(c.Npub))
		return nil
	})
}

func (p *program) agentVerifyCommand() *cobra.Command {
	cmd := p.local(&cobra.Command{
		Use:   "verify PROVIDER",
		Short: "Check who owns an agent",
		Long: `verify reads the agent's newest profile, and for each owner that it names the
newest list of that owner's agents. Both must name each other. It exits with 1
if no owner is verified. --drafts also shows what the key says of itself in the
events of the NIP-SA draft, which nobody checks.`,
		Example: "  guild agent verify npub1…\n  guild agent verify npub1… --drafts",
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		var o control.Owned
		err := p.acting(cmd.Context(), func(client *control.Client, _ bool) (err error) {
			o, err = got(cmd, client, control.Owners, args)
			return err
		})
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(o.Owners, func(one agents.Ownership) bool { return one.Verified }) {
			err = errors.New("no owner is verified")
		}
		return &cli.Result{JSON: o, Show: func() error {
			if err := p.showDrafts(o.Drafts); err != nil {
				return err
			}
			return table(p, "its profile names no owner", "OWNER,VERIFIED,REASON", func(one agents.Ownership) []string {
				return []string{cli.ShortNpub(one.Npub), map[bool]string{true: "yes", false: "no"}[one.Verified], one.Reason}
			})(o.Owners)
		}}, err
	})
	cmd.Flags().Bool("drafts", false, "also show its events of the NIP-SA draft")
	return cmd
}

// showDrafts shows what a key says of itself by the draft of NIP-SA; nothing for nil.
func (p *program) showDrafts(d *agents.Drafts) error {
	if d == nil {
		return nil
	}
	var rows [][2]string
	if one := d.Profile; one != nil {
		rows = append(rows, [2]string{"name", one.Name}, [2]string{"about", one.About}, [2]string{"version", one.Version}, [2]string{"autonomy", one.Autonomy},
			[2]string{"can", strings.Join(one.Capabilities, ", ")}, [2]string{"operators", strings.Join(one.Operators, ", ")})
	}
	if d.State != nil {
		var counts []string
		for _, name := range slices.Sorted(maps.Keys(d.State.Counts)) {
			counts = append(counts, fmt.Sprintf("%s %d", name, d.State.Counts[name]))
		}
		rows = append(rows, [2]string{"state", strings.Join(counts, ", ")})
	}
	said := "has no events of it"
	if len(rows) > 0 {
		said = "by itself, not checked"
	}
	fmt.Fprintf(p.out, "%-11s %s\n", "NIP-SA", said)
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(p.out, "%-11s %s\n", row[0], cli.Cut(cli.Clean(row[1]), 66))
		}
	}
	_, err := fmt.Fprintln(p.out)
	return err
}

// ownersText names the owners of a key, and which of them are verified.
func ownersText(owners []agents.Ownership) string {
	if len(owners) == 0 {
		return "names none"
	}
	var all []string
	for _, o := range owners {
		mark := "not verified"
		if o.Verified {
			mark = "verified"
		}
		all = append(all, cli.ShortNpub(o.Npub)+" "+mark)
	}
	return strings.Join(all, ", ")
}
