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
embedded relay - able, sloppy, cheat and silent - and hires for the bundles under
examples/. It ends with a table: who was asked, what happened, the verdict, trust
before and after, and the receipt. It needs no account and no network.`,
		Example: "  guild demo\n  guild demo --keep ./demo-home",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.asJSON = cli.AsJSON(cmd)
			return runDemo(cmd.Context(), o, p.out)
		},
	}
	cli.JSONFlag(cmd, "print the table as JSON")
	cmd.Flags().StringVar(&o.Keep, "keep", "", "directory for the nodes' files, kept for a closer look")
	cmd.Flags().StringVar(&o.Examples, "examples", "", "directory with the bundles and workers (default: examples, here or beside the program)")
	return cmd
}
