package verify

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/chacha20"
)

// The parts of a payload of NIP-44 version 2: the version, a nonce, the ciphertext, a MAC.
const (
	sealedVersion = 2
	sealedNonce   = 32
	sealedMAC     = sha256.Size
	sealedHead    = 1 + sealedNonce

	minSealed = 132     // characters of the shortest payload
	maxSealed = 2 << 20 // characters of the longest that is opened
	minPadded = 2 + 32  // bytes of the shortest ciphertext
)

// ErrOpening is the reason why an opening does not open a payload.
var ErrOpening = errors.New("the key does not open it")

// Opening is the message keys of one NIP-44 version 2 payload: ChaCha20 key (32 bytes) and nonce (12 bytes), HMAC key (32
// bytes). They open this payload and no other between the same two people. Who has the conversation key derives them
// by HKDF-Expand (SHA-256) with the payload's nonce. The MAC binds the ciphertext to the HMAC key alone; what
// binds it to the others is that they open it to a text of the length that stands before it, filled up with zeros.
type Opening [chacha20.KeySize + chacha20.NonceSize + sha256.Size]byte

// ParseOpening reads what String writes. Its error does not repeat it.
func ParseOpening(s string) (o Opening, err error) {
	if !fromHex(o[:], s) {
		return Opening{}, fmt.Errorf("an opening is %d lower-case hex digits", hex.EncodedLen(len(o)))
	}
	return o, nil
}

// String returns 152 hex digits: the form of request.key and result.key.
func (o Opening) String() string { return hex.EncodeToString(o[:]) }

// Open opens the payload that the opening is of. An error matches ErrOpening if the payload could be one, and these are
// not its keys.
func (o Opening) Open(payload string) (string, error) {
	b, err := decodeSealed(payload)
	if err != nil {
		return "", err
	}
	key, nonce, macKey := o[:chacha20.KeySize], o[chacha20.KeySize:len(o)-sha256.Size], o[len(o)-sha256.Size:]
	ciphertext, mac := b[sealedHead:len(b)-sealedMAC], b[len(b)-sealedMAC:]
	h := hmac.New(sha256.New, macKey)
	h.Write(b[1:sealedHead])
	h.Write(ciphertext)
	if !hmac.Equal(h.Sum(nil), mac) {
		return "", fmt.Errorf("the MAC is another one: %w", ErrOpening)
	}
	stream, err := chacha20.NewUnauthenticatedCipher(key, nonce)
	if err != nil {
		return "", err
	}
	padded := make([]byte, len(ciphertext))
	stream.XORKeyStream(padded, ciphertext)
	return unpad(padded)
}

// decodeSealed reads a payload, as far as that needs no key.
func decodeSealed(payload string) ([]byte, error) {
	if len(payload) < minSealed || len(payload) > maxSealed {
		return nil, fmt.Errorf("a payload of %d characters is none of NIP-44", len(payload))
	}
	if strings.ContainsAny(payload, "\r\n") { // which the decoder would pass over
		return nil, errors.New("a payload with line breaks is none of NIP-44")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(payload)
	if err != nil {
		return nil, fmt.Errorf("the payload is not base64: %w", err)
	}
	if b[0] != sealedVersion {
		return nil, fmt.Errorf("the payload is of version %d, not of %d", b[0], sealedVersion)
	}
	if len(b) < sealedHead+minPadded+sealedMAC {
		return nil, fmt.Errorf("a payload of %d bytes is none of NIP-44", len(b))
	}
	return b, nil
}

// unpad takes the text out of its padding: its length in two bytes, or for 65,536 bytes and more a zero and then the
// length in four.
func unpad(padded []byte) (string, error) {
	size, text := int(binary.BigEndian.Uint16(padded)), padded[2:]
	if size == 0 {
		size, text = int(binary.BigEndian.Uint32(padded[2:])), padded[6:]
		if size < 1<<16 {
			return "", errors.New("the padding is wrong")
		}
	}
	if size > len(text) || len(text) != paddedSize(size) || len(bytes.Trim(text[size:], "\x00")) > 0 {
		return "", errors.New("the padding is wrong")
	}
	if text = text[:size]; !utf8.Valid(text) {
		return "", errors.New("the text is not UTF-8")
	}
	return string(text), nil
}

// paddedSize is the length to which a text of so many bytes, at least one, is filled up.
func paddedSize(size int) int {
	if size <= 32 {
		return 32
	}
	chunk := max(32, 1<<bits.Len(uint(size-1))/8)
	return chunk * ((size-1)/chunk + 1)
}
