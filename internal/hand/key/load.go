package key

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip46"
	"fiatjaf.com/nostr/nip49"
)

// File is the name of the identity file inside the data directory.
const File = "identity"

// maxFile is the largest identity file that is read, in bytes. A bunker URL may list many relays.
const maxFile = 16 << 10

// Errors of Load.
var (
	ErrNone       = errors.New("no identity yet")
	ErrPassphrase = errors.New("wrong passphrase")
)

// Identity is the node's key. Either Signer is set, or Bunker is and the node must connect to it first.
type Identity struct {
	Signer nostr.Keyer
	Bunker Bunker       // bunker://… (NIP-46), else empty
	PubKey nostr.PubKey // zero with a bunker: only the remote signer knows the user's key
}

// Bunker is the address of a remote signer. It may carry a token, so it prints without its query.
type Bunker string

// String leaves out the query, where the token is.
func (b Bunker) String() string { head, _, _ := strings.Cut(string(b), "?"); return head }

// GoString is String.
func (b Bunker) GoString() string { return b.String() }

// ModeError says that others can read an identity file.
type ModeError struct {
	Path string
	Mode fs.FileMode
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s can be read by others (mode %04o)", e.Path, e.Mode.Perm())
}

// Hint says how to repair it.
func (e *ModeError) Hint() string { return "chmod 600 " + e.Path }

// OthersRead reports whether a file's mode lets others read it. On Windows it returns false: the mode does not say that there,
// and a user's own folders are closed to others unless the user has opened them.
func OthersRead(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}

// TakeEnv returns an environment variable and unsets it, so that no child process inherits it.
func TakeEnv(name string) string {
	value := os.Getenv(name)
	os.Unsetenv(name)
	return value
}

// Load returns the identity from NOSTR_SECRET_KEY (nsec or hex), else from the identity file in dir, which
// holds nsec1…, ncryptsec1… (NIP-49) or bunker://… (NIP-46). The passphrase of an ncryptsec comes from
// GUILD_PASSPHRASE, else from ask, which is called at most once. take returns an environment variable and unsets it; it is
// TakeEnv outside tests.
func Load(dir string, ask func() ([]byte, error), take func(string) string) (Identity, error) {
	passphrase := take("GUILD_PASSPHRASE")
	if text := take("NOSTR_SECRET_KEY"); text != "" {
		s, err := ParseSecret(text)
		if err != nil {
			return Identity{}, fmt.Errorf("NOSTR_SECRET_KEY: %w", err)
		}
		return identity(s), nil
	}
	path := filepath.Join(dir, File)
	text, err := read(path)
	if err != nil {
		return Identity{}, err
	}
	id, err := parse(text, func() ([]byte, error) {
		if passphrase != "" {
			return []byte(passphrase), nil
		}
		return ask()
	})
	if err != nil {
		return Identity{}, fmt.Errorf("%s: %w", path, err)
	}
	return id, nil
}

func identity(s Secret) Identity {
	signer := NewSigner(s)
	return Identity{Signer: signer, PubKey: signer.public}
}

// read returns the text of a file that only its owner can read.
func read(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", path, ErrNone)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	if OthersRead(info) {
		return "", &ModeError{path, info.Mode()}
	}
	if info.Size() > maxFile {
		return "", fmt.Errorf("%s is not an identity: %d bytes", path, info.Size())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(b), err
}

func parse(text string, passphrase func() ([]byte, error)) (Identity, error) {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "bunker://"):
		if !nip46.IsValidBunkerURL(text) {
			return Identity{}, errors.New("not a bunker address: want bunker://<pubkey>?relay=wss://…")
		}
		return Identity{Bunker: Bunker(text)}, nil
	case strings.HasPrefix(text, "ncryptsec1"):
		p, err := passphrase()
		if err != nil {
			return Identity{}, err
		}
		s, err := unseal(text, p)
		if err != nil {
			return Identity{}, err
		}
		return identity(s), nil
	default:
		s, err := ParseSecret(text)
		if err != nil {
			return Identity{}, err
		}
		return identity(s), nil
	}
}

// The form of an ncryptsec: 91 bytes in bech32. The first is the version, the second log2 of scrypt's N. The library does not
// check the length, nor N, which may ask for 2^255 blocks. So they are checked here first.
const (
	sealedLen   = len("ncryptsec1") + (91*8+4)/5 + 6
	maxLogN     = 20 // 1 GiB
	bech32Chars = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
)

func unseal(text string, passphrase []byte) (Secret, error) {
	if len(text) != sealedLen {
		return Secret{}, fmt.Errorf("ncryptsec: %d characters, want %d", len(text), sealedLen)
	}
	var head int
	for _, c := range text[len("ncryptsec1") : len("ncryptsec1")+4] {
		head = head<<5 | max(0, strings.IndexRune(bech32Chars, c))
	}
	version, logN := head>>12, head>>4&0xff
	if version != 2 || logN > maxLogN {
		return Secret{}, fmt.Errorf("ncryptsec: version %d with 2^%d rounds, this program reads version 2 up to 2^%d", version, logN, maxLogN)
	}
	k, err := nip49.Decrypt(text, string(passphrase))
	if err != nil {
		return Secret{}, fmt.Errorf("ncryptsec: %w", ErrPassphrase)
	}
	s := NewSecret(k)
	if !s.valid() {
		return Secret{}, errors.New("ncryptsec: holds no valid key")
	}
	return s, nil
}

// Form returns how the identity in dir is stored: "nsec", "ncryptsec" or "bunker". It needs no passphrase.
func Form(dir string) (string, error) {
	path := filepath.Join(dir, File)
	text, err := read(path)
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	for prefix, form := range map[string]string{"bunker://": "bunker", "ncryptsec1": "ncryptsec"} {
		if strings.HasPrefix(text, prefix) {
			return form, nil
		}
	}
	if _, err := ParseSecret(text); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return "nsec", nil
}
