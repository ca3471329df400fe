package key

import (
	"context"
	"crypto/aes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip04"
	"fiatjaf.com/nostr/nip44"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"guild"
)

var _ nostr.Keyer = (*Signer)(nil)

// maxConversations bounds the cache of NIP-44 keys. Strangers decide how many keys write to us.
const maxConversations = 1024

// Signer signs and encrypts with a key that it holds. It is safe for concurrent use.
type Signer struct {
	secret Secret
	public nostr.PubKey

	mu            sync.Mutex
	conversations map[nostr.PubKey][32]byte
}

// NewSigner returns a signer with the key s.
func NewSigner(s Secret) *Signer {
	return &Signer{secret: s, public: s.PubKey(), conversations: map[nostr.PubKey][32]byte{}}
}

// GetPublicKey returns the public key; it never fails.
func (s *Signer) GetPublicKey(context.Context) (nostr.PubKey, error) { return s.public, nil }

// SignEvent sets the event's pubkey, id and signature.
func (s *Signer) SignEvent(_ context.Context, e *nostr.Event) error {
	secret := s.secret.Reveal()
	private, _ := btcec.PrivKeyFromBytes(secret[:])
	if e.Tags == nil {
		e.Tags = nostr.Tags{}
	}
	e.PubKey = s.public
	e.ID = guild.EventID(*e) // the library's id leaves out the escapes of \b and \f
	signature, err := schnorr.Sign(private, e.ID[:], schnorr.FastSign())
	if err != nil {
		return err
	}
	e.Sig = [64]byte(signature.Serialize())
	return nil
}

// Encrypt encrypts for recipient by NIP-44 version 2.
func (s *Signer) Encrypt(_ context.Context, plain string, recipient nostr.PubKey) (string, error) {
	k, err := s.conversation(recipient)
	if err != nil {
		return "", err
	}
	return nip44.Encrypt(plain, k)
}

// Decrypt decrypts a text that sender encrypted for us by NIP-44 version 2.
func (s *Signer) Decrypt(_ context.Context, cipher string, sender nostr.PubKey) (string, error) {
	k, err := s.conversation(sender)
	if err != nil {
		return "", err
	}
	return nip44.Decrypt(cipher, k)
}

// Nip04Encrypt is needed for nostr.Keyer only: we send NIP-44.
func (s *Signer) Nip04Encrypt(_ context.Context, plain string, recipient nostr.PubKey) (string, error) {
	shared, err := nip04.ComputeSharedSecret(recipient, s.secret.Reveal())
	if err != nil {
		return "", fmt.Errorf("nip04 key with %.8s: %w", recipient.Hex(), err)
	}
	return nip04.Encrypt(plain, shared)
}

// Nip04Decrypt decrypts the older encryption, which we accept but never send.
func (s *Signer) Nip04Decrypt(_ context.Context, cipher string, sender nostr.PubKey) (string, error) {
	if err := checkNip04(cipher); err != nil {
		return "", fmt.Errorf("nip04 from %.8s: %w", sender.Hex(), err)
	}
	shared, err := nip04.ComputeSharedSecret(sender, s.secret.Reveal())
	if err != nil {
		return "", fmt.Errorf("nip04 key with %.8s: %w", sender.Hex(), err)
	}
	return nip04.Decrypt(cipher, shared)
}

// checkNip04 refuses input on which the library panics: an IV that is not one AES block, or text that is not whole blocks.
func checkNip04(cipher string) error {
	body, iv, ok := strings.Cut(cipher, "?iv=")
	if !ok {
		return errors.New("no ?iv=")
	}
	b, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return err
	}
	v, err := base64.StdEncoding.DecodeString(iv)
	if err != nil {
		return err
	}
	if len(v) != aes.BlockSize || len(b) == 0 || len(b)%aes.BlockSize != 0 {
		return fmt.Errorf("%d bytes with an IV of %d", len(b), len(v))
	}
	return nil
}

// MessageKeys returns the keys of one NIP-44 message between us and another key, 76 bytes: its ChaCha20 key and nonce, and
// the key of its MAC. With them others can check what the message says. They open no other message.
func (s *Signer) MessageKeys(payload string, with nostr.PubKey) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(payload)
	if err != nil || len(raw) < 33 || raw[0] != 2 {
		return nil, errors.New("not a NIP-44 message of version 2")
	}
	k, err := s.conversation(with)
	if err != nil {
		return nil, err
	}
	const size = 32 + 12 + 32
	return hkdf.Expand(sha256.New, k[:], string(raw[1:33]), size)
}

func (s *Signer) conversation(with nostr.PubKey) ([32]byte, error) {
	s.mu.Lock()
	k, ok := s.conversations[with]
	s.mu.Unlock()
	if ok {
		return k, nil
	}
	k, err := nip44.GenerateConversationKey(with, s.secret.Reveal())
	if err != nil {
		return k, fmt.Errorf("nip44 key with %.8s: %w", with.Hex(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conversations) >= maxConversations {
		clear(s.conversations)
	}
	s.conversations[with] = k
	return k, nil
}

// String returns the public key in words.
func (s *Signer) String() string { return "signer " + s.public.Hex() }

// GoString is String. The conversation keys must not be printed.
func (s *Signer) GoString() string { return s.String() }
