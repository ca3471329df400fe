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
	var strict bool
	cmd := &cobra.Command{
		Use:   "schema [manifest|result|endpoints|criteria|vault]",
		Short: "Print the JSON Schema of a document",
		Long: `Print the JSON Schema (draft 2020-12) of a document of a bundle: nutshell.json
if none is named. Editors complete and check a document by it:

  "$schema": "./nutshell.schema.json"

in nutshell.json does it for most of them. A document is valid by it if readers
take it; --strict also refuses what they only warn of.`,
		Example: "  " + p.Hint("schema -o nutshell.schema.json") + "\n" +
			"  " + p.Hint("schema criteria"),
		ValidArgs: schema.Names(),
		Args:      cli.Arity(cobra.MaximumNArgs(1), "the name of one document"),
		RunE: func(_ *cobra.Command, args []string) error {
			of := schema.Of
			if strict {
				of = schema.Strict
			}
			return p.schema(of, append(args, schema.Manifest)[0], out)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "refuse unknown values, and numbers that are out of range")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write it to this file")
	cli.JSONFlag(cmd, "print errors as JSON, too")
	return cmd
}

func (p program) schema(of func(string) ([]byte, error), name, out string) error {
	text, err := of(name)
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
