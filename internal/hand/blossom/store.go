package blossom

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// The layout of the directory. Names are made of hashes and keys, never of a client's text.
const (
	dirBlobs  = "blobs"  // <sha256>
	dirOwners = "owners" // <pubkey>/<sha256>, an empty file whose time is that of the upload
	dirTemp   = "temp"   // uploads under way; emptied on opening
)

// fileCost is the least size that a blob counts, so that empty blobs cannot fill a disk with names.
const fileCost = 4 << 10

var errNoRoom = errors.New("the server is full")

// store is the directory of blobs, with an index in memory that is read from it at the start.
type store struct {
	root *os.Root
	max  int64 // bytes of all blobs

	mu       sync.Mutex
	blobs    map[guild.Hash]*blob
	used     int64
	reserved int64 // for uploads under way
}

type blob struct {
	size   int64
	owners map[nostr.PubKey]int64 // Unix seconds of their uploads
}

func openStore(dir string, max int64) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	s := &store{root: root, max: max, blobs: make(map[guild.Hash]*blob)}
	if err := errors.Join(root.RemoveAll(dirTemp), s.load()); err != nil {
		return nil, errors.Join(fmt.Errorf("blobs: %w", err), root.Close())
	}
	return s, nil
}

func (s *store) load() error {
	for _, dir := range []string{dirBlobs, dirOwners, dirTemp} {
		if err := s.root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	entries, err := fs.ReadDir(s.root.FS(), dirBlobs)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		hash, err := guild.ParseHash(entry.Name())
		info, statErr := entry.Info()
		if err != nil || statErr != nil || !info.Mode().IsRegular() {
			continue // not ours
		}
		s.blobs[hash] = &blob{size: info.Size(), owners: make(map[nostr.PubKey]int64)}
		s.used += cost(info.Size())
	}
	return s.loadOwners()
}

func (s *store) loadOwners() error {
	owners, err := fs.ReadDir(s.root.FS(), dirOwners)
	if err != nil {
		return err
	}
	for _, owner := range owners {
		pubkey, err := nostr.PubKeyFromHex(owner.Name())
		if err != nil {
			continue // not ours
		}
		claims, err := fs.ReadDir(s.root.FS(), path.Join(dirOwners, owner.Name()))
		if err != nil {
			return err
		}
		for _, claim := range claims {
			hash, err := guild.ParseHash(claim.Name())
			info, statErr := claim.Info()
			if b := s.blobs[hash]; err == nil && statErr == nil && b != nil {
				b.owners[pubkey] = info.ModTime().Unix()
			}
		}
	}
	return s.dropUnowned()
}

// dropUnowned finishes removals that a crash interrupted.
func (s *store) dropUnowned() error {
	for hash, b := range s.blobs {
		if len(b.owners) > 0 {
			continue
		}
		if err := s.drop(hash, b); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) drop(hash guild.Hash, b *blob) error {
	if err := s.root.Remove(path.Join(dirBlobs, hash.Hex())); err != nil {
		return err
	}
	delete(s.blobs, hash)
	s.used -= cost(b.size)
	return nil
}

func cost(size int64) int64 { return max(size, fileCost) }

// reserve reserves room for an upload of at most size bytes, or refuses it.
func (s *store) reserve(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+s.reserved+cost(size) > s.max {
		return errNoRoom
	}
	s.reserved += cost(size)
	return nil
}

func (s *store) release(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= cost(size)
}

// temp makes a file for an upload.
func (s *store) temp() (*os.File, string, error) {
	name := path.Join(dirTemp, rand.Text())
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return f, name, err
}

// place renames a whole, flushed file to its hash, and notes its owner and the time (Unix seconds). If the store has the blob,
// only the owner is noted. It returns the time of this owner's upload.
func (s *store) place(temp string, hash guild.Hash, size int64, owner nostr.PubKey, now int64) (uploaded int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blobs[hash]
	if b != nil {
		if at, ok := b.owners[owner]; ok {
			return at, nil
		}
	}
	if err := s.claim(hash, owner, now); err != nil {
		return 0, err
	}
	if b == nil {
		if err := s.root.Rename(temp, path.Join(dirBlobs, hash.Hex())); err != nil {
			return 0, err
		}
		b = &blob{size: size, owners: make(map[nostr.PubKey]int64)}
		s.blobs[hash] = b
		s.used += cost(size)
	}
	b.owners[owner] = now
	return now, nil
}

// claim notes the owner of a blob. It is called before the blob has its name: after a crash a claim without a blob is
// harmless, but a blob without a claim would be dropped.
func (s *store) claim(hash guild.Hash, owner nostr.PubKey, now int64) error {
	name := path.Join(dirOwners, owner.Hex(), hash.Hex())
	if err := s.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	if err := s.root.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	return s.root.Chtimes(name, time.Unix(now, 0), time.Unix(now, 0))
}

// open opens a blob for reading.
func (s *store) open(hash guild.Hash) (*os.File, error) {
	return s.root.Open(path.Join(dirBlobs, hash.Hex()))
}

// remove removes an owner's claim, and with the last claim the blob. It reports whether there was a claim.
func (s *store) remove(hash guild.Hash, owner nostr.PubKey) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blobs[hash]
	if b == nil {
		return false, nil
	}
	if _, ok := b.owners[owner]; !ok {
		return false, nil
	}
	if err := s.root.Remove(path.Join(dirOwners, owner.Hex(), hash.Hex())); err != nil {
		return true, err
	}
	delete(b.owners, owner)
	if len(b.owners) > 0 {
		return true, nil
	}
	return true, s.drop(hash, b)
}

// owned lists the blobs of an owner, the newest first.
func (s *store) owned(owner nostr.PubKey, describe func(guild.Hash, int64, int64) descriptor) []descriptor {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []descriptor{}
	for hash, b := range s.blobs {
		if at, ok := b.owners[owner]; ok {
			list = append(list, describe(hash, b.size, at))
		}
	}
	slices.SortFunc(list, func(a, b descriptor) int {
		return cmp.Or(cmp.Compare(b.Uploaded, a.Uploaded), cmp.Compare(a.SHA256, b.SHA256))
	})
	return list
}
