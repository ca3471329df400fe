package credential

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// rotateFlags are the flags of both verbs that rotate.
type rotateFlags struct {
	vaultFlags
	expires, bundle, field string
	fromInput              bool
}

func (p program) vaultRotateCommand() *cobra.Command {
	var f rotateFlags
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a credential a new value, or a new expiry",
		Long: `Ask for a new value of a credential, or read it from standard input, and seal
the vault again. With --expires alone only the expiry changes. An expired
credential that gets a new value is good until the bundle's deadline, or for 30
days. Of a value with several fields, --field changes one; a JSON object takes
the place of all.

With --for a bundle that was packed before, the new vault is also written beside
it, as BUNDLE.nut.vault, signed by your key: the bundle stays as it is.`,
		Example: p.Examples("vault rotate staging-db --field password --for task.nut", "vault rotate staging-db --expires 7d"),
		Args:    cli.OneArg("the name of a credential"),
	}
	f.vaultFlags.add(cmd)
	expiresFlag(cmd, &f.expires)
	flags := cmd.Flags()
	flags.BoolVar(&f.fromInput, "value-stdin", false, "read the new value from standard input")
	fieldFlag(cmd, &f.field)
	flags.StringVar(&f.bundle, "for", "", "write the new vault beside this packed `bundle` too, signed")
	_ = cmd.MarkFlagFilename("for", "nut")
	return p.Verb(cmd, "print what was done as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		return p.rotate(cmd.Context(), f, args[0])
	})
}

func (p program) rotateCommand() *cobra.Command {
	var f rotateFlags
	cmd := &cobra.Command{
		Use:   "rotate [SCOPE]",
		Short: "Give credentials a new expiry or a new value",
		Long: `Without a scope and without --expires, say what has expired, as 'vault audit'
does. With a scope, give that credential a new value, or with --expires a new
expiry, as 'vault rotate' does; with --expires alone, all of them. In a
directory without a vault, --expires changes what the manifest promises.

Exit code 1: something has expired.`,
		Example: p.Examples("rotate", "rotate staging-db --expires 2026-04-30"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one scope at most"),
	}
	f.vaultFlags.add(cmd)
	expiresFlag(cmd, &f.expires)
	cmd.Flags().BoolVar(&f.fromInput, "value-stdin", false, "read the new value from standard input")
	fieldFlag(cmd, &f.field)
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		return p.rotateScopes(cmd.Context(), f, args)
	})
}

func fieldFlag(cmd *cobra.Command, field *string) {
	cmd.Flags().StringVar(field, "field", "", "the one field of the value that is new")
}

// usualWarning is the time before its end from which on a credential is said to expire soon.
const usualWarning = 7 * 24 * time.Hour

