// Package age seals vaults with age (age-encryption.org/v1), the form that the Nutshell specification prefers: for X25519
// and post-quantum keys, SSH keys, a passphrase, and the keys of age plugins on this machine. It writes ASCII armour,
// which `age -d` opens, and opens what age writes, armoured or not.
//
// It reads no files: keys come from the caller, and stay in memory as long as the Sealer.
package age

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"filippo.io/age/armor"

	"guild/nutshell/vault"
)

// Config says who may open a vault, and with which keys. A Sealer without recipients does not seal, and one without
// identities opens only vaults that have a passphrase.
type Config struct {
	Recipients []string // whom Seal seals for; CheckRecipients says what they may be
	Identities []Identity
	UI         UI
}

// UI asks the person, for passphrases and for plugins. If a function is nil, no person can be asked.
type UI struct {
	Ask     func(prompt string) ([]byte, error)        // reads a line without echo
	Input   func(prompt string) (string, error)        // reads a line that is no secret
	Confirm func(prompt, yes, no string) (bool, error) // lets choose; without no there is only one answer
	Tell    func(message string)                       // shows the message of a plugin, which is not ours
}

// ask reads a secret.
func (u UI) ask(prompt string) ([]byte, error) {
	if u.Ask == nil {
		return nil, errors.New("a passphrase is needed, and no person can be asked for it")
	}
	return u.Ask(prompt)
}

// Sealer seals for recipients and opens with identities.
type Sealer struct {
	recipients []string
	keys       []opener
	ui         UI
	workFactor int // log2 of scrypt's N, for a passphrase
}

// New checks recipients and identities. An identity with a passphrase stays locked until it is needed.
func New(c Config) (*Sealer, error) {
	if err := CheckRecipients(c.Recipients); err != nil {
		return nil, err
	}
	s := &Sealer{recipients: c.Recipients, ui: c.UI, workFactor: workFactor}
	for _, id := range c.Identities {
		keys, err := id.openers(c.UI)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, keys...)
	}
	return s, nil
}

// Form implements vault.Sealer.
func (*Sealer) Form() string { return vault.Age }

// Seal implements vault.Sealer.
func (s *Sealer) Seal(ctx context.Context, document vault.Secret) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(document.Reveal()) > vault.MaxSealed {
		return nil, vault.ErrTooLarge
	}
	recipients, err := s.wrappers(ctx)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := encrypt(&out, document.Reveal(), recipients); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	if out.Len() > vault.MaxSealed {
		return nil, vault.ErrTooLarge
	}
	return out.Bytes(), nil
}

func encrypt(out io.Writer, document []byte, recipients []age.Recipient) error {
	armoured := armor.NewWriter(out)
	w, err := age.Encrypt(armoured, recipients...)
	if err != nil {
		return err
	}
	if _, err := w.Write(document); err != nil {
		return err
	}
	return errors.Join(w.Close(), armoured.Close())
}

// Open implements vault.Sealer.
func (s *Sealer) Open(ctx context.Context, sealed []byte) (vault.Secret, error) {
	if len(sealed) > vault.MaxSealed {
		return vault.Secret{}, vault.ErrTooLarge
	}
	return s.open(ctx, sealed, vault.MaxSealed)
}

// open opens a file whose content has at most limit bytes.
func (s *Sealer) open(ctx context.Context, sealed []byte, most int64) (vault.Secret, error) {
	if err := ctx.Err(); err != nil {
		return vault.Secret{}, err
	}
	in, ok := unarmoured(sealed)
	if !ok {
		return vault.Secret{}, vault.ErrNotSealed
	}
	ring := &keyring{ctx: ctx, keys: s.keys, ui: s.ui}
	r, err := age.Decrypt(in, ring)
	if err != nil {
		return vault.Secret{}, ring.why(err)
	}
	document, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return vault.Secret{}, ring.why(err)
	case int64(len(document)) > most:
		return vault.Secret{}, vault.ErrTooLarge
	}
	return vault.NewSecret(document), nil
}

// unarmoured returns the binary form of an age file. It reports whether the file looks like one.
func unarmoured(sealed []byte) (io.Reader, bool) {
	if bytes.HasPrefix(bytes.TrimSpace(sealed), []byte(armor.Header)) {
		return armor.NewReader(bytes.NewReader(sealed)), true
	}
	return bytes.NewReader(sealed), bytes.HasPrefix(sealed, []byte("age-encryption.org/v1\n"))
}
