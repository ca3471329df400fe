package journal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"guild"
	"guild/internal/durable"
	"guild/internal/journal/fact"
)

// keys has a random key for each guard whose facts have private members. The entries, their hashes and all that is derived from
// these are over the encrypted members, so nothing but the words is lost when a key is erased.
//
// The file has a line for each key: the key in hex, the guard and a checksum of both. A line is on the disk before the entry that
// needs it is appended. An erased key is overwritten with zeros; its line stays, to tell it from a key that is missing. The
// high-water mark has the number of lines, so a file that is gone or older is noticed before a guard gets a second key.
type keys struct {
	path   string
	noSync bool

	mu   sync.Mutex
	size int64 // of the file: complete lines
	of   map[fact.Subject]guardKey

	damaged [][]byte // lines that cannot be read
}

type guardKey struct {
	key key
	at  int64 // offset of its line
}

type key [32]byte

// keyDigits is the length of a key in hex.
const keyDigits = 2 * len(key{})

// errNoKey means that entries cannot be decrypted although nobody has erased their key.
var errNoKey = errors.New("its key is missing")

// openKeys reads the file with the keys. A line that a crash left incomplete was never used.
func openKeys(path string, noSync bool) (*keys, error) {
	k := &keys{path: path, noSync: noSync, of: map[fact.Subject]guardKey{}}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k.size = int64(bytes.LastIndexByte(b, '\n') + 1)
	at := int64(0)
	for line := range bytes.Lines(b[:k.size]) {
		if guard, one, ok := parseKey(line); ok {
			k.of[guard] = guardKey{one, at}
		} else {
			k.damaged = append(k.damaged, line)
		}
		at += int64(len(line))
	}
	return k, nil
}

// line returns the line of a key.
func (k key) line(guard fact.Subject) []byte {
	line := fmt.Appendf(nil, "%x %s", k[:], guard)
	sum := guild.Sum(line)
	return fmt.Appendf(line, " %x\n", sum[:4])
}

// parseKey reads a line.
func parseKey(line []byte) (guard fact.Subject, k key, ok bool) {
	fields := strings.Fields(string(line))
	if len(fields) != 3 {
		return "", k, false
	}
	n, err := hex.Decode(k[:], []byte(fields[0][:min(len(fields[0]), keyDigits)]))
	guard = fact.Subject(fields[1])
	return guard, k, err == nil && n == len(k) && bytes.Equal(line, k.line(guard))
}

// check returns an error if lines cannot be read, or if there are fewer than there were.
func (k *keys) check(lines int) error {
	switch {
	case len(k.damaged) > 0:
		return damaged("%d of the keys in %s cannot be read", len(k.damaged), k.path)
	case len(k.of) < lines:
		return damaged("%d keys are missing in %s", lines-len(k.of), k.path)
	}
	return nil
}

// count returns the number of lines.
func (k *keys) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.of)
}

// rewrite writes the file without the lines that cannot be read.
func (k *keys) rewrite() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var b []byte
	for guard, of := range k.of {
		k.of[guard] = guardKey{of.key, int64(len(b))}
		b = append(b, of.key.line(guard)...)
	}
	if err := durable.WriteBytes(k.path, b); err != nil {
		return err
	}
	k.size, k.damaged = int64(len(b)), nil
	return nil
}

// seal encrypts the private members of an entry under a guard, with a new key if it is the first. erased says that the guard's key
// is erased; then the result is nil.
func (k *keys) seal(guard fact.Subject, private []byte) (sealed []byte, erased bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of, ok := k.of[guard]
	if !ok {
		of = guardKey{at: k.size}
		rand.Read(of.key[:])
		if err := k.write(of, guard); exhausted(err) {
			return nil, false, fmt.Errorf("a key for %s: %w", guard, ErrFull)
		} else if err != nil {
			return nil, false, err
		}
	}
	if of.key == (key{}) {
		return nil, true, nil
	}
	return of.key.cipher().Seal(nil, nil, private, []byte(guard)), false, nil
}

// open decrypts what seal has encrypted. It returns nil if the key was erased, and errNoKey if it is not there or another.
func (k *keys) open(guard fact.Subject, sealed []byte) ([]byte, error) {
	k.mu.Lock()
	of, ok := k.of[guard]
	k.mu.Unlock()
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: %w in %s", guard, errNoKey, k.path)
	case of.key == key{}:
		return nil, nil
	}
	private, err := of.key.cipher().Open(nil, nil, sealed, []byte(guard))
	if err != nil {
		return nil, fmt.Errorf("%s: %w in %s: another is there", guard, errNoKey, k.path)
	}
	return private, nil
}

// erase overwrites the key of a guard on the disk and forgets it. A guard without a key gets the line of an erased one.
func (k *keys) erase(guard fact.Subject) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	of, ok := k.of[guard]
	if !ok {
		of.at = k.size
	}
	of.key = key{}
	return k.write(of, guard)
}

// write writes the line of a guard's key to the disk: in the place of the one before, or at the end.
func (k *keys) write(of guardKey, guard fact.Subject) (err error) {
	f, err := os.OpenFile(k.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(k.size); err != nil { // an incomplete line
		return err
	}
	line := of.key.line(guard)
	if _, err := f.WriteAt(line, of.at); err != nil {
		return err
	}
	if !k.noSync {
		if err := f.Sync(); err != nil {
			return err
		}
		if k.size == 0 {
			if err := durable.SyncDir(filepath.Dir(k.path)); err != nil {
				return err
			}
		}
	}
	k.size = max(k.size, of.at+int64(len(line)))
	k.of[guard] = of
	return nil
}

// cipher returns AES-256-GCM with a random nonce for each message.
func (k key) cipher() cipher.AEAD {
	block, err := aes.NewCipher(k[:])
	if err == nil {
		var sealer cipher.AEAD
		if sealer, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return sealer
		}
	}
	panic(err) // a key has the right length
}
