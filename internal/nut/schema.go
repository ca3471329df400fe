package nut

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/nutshell/schema"
)

func (p program) schemaCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "schema [manifest|result|endpoints|criteria|vault]",
		Short: "Print the JSON Schema of a document",
		Long: `Print the JSON Schema (draft 2020-12) of a document of a bundle: nutshell.json
if none is named. Editors complete and check a document by it:

  "$schema": "./nutshell.schema.json"

in nutshell.json does it for most of them.`,
		Example: "  " + p.Hint("schema -o nutshell.schema.json") + "\n" +
			"  " + p.Hint("schema criteria"),
		ValidArgs: schema.Names(),
		Args:      cli.Arity(cobra.MaximumNArgs(1), "the name of one document"),
		RunE: func(_ *cobra.Command, args []string) error {
			return p.schema(append(args, schema.Manifest)[0], out)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write it to this file")
	cli.JSONFlag(cmd, "print errors as JSON, too")
	return cmd
}

func (p program) schema(name, out string) error {
	text, err := schema.Of(name)
	if errors.Is(err, schema.ErrUnknown) {
		return cli.WithHint(cli.Usage(err), "there are "+strings.Join(schema.Names(), ", "))
	}
	if err != nil {
		return err
	}
	err = p.WriteOutput(out, func(w io.Writer) error { _, err := w.Write(text); return err })
	if err != nil || out == "" {
		return err
	}
	_, err = fmt.Fprintln(p.Out, "wrote", cli.Clean(out))
	return err
}
