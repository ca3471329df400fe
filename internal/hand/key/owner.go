package key

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild/internal/durable"
)

// ownerFile is the name of the file in the data directory with the public key of the node, in hex. Everything else there was
// done under that key.
const ownerFile = "owner"

// ForeignError reports that a home was used with another identity before.
type ForeignError struct {
	Path         string // of the file that names the owner
	Owner, Given nostr.PubKey
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("this home belongs to %s, and the identity is %s", nip19.EncodeNpub(e.Owner), nip19.EncodeNpub(e.Given))
}

// Hint says what to do.
func (e *ForeignError) Hint() string {
	return "give this identity a home of its own (--home DIR); or remove " + e.Path + ", if it takes over the other's jobs"
}

// Claim makes a key the owner of a data directory. The error is a *ForeignError if another key owns it.
func Claim(dir string, public nostr.PubKey) error {
	path := filepath.Join(dir, ownerFile)
	err := durable.Create(path, []byte(public.Hex()+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return CheckOwner(dir, public)
	}
	return err
}

// CheckOwner returns a *ForeignError if another key than public owns a data directory. A directory without an owner is no error.
func CheckOwner(dir string, public nostr.PubKey) error {
	owner, err := Owner(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case owner != public:
		return &ForeignError{filepath.Join(dir, ownerFile), owner, public}
	}
	return nil
}

// Owner returns the key that owns a data directory. The error is fs.ErrNotExist if it has none.
func Owner(dir string) (nostr.PubKey, error) {
	path := filepath.Join(dir, ownerFile)
	f, err := os.Open(path)
	if err != nil {
		return nostr.PubKey{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nostr.PubKey{}, err
	}
	owner, err := nostr.PubKeyFromHex(strings.TrimSpace(string(b)))
	if err != nil {
		return nostr.PubKey{}, fmt.Errorf("%s: %w", path, err)
	}
	return owner, nil
}
