package fold

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"guild"
	"guild/internal/durable"
)

const (
	kept    = 2       // snapshots of each fold: the newest, and one to fall back to
	maxHead = 4 << 10 // bytes of the first line of a snapshot file
)

// Snapshot is the encoded state of a fold after an entry of a journal.
type Snapshot struct {
	Fold    string     `json:"fold"`
	Version int        `json:"version"` // of the state's encoding
	Seq     uint64     `json:"seq"`     // of the last entry in it
	Prefix  guild.Hash `json:"prefix"`  // root of the tree over the entries through Seq
	State   []byte     `json:"-"`
}

// Store stores snapshots as files in a directory. A file is a line of JSON that describes the snapshot, the state, and the
// SHA-256 of both.
type Store struct{ dir string }

// OpenStore opens the store in dir. It makes the directory if necessary.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	return &Store{dir}, nil
}

// Save writes a snapshot and removes all but the newest two of its fold. A crash leaves the whole snapshot or none.
func (s *Store) Save(snap Snapshot) error {
	head, err := json.Marshal(snap)
	if err != nil {
		return fmt.Errorf("snapshot of %s: %w", snap.Fold, err)
	}
	sum := sha256.New()
	sum.Write(head)
	sum.Write([]byte{'\n'})
	sum.Write(snap.State)
	err = durable.Write(filepath.Join(s.dir, file(snap.Fold, snap.Seq, snap.Version)), func(w io.Writer) error {
		for _, part := range [][]byte{head, {'\n'}, snap.State, sum.Sum(nil)} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("snapshot of %s: %w", snap.Fold, err)
	}
	return s.prune(snap.Fold)
}

// Load yields the intact snapshots of a fold that have the given version, the newest first. Others are ignored, since the
// entries of the journal can be replayed instead.
func (s *Store) Load(fold string, version int) iter.Seq[Snapshot] {
	return func(yield func(Snapshot) bool) {
		names, err := s.names(fold)
		if err != nil {
			return
		}
		for _, name := range slices.Backward(names) {
			snap, err := read(filepath.Join(s.dir, name))
			if err != nil || snap.Fold != fold || snap.Version != version {
				continue
			}
			if !yield(snap) {
				return
			}
		}
	}
}

// prune removes all but the newest snapshots of a fold.
func (s *Store) prune(fold string) error {
	names, err := s.names(fold)
	if err != nil {
		return fmt.Errorf("snapshots of %s: %w", fold, err)
	}
	for _, name := range names[:max(0, len(names)-kept)] {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("snapshots of %s: %w", fold, err)
		}
	}
	return nil
}

// KeepFrom removes all files but the snapshots from the entry seq on. No snapshot may be written meanwhile.
func (s *Store) KeepFrom(seq uint64) error {
	all, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	for _, entry := range all {
		if snap, err := read(filepath.Join(s.dir, entry.Name())); err == nil && snap.Seq >= seq {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, entry.Name())); err != nil {
			return fmt.Errorf("snapshots: %w", err)
		}
	}
	if err := durable.SyncDir(s.dir); err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	return nil
}

// names returns the names of a fold's files, the oldest first.
func (s *Store) names(fold string) ([]string, error) {
	all, err := os.ReadDir(s.dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range all {
		name := entry.Name()
		if of, _, ok := strings.Cut(name, "."); ok && of == fold && strings.HasSuffix(name, ".snapshot") {
			names = append(names, name)
		}
	}
	return names, nil
}

// file returns the name of a snapshot's file. The names of a fold sort by sequence.
func file(fold string, seq uint64, version int) string {
	return fmt.Sprintf("%s.%020d.v%d.snapshot", fold, seq, version)
}

// read reads and verifies one file.
func read(path string) (Snapshot, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Snapshot{}, err
	}
	return parse(b)
}

func parse(b []byte) (Snapshot, error) {
	body := len(b) - sha256.Size
	if body < 0 || sha256.Sum256(b[:body]) != [sha256.Size]byte(b[body:]) {
		return Snapshot{}, errors.New("snapshot: wrong checksum")
	}
	head, state, found := bytes.Cut(b[:body], []byte{'\n'})
	if !found || len(head) > maxHead {
		return Snapshot{}, errors.New("snapshot: no head")
	}
	var snap Snapshot
	if err := json.Unmarshal(head, &snap); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	snap.State = state
	return snap, nil
}
