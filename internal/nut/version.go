package nut

import (
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/nutshell"
)

func (p program) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of the specification that is written",
		Example: "  " + p.Hint("version"),
		Args:    cli.NoArgs(),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return cli.PrintJSON(p.Out, map[string]string{"nutshell_version": nutshell.Version})
			}
			_, err := fmt.Fprintf(p.Out, "Nutshell specification %s\n", nutshell.Version)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}
