package credential

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
)

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
		Example: "  " + p.Hint("rotate") + "\n  " + p.Hint("rotate staging-db --expires 2026-04-30"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one scope at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && f.expires == "" {
				return p.rotate(cmd.Context(), f, args[0])
			}
			return p.rotateScopes(cmd.Context(), f, args)
		},
	}
	f.vaultFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.expires, "expires", "", "until when: a `date`, a duration such as 7d, or never")
	flags.BoolVar(&f.fromInput, "value-stdin", false, "read the new value from standard input")
	flags.BoolVar(&f.json, "json", false, "print it as JSON")
	return cmd
}

// rotateScopes audits, or changes the expiry of one scope or all.
func (p program) rotateScopes(ctx context.Context, f rotateFlags, args []string) error {
	s, err := p.vaultTree(ctx, f.vaultFlags)
	if err != nil {
		return err
	}
	switch {
	case f.expires != "" && len(s.sealed) == 0:
		return p.rotatePromises(s, f, args)
	case f.expires != "" && len(args) == 1:
		return p.rotate(ctx, f, args[0])
	case f.expires != "":
		return p.rotateAll(ctx, f)
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	return p.printAudit(s, s.audit(usualWarning), f.json)
}

// usualWarning is how long before its end a credential is said to expire soon.
const usualWarning = 7 * 24 * time.Hour

// rotateAll gives every credential of the vault the same new expiry.
func (p program) rotateAll(ctx context.Context, f rotateFlags) error {
	s, err := p.changeVault(ctx, f.vaultFlags, false)
	if err != nil {
		return err
	}
	defer s.close()
	f.fromInput = false
	if err := s.widen(f.expires); err != nil {
		return err
	}
	for _, c := range s.v.Credentials() {
		if err := p.renew(s, f, c.Name); err != nil {
			return err
		}
	}
	recipients, err := s.recipients(ctx, s.form, nil, nil)
	if err != nil {
		return err
	}
	if err := s.save(ctx, placement{recipients: recipients}); err != nil {
		return err
	}
	return p.printVault(ctx, s, f.json)
}

// widen makes the vault's own expiry, if it has one, that of all its credentials.
func (s *safe) widen(until string) error {
	at, err := parseExpiry(until, s.p.Now())
	if err != nil || s.v.Expiry() == "" {
		return err
	}
	return s.v.SetExpiry(at)
}

// rotatePromises changes what the manifest promises where there is no vault.
func (p program) rotatePromises(s *safe, f rotateFlags, args []string) error {
	at, err := parseExpiry(f.expires, p.Now())
	if err != nil {
		return err
	}
	scopes := s.m.Credentials().Scopes
	if len(args) == 1 && !slices.ContainsFunc(scopes, func(c nutshell.Scope) bool { return c.Name == args[0] }) {
		return cli.WithHint(fmt.Errorf("the manifest has no scope %.140s", args[0]), "'"+p.Hint("add-credential --name "+args[0])+"' adds it")
	}
	changed := []string{}
	for _, c := range scopes {
		if len(args) == 0 || c.Name == args[0] {
			changed = append(changed, c.Name)
		}
	}
	err = host.RewriteManifest(f.dir, func(m *nutshell.Manifest) error { return vault.Promise(m, at, changed...) })
	if err != nil {
		return err
	}
	if f.json {
		return cli.PrintJSON(p.Out, map[string]any{"changed": changed, "expires_at": at})
	}
	for _, name := range changed {
		fmt.Fprintf(p.Out, "%s: expires %s\n", cli.Clean(name), cmp.Or(string(at), "never"))
	}
	_, err = fmt.Fprintln(p.Err, "note: there is no vault yet; only the manifest was changed")
	return err
}
