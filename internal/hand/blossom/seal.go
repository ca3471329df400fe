package blossom

import (
	"bufio"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"

	"golang.org/x/crypto/chacha20poly1305"

	"guild"
)

// The sealed form is the magic, then the plaintext in chunks of 64 KiB, each encrypted with XChaCha20-Poly1305, which adds 16
// bytes. The nonce of chunk i is 15 zero bytes, i as 8 bytes big-endian, and 1 for the last chunk or 0 for the others. This
// is the STREAM construction: it detects chunks that are missing, moved, repeated or cut off. The magic is authenticated
// with every chunk. The last chunk may be short; it is empty only if there is no plaintext at all. A key is used for one
// stream only, so nonces need no random part.
const (
	sealMagic   = "GUILDSEAL\x00\x01\n"
	chunkSize   = 64 << 10
	sealedChunk = chunkSize + chacha20poly1305.Overhead
)

// Errors of OpenSealed and Download.
var (
	errNotSealed    = errors.New("not a sealed stream")
	ErrSealBroken   = errors.New("the sealed stream was changed or cut, or the key is wrong")
	ErrWrongContent = errors.New("the content is not what was announced")
	ErrTooLarge     = errors.New("larger than allowed")
)

// Key is the secret key of one sealed stream. It prints as "[secret]"; only Hex shows it.
type Key [chacha20poly1305.KeySize]byte

// ParseKey reads the text of Hex. The error does not repeat it.
func ParseKey(s string) (Key, error) {
	var k Key
	if len(s) != hex.EncodedLen(len(k)) {
		return Key{}, errors.New("a key has 64 hex digits")
	}
	if _, err := hex.Decode(k[:], []byte(s)); err != nil {
		return Key{}, errors.New("a key has 64 hex digits")
	}
	return k, nil
}

// Hex returns the key as hex digits, for an encrypted request.
func (k Key) Hex() string { return hex.EncodeToString(k[:]) }

// String hides the key.
func (Key) String() string { return "[secret]" }

// GoString hides the key.
func (Key) GoString() string { return "[secret]" }

// Format hides the key from every verb, also those for numbers.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, "[secret]") }

// LogValue hides the key.
func (Key) LogValue() slog.Value { return slog.StringValue("[secret]") }

// MarshalText fails, so that a key is not serialized by accident.
func (Key) MarshalText() ([]byte, error) { return nil, errors.New("a secret is not serialized") }

// Sealed describes a sealed blob.
type Sealed struct {
	Key    Key
	Plain  guild.Hash // of the content
	Cipher guild.Hash // of the blob
	Size   int64      // bytes of the ciphertext
}

// Seal encrypts plain with a new random key and writes the sealed form to w.
func Seal(plain io.Reader, w io.Writer) (Sealed, error) {
	var s Sealed
	rand.Read(s.Key[:])
	aead, err := chacha20poly1305.NewX(s.Key[:])
	if err != nil {
		return Sealed{}, fmt.Errorf("seal: %w", err)
	}
	plainHash, out := sha256.New(), &hashedWriter{w: w, digest: sha256.New()}
	if err := sealChunks(aead, io.TeeReader(plain, plainHash), out); err != nil {
		return Sealed{}, fmt.Errorf("seal: %w", err)
	}
	plainHash.Sum(s.Plain[:0])
	out.digest.Sum(s.Cipher[:0])
	s.Size = out.size
	return s, nil
}

func sealChunks(aead cipher.AEAD, plain io.Reader, w io.Writer) error {
	if _, err := io.WriteString(w, sealMagic); err != nil {
		return err
	}
	chunks := chunkReader{r: bufio.NewReader(plain), buffer: make([]byte, chunkSize)}
	sealed := make([]byte, 0, sealedChunk)
	for i := uint64(0); ; i++ {
		chunk, last, err := chunks.next()
		if err != nil {
			return err
		}
		if _, err := w.Write(aead.Seal(sealed, nonce(i, last), chunk, []byte(sealMagic))); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

// OpenSealed decrypts a sealed stream to w. It fails if the content does not have the hash want, or more than limit bytes.
// After an error the caller must discard the data in w.
func OpenSealed(sealed io.Reader, w io.Writer, key Key, want guild.Hash, limit int64) error {
	aead, err := chacha20poly1305.NewX(key[:])
	if err != nil {
		return fmt.Errorf("open sealed: %w", err)
	}
	out := &hashedWriter{w: w, digest: sha256.New()}
	if err := openChunks(aead, sealed, out, limit); err != nil {
		return fmt.Errorf("open sealed: %w", err)
	}
	if guild.Hash(out.digest.Sum(nil)) != want {
		return fmt.Errorf("open sealed: %w", ErrWrongContent)
	}
	return nil
}

func openChunks(aead cipher.AEAD, sealed io.Reader, w *hashedWriter, limit int64) error {
	magic := make([]byte, len(sealMagic))
	if _, err := io.ReadFull(sealed, magic); err != nil || string(magic) != sealMagic {
		return errNotSealed
	}
	chunks := chunkReader{r: bufio.NewReader(sealed), buffer: make([]byte, sealedChunk)}
	plain := make([]byte, 0, chunkSize)
	for i := uint64(0); ; i++ {
		chunk, last, err := chunks.next()
		if err != nil {
			return err
		}
		opened, err := aead.Open(plain, nonce(i, last), chunk, magic)
		if err != nil || len(opened) == 0 && i > 0 {
			return ErrSealBroken
		}
		if w.size+int64(len(opened)) > limit {
			return ErrTooLarge
		}
		if _, err := w.Write(opened); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

func nonce(i uint64, last bool) []byte {
	n := make([]byte, chacha20poly1305.NonceSizeX)
	binary.BigEndian.PutUint64(n[15:], i)
	if last {
		n[23] = 1
	}
	return n
}

// chunkReader divides a stream into chunks. It reads ahead to know which one is the last.
type chunkReader struct {
	r      *bufio.Reader
	buffer []byte
}

func (c *chunkReader) next() (chunk []byte, last bool, err error) {
	n, err := io.ReadFull(c.r, c.buffer)
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return c.buffer[:n], true, nil
	}
	if err != nil {
		return nil, false, err
	}
	switch _, err := c.r.Peek(1); err {
	case nil:
		return c.buffer, false, nil
	case io.EOF:
		return c.buffer, true, nil
	default:
		return nil, false, err
	}
}

// hashedWriter hashes and counts the bytes that it writes to w.
type hashedWriter struct {
	w      io.Writer
	digest hash.Hash
	size   int64
}

// Write implements io.Writer.
func (h *hashedWriter) Write(b []byte) (int, error) {
	n, err := h.w.Write(b)
	h.digest.Write(b[:n])
	h.size += int64(n)
	return n, err
}
