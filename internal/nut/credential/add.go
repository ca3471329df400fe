package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// credentialFlags describe a credential.
type credentialFlags struct {
	vaultFlags
	name, kind, restrict, expires string
	scopes, recipients            []string
	form                          string
	fromInput, json               bool
}

func (p program) addCredentialCommand() *cobra.Command {
	var f credentialFlags
	cmd := &cobra.Command{
		Use:   "add-credential --name NAME [--type TYPE]",
		Short: "Put a credential into the bundle's vault",
		Long: `Ask for a credential without showing it, and put it into the vault of the
bundle, which is sealed. Where there is no terminal, or with --value-stdin, the
value is read from standard input; it is never an argument. A JSON object stays
one.

A new vault is sealed with age, for your own key and for every --recipient: an
age or SSH public key. "--recipient passphrase" seals it with a passphrase
instead. The first time, a key is made for you. A credential expires with the
bundle's deadline, or after 30 days, unless --expires says otherwise.`,
		Example: "  " + p.Hint("add-credential --name staging-db --type postgresql") + "\n" +
			"  " + p.Hint("add-credential --name api --scope invoke --expires 7d < token"),
		Args: cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.addCredential(cmd.Context(), f) },
	}
	f.vaultFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "what the bundle calls it")
	flags.StringVar(&f.kind, "type", "", "what it is: postgresql, bearer_token, … (secret if nothing says so)")
	flags.StringArrayVar(&f.scopes, "scope", nil, "what it may be used for: read, write, invoke, … (repeatable)")
	flags.StringVar(&f.restrict, "restrict", "", "restrictions, as a JSON `object`: tables, endpoints, rate_limit, …")
	flags.StringVar(&f.expires, "expires", "", "until when: a `date`, a duration such as 7d, or never")
	flags.StringArrayVarP(&f.recipients, "recipient", "r", nil, "who else may open the vault (repeatable)")
	flags.StringVar(&f.form, "encryption", "", "age, sops, vault or none, for a new vault (age)")
	flags.BoolVar(&f.fromInput, "value-stdin", false, "read the value from standard input")
	flags.BoolVar(&f.json, "json", false, "print what was done as JSON")
	cli.Choices(cmd, "encryption", vaultForms()...)
	return cmd
}

func vaultForms() []string {
	return []string{vault.Age, vault.Sops, vault.Transit, vault.Plaintext}
}

func (p program) addCredential(ctx context.Context, f credentialFlags) error {
	if f.name == "" {
		return cli.WithHint(cli.Usage(errors.New("the credential has no name")), "name it with --name, as in '"+p.Hint("add-credential --name staging-db")+"'")
	}
	s, err := p.changeVault(ctx, f.vaultFlags, true)
	if err != nil {
		return err
	}
	defer s.close()
	if _, there := s.v.Credential(f.name); there {
		return cli.WithHint(fmt.Errorf("the vault has a credential %s already", f.name), "'"+p.Hint("vault rotate "+f.name)+"' gives it a new value")
	}
	form, err := s.chosenForm(f.form)
	if err != nil {
		return err
	}
	c, err := p.describe(s, f)
	if err != nil {
		return err
	}
	recipients, err := s.recipients(ctx, form, f.recipients, nil)
	if err != nil {
		return err
	}
	if c.Value, err = p.readValue(f.name, f.fromInput); err != nil {
		return err
	}
	if err := s.v.Put(c); err != nil {
		return cli.Usage(err)
	}
	if err := s.save(ctx, placement{form: form, recipients: recipients}); err != nil {
		return err
	}
	return p.printStored(stored{did: "added", name: c.Name, recipients: recipients, json: f.json}, s)
}

// chosenForm is the form of a new vault, which an old one keeps.
func (s *safe) chosenForm(wanted string) (string, error) {
	if wanted == "" || wanted == s.form {
		return s.form, nil
	}
	if len(s.sealed) > 0 {
		err := cli.Usage(fmt.Errorf("the vault is sealed with %s already", s.form))
		return "", cli.WithHint(err, "'"+s.p.Hint("vault rekey --encryption "+wanted)+"' changes that")
	}
	return wanted, checkForm(wanted)
}

func checkForm(form string) error {
	for _, known := range vaultForms() {
		if form == known {
			return nil
		}
	}
	return cli.Usage(fmt.Errorf("%.40q is no form of encryption: want %s", form, strings.Join(vaultForms(), ", ")))
}

