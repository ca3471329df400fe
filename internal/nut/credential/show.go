package credential

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
	"guild/nutshell/vault/sops"
)

func (p program) vaultShowCommand() *cobra.Command {
	var f vaultFlags
	cmd := &cobra.Command{
		Use:   "show [DIR|FILE.nut]",
		Short: "List the credentials: names, scopes and expiry, never values",
		Long: `Open the vault and list what is in it: names, types, scopes, restrictions, and
until when each is good; and for whom it is sealed. Values are not shown.

Beside a bundle file, FILE.nut.vault is taken in place of the vault in it, if it
is signed by the key that the manifest names.`,
		Example: p.Examples("vault show", "vault show task.nut --identity key.txt --json"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one directory or bundle at most"),
	}
	f.add(cmd)
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		s, err := p.openVault(cmd.Context(), f.at(args))
		if err != nil {
			return nil, err
		}
		return s.view(), nil
	})
}

// entry has the parts of a credential that may be shown: all but its value.
type entry struct {
	Name         string             `json:"name"`
	Type         string             `json:"type"`
	Access       string             `json:"access_level"`
	Scopes       []string           `json:"scopes"`
	Restrictions json.RawMessage    `json:"restrictions,omitempty"`
	ExpiresAt    nutshell.Timestamp `json:"expires_at,omitempty"`
	Expired      bool               `json:"expired"`

	until string // for a person
}

func (s *safe) entries() []entry {
	now := s.p.Now()
	all := []entry{}
	scopes := s.v.Scopes()
	for i, c := range s.v.Credentials() {
		at := s.v.ExpiresAt(c.Name)
		all = append(all, entry{
			Name: c.Name, Type: c.Type, Access: scopes[i].AccessLevel, Scopes: append([]string{}, c.Scopes...), Restrictions: c.Restrictions,
			ExpiresAt: scopes[i].ExpiresAt, Expired: !at.IsZero() && !now.Before(at), until: Until(at, now),
		})
	}
	return all
}

func (s *safe) entry(name string) entry {
	for _, e := range s.entries() {
		if e.Name == name {
			return e
		}
	}
	return entry{}
}

// vaultView has the parts of a vault that may be shown.
type vaultView struct {
	Vault       string   `json:"vault"`
	Encryption  string   `json:"encryption"`
	Recipients  []string `json:"recipients,omitempty"`
	Credentials []entry  `json:"credentials"`
	Warnings    []string `json:"warnings,omitempty"`
}

func (s *safe) view() vaultView {
	view := vaultView{Vault: s.path, Encryption: s.form, Credentials: s.entries()}
	var asListed bool
	if view.Recipients, asListed = s.sealedFor(); !asListed {
		view.Warnings = append(view.Warnings, "the manifest lists others for whom the vault is sealed")
	}
	return view
}

// sealedFor returns for whom the file is sealed, as far as it says so, and whether the manifest lists the same.
func (s *safe) sealedFor() (recipients []string, asListed bool) {
	listed := s.m.Credentials().Recipients
	var own []string
	var err error
	switch s.form {
	case vault.Age:
		own, err = age.SealedFor(s.sealed)
		if canon, bad := canonical(listed); bad == nil && age.IsFor(own, canon) {
			return listed, true
		}
	case vault.Sops:
		own, err = sops.SealedFor(s.sealed)
	}
	if err != nil || len(own) == 0 {
		return listed, true
	}
	asListed = len(listed) == 0 || len(own) == len(listed) && !slices.ContainsFunc(listed, func(r string) bool { return !slices.Contains(own, r) })
	return own, asListed
}

// Print implements host.Result.
func (v vaultView) Print(p *host.Program) error {
	printSealed(p, v.Vault, v.Encryption, v.Recipients)
	for _, r := range v.Recipients {
		fmt.Fprintln(p.Out, "  "+cli.Cut(cli.Clean(r), 80))
	}
	for _, warning := range v.Warnings {
		fmt.Fprintln(p.Err, "warning:", warning)
	}
	if len(v.Credentials) == 0 {
		_, err := fmt.Fprintln(p.Out, "\nno credentials")
		return err
	}
	fmt.Fprintln(p.Out)
	rows := [][]string{{"NAME", "TYPE", "SCOPES", "EXPIRES", "RESTRICTIONS"}}
	for _, e := range v.Credentials {
		rows = append(rows, []string{e.Name, e.Type, strings.Join(e.Scopes, " "), e.until, cli.Cut(oneLine(e.Restrictions), 60)})
	}
	return cli.Table(p.Out, rows)
}

// storeResult describes a credential that was put into a vault.
type storeResult struct {
	Credential entry    `json:"credential"`
	Vault      string   `json:"vault"`
	Encryption string   `json:"encryption"`
	Recipients []string `json:"recipients,omitempty"`
	Issued     string   `json:"issued,omitempty"` // the vault written beside a bundle

	did string
}

func (s *safe) storeResult(did, name string) *storeResult {
	v := s.view()
	return &storeResult{did: did, Credential: s.entry(name), Vault: v.Vault, Encryption: v.Encryption, Recipients: v.Recipients}
}

// Print implements host.Result.
func (d *storeResult) Print(p *host.Program) error {
	e := d.Credential
	fmt.Fprintf(p.Out, "%s %s (%s, %s, expires %s)\n", d.did, cli.Clean(e.Name), cli.Clean(e.Type), cli.Clean(e.Access), e.until)
	printSealed(p, d.Vault, d.Encryption, d.Recipients)
	if d.Issued == "" {
		return nil
	}
	_, err := fmt.Fprintf(p.Out, "wrote %s\n", cli.Clean(d.Issued))
	return err
}

// printSealed says for whom a vault is sealed.
func printSealed(p *host.Program, path, form string, recipients []string) {
	how := fmt.Sprintf("sealed with %s for %s", form, cli.Count(len(recipients), "key", "keys"))
	switch {
	case form == vault.Plaintext:
		how = "not encrypted"
	case len(recipients) == 0:
		how = "sealed with " + form
	case len(recipients) == 1 && recipients[0] == "passphrase":
		how = "sealed with " + form + " and a passphrase"
	}
	fmt.Fprintf(p.Out, "%s: %s\n", cli.Clean(path), how)
}

// oneLine returns JSON without white space.
func oneLine(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return ""
	}
	return cli.Clean(b.String())
}
