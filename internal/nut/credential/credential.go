// Package credential is the verbs for the vault of a bundle: what is in it, whom it is sealed for, until when it is
// good, and which keys open it. Values are read and shown without being kept anywhere else.
package credential

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"guild/internal/nut/host"
	"guild/nutshell/vault"
)

// Commands returns the verbs.
func Commands(p *host.Program) []*cobra.Command {
	own := program{p}
	return []*cobra.Command{own.addCredentialCommand(), own.vaultCommand(), own.rotateCommand()}
}

// AddCommand is the verb add-credential alone.
func AddCommand(p *host.Program) *cobra.Command { return program{p}.addCredentialCommand() }

// Source is a vault that another program has to open.
type Source struct {
	Path       string   // directory, or bundle file: what lies beside it is newer than what is in it
	Identities []string // files of keys that open it; the person's own key without any
	Insecure   bool     // it may be one that is not encrypted
}

// OpenOf opens the vault of a directory or bundle file, in whatever form it is.
func OpenOf(ctx context.Context, p *host.Program, from Source) (*vault.Vault, error) {
	s, err := program{p}.openVault(ctx, vaultFlags{dir: from.Path, identities: from.Identities, insecure: from.Insecure})
	if err != nil {
		return nil, err
	}
	return s.v, nil
}

// Open opens a sealed vault of a form (vault.Age if empty) with these identity files, or the person's own key without
// any.
func Open(ctx context.Context, p *host.Program, form string, sealed []byte, identities []string) (*vault.Vault, error) {
	s, err := program{p}.vaultSealer(cmp.Or(form, vault.Age), nil, vaultFlags{identities: identities})
	if err != nil {
		return nil, err
	}
	return vault.Open(ctx, s, sealed)
}

// program is the program that the verbs are part of.
type program struct{ *host.Program }
