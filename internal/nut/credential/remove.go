package credential

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
)

func (p program) vaultRemoveCommand() *cobra.Command {
	var f vaultFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "remove NAME …",
		Short: "Take credentials out of the vault",
		Long: `Take credentials out of the vault and out of what the manifest promises. Who had
the vault before still has them: make them invalid where they are used.`,
		Example: "  " + p.Hint("vault remove staging-db"),
		Args:    cli.Arity(cobra.MinimumNArgs(1), "names of credentials"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.removeCredentials(cmd.Context(), f, args, asJSON)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was done as JSON")
	return cmd
}

func (p program) removeCredentials(ctx context.Context, f vaultFlags, names []string, asJSON bool) error {
	s, err := p.changeVault(ctx, f, false)
	if err != nil {
		return err
	}
	defer s.close()
	for _, name := range names {
		if _, err := s.find(name); err != nil {
			return err
		}
		if !s.v.Remove(name) {
			return fmt.Errorf("%.140s: the vault cannot be changed", name)
		}
	}
	recipients, err := s.recipients(ctx, s.form, nil, nil)
	if err != nil {
		return err
	}
	if err := s.save(ctx, placement{recipients: recipients, removed: names}); err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(p.Out, map[string]any{"removed": names, "vault": s.path})
	}
	_, err = fmt.Fprintf(p.Out, "removed %s\n", cli.Clean(strings.Join(names, ", ")))
	return err
}

// rekeyFlags say for whom a vault is sealed from now on.
type rekeyFlags struct {
	vaultFlags
	add, remove []string
	form        string
	json        bool
}

func (p program) vaultRekeyCommand() *cobra.Command {
	var f rekeyFlags
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Seal the vault again, for others or in another form",
		Long: `Seal the vault again with fresh keys: for one more recipient, for one less, or
in another form of encryption. Who is removed can still open the vaults they had
before: give what was in them new values with 'vault rotate'.`,
		Example: "  " + p.Hint("vault rekey --add age1… --remove age1…") + "\n  " + p.Hint("vault rekey --encryption sops"),
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.rekey(cmd.Context(), f) },
	}
	f.vaultFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.add, "add", nil, "a `recipient` who may open it from now on (repeatable)")
	flags.StringArrayVarP(&f.add, "recipient", "r", nil, "the same as --add")
	flags.StringArrayVar(&f.remove, "remove", nil, "a `recipient` who may not any more (repeatable)")
	flags.StringVar(&f.form, "encryption", "", "age, sops, vault or none")
	flags.BoolVar(&f.json, "json", false, "print what was done as JSON")
	cli.Choices(cmd, "encryption", vaultForms()...)
	return cmd
}

func (p program) rekey(ctx context.Context, f rekeyFlags) error {
	if f.form != "" {
		if err := checkForm(f.form); err != nil {
			return err
		}
	}
	s, err := p.changeVault(ctx, f.vaultFlags, false)
	if err != nil {
		return err
	}
	defer s.close()
	if f.form == "" {
		f.form = s.form
	}
	recipients, err := s.recipients(ctx, f.form, f.add, f.remove)
	if err != nil {
		return err
	}
	if err := s.save(ctx, placement{form: f.form, recipients: recipients}); err != nil {
		return err
	}
	if f.json {
		return cli.PrintJSON(p.Out, map[string]any{"vault": s.path, "encryption": s.form, "recipients": append([]string{}, recipients...)})
	}
	if len(f.remove) > 0 {
		fmt.Fprintln(p.Err, "note: who was removed can open older copies; '"+p.Hint("vault rotate NAME")+"' gives new values")
	}
	_, err = fmt.Fprintf(p.Out, "%s: %s\n", cli.Clean(s.path), sealedFor(s.form, recipients))
	return err
}

// rotateFlags say what a credential gets anew.
type rotateFlags struct {
	vaultFlags
	expires, bundle string
	fromInput, json bool
}

func (p program) vaultRotateCommand() *cobra.Command {
	var f rotateFlags
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a credential a new value, or a new expiry",
		Long: `Ask for a new value of a credential, or read it from standard input, and seal
the vault again. With --expires alone only the expiry changes. An expired
credential that gets a new value is good until the bundle's deadline, or for 30
days.

With --for a bundle that was packed before, the new vault is also written beside
it, as BUNDLE.nut.vault, signed by your key: the bundle stays as it is.`,
		Example: "  " + p.Hint("vault rotate staging-db --for task.nut") + "\n  " + p.Hint("vault rotate staging-db --expires 7d"),
		Args:    cli.OneArg("the name of a credential"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.rotate(cmd.Context(), f, args[0])
		},
	}
	f.vaultFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.expires, "expires", "", "until when: a `date`, a duration such as 7d, or never")
	flags.BoolVar(&f.fromInput, "value-stdin", false, "read the new value from standard input")
	flags.StringVar(&f.bundle, "for", "", "write the new vault beside this packed `bundle` too, signed")
	flags.BoolVar(&f.json, "json", false, "print what was done as JSON")
	_ = cmd.MarkFlagFilename("for", "nut")
	return cmd
}

func (p program) rotate(ctx context.Context, f rotateFlags, name string) error {
	s, err := p.changeVault(ctx, f.vaultFlags, false)
	if err != nil {
		return err
	}
	defer s.close()
	if err := p.renew(s, f, name); err != nil {
		return err
	}
	recipients, err := s.recipients(ctx, s.form, nil, nil)
	if err != nil {
		return err
	}
	if err := s.save(ctx, placement{recipients: recipients}); err != nil {
		return err
	}
	if f.bundle != "" {
		if _, err := p.issue(ctx, s, f.bundle); err != nil {
			return err
		}
	}
	return p.printStored(stored{did: "rotated", name: name, recipients: recipients, beside: f.bundle, json: f.json}, s)
}

// renew gives a credential of the open vault a new value or expiry.
func (p program) renew(s *safe, f rotateFlags, name string) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	if f.expires != "" {
		if c.ExpiresAt, err = parseExpiry(f.expires, p.Now()); err != nil {
			return err
		}
	} else if s.entry(name).Expired {
		c.ExpiresAt = usualExpiry(s.m, p.Now())
	}
	if f.expires == "" || f.fromInput {
		if c.Value, err = p.readValue(name, f.fromInput); err != nil {
			return err
		}
	}
	if err := s.v.Put(c); err != nil {
		return err
	}
	want, _ := c.ExpiresAt.Time()
	if !s.v.ExpiresAt(name).Equal(want) {
		err := errors.New("the whole vault expires earlier than that")
		return cli.WithHint(err, "'"+p.Hint("vault edit")+"' changes its expires_at")
	}
	return nil
}
