// Package credential has the verbs for the vault of a bundle: they show and change its credentials, its recipients and
// its expiry. Values are read and shown, and kept nowhere else.
package credential

import (
	"context"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell/vault"
)

// Commands returns the verbs.
func Commands(p *host.Program) []*cobra.Command {
	own := program{p}
	return []*cobra.Command{own.addCredentialCommand(), own.vaultCommand(), own.rotateCommand()}
}

// AddCommand returns the verb add-credential alone.
func AddCommand(p *host.Program) *cobra.Command { return program{p}.addCredentialCommand() }

// Source is a vault that another program has to open.
type Source struct {
	Path       string   // a directory, or a bundle file; the vault beside that is newer than the one in it
	Identities []string // files of keys that open it; the person's own key if empty
	Insecure   bool     // allows a vault that is not encrypted
}

// OpenOf opens the vault of a directory or bundle file, in any form of encryption.
func OpenOf(ctx context.Context, p *host.Program, from Source) (*vault.Vault, error) {
	s, err := program{p}.openVault(ctx, vaultFlags{dir: from.Path, identities: from.Identities, insecure: from.Insecure})
	if err != nil {
		return nil, err
	}
	return s.v, nil
}

// Open opens a sealed vault of a form (vault.Age if empty) with identity files, or with the person's own key if there
// are none.
func Open(ctx context.Context, p *host.Program, form string, sealed []byte, identities []string) (*vault.Vault, error) {
	s, err := program{p}.sealer(form, nil, vaultFlags{identities: identities})
	if err != nil {
		return nil, err
	}
	return vault.Open(ctx, s, sealed)
}

// program is the program that the verbs are part of.
type program struct{ *host.Program }

func (p program) vaultCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vault",
		Short: "Look after the credentials of a bundle",
		Long: "Look after the vault of a bundle: what is in it, whom it is sealed for, and\nuntil when it is good. '" + p.Hint("add-credential") + "' puts something in.\n\n" +
			"Vaults open with your own key, age.key in the configuration directory, and with\nwhat " + ageKeyVariable + " holds; or, with --identity, with the keys in those\nfiles: of age, of an age plugin, or a private SSH key.",
		Example: p.Examples("vault show", "vault audit --dir my-task"),
	}
	return cli.Group(cmd,
		p.vaultShowCommand(), p.vaultGetCommand(), p.vaultEditCommand(), p.vaultRemoveCommand(),
		p.vaultRekeyCommand(), p.vaultRotateCommand(), p.vaultAuditCommand(), p.vaultIssuerCommand(),
		p.vaultIssueCommand(), p.vaultFetchCommand(),
	)
}

// vaultFlags say where the vault is and what opens it.
type vaultFlags struct {
	dir        string
	identities []string
	insecure   bool
	mount, key string
}

func (f *vaultFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringArrayVarP(&f.identities, "identity", "i", nil, "`file` of an age or SSH key that opens the vault (repeatable)")
	flags.BoolVar(&f.insecure, "insecure-plaintext", false, "allow a vault that is not encrypted")
	flags.StringVar(&f.mount, "transit-mount", "", "where the transit engine is, for the form vault")
	flags.StringVar(&f.key, "transit-key", "", "key of the transit engine, for the form vault")
	_ = cmd.MarkFlagFilename("identity")
	_ = cmd.MarkFlagDirname("dir")
}

// at returns the flags with the directory or bundle that was given as an argument.
func (f vaultFlags) at(args []string) vaultFlags {
	if len(args) > 0 {
		f.dir = args[0]
	}
	return f
}

func expiresFlag(cmd *cobra.Command, expires *string) {
	cmd.Flags().StringVar(expires, "expires", "", "until when: a `date`, a duration such as 7d, or never")
}

func formFlag(cmd *cobra.Command, form *string, usage string) {
	cmd.Flags().StringVar(form, "encryption", "", usage)
	cli.Choices(cmd, "encryption", vault.Age, vault.Sops, vault.Transit, vault.Plaintext)
}
