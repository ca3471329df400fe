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

// Layout of a NIP-44 version 2 payload: the version, a nonce, the ciphertext, a MAC.
const (
	sealedVersion = 2
	sealedNonce   = 32
	sealedMAC     = sha256.Size
	sealedHead    = 1 + sealedNonce

	minSealed = 132     // characters, the shortest valid payload
	maxSealed = 2 << 20 // characters, the longest payload that is opened
	minPadded = 2 + 32  // bytes, the shortest ciphertext
)

// ErrOpening means that an opening is not the key of a payload.
var ErrOpening = errors.New("the key does not open it")

// Opening has the message keys of one NIP-44 version 2 payload: ChaCha20 key (32 bytes) and nonce (12 bytes), HMAC key
// (32 bytes). They open only this payload, not others between the same two people. The holder of the conversation key
// derives them by HKDF-Expand (SHA-256) with the payload's nonce.
//
// The MAC binds the ciphertext only to the HMAC key. The ChaCha20 key and nonce are bound by the plaintext: it must
// start with its length and end in zeros, so other values would not decrypt to valid padding.
type Opening [chacha20.KeySize + chacha20.NonceSize + sha256.Size]byte

// ParseOpening parses the form of String. Its error does not contain s, which is a key.
func ParseOpening(s string) (o Opening, err error) {
	if !fromHex(o[:], s) {
		return Opening{}, fmt.Errorf("an opening is %d lower-case hex digits", hex.EncodedLen(len(o)))
	}
	return o, nil
}

// String returns 152 hex digits, the form of request.key and result.key.
func (o Opening) String() string { return hex.EncodeToString(o[:]) }

// Open decrypts the payload of the opening. The error matches ErrOpening if the payload is well-formed but its MAC does
// not fit the keys.
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

// decodeSealed decodes a payload and checks everything that needs no key.
func decodeSealed(payload string) ([]byte, error) {
	if len(payload) < minSealed || len(payload) > maxSealed {
		return nil, fmt.Errorf("a payload of %d characters is not a NIP-44 payload", len(payload))
	}
	if strings.ContainsAny(payload, "\r\n") { // the decoder ignores them
		return nil, errors.New("a payload with line breaks is not a NIP-44 payload")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(payload)
	if err != nil {
		return nil, fmt.Errorf("the payload is not base64: %w", err)
	}
	if b[0] != sealedVersion {
		return nil, fmt.Errorf("the payload is of version %d, not of %d", b[0], sealedVersion)
	}
	if len(b) < sealedHead+minPadded+sealedMAC {
		return nil, fmt.Errorf("a payload of %d bytes is not a NIP-44 payload", len(b))
	}
	return b, nil
}

// unpad returns the text without its padding. The text is preceded by its length in two bytes, or, from 65,536 bytes
// on, by two zero bytes and the length in four.
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

// paddedSize returns the length of a text of size bytes, at least one, after padding (NIP-44).
func paddedSize(size int) int {
	if size <= 32 {
		return 32
	}
	chunk := max(32, 1<<bits.Len(uint(size-1))/8)
	return chunk * ((size-1)/chunk + 1)
}
