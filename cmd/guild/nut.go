package main

import (
	"context"
	"crypto/rand"
	"path/filepath"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/judging/exam"
	"guild/internal/nut"
	"guild/internal/nut/host"
)

// nutCommand returns the verbs of the program nutshell.
func (p *program) nutCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "nut",
		Short:   "Make, check, open and compare Nutshell bundles",
		Example: "  guild nut init --dir my-task\n  guild nut check --dir my-task\n  guild nut pack --dir my-task -o my-task.nut",
	}, nut.Commands(p.nut())...)
}

// nut returns the program for the verbs for bundles, which hire uses for its vault, too.
func (p *program) nut() *host.Program {
	return &host.Program{
		Name: "guild nut", In: p.in, Out: p.out, Err: p.err, Now: p.now, Random: rand.Reader, AskSecret: cli.AskSecret,
		Judged: new(exam.Engine).Ready,
		Signer: func(ctx context.Context) (nostr.Keyer, error) {
			c, err := p.config()
			if err != nil {
				return nil, err
			}
			return nut.Signer(ctx, c.Paths.Data)
		},
		ConfigDir: func() (string, error) {
			c, err := p.config()
			return filepath.Dir(c.Paths.Config), err
		},
	}
}
