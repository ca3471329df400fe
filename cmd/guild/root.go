package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/key"
	"guild/internal/node"
)

// program is what every verb gets: the streams, the clock and the global flags.
type program struct {
	home    string
	verbose bool

	in       io.Reader
	out, err io.Writer
	now      func() time.Time
}

// run is the whole program: it returns the exit code.
func run(args []string) int {
	ctx, stop := interruptible()
	defer stop()
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, now: time.Now}
	root := p.rootCommand()
	root.SetArgs(args)
	return p.report(root.ExecuteContext(ctx))
}

// interruptible ends the context at the first Ctrl-C or SIGTERM, for a graceful end. The second has its usual
// effect and kills.
func interruptible() (context.Context, func()) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	stop := context.AfterFunc(ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// report prints what went wrong and returns the exit code for it.
func (p *program) report(err error) int {
	if err == nil {
		return exitAccepted
	}
	fmt.Fprintln(p.err, "guild:", clean(err.Error()))
	if hint := hintOf(err); hint != "" {
		fmt.Fprintln(p.err, "hint:", clean(hint))
	}
	return codeOf(err)
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "guild",
		Short: "Hire AI agents over Nostr, and prove the work",
		Long: `guild is a node through which AI agents hire and get hired over Nostr, and prove
the work: it finds providers, asks one for a job, judges what comes back in a
sandbox, and keeps a receipt.`,
		Example:       "  guild demo\n  guild init && guild up\n  guild hire ./my-task",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return withHint(usage(err), cmd.CommandPath()+" --help lists the flags")
	})
	flags := root.PersistentFlags()
	flags.StringVar(&p.home, "home", "", "directory for everything (default: GUILD_HOME, else XDG directories)")
	flags.BoolVarP(&p.verbose, "verbose", "v", false, "log what the node does")
	group(root,
		p.initCommand(), p.upCommand(), p.statusCommand(), p.demoCommand(), p.hireCommand(), p.jobCommand(),
		p.workCommand(), p.relayCommand(), p.marketCommand(), p.journalCommand(), p.receiptCommand(),
		p.replayCommand(), p.judgeCommand(), p.eventsCommand(), p.doctorCommand(), p.versionCommand(), environmentTopic())
	nameCompletions(root)
	return root
}

// group makes cmd a verb that only has verbs: alone it shows its help, and a wrong word gets suggestions.
func group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(verbs...)
	cmd.Args = cobra.ArbitraryArgs // so that RunE sees the wrong word
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		err := usage(fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()))
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return withHint(err, fmt.Sprintf("did you mean %q?", strings.Join(near, `" or "`)))
		}
		return withHint(err, fmt.Sprintf("%s --help lists them", cmd.CommandPath()))
	}
	return cmd
}

// arity is a check of cobra's whose failure is a usage error.
func arity(check cobra.PositionalArgs, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		err := usage(fmt.Errorf("%s takes %s, not %d arguments", cmd.CommandPath(), want, len(args)))
		return withHint(err, cmd.UseLine())
	}
}

// noArgs is the arity of verbs that take flags only.
func noArgs() cobra.PositionalArgs { return arity(cobra.NoArgs, "no arguments") }

// oneArg is the arity of verbs that take one thing, described by want.
func oneArg(want string) cobra.PositionalArgs { return arity(cobra.ExactArgs(1), want) }

// nameCompletions gives cobra's completion verb the form of the others.
func nameCompletions(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			group(cmd)
			cmd.Short = "Print a script that completes guild's commands in your shell"
			cmd.Example = "  guild completion bash > ~/.local/share/bash-completion/completions/guild"
		}
	}
}

func (p *program) config() (config.Config, error) { return config.Load(p.home, os.Environ()) }

// reader returns a client for looking at things: of the running node, or of what a stopped one left on disk.
// done closes what had to be opened.
func (p *program) reader(ctx context.Context) (client *control.Client, done func(), err error) {
	c, err := p.config()
	if err != nil {
		return nil, nil, err
	}
	client = control.Dial(c.Socket())
	if _, err := client.Status(ctx); !errors.Is(err, control.ErrNotRunning) {
		return client, func() {}, err
	}
	n, err := nodeConfig(c, key.Identity{}, nodeOptions{Log: p.logger(p.err)})
	if err != nil {
		return nil, nil, err
	}
	client, closeAll, err := node.Inspect(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	return client, func() {
		if err := closeAll(); err != nil {
			p.logger(p.err).Warn("closing what a stopped node left", "err", err)
		}
	}, nil
}

// client speaks to the node of this home, whether one runs or not.
func (p *program) client() (*control.Client, error) {
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	return control.Dial(c.Socket()), nil
}
