package main

import (
	"github.com/spf13/cobra"

	"guild/internal/cli"
)

func (p *program) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole loop on this machine, with four providers",
		Long: `demo starts a customer node and four providers with their own keys on the
embedded relay: able, sloppy, cheat and silent. It hires them for three of the
bundles under examples/, and tells who was asked, what their work was worth,
what plain pytest would have said of it, how trust moved, and who was paid: each
wants worthless play money, which is locked before the work and released by the
verdict. It needs no account and no network. Without --keep it leaves nothing
behind.`,
		Example: "  guild demo\n  guild demo --keep ./demo-home",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.asJSON = cli.AsJSON(cmd)
			return p.runDemo(cmd.Context(), o)
		},
	}
	cli.JSONFlag(cmd, "print who was asked, and what came of it, as JSON")
	cmd.Flags().StringVar(&o.Keep, "keep", "", "directory for the nodes' files, kept for a closer look")
	cmd.Flags().StringVar(&o.Examples, "examples", "", "directory with the bundles and workers (default: examples, here or beside the program)")
	return cmd
}
