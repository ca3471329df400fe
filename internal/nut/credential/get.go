package credential

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/nutshell/vault"
)

// getFlags say which value is wanted.
type getFlags struct {
	vaultFlags
	field, bundle        string
	reveal, allowExpired bool
}

func (p program) vaultGetCommand() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get NAME --reveal",
		Short: "Write the value of one credential to standard output",
		Long: `Write the value of a credential to standard output, for the program that needs
it. This is the only verb that does, so it wants to be told twice: --reveal says
that the value may be seen. It has no --json, because what prints JSON is
logged. Without --field a value with several fields is written as JSON.

Expired credentials are refused, unless --allow-expired says otherwise.`,
		Example: "  " + p.Hint("vault get api-token --reveal") + "\n" +
			"  PGPASSWORD=$(" + p.Hint("vault get staging-db --field password --reveal") + ") psql",
		Args: cli.OneArg("the name of a credential"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !f.reveal {
				return cli.WithHint(cli.Usage(errors.New("get writes out a secret")), "say --reveal if that is what you want")
			}
			if f.bundle != "" {
				f.dir = f.bundle
			}
			s, err := p.openVault(cmd.Context(), f.vaultFlags)
			if err != nil {
				return err
			}
			name := args[0]
			c, err := s.find(name)
			if err != nil {
				return err
			}
			if s.entry(name).Expired && !f.allowExpired {
				err := fmt.Errorf("%s: %w", name, vault.ErrExpired)
				return cli.WithHint(err, "'"+p.Hint("vault rotate "+name)+"' gives it a new value; --allow-expired takes it as it is")
			}
			value, err := valueOf(c, f.field)
			if err != nil {
				return err
			}
			if cli.IsTerminal(p.Out) && !isShowable(value.Reveal()) {
				return cli.WithHint(errors.New("the value would control the terminal"), "write it to a file or a program")
			}
			_, err = fmt.Fprintf(p.Out, "%s\n", value.Reveal())
			return err
		},
	}
	f.vaultFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.field, "field", "", "one field of the value")
	flags.StringVar(&f.bundle, "bundle", "", "a packed bundle `file`, in place of a directory")
	flags.BoolVar(&f.reveal, "reveal", false, "yes, write the secret out")
	flags.BoolVar(&f.allowExpired, "allow-expired", false, "even if it has expired")
	cli.Exclusive(cmd, "bundle", "dir")
	_ = cmd.MarkFlagFilename("bundle", "nut")
	return cmd
}

// valueOf returns a field of a credential's value, or all of it.
func valueOf(c vault.Credential, field string) (vault.Secret, error) {
	fields := c.Fields()
	if field == "" && len(fields) > 0 {
		return c.Value, nil
	}
	value, ok := c.Field(field)
	switch {
	case ok:
		return value, nil
	case len(fields) == 0:
		return value, cli.WithHint(cli.Usage(fmt.Errorf("the value of %s has no fields", c.Name)), "leave out --field")
	}
	err := cli.Usage(fmt.Errorf("the value of %s has no field %.80q", c.Name, field))
	return value, cli.WithHint(err, "it has "+strings.Join(fields, ", "))
}

// isShowable reports whether a text cannot control a terminal.
func isShowable(text []byte) bool {
	return utf8.Valid(text) && !bytes.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && cli.Clean(string(r)) != string(r)
	})
}
