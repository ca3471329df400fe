package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"guild/internal/durable"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
)

// vaultKeyFile stores the age key for which credentials are sealed for this node.
const vaultKeyFile = "vault.key"

// vaultKey manages the node's own key for credentials. It is created on first use.
type vaultKey struct {
	path string
	now  func() time.Time
	mu   sync.Mutex // held while the key is created
}

// recipient returns the age recipient of the key.
func (k *vaultKey) recipient() (string, error) {
	id, err := k.identity()
	if err != nil {
		return "", err
	}
	all, err := id.Recipients(context.Background(), age.UI{})
	if err != nil {
		return "", err
	}
	if len(all) != 1 {
		return "", fmt.Errorf("%s: want one age key, not %d", k.path, len(all))
	}
	return all[0], nil
}

// identity returns the key, and creates it if there is no file. An invalid file is never replaced, because credentials
// may be sealed for the key in it.
func (k *vaultKey) identity() (age.Identity, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	raw, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = k.create()
	}
	if err != nil {
		return age.Identity{}, fmt.Errorf("the key for credentials: %w", err)
	}
	return age.Identity{Name: k.path, Text: vault.NewSecret(raw)}, nil
}

// create creates the key in a file that only the owner can read.
func (k *vaultKey) create() ([]byte, error) {
	text, _, err := age.Generate(k.now())
	if err != nil {
		return nil, err
	}
	return text.Reveal(), durable.WriteBytes(k.path, text.Reveal()) // mode 0600
}

// open decrypts a document that was sealed for this node.
func (k *vaultKey) open(ctx context.Context, sealed []byte) (vault.Secret, error) {
	id, err := k.identity()
	if err != nil {
		return vault.Secret{}, err
	}
	s, err := age.New(age.Config{Identities: []age.Identity{id}})
	if err != nil {
		return vault.Secret{}, err
	}
	return s.Open(ctx, sealed)
}

// sealFor seals for another key. It must be a native age key: other kinds run a plugin, and a stranger chose the key.
func (*vaultKey) sealFor(ctx context.Context, recipient string, document vault.Secret) ([]byte, error) {
	if !age.IsNative(recipient) {
		return nil, fmt.Errorf("%.24q is not a native age key", recipient)
	}
	s, err := age.New(age.Config{Recipients: []string{recipient}})
	if err != nil {
		return nil, err
	}
	return s.Seal(ctx, document)
}

// memory is a directory in a memory file system.
const memory = "/dev/shm"

// secretsDir creates the directory for the credentials of running workers: in memory or, if that is not possible, in
// the scratch directory. It removes files of an earlier process; the journal's lock ensures that no other process uses
// them.
//
// Plaintext credentials should not reach a disk, where they could be recovered after they are deleted.
func (n *Node) secretsDir() (string, error) {
	home, err := filepath.Abs(n.c.Dir)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(home))
	dir := filepath.Join(memory, "guild-"+strconv.Itoa(os.Getuid())+"-"+hex.EncodeToString(sum[:8]))
	if err := emptyOwn(dir); err != nil {
		n.c.Log.Debug("credentials are opened on the disk", "err", err)
		return n.scratch(), nil
	}
	return dir, nil
}

// emptyOwn creates an empty directory that only this user can enter. It refuses an existing one of another user:
// /dev/shm is writable for everyone, and the other user could read the credentials.
func emptyOwn(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode() != fs.ModeDir|0o700 || !ok || int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not this user's own directory", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}
