// Package vault is the credential vault of a bundle (section 7 of the Nutshell specification): names, values, what each
// may be used for, and until when.
//
// A vault is a JSON document that is never stored unencrypted. A Sealer encrypts it for those who may open it. There is
// one in each of the packages below this one: age, sops, transit (HashiCorp Vault and OpenBao) and plaintext, for
// development. Values in a Vault cannot be printed by accident: they show as "[secret]" everywhere, and only Reveal
// returns them.
//
// The package is pure: only the sealers use programs, servers and key files.
package vault

import (
	"context"
	"errors"
)

// Forms of encryption, as credentials.encryption of a manifest names them.
const (
	Age       = "age"
	Sops      = "sops"
	Transit   = "vault" // the transit engine of HashiCorp Vault or OpenBao
	Plaintext = "none"
)

// Errors of a vault, beside those of its document.
var (
	ErrExpired   = errors.New("the credentials have expired")
	ErrNotFor    = errors.New("the vault is not sealed for any key at hand")
	ErrNotSealed = errors.New("the file is not a sealed vault of this form")
	ErrTampered  = errors.New("the vault was changed after it was sealed")
	ErrTooLarge  = errors.New("the vault is larger than 1 MiB")
	ErrNoEntry   = errors.New("there is no such credential in the vault")
)

// MaxSealed limits the size of a sealed vault, and of the document in it, in bytes. Readers must not read more.
const MaxSealed = 1 << 20

// Sealer encrypts a vault for those who may open it, and decrypts vaults. It keeps no plaintext, its errors contain none,
// and it is safe for concurrent use.
type Sealer interface {
	// Form is one of the forms of encryption.
	Form() string

	// Seal encrypts the document of a vault. Sealing the same twice gives different bytes. The error is ErrTooLarge if
	// the document or the result has more than MaxSealed bytes.
	Seal(ctx context.Context, document Secret) ([]byte, error)

	// Open decrypts what Seal made, here or elsewhere. The error is ErrNotFor if no key at hand opens it, ErrNotSealed
	// if it has another form, ErrTampered if it was changed, and ErrTooLarge above MaxSealed.
	Open(ctx context.Context, sealed []byte) (Secret, error)
}

// Open opens and parses a sealed vault. The errors are those of Sealer.Open and Parse. It does not check what has
// expired; Vault.Current does.
func Open(ctx context.Context, s Sealer, sealed []byte) (*Vault, error) {
	document, err := s.Open(ctx, sealed)
	if err != nil {
		return nil, err
	}
	return Parse(document)
}
