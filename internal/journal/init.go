package journal

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"guild/internal/durable"
)

// layout is the version of how a journal's directory is laid out.
const layout = 1

// identity is the file that says that a directory is a journal, and which.
type identity struct {
	Layout  int    `json:"layout"`
	Journal string `json:"journal"` // random; in every file that belongs to it
}

// Init makes an empty journal in dir, which may hold files of others, readable by its owner only. It fails with
// ErrInitialised if dir holds a journal or remains of one.
func Init(dir string) error {
	f := files(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a journal: %w", err)
	}
	if err := f.vacant(); err != nil {
		return fmt.Errorf("make a journal: %w", err)
	}
	if err := f.make(high{Journal: newID()}); err != nil {
		return fmt.Errorf("make a journal: %w", err)
	}
	return nil
}

// newID names a new journal.
func newID() string { return rand.Text() }

// make writes the files of a journal with the given mark; the one that makes it a journal comes last.
func (f files) make(h high) error {
	if err := newSpace(f, 0).reserve(); err != nil {
		return err
	}
	if err := writeHigh(f.high(), h); err != nil {
		return err
	}
	b, err := json.Marshal(identity{layout, h.Journal})
	if err != nil {
		return err
	}
	return durable.WriteBytes(f.marker(), append(b, '\n'))
}

// vacant refuses a directory with anything of a journal in it.
func (f files) vacant() error {
	for _, path := range []string{f.marker(), f.stream(), f.snapshots(), f.archive()} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(ErrInitialised, err)
		}
	}
	return nil
}

// Identity is the id of the journal in a directory, which is not opened.
func Identity(dir string) (string, error) { return files(dir).identity() }

// identity reads which journal the directory is.
func (f files) identity() (string, error) {
	b, err := os.ReadFile(f.marker())
	if errors.Is(err, fs.ErrNotExist) {
		return "", f.unmarked()
	}
	if err != nil {
		return "", err
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil || id.Journal == "" {
		return "", damaged("its marker file cannot be read")
	}
	if id.Layout != layout {
		return "", fmt.Errorf("the journal has layout %d, this program knows %d", id.Layout, layout)
	}
	return id.Journal, nil
}

// unmarked tells a directory that never was a journal from one that lost its marker.
func (f files) unmarked() error {
	remains := slices.ContainsFunc([]string{f.stream(), f.snapshots(), f.archive(), f.high()}, func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	})
	if remains {
		return damaged("its marker file is gone")
	}
	return fmt.Errorf("%s: %w", string(f), ErrNotInitialised)
}

// shape refuses a file where a directory belongs, and a directory where a file does. outside is the high-water mark outside
// the directory, "" if there is none.
func (f files) shape(outside string) error {
	for _, path := range []string{f.hashes(), outside, f.snapshots()} {
		info, err := os.Stat(path)
		isDir := path == f.snapshots()
		switch {
		case path == "" || errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case isDir && !info.IsDir():
			return &ObstacleError{path, "a directory"}
		case !isDir && info.IsDir():
			return &ObstacleError{path, "a file"}
		}
	}
	return nil
}
