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

// The layout of the directory. Names are made from hashes and keys only, never from what a client wrote.
const (
	dirBlobs  = "blobs"  // <sha256>
	dirOwners = "owners" // <pubkey>/<sha256>, an empty file whose time is that of the upload
	dirTemp   = "temp"   // uploads under way; emptied on opening
)

// fileCost is what a blob costs at least, so that empty ones cannot fill a disk with names.
const fileCost = 4 << 10

var errNoRoom = errors.New("the server is full")

// shelf is the directory of blobs and the index of it that is kept in memory. The directory is the truth.
type shelf struct {
	root *os.Root
	max  int64 // bytes of all blobs

	mu       sync.Mutex
	blobs    map[guild.Hash]*blob
	used     int64
	reserved int64 // for uploads under way
}

type blob struct {
	size   int64
	owners map[nostr.PubKey]int64 // when each of them uploaded it, in Unix seconds
}

func openShelf(dir string, max int64) (*shelf, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	s := &shelf{root: root, max: max, blobs: make(map[guild.Hash]*blob)}
	if err := errors.Join(root.RemoveAll(dirTemp), s.load()); err != nil {
		return nil, errors.Join(fmt.Errorf("blobs: %w", err), root.Close())
	}
	return s, nil
}

func (s *shelf) load() error {
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

func (s *shelf) loadOwners() error {
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

// dropUnowned ends removals that a crash cut.
func (s *shelf) dropUnowned() error {
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

func (s *shelf) drop(hash guild.Hash, b *blob) error {
	if err := s.root.Remove(path.Join(dirBlobs, hash.Hex())); err != nil {
		return err
	}
	delete(s.blobs, hash)
	s.used -= cost(b.size)
	return nil
}

func cost(size int64) int64 { return max(size, fileCost) }

// reserve holds room for an upload of at most size bytes, or refuses it.
func (s *shelf) reserve(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+s.reserved+cost(size) > s.max {
		return errNoRoom
	}
	s.reserved += cost(size)
	return nil
}

func (s *shelf) release(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= cost(size)
}

// temp makes a file for an upload under way.
func (s *shelf) temp() (*os.File, string, error) {
	name := path.Join(dirTemp, rand.Text())
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return f, name, err
}

// place gives a whole, flushed file its name, and notes who uploaded it and when (Unix seconds). If the blob
// is here already only the owner is noted. It returns the time of this owner's upload.
func (s *shelf) place(temp string, hash guild.Hash, size int64, owner nostr.PubKey, now int64) (uploaded int64, err error) {
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

// claim is written before the blob has its name: a claim to nothing is harmless, a blob of nobody is not.
func (s *shelf) claim(hash guild.Hash, owner nostr.PubKey, now int64) error {
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
func (s *shelf) open(hash guild.Hash) (*os.File, error) {
	return s.root.Open(path.Join(dirBlobs, hash.Hex()))
}

// remove takes an owner's claim away, and the blob with the last claim. It reports whether there was one.
func (s *shelf) remove(hash guild.Hash, owner nostr.PubKey) (bool, error) {
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
func (s *shelf) owned(owner nostr.PubKey, describe func(guild.Hash, int64, int64) Descriptor) []Descriptor {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Descriptor{}
	for hash, b := range s.blobs {
		if at, ok := b.owners[owner]; ok {
			list = append(list, describe(hash, b.size, at))
		}
	}
	slices.SortFunc(list, func(a, b Descriptor) int {
		return cmp.Or(cmp.Compare(b.Uploaded, a.Uploaded), cmp.Compare(a.SHA256, b.SHA256))
	})
	return list
}
