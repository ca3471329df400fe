package credential

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// credentialFlags describe a credential.
type credentialFlags struct {
	vaultFlags
	name, kind, restrict, expires string
	scopes, recipients            []string
	form                          string
	fromInput                     bool
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
		Example: p.Examples("add-credential --name staging-db --type postgresql", "add-credential --name api --scope invoke --expires 7d < token"),
		Args:    cli.NoArgs(),
	}
	f.vaultFlags.add(cmd)
	expiresFlag(cmd, &f.expires)
	formFlag(cmd, &f.form, "age, sops, vault or none, for a new vault (age)")
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "what the bundle calls it")
	flags.StringVar(&f.kind, "type", "", "what it is: postgresql, bearer_token, … (secret if nothing says so)")
	flags.StringArrayVar(&f.scopes, "scope", nil, "what it may be used for: read, write, invoke, … (repeatable)")
	flags.StringVar(&f.restrict, "restrict", "", "restrictions, as a JSON `object`: tables, endpoints, rate_limit, …")
	flags.StringArrayVarP(&f.recipients, "recipient", "r", nil, "who else may open the vault (repeatable)")
	flags.BoolVar(&f.fromInput, "value-stdin", false, "read the value from standard input")
	return p.Verb(cmd, "print what was done as JSON", func(cmd *cobra.Command, _ []string) (host.Result, error) {
		return p.addCredential(cmd.Context(), f)
	})
}

func (p program) addCredential(ctx context.Context, f credentialFlags) (host.Result, error) {
	if f.name == "" {
		return nil, cli.WithHint(cli.Usage(errors.New("the credential has no name")), "name it with --name, as in '"+p.Hint("add-credential --name staging-db")+"'")
	}
	c := vault.Credential{Name: f.name, Type: f.kind, Scopes: f.scopes, Restrictions: json.RawMessage(f.restrict)}
	if f.restrict != "" && !json.Valid(c.Restrictions) {
		return nil, cli.WithHint(cli.Usage(errors.New("--restrict is not JSON")), `as in --restrict '{"tables": ["users"], "rate_limit": "100/min"}'`)
	}
	until, err := parseExpiry(cmp.Or(f.expires, "never"), p.Now())
	if err != nil {
		return nil, err
	}
	s, err := p.edit(ctx, f.vaultFlags, sealing{create: true, form: f.form, add: f.recipients}, func(s *safe) error {
		if _, there := s.v.Credential(f.name); there {
			return cli.WithHint(fmt.Errorf("the vault has a credential %s already", f.name), "'"+p.Hint("vault rotate "+f.name)+"' gives it a new value")
		}
		c.ExpiresAt = until
		if f.expires == "" {
			c.ExpiresAt = usualExpiry(s.m, p.Now())
		}
		promised(&c, s.m)
		value, err := p.readValue(f.name, f.fromInput)
		if err != nil {
			return err
		}
		c.Value = value
		if err := s.v.Put(c); err != nil {
			return cli.Usage(err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.storeResult("added", f.name), nil
}

// promised completes a new credential by its scope in the manifest, or else by defaults.
func promised(c *vault.Credential, m *nutshell.Manifest) {
	var s nutshell.Scope
	for _, promise := range m.Credentials().Scopes {
		if promise.Name == c.Name {
			s = promise
		}
	}
	c.Type = cmp.Or(c.Type, s.Type, "secret")
	switch {
	case len(c.Scopes) > 0:
	case s.AccessLevel == "read-write":
		c.Scopes = []string{"read", "write"}
	default:
		c.Scopes = []string{cmp.Or(s.AccessLevel, "read")}
	}
	if s.RateLimit == "" || len(c.Restrictions) > 0 {
		return
	}
	if limit, err := json.Marshal(map[string]string{"rate_limit": s.RateLimit}); err == nil {
		c.Restrictions = limit
	}
}

// readValue asks for a value without echo, or reads standard input. One line end at the end is not part of it.
func (p program) readValue(name string, fromInput bool) (vault.Secret, error) {
	var raw []byte
	var err error
	if fromInput || !cli.IsTerminal(p.In) {
		raw, err = host.ReadAtMost(p.In, vault.MaxSealed, vault.ErrTooLarge)
	} else {
		raw, err = p.AskSecret(fmt.Sprintf("Value of %s (not shown): ", cli.Clean(name)))
	}
	if err != nil {
		return vault.Secret{}, err
	}
	raw = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
	if len(raw) == 0 {
		return vault.Secret{}, cli.WithHint(cli.Usage(errors.New("the value is empty")), "type it when you are asked, or pipe it into the command")
	}
	return vault.ValueOf(vault.NewSecret(raw)), nil
}
