package age

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"filippo.io/age"

	"guild/nutshell/vault"
)

// Limits of the work done for a file from elsewhere.
const (
	maxStanzas    = 256 // recipients of a file, and of what is sealed here
	maxWorkFactor = 20  // log2 of scrypt's N: 1 GiB of memory and a few seconds
)

// keyring is all keys at hand as one age.Identity, for one file. It keeps why none of them opened the file, because age's
// own errors repeat parts of it.
type keyring struct {
	ctx   context.Context
	keys  []opener
	ui    UI
	cause error
}

// Unwrap implements age.Identity. It tries the keys first that ask no person.
//
// A passphrase must be the only recipient, as in age itself: a person takes a file that opens with their passphrase to be
// made by somebody who knows it. The work for it is bounded, because the file itself says how much it takes. A key that
// needs no person fails only if a stanza is malformed, so the file was changed.
func (k *keyring) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if len(stanzas) > maxStanzas {
		return nil, k.fail(fmt.Errorf("%d recipients: %w", len(stanzas), vault.ErrTampered))
	}
	if slices.ContainsFunc(stanzas, func(s *age.Stanza) bool { return s.Type == "scrypt" }) {
		return k.withPassphrase(stanzas)
	}
	var failed error
	for _, key := range slices.SortedStableFunc(slices.Values(k.keys), func(a, b opener) int { return cmp.Compare(a.asks(), b.asks()) }) {
		fileKey, err := key.open(k.ctx, stanzas)
		switch {
		case err == nil:
			return fileKey, nil
		case k.ctx.Err() != nil:
			return nil, k.fail(k.ctx.Err())
		case errors.Is(err, age.ErrIncorrectIdentity):
		case key.asks() == never:
			return nil, k.fail(vault.ErrTampered) // a stanza is malformed
		default:
			failed = cmp.Or(failed, err)
		}
	}
	if failed != nil {
		return nil, k.fail(fmt.Errorf("%w: %w", vault.ErrNotFor, failed))
	}
	return nil, age.ErrIncorrectIdentity
}

// withPassphrase opens a file that has a passphrase, which must be its only recipient.
func (k *keyring) withPassphrase(stanzas []*age.Stanza) ([]byte, error) {
	if len(stanzas) != 1 {
		return nil, k.fail(vault.ErrTampered)
	}
	phrase, err := k.ui.ask("Passphrase of the vault: ")
	if err != nil {
		return nil, k.fail(fmt.Errorf("%w: %w", vault.ErrNotFor, err))
	}
	fileKey, err := unlock(phrase, stanzas, maxWorkFactor)
	switch {
	case errors.Is(err, errWrongPassphrase):
		return nil, k.fail(fmt.Errorf("%w: %w", vault.ErrNotFor, err))
	case err != nil:
		return nil, k.fail(vault.ErrTampered)
	}
	return fileKey, nil
}

var errWrongPassphrase = errors.New("the passphrase is wrong")

// unlock opens a scrypt stanza.
func unlock(passphrase []byte, stanzas []*age.Stanza, workFactor int) ([]byte, error) {
	id, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return nil, errWrongPassphrase // an empty one
	}
	id.SetMaxWorkFactor(workFactor)
	fileKey, err := id.Unwrap(stanzas)
	if errors.Is(err, age.ErrIncorrectIdentity) {
		return nil, errWrongPassphrase
	}
	return fileKey, err
}

func (k *keyring) fail(err error) error {
	k.cause = err
	return err
}

// why returns the error of Open for one of age's.
func (k *keyring) why(err error) error {
	_, nobody := errors.AsType[*age.NoIdentityMatchError](err)
	switch {
	case k.ctx.Err() != nil:
		return k.ctx.Err()
	case k.cause != nil:
		return k.cause
	case nobody:
		return vault.ErrNotFor
	}
	return vault.ErrTampered
}
