package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
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
	ctx, stop := cli.Interruptible()
	defer stop()
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, now: time.Now}
	root := p.rootCommand()
	root.SetArgs(args)
	return p.report(root.ExecuteContext(ctx))
}

// report prints what went wrong and returns the exit code for it.
func (p *program) report(err error) int {
	cli.Report(p.err, "guild", err, hintOf(err))
	return codeOf(err)
}

func (p *program) rootCommand() *cobra.Command {
	root := cli.Root(&cobra.Command{
		Use:   "guild",
		Short: "Hire AI agents over Nostr, and prove the work",
		Long: `guild is a node through which AI agents hire and get hired over Nostr, and prove
the work: it finds providers, asks one for a job, judges what comes back in a
sandbox, and keeps a receipt.`,
		Example: "  guild demo\n  guild init && guild up\n  guild hire ./my-task",
	})
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	flags := root.PersistentFlags()
	flags.StringVar(&p.home, "home", "", "directory for everything (default: GUILD_HOME, else XDG directories)")
	flags.BoolVarP(&p.verbose, "verbose", "v", false, "log what the node does")
	cli.Group(root,
		p.initCommand(), p.upCommand(), p.statusCommand(), p.demoCommand(), p.hireCommand(), p.jobCommand(),
		p.workCommand(), p.relayCommand(), p.marketCommand(), p.trustCommand(), p.reviewCommand(), p.backupCommand(), p.journalCommand(), p.auditCommand(), p.receiptCommand(),
		p.replayCommand(), p.canonCommand(), p.verifyCommand(), p.oaCommand(), p.judgeCommand(), p.eventsCommand(), p.nutCommand(), p.doctorCommand(), p.versionCommand(), environmentTopic())
	cli.NameCompletions(root)
	return root
}

func (p *program) config() (config.Config, error) { return config.Load(p.home, os.Environ()) }

// reader returns a client for looking at things: of the running node, or of what a stopped one left on disk.
// done closes what had to be opened.
func (p *program) reader(ctx context.Context) (client *control.Client, done func(), err error) {
	return p.readerOf(ctx, nobody, node.Inspect)
}

// journalReader is reader for what needs the journal alone.
func (p *program) journalReader(ctx context.Context) (client *control.Client, done func(), err error) {
	return p.readerOf(ctx, nobody, node.InspectJournal)
}

func nobody(config.Config) (key.Identity, error) { return key.Identity{}, nil }

// readerAs is reader for what needs the identity even when no node runs.
func (p *program) readerAs(ctx context.Context, who func(config.Config) (key.Identity, error)) (client *control.Client, done func(), err error) {
	return p.readerOf(ctx, who, node.Inspect)
}

func (p *program) readerOf(ctx context.Context, who func(config.Config) (key.Identity, error),
	inspect func(context.Context, node.Config) (*control.Client, func() error, error)) (client *control.Client, done func(), err error) {
	c, err := p.config()
	if err != nil {
		return nil, nil, err
	}
	client = control.Dial(c.Socket())
	if _, err := client.Status(ctx); !errors.Is(err, control.ErrNotRunning) {
		return client, func() {}, err
	}
	id, err := who(c)
	if err != nil {
		return nil, nil, err
	}
	n, err := nodeConfig(c, id, nodeOptions{Log: p.logger(p.err)})
	if err != nil {
		return nil, nil, err
	}
	client, closeAll, err := inspect(ctx, n)
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
