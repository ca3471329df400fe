package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/config"
)

// program holds what every verb needs: the streams, the clock and the global flags.
type program struct {
	home    string
	verbose bool

	in       io.Reader
	out, err io.Writer
	now      func() time.Time
}

// run runs the whole program and returns the exit code.
func run(args []string) int {
	ctx, stop := cli.Interruptible()
	defer stop()
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, now: time.Now}
	asJSON, err := cli.Execute(ctx, p.rootCommand(), args)
	return p.report(err, asJSON)
}

// report prints what went wrong, also as JSON if that was asked for, and returns the exit code for it.
func (p *program) report(err error, asJSON bool) int {
	if asJSON {
		cli.ReportJSON(p.out, err, hintOf(err), nameOfError(err))
	}
	cli.Report(p.err, "guild", err, hintOf(err))
	return codeOf(err)
}

// rootCommand builds the program. The verbs of most days are shown in groups, the others by "guild help formats".
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
	flags.StringVar(&p.home, "home", "", "directory for everything (else GUILD_HOME, or XDG directories)")
	flags.BoolVarP(&p.verbose, "verbose", "v", false, "log what the node does")
	p.addVerbs(root)
	cli.NameCompletions(root)
	return root
}

// config returns the settings. What is wrong there is wrong input.
func (p *program) config() (config.Config, error) {
	c, err := config.Load(p.home, os.Environ())
	if err != nil {
		err = cli.Usage(err)
	}
	return c, err
}
