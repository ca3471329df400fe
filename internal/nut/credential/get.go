package credential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/nut/host"
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

Expired credentials are refused, unless --allow-expired says otherwise. The use
is noted in .credentials-used, or beside the bundle, for '` + p.Hint("deliver") + `'.`,
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
			if err := s.leaveTrace(name); err != nil {
				fmt.Fprintf(p.Err, "warning: the use could not be noted for the delivery: %v\n", err)
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

// leaveTrace notes that a credential was used.
func (s *safe) leaveTrace(name string) error {
	path := filepath.Join(s.f.dir, vault.UsedFile)
	if host.IsFile(s.f.dir) {
		path = s.f.dir + vault.UsedSuffix
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|durable.NoFollow|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	case info.Size() > vault.MaxUsed:
		err = fmt.Errorf("%s has more than %d bytes", path, vault.MaxUsed)
	default:
		_, err = f.Write(vault.Used{Name: name, At: s.p.Now()}.Line())
	}
	return errors.Join(err, f.Close())
}

// UsesOf returns the uses of credentials that were noted for a directory or bundle file.
func UsesOf(path string) ([]vault.Used, error) {
	file := filepath.Join(path, vault.UsedFile)
	if host.IsFile(path) {
		file = path + vault.UsedSuffix
	}
	f, err := host.OpenRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 2*vault.MaxUsed))
	return vault.ParseUsed(raw), err
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
