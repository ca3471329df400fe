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

// vaultKeyFile is the key of age that credentials are sealed for on their way to and through this node.
const vaultKeyFile = "vault.key"

// vaultKey is the node's own key for credentials. It is made when it is first needed.
type vaultKey struct {
	path string
	now  func() time.Time
	mu   sync.Mutex // held while it is made
}

// recipient is whom to seal for, so that this node can open it.
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
		return "", fmt.Errorf("%s: want one key of age, not %d", k.path, len(all))
	}
	return all[0], nil
}

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

// create makes the key, in a file that only the owner can read.
func (k *vaultKey) create() ([]byte, error) {
	text, _, err := age.Generate(k.now())
	if err != nil {
		return nil, err
	}
	return text.Reveal(), durable.WriteBytes(k.path, text.Reveal()) // 0600
}

// open opens what was sealed for this node.
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

// sealFor seals for somebody else's key, which must be one of age's own: no program is run for a stranger's word.
func (*vaultKey) sealFor(ctx context.Context, recipient string, document vault.Secret) ([]byte, error) {
	if !age.IsNative(recipient) {
		return nil, fmt.Errorf("%.24q is no key of age's own", recipient)
	}
	s, err := age.New(age.Config{Recipients: []string{recipient}})
	if err != nil {
		return nil, err
	}
	return s.Seal(ctx, document)
}

// memory is where Linux keeps files that never reach a disk.
const memory = "/dev/shm"

// secretsDir makes the directory for credentials that a worker has at the moment: in memory, or among the unpacked
// bundles where there is no such place. What an earlier process left there is removed. The journal's lock says that
// no other one uses it.
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

// emptyOwn makes an empty directory for this user alone. It touches none that somebody else made first.
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
		return fmt.Errorf("%s is not a directory of ours", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}
