package age

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"
)

func parseSSH(text string) (age.Recipient, error) { return agessh.ParseRecipient(text) }

// withoutComment returns a public SSH key without its comment.
func withoutComment(text string) (string, error) {
	k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return "", ErrRecipient
	}
	return authorized(k), nil
}

// sshKey parses a private SSH key.
func (id Identity) sshKey(ui UI) (opener, error) {
	k, err := agessh.ParseIdentity(id.Text.Reveal())
	missing, withPassphrase := errors.AsType[*ssh.PassphraseMissingError](err)
	switch {
	case withPassphrase:
		return id.lockedSSH(missing.PublicKey, ui)
	case err != nil:
		return nil, id.wrong("is not a private SSH key of type ed25519 or RSA")
	}
	signer, err := ssh.ParsePrivateKey(id.Text.Reveal())
	if err != nil {
		return nil, id.wrong("is not a private SSH key of type ed25519 or RSA")
	}
	return native{k, authorized(signer.PublicKey())}, nil
}

// authorized returns a public SSH key on one line, without a comment.
func authorized(k ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}

func (id Identity) lockedSSH(public ssh.PublicKey, ui UI) (opener, error) {
	if public == nil {
		k, _, _, _, err := ssh.ParseAuthorizedKey(id.Public)
		if err != nil {
			return nil, id.wrong("does not say whose key it is: put its public key beside it, in a file that ends in .pub")
		}
		public = k
	}
	k, err := agessh.NewEncryptedSSHIdentity(public, id.Text.Reveal(), func() ([]byte, error) {
		return ui.ask(fmt.Sprintf("Passphrase of %s: ", id.Name))
	})
	if err != nil {
		return nil, id.wrong("is not a private SSH key of type ed25519 or RSA")
	}
	return &lockedSSH{id: id, key: k, public: authorized(public)}, nil
}

// lockedSSH is a private SSH key with a passphrase. It asks for that only if the file is sealed for the key.
type lockedSSH struct {
	id     Identity
	public string

	mu  sync.Mutex // guards key, which remembers
	key *agessh.EncryptedSSHIdentity
}

func (*lockedSSH) asks() int { return always }

func (k *lockedSSH) open(_ context.Context, stanzas []*age.Stanza) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fileKey, err := k.key.Unwrap(stanzas)
	if err != nil && !errors.Is(err, age.ErrIncorrectIdentity) {
		return nil, k.id.wrong("its passphrase is wrong or was not given")
	}
	return fileKey, err
}

func (k *lockedSSH) recipients(context.Context) ([]string, error) { return []string{k.public}, nil }
