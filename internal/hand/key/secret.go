package key

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
)

// errSecret is the error of every attempt to serialise a Secret.
var errSecret = errors.New("a secret is not serialised")

// errSyntax does not repeat the text, which may be a key with one wrong letter.
var errSyntax = errors.New("not a secret key: want nsec1… or 64 hex digits")

const redacted = "[secret]"

// Secret is a secret key that cannot be printed, logged or serialised. The bytes are behind a function, so a printer that
// walks unexported fields finds only an address. The zero value holds no key.
type Secret struct{ reveal func() nostr.SecretKey }

// NewSecret hides k.
func NewSecret(k nostr.SecretKey) Secret { return Secret{func() nostr.SecretKey { return k }} }

// ParseSecret reads nsec1… (NIP-19) or 64 hex digits. Its errors do not repeat the text.
func ParseSecret(text string) (Secret, error) {
	text = strings.TrimSpace(text)
	k, err := decode(text)
	if err != nil {
		return Secret{}, err
	}
	s := NewSecret(k)
	if !s.valid() {
		return Secret{}, errors.New("not a secret key: outside the curve's range")
	}
	return s, nil
}

func decode(text string) (nostr.SecretKey, error) {
	var k nostr.SecretKey
	if strings.HasPrefix(text, "nsec1") {
		_, value, err := nip19.Decode(text)
		k, ok := value.(nostr.SecretKey)
		if err != nil || !ok {
			return k, errSyntax
		}
		return k, nil
	}
	if len(text) != hex.EncodedLen(len(k)) {
		return k, errSyntax
	}
	if _, err := hex.Decode(k[:], []byte(text)); err != nil {
		return k, errSyntax
	}
	return k, nil
}

// order is n of secp256k1: a secret key is in 1..n-1.
const order = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xba\xae\xdc\xe6\xaf\x48\xa0\x3b\xbf\xd2\x5e\x8c\xd0\x36\x41\x41"

func (s Secret) valid() bool {
	k := s.reveal()
	return k != nostr.SecretKey{} && string(k[:]) < order
}

// Reveal returns the key itself.
func (s Secret) Reveal() nostr.SecretKey {
	if s.reveal == nil {
		return nostr.SecretKey{}
	}
	return s.reveal()
}

// PubKey returns the public half.
func (s Secret) PubKey() nostr.PubKey { return s.Reveal().Public() }

// IsZero reports whether s holds no key.
func (s Secret) IsZero() bool { return s.reveal == nil }

// String returns a placeholder.
func (Secret) String() string { return redacted }

// GoString returns a placeholder.
func (Secret) GoString() string { return redacted }

// Format writes a placeholder for every verb.
func (Secret) Format(w fmt.State, _ rune) { io.WriteString(w, redacted) }

// LogValue returns a placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON refuses.
func (Secret) MarshalJSON() ([]byte, error) { return nil, errSecret }

// MarshalText refuses.
func (Secret) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalBinary refuses.
func (Secret) MarshalBinary() ([]byte, error) { return nil, errSecret }

// GobEncode refuses.
func (Secret) GobEncode() ([]byte, error) { return nil, errSecret }
