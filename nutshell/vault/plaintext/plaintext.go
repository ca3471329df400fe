// Package plaintext is the form of a vault that is not encrypted ("none" in the Nutshell specification), for development.
// Whoever has the file has the credentials, and changes go unnoticed. So it must be asked for, and programs that use it
// warn each time.
package plaintext

import (
	"context"
	"errors"
	"slices"

	"guild/nutshell/vault"
)

// ErrInsecure reports that an unencrypted vault was not asked for.
var ErrInsecure = errors.New("the vault would not be encrypted")

// Sealer writes and reads unencrypted vaults.
type Sealer struct{ asked bool }

// New returns the sealer if insecure asks for it, and else ErrInsecure.
func New(insecure bool) (Sealer, error) {
	if !insecure {
		return Sealer{}, ErrInsecure
	}
	return Sealer{insecure}, nil
}

// Form implements vault.Sealer.
func (Sealer) Form() string { return vault.Plaintext }

// Seal implements vault.Sealer. It returns the document as it is.
func (s Sealer) Seal(ctx context.Context, document vault.Secret) ([]byte, error) {
	switch {
	case !s.asked:
		return nil, ErrInsecure
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(document.Reveal()) > vault.MaxSealed:
		return nil, vault.ErrTooLarge
	}
	return slices.Clone(document.Reveal()), nil
}

// Open implements vault.Sealer. The error is vault.ErrNotSealed if sealed is not an unencrypted vault.
func (s Sealer) Open(ctx context.Context, sealed []byte) (vault.Secret, error) {
	switch {
	case !s.asked:
		return vault.Secret{}, ErrInsecure
	case ctx.Err() != nil:
		return vault.Secret{}, ctx.Err()
	case len(sealed) > vault.MaxSealed:
		return vault.Secret{}, vault.ErrTooLarge
	case !vault.InClear(sealed):
		return vault.Secret{}, vault.ErrNotSealed
	}
	return vault.NewSecret(sealed), nil
}