// rotateScopes audits the vault, or rotates one of its credentials or all of them.
func (p program) rotateScopes(ctx context.Context, f rotateFlags, scopes []string) (host.Result, error) {
	if f.expires == "" && len(scopes) == 1 {
		return p.rotate(ctx, f, scopes[0])
	}
	s, err := p.readVault(ctx, f.vaultFlags)
	if err != nil {
		return nil, err
	}
	switch {
	case f.expires == "":
		if err := s.open(ctx); err != nil {
			return nil, err
		}
		return s.audit(usualWarning)
	case len(s.sealed) == 0:
		return p.rotatePromises(s, f, scopes)
	case len(scopes) == 1:
		return p.rotate(ctx, f, scopes[0])
	}
	f.fromInput = false
	s, err = p.edit(ctx, f.vaultFlags, sealing{}, func(s *safe) error {
		at, err := parseExpiry(f.expires, p.Now())
		if err == nil && s.v.Expiry() != "" {
			err = s.v.SetExpiry(at) // or no credential could outlive it
		}
		for _, c := range s.v.Credentials() {
			if err == nil {
				err = s.renew(f, c.Name)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.view(), nil
}

// rotate gives a credential a new value or expiry, and issues the vault for a packed bundle, if one is named.
func (p program) rotate(ctx context.Context, f rotateFlags, name string) (host.Result, error) {
	s, err := p.edit(ctx, f.vaultFlags, sealing{}, func(s *safe) error { return s.renew(f, name) })
	if err != nil {
		return nil, err
	}
	result := s.storeResult("rotated", name)
	if f.bundle == "" {
		return result, nil
	}
	if _, err := p.issue(ctx, s, f.bundle); err != nil {
		return nil, err
	}
	result.Issued = f.bundle + vault.RevisionSuffix
	return result, nil
}

// renew gives a credential of an open vault a new value or expiry.
func (s *safe) renew(f rotateFlags, name string) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	now := s.p.Now()
	if f.expires != "" {
		if c.ExpiresAt, err = parseExpiry(f.expires, now); err != nil {
			return err
		}
	} else if s.entry(name).Expired {
		c.ExpiresAt = usualExpiry(s.m, now)
	}
	if f.expires == "" || f.fromInput || f.field != "" {
		if err := s.newValue(&c, f); err != nil {
			return err
		}
	}
	if err := s.v.Put(c); err != nil {
		return err
	}
	want, _ := c.ExpiresAt.Time()
	if !s.v.ExpiresAt(name).Equal(want) {
		err := errors.New("the whole vault expires earlier than that")
		return cli.WithHint(err, "'"+s.p.Hint("vault edit")+"' changes its expires_at")
	}
	return nil
}

// newValue reads a new value of a credential, or of one of its fields. A value with fields is not replaced by a text, which
// would lose them.
func (s *safe) newValue(c *vault.Credential, f rotateFlags) error {
	fields := c.Fields()
	if f.field != "" && !slices.Contains(fields, f.field) {
		_, err := valueOf(*c, f.field)
		return err
	}
	value, err := s.p.readValue(c.Name, f.fromInput)
	if err != nil {
		return err
	}
	if f.field != "" {
		c.Value = c.WithField(f.field, value)
		return nil
	}
	became := vault.Credential{Value: value}
	if len(fields) > 0 && len(became.Fields()) == 0 {
		err := cli.Usage(fmt.Errorf("the value of %s has the fields %s, which a text would replace", c.Name, strings.Join(fields, ", ")))
		return cli.WithHint(err, "change one of them with --field, or give a JSON object with all")
	}
	c.Value = value
	return nil
}

// promiseResult lists scopes that got a new expiry in the manifest alone.
type promiseResult struct {
	Changed   []string           `json:"changed"`
	ExpiresAt nutshell.Timestamp `json:"expires_at"`
}

// rotatePromises changes the expiry of one scope or all of them in the manifest, where there is no vault.
func (p program) rotatePromises(s *safe, f rotateFlags, names []string) (host.Result, error) {
	at, err := parseExpiry(f.expires, p.Now())
	if err != nil {
		return nil, err
	}
	result := promiseResult{Changed: []string{}, ExpiresAt: at}
	for _, c := range s.m.Credentials().Scopes {
		if len(names) == 0 || slices.Contains(names, c.Name) {
			result.Changed = append(result.Changed, c.Name)
		}
	}
	if len(names) > 0 && len(result.Changed) == 0 {
		return nil, cli.WithHint(fmt.Errorf("the manifest has no scope %.140s", names[0]), "'"+p.Hint("add-credential --name "+names[0])+"' adds it")
	}
	err = host.RewriteManifest(f.dir, func(m *nutshell.Manifest) error { return vault.Promise(m, at, result.Changed...) })
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Print implements host.Result.
func (r promiseResult) Print(p *host.Program) error {
	for _, name := range r.Changed {
		fmt.Fprintf(p.Out, "%s: expires %s\n", cli.Clean(name), cmp.Or(string(r.ExpiresAt), "never"))
	}
	_, err := fmt.Fprintln(p.Err, "note: there is no vault yet; only the manifest was changed")
	return err
}
