// Package plaintext is the form of a vault that is not sealed at all ("none" in the Nutshell specification), for
// development. Everybody who has the file has the credentials, and nobody sees that it was changed; so it must be
// asked for, and whoever uses it warns about it each time.
package plaintext

import (
	"context"
	"errors"
	"slices"

	"guild/nutshell/vault"
)

// ErrInsecure is that nobody has said that they want a vault in clear.
var ErrInsecure = errors.New("a vault in clear protects nothing")

// Sealer writes and reads vaults in clear.
type Sealer struct{ asked bool }

// New returns the sealer. Insecure says that this is what is wanted: without, it is ErrInsecure.
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

// Open implements vault.Sealer. It is vault.ErrNotSealed if there is no vault in clear.
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
