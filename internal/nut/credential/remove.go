package credential

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
)

func (p program) vaultRemoveCommand() *cobra.Command {
	var f vaultFlags
	cmd := &cobra.Command{
		Use:   "remove NAME …",
		Short: "Take credentials out of the vault",
		Long: `Take credentials out of the vault and out of what the manifest promises. Who had
the vault before still has them: make them invalid where they are used.`,
		Example: p.Examples("vault remove staging-db"),
		Args:    cli.Arity(cobra.MinimumNArgs(1), "names of credentials"),
	}
	f.add(cmd)
	return p.Verb(cmd, "print what was done as JSON", func(cmd *cobra.Command, names []string) (host.Result, error) {
		s, err := p.edit(cmd.Context(), f, sealing{}, func(s *safe) error {
			for _, name := range names {
				if _, err := s.find(name); err != nil {
					return err
				}
				if !s.v.Remove(name) {
					return fmt.Errorf("%.140s: the vault cannot be changed", name)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		return removeResult{Removed: names, Vault: s.path}, nil
	})
}

type removeResult struct {
	Removed []string `json:"removed"`
	Vault   string   `json:"vault"`
}

// Print implements host.Result.
func (r removeResult) Print(p *host.Program) error {
	_, err := fmt.Fprintf(p.Out, "removed %s\n", cli.Clean(strings.Join(r.Removed, ", ")))
	return err
}

func (p program) vaultRekeyCommand() *cobra.Command {
	var f vaultFlags
	var to sealing
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Seal the vault again, for others or in another form",
		Long: `Seal the vault again with fresh keys: for one more recipient, for one less, or
in another form of encryption. Who is removed can still open the vaults they had
before: give what was in them new values with 'vault rotate'.`,
		Example: p.Examples("vault rekey --add age1… --remove age1…", "vault rekey --encryption sops"),
		Args:    cli.NoArgs(),
	}
	f.add(cmd)
	formFlag(cmd, &to.form, "age, sops, vault or none")
	flags := cmd.Flags()
	flags.StringArrayVar(&to.add, "add", nil, "a `recipient` who may open it from now on (repeatable)")
	flags.StringArrayVarP(&to.add, "recipient", "r", nil, "the same as --add")
	flags.StringArrayVar(&to.remove, "remove", nil, "a `recipient` who may not any more (repeatable)")
	return p.Verb(cmd, "print what was done as JSON", func(cmd *cobra.Command, _ []string) (host.Result, error) {
		s, err := p.edit(cmd.Context(), f, to, func(*safe) error { return nil })
		if err != nil {
			return nil, err
		}
		recipients := append([]string{}, s.m.Credentials().Recipients...)
		return rekeyResult{Encryption: s.form, Recipients: recipients, Vault: s.path, fewer: len(to.remove) > 0}, nil
	})
}

type rekeyResult struct {
	Encryption string   `json:"encryption"`
	Recipients []string `json:"recipients"`
	Vault      string   `json:"vault"`

	fewer bool // somebody was removed
}

// Print implements host.Result.
func (r rekeyResult) Print(p *host.Program) error {
	if r.fewer {
		fmt.Fprintln(p.Err, "note: who was removed can open older copies; '"+p.Hint("vault rotate NAME")+"' gives new values")
	}
	printSealed(p, r.Vault, r.Encryption, r.Recipients)
	return nil
}
