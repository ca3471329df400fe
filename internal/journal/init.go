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

// layout is the version of the files in a journal's directory.
const layout = 1

// identity is the content of the marker file, which makes a directory a journal.
type identity struct {
	Layout  int    `json:"layout"`
	Journal string `json:"journal"` // a random id, which other files of the journal repeat
}

// Init makes an empty journal in dir, readable by its owner only. dir may have other files in it. It fails with ErrInitialised
// if there is a journal or a part of one.
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

// newID returns a random id for a journal.
func newID() string { return rand.Text() }

// make writes the files of a journal with the given mark. The marker comes last: without it there is no journal.
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

// vacant returns ErrInitialised if a part of a journal is in the directory.
func (f files) vacant() error {
	for _, path := range []string{f.marker(), f.stream(), f.snapshots(), f.archive()} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(ErrInitialised, err)
		}
	}
	return nil
}

// Identity returns the id of the journal in a directory, without opening it.
func Identity(dir string) (string, error) { return files(dir).identity() }

// identity returns the id of the journal. If there is no marker, that is damage if there are other files of a journal, and else
// ErrNotInitialised.
func (f files) identity() (string, error) {
	b, err := os.ReadFile(f.marker())
	if errors.Is(err, fs.ErrNotExist) {
		remains := slices.ContainsFunc([]string{f.stream(), f.snapshots(), f.archive(), f.high()}, func(path string) bool {
			_, err := os.Lstat(path)
			return err == nil
		})
		if remains {
			return "", damaged("its marker file is gone")
		}
		return "", fmt.Errorf("%s: %w", string(f), ErrNotInitialised)
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

// shape returns an *ObstacleError if there is a file in the place of a directory, or the other way round. outside is the path of
// the high-water mark outside the directory, or "".
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
