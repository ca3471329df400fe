package nut

import (
	"context"

	"guild/nutshell/vault"
)

// VaultSource is a vault that another program has to open.
type VaultSource struct {
	Path       string   // directory, or bundle file: what lies beside it is newer than what is in it
	Identities []string // files of keys that open it; the person's own key without any
	Insecure   bool     // it may be one that is not encrypted
}

// OpenVaultOf opens the vault of a directory or bundle file, in whatever form it is.
func (p *Program) OpenVaultOf(ctx context.Context, from VaultSource) (*vault.Vault, error) {
	s, err := p.openVault(ctx, vaultFlags{dir: from.Path, identities: from.Identities, insecure: from.Insecure})
	if err != nil {
		return nil, err
	}
	return s.v, nil
}

// OpenVault opens a sealed vault of a form (vault.Age if empty) with these identity files, or the person's own key
// without any.
func (p *Program) OpenVault(ctx context.Context, form string, sealed []byte, identities []string) (*vault.Vault, error) {
	if form == "" {
		form = vault.Age
	}
	s, err := p.vaultSealer(form, nil, vaultFlags{identities: identities})
	if err != nil {
		return nil, err
	}
	return vault.Open(ctx, s, sealed)
}
