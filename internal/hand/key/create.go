package key

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"fiatjaf.com/nostr/nip46"
	"fiatjaf.com/nostr/nip49"

	"guild/internal/durable"
)

// logN is the cost of an encrypted key: scrypt with N = 2^16 takes 64 MiB and about 100 ms (NIP-49).
const logN = 16

// ErrExists is the error if there is an identity already. It is never overwritten.
var ErrExists = errors.New("there is an identity already")

// Create makes a new key in dir and returns its public half. The file, which only the owner can read, has ncryptsec (NIP-49)
// if there is a passphrase, else nsec.
func Create(dir string, passphrase []byte) (nostr.PubKey, error) {
	s := NewSecret(nostr.Generate())
	return s.PubKey(), store(dir, s, passphrase)
}

// Import puts an existing key (nsec or hex) or the address of a remote signer (bunker://…) into dir. The public
// key is zero for a remote signer.
func Import(dir, text string, passphrase []byte) (nostr.PubKey, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "bunker://") {
		if !nip46.IsValidBunkerURL(text) {
			return nostr.PubKey{}, errors.New("not a bunker address: want bunker://<pubkey>?relay=wss://…")
		}
		return nostr.PubKey{}, create(dir, File, text)
	}
	s, err := ParseSecret(text)
	if err != nil {
		return nostr.PubKey{}, err
	}
	return s.PubKey(), store(dir, s, passphrase)
}

// Companion returns the key by which a remote signer knows this node (NIP-46 "client key"). The first call makes it. It is
// stored, because a signer grants permissions to a client key.
func Companion(dir string) (Secret, error) {
	const name = "bunker-client"
	err := create(dir, name, nip19.EncodeNsec(nostr.Generate()))
	if err != nil && !errors.Is(err, ErrExists) {
		return Secret{}, err
	}
	path := filepath.Join(dir, name)
	text, err := read(path)
	if err != nil {
		return Secret{}, err
	}
	s, err := ParseSecret(text)
	if err != nil {
		return Secret{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func store(dir string, s Secret, passphrase []byte) error {
	text := nip19.EncodeNsec(s.Reveal())
	if len(passphrase) > 0 {
		sealed, err := nip49.Encrypt(s.Reveal(), string(passphrase), logN, nip49.NotKnownToHaveBeenHandledInsecurely)
		if err != nil {
			return fmt.Errorf("encrypt the key: %w", err)
		}
		text = sealed
	}
	return create(dir, File, text)
}

// create writes a file that only its owner can read, whole or not at all.
func create(dir, name, text string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	err := durable.Create(path, []byte(text+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", path, ErrExists)
	}
	return err
}
