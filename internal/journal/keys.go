package journal

import (
	"bufio"
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

	"guild/internal/durable"
	"guild/internal/journal/fact"
)

// keys has a random key for each guard whose facts have private members. The entries, their hashes and all that is derived from
// these are over the encrypted members, so nothing but the words is lost when a key is erased.
//
// The file has a line for each key: the key in hex, a space and the guard. A line is on the disk before the entry that needs it is
// appended. An erased key is overwritten with zeros; its line stays, to tell it from a key that is missing.
type keys struct {
	path   string
	noSync bool

	mu   sync.Mutex
	size int64 // of the file: complete lines
	of   map[fact.Subject]guardKey
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

// openKeys reads the file with the keys. A line that a crash left incomplete was never used, and one that cannot be read counts as
// missing.
func openKeys(path string, noSync bool) (*keys, error) {
	k := &keys{path: path, noSync: noSync, of: map[fact.Subject]guardKey{}}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k.size = int64(bytes.LastIndexByte(b, '\n') + 1)
	at := int64(0)
	for lines := bufio.NewScanner(bytes.NewReader(b[:k.size])); lines.Scan(); {
		digits, guard, _ := strings.Cut(lines.Text(), " ")
		var one key
		if n, err := hex.Decode(one[:], []byte(digits[:min(len(digits), keyDigits)])); err == nil && n == len(one) {
			k.of[fact.Subject(guard)] = guardKey{one, at}
		}
		at += int64(len(lines.Bytes())) + 1
	}
	return k, nil
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
		if err := k.write(of, guard); err != nil {
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

// erase overwrites the key of a guard on the disk and forgets it. It also notes that the key is erased if there is none.
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
	line := fmt.Sprintf("%x %s\n", of.key[:], guard)
	if _, err := f.WriteAt([]byte(line), of.at); err != nil {
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