// describe is a credential without its value: as the flags say, else as the manifest promises.
func (p program) describe(s *safe, f credentialFlags) (vault.Credential, error) {
	c := vault.Credential{Name: f.name, Type: f.kind, Scopes: f.scopes, ExpiresAt: usualExpiry(s.m, p.Now())}
	for _, scope := range s.m.Credentials().Scopes {
		if scope.Name == f.name {
			c = promised(c, scope)
		}
	}
	if c.Type == "" {
		c.Type = "secret"
	}
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"read"}
	}
	if f.restrict != "" {
		c.Restrictions = json.RawMessage(f.restrict)
	}
	if !json.Valid(c.Restrictions) && f.restrict != "" {
		return c, cli.WithHint(cli.Usage(errors.New("--restrict is not JSON")), `as in --restrict '{"tables": ["users"], "rate_limit": "100/min"}'`)
	}
	if f.expires != "" {
		at, err := parseExpiry(f.expires, p.Now())
		if err != nil {
			return c, err
		}
		c.ExpiresAt = at
	}
	return c, nil
}

// promised fills in what the manifest says of a credential that was not there yet.
func promised(c vault.Credential, s nutshell.Scope) vault.Credential {
	if c.Type == "" {
		c.Type = s.Type
	}
	switch {
	case len(c.Scopes) > 0:
	case s.AccessLevel == "read-write":
		c.Scopes = []string{"read", "write"}
	case s.AccessLevel != "":
		c.Scopes = []string{s.AccessLevel}
	}
	if s.RateLimit != "" {
		limit, err := json.Marshal(map[string]string{"rate_limit": s.RateLimit})
		if err == nil {
			c.Restrictions = limit
		}
	}
	return c
}

// readValue asks for a value without echo, or reads standard input. One line end at the end is not part of it.
func (p program) readValue(name string, fromInput bool) (vault.Secret, error) {
	raw, err := p.rawValue(name, fromInput)
	if err != nil {
		return vault.Secret{}, err
	}
	raw = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
	if len(raw) == 0 {
		return vault.Secret{}, cli.WithHint(cli.Usage(errors.New("the value is empty")), "type it when you are asked, or pipe it into the command")
	}
	return vault.ValueOf(vault.NewSecret(raw)), nil
}

func (p program) rawValue(name string, fromInput bool) ([]byte, error) {
	if !fromInput && cli.IsTerminal(p.In) {
		return p.AskSecret(fmt.Sprintf("Value of %s (not shown): ", cli.Clean(name)))
	}
	raw, err := io.ReadAll(io.LimitReader(p.In, vault.MaxSealed+1))
	if err == nil && len(raw) > vault.MaxSealed {
		err = vault.ErrTooLarge
	}
	return raw, err
}

// stored is what was done to a credential.
type stored struct {
	did, name  string
	recipients []string
	beside     string // the bundle that got the vault beside it, if one did
	json       bool
}

// printStored says what was put away.
func (p program) printStored(d stored, s *safe) error {
	entry := s.entry(d.name)
	issued := ""
	if d.beside != "" {
		issued = d.beside + vault.RevisionSuffix
	}
	if d.json {
		return cli.PrintJSON(p.Out, struct {
			Credential vaultEntry `json:"credential"`
			Vault      string     `json:"vault"`
			Encryption string     `json:"encryption"`
			Recipients []string   `json:"recipients,omitempty"`
			Issued     string     `json:"issued,omitempty"`
		}{entry, s.path, s.form, d.recipients, issued})
	}
	fmt.Fprintf(p.Out, "%s %s (%s, %s, expires %s)\n", d.did, cli.Clean(d.name), cli.Clean(entry.Type), cli.Clean(entry.Access), entry.until)
	fmt.Fprintf(p.Out, "%s: %s\n", cli.Clean(s.path), sealedFor(s.form, d.recipients))
	if issued == "" {
		return nil
	}
	_, err := fmt.Fprintf(p.Out, "wrote %s\n", cli.Clean(issued))
	return err
}

// sealedFor words for whom a vault is sealed.
func sealedFor(form string, recipients []string) string {
	switch {
	case form == vault.Plaintext:
		return "not encrypted"
	case len(recipients) == 0:
		return "sealed with " + form
	case len(recipients) == 1 && recipients[0] == "passphrase":
		return "sealed with " + form + " and a passphrase"
	}
	return fmt.Sprintf("sealed with %s for %s", form, cli.Count(len(recipients), "key", "keys"))
}
