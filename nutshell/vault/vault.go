// Package vault is the credential vault of a bundle (section 7 of the Nutshell specification): names, values, what
// each may be used for, and until when.
//
// A vault is a JSON document that is never at rest in clear. A Sealer closes it for those who may open it, and there
// is one in each of the packages below this one: age, sops, transit (HashiCorp Vault and OpenBao) and plaintext, for
// development. What is in a Vault cannot be printed by accident: values show as "[secret]" everywhere, and only
// Reveal and Credential.Value.Reveal give them.
//
// The package is pure: the sealers are what reaches programs, servers and key files.
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

// What may be wrong with a vault, beside what is wrong with its document.
var (
	ErrExpired   = errors.New("the credentials have expired")
	ErrNotFor    = errors.New("the vault is not sealed for any key at hand")
	ErrNotSealed = errors.New("the file is not a sealed vault of this form")
	ErrTampered  = errors.New("the vault was changed after it was sealed")
	ErrTooLarge  = errors.New("the vault is larger than 1 MiB")
	ErrNoEntry   = errors.New("there is no such credential in the vault")
)

// MaxSealed is the size of a sealed vault at most, and of the document in it, in bytes. Who reads one reads no more.
const MaxSealed = 1 << 20

// Sealer closes a vault for those who may open it, and opens what they may open. A Sealer keeps no plaintext, and
// its errors never hold any. It can be used by several goroutines.
type Sealer interface {
	// Form is one of the forms of encryption.
	Form() string

	// Seal encrypts the document of a vault. Sealing the same twice gives different bytes. It is ErrTooLarge if the
	// document or what would come out has more than MaxSealed bytes.
	Seal(ctx context.Context, document Secret) ([]byte, error)

	// Open decrypts what Seal made, here or elsewhere. It is ErrNotFor if no key at hand opens it, ErrNotSealed if it
	// is of another form, ErrTampered if it does not hold together, and ErrTooLarge above MaxSealed.
	Open(ctx context.Context, sealed []byte) (Secret, error)
}

// Open opens a sealed vault and reads it. Its errors are those of Sealer.Open and Parse; it does not ask what has
// expired, which Vault.Current does.
func Open(ctx context.Context, s Sealer, sealed []byte) (*Vault, error) {
	document, err := s.Open(ctx, sealed)
	if err != nil {
		return nil, err
	}
	return Parse(document)
}
