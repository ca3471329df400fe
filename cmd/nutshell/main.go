// Command nutshell packs, checks, opens and compares Nutshell bundles (.nut). Its verbs are those of `guild nut`.
package main

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"time"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/judging/exam"
	"guild/internal/nut"
	"guild/internal/nut/host"
	"guild/nutshell"
)

func main() { os.Exit(run(os.Args[1:])) }

// nameOfCode returns the name of an exit code, which is the code of an error in JSON.
func nameOfCode(code int) string {
	switch code {
	case cli.ExitUsage:
		return "usage"
	case cli.ExitInterrupted:
		return "interrupted"
	}
	return "failed"
}

// run is the whole program: it returns the exit code.
func run(args []string) int {
	ctx, stop := cli.Interruptible()
	defer stop()
	asJSON, err := cli.Execute(ctx, rootCommand(), args)
	if asJSON {
		cli.ReportJSON(os.Stdout, err, cli.HintOf(err), nameOfCode(cli.CodeOf(err)))
	}
	cli.Report(os.Stderr, "nutshell", err, cli.HintOf(err))
	return cli.CodeOf(err)
}

func rootCommand() *cobra.Command {
	p := &host.Program{
		Name: "nutshell", In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now, Random: rand.Reader,
		Signer: signer, ConfigDir: configDir, AskSecret: cli.AskSecret, Judged: new(exam.Engine).Ready,
	}
	root := cli.Root(&cobra.Command{
		Use:     "nutshell",
		Short:   "Package tasks so that agents can do them",
		Version: nutshell.Version,
		Example: "  nutshell init --dir my-task\n  nutshell check --dir my-task\n  nutshell pack --dir my-task -o my-task.nut",
	})
	cli.Group(root, nut.Commands(p)...)
	cli.NameCompletions(root)
	root.SetVersionTemplate("Nutshell specification {{.Version}}\n")
	return root
}

// signer is the identity that guild init made, or the one in the environment.
func signer(ctx context.Context) (nostr.Keyer, error) {
	c, err := config.Load("", os.Environ())
	if err != nil {
		return nil, err
	}
	return nut.Signer(ctx, c.Paths.Data)
}

func configDir() (string, error) {
	c, err := config.Load("", os.Environ())
	return filepath.Dir(c.Paths.Config), err
}
