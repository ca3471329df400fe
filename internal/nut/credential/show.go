package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/nutshell"
)

func (p program) vaultShowCommand() *cobra.Command {
	var f vaultFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [DIR|FILE.nut]",
		Short: "List the credentials: names, scopes and expiry, never values",
		Long: `Open the vault and list what is in it: names, types, scopes, restrictions, and
until when each is good; and for whom it is sealed. Values are not shown.

Beside a bundle file, FILE.nut.vault is taken in place of the vault in it, if it
is signed by the key that the manifest names.`,
		Example: "  " + p.Hint("vault show") + "\n  " + p.Hint("vault show task.nut --identity key.txt --json"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one directory or bundle at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.openVault(cmd.Context(), f.at(args))
			if err != nil {
				return err
			}
			return p.printVault(cmd.Context(), s, asJSON)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

// at are the flags with a directory or bundle that was given as an argument.
func (f vaultFlags) at(args []string) vaultFlags {
	if len(args) > 0 {
		f.dir = args[0]
	}
	return f
}

// vaultEntry is what may be seen of a credential.
type vaultEntry struct {
	Name         string             `json:"name"`
	Type         string             `json:"type"`
	Access       string             `json:"access_level"`
	Scopes       []string           `json:"scopes"`
	Restrictions json.RawMessage    `json:"restrictions,omitempty"`
	ExpiresAt    nutshell.Timestamp `json:"expires_at,omitempty"`
	Expired      bool               `json:"expired"`

	until string
}

// entries are what may be seen of the vault.
func (s *safe) entries() []vaultEntry {
	now := s.p.Now()
	all := []vaultEntry{}
	scopes := s.v.Scopes()
	for i, c := range s.v.Credentials() {
		at := s.v.ExpiresAt(c.Name)
		all = append(all, vaultEntry{
			Name: c.Name, Type: c.Type, Access: scopes[i].AccessLevel, Scopes: append([]string{}, c.Scopes...), Restrictions: c.Restrictions,
			ExpiresAt: scopes[i].ExpiresAt, Expired: !at.IsZero() && !now.Before(at), until: Until(at, now),
		})
	}
	return all
}

// entry is what may be seen of one credential.
func (s *safe) entry(name string) vaultEntry {
	for _, e := range s.entries() {
		if e.Name == name {
			return e
		}
	}
	return vaultEntry{}
}

func (p program) printVault(_ context.Context, s *safe, asJSON bool) error {
	entries := s.entries()
	recipients := s.m.Credentials().Recipients
	if asJSON {
		return cli.PrintJSON(p.Out, struct {
			Vault       string       `json:"vault"`
			Encryption  string       `json:"encryption"`
			Recipients  []string     `json:"recipients,omitempty"`
			Credentials []vaultEntry `json:"credentials"`
		}{s.path, s.form, recipients, entries})
	}
	fmt.Fprintf(p.Out, "%s: %s\n", cli.Clean(s.path), sealedFor(s.form, recipients))
	for _, r := range recipients {
		fmt.Fprintln(p.Out, "  "+cli.Cut(cli.Clean(r), 80))
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintln(p.Out, "\nno credentials")
		return err
	}
	fmt.Fprintln(p.Out)
	rows := [][]string{{"NAME", "TYPE", "SCOPES", "EXPIRES", "RESTRICTIONS"}}
	for _, e := range entries {
		rows = append(rows, []string{e.Name, e.Type, strings.Join(e.Scopes, " "), e.until, cli.Cut(oneLine(e.Restrictions), 60)})
	}
	return cli.Table(p.Out, rows)
}

// oneLine is JSON without white space.
func oneLine(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return ""
	}
	return cli.Clean(b.String())
}
