package activity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/durable"
	"guild/nook"
)

// names are the names of the exported files, in the order in which they are written: the profile says whose they are.
var names = []string{"profile.json", "events.json", "sparks.json"}

// imported is added to the name of a file whose history was imported.
const imported = ".imported"

// mostWritten is the number of events up to which Write writes all files; of more, only the profile. It keeps them below
// nook.MaxExport.
const mostWritten = 100_000

// ErrForeign means that a directory has files that this node did not write. They are neither overwritten nor imported.
var ErrForeign = errors.New("the files of Nook are not those of this node")

// Files keeps the exports of the node's own root identity in a directory, ~/.nook. It is not safe for concurrent use.
type Files struct {
	dir     string
	step    *Step
	put     func(path string, b []byte) error
	written int // of Fold.changes, when the files were written; -1 at first, since the last process may have died before it
}

// NewFiles returns the files of a step in a directory.
func NewFiles(dir string, s *Step) *Files {
	return &Files{dir: dir, step: s, put: durable.WriteBytes, written: -1}
}

// Changes is a number that changes with the account. Behind reports whether the files are older than it.
func (f *Files) Changes() (n int, behind bool) {
	n = f.step.fold.changes()
	return n, n != f.written && !f.step.fold.empty(Own)
}

// Write replaces the files, each at once, if the account has changed. It reads the whole history. It returns ErrForeign
// if the files are not this node's.
func (f *Files) Write(ctx context.Context) error {
	n, behind := f.Changes()
	if !behind {
		return nil
	}
	if err := f.check(); err != nil {
		return err
	}
	var files map[string][]byte
	var err error
	if f.step.fold.count(Own) <= mostWritten {
		files, err = f.step.Exports(ctx, Own)
	} else {
		files = map[string][]byte{}
		files[names[0]], err = nook.EncodeExport(f.step.Profile(Own))
	}
	if err != nil {
		return fmt.Errorf("write the files of Nook: %w", err)
	}
	for _, name := range names {
		if b := files[name]; b != nil {
			if err := f.put(filepath.Join(f.dir, name), b); err != nil {
				return fmt.Errorf("write the files of Nook: %w", err)
			}
		}
	}
	f.written = n
	return nil
}

// check returns ErrForeign unless there are no files, or the profile has this node's root identity.
func (f *Files) check() error {
	root, err := f.root()
	if err == nil && root == f.step.c.Key {
		return nil
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(f.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: profile.json in %s is of %.80q", ErrForeign, f.dir, root)
		}
	}
	return nil
}

// root returns the root identity in profile.json. It is "" without that file.
func (f *Files) root() (string, error) {
	b, err := durable.ReadRegular(filepath.Join(f.dir, names[0]), nook.MaxExport)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var p struct {
		RootIdentity string `json:"rootIdentity"`
	}
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return "", fmt.Errorf("profile.json: %w", err)
	}
	return p.RootIdentity, nil
}

// Import imports the history in events.json if the account is empty, and returns the number of its events. First it
// renames the files, so that a crash leaves the history to the next start, and nothing imports or overwrites it later. A
// file that is not valid in every part, and the files of another Nostr key, stay as they are.
func (f *Files) Import(ctx context.Context) (int, error) {
	if !f.step.fold.empty(Own) {
		return 0, nil
	}
	events := filepath.Join(f.dir, names[1])
	from := events
	_, again := os.Lstat(events + imported)
	_, missing := os.Lstat(events)
	switch {
	case missing != nil && again != nil:
		return 0, nil
	case missing != nil: // a crash has interrupted the import
		from = events + imported
	case again == nil:
		return 0, fmt.Errorf("import a history: there are events.json and events.json%s in %s; keep one", imported, f.dir)
	}
	root, err := f.root()
	if err != nil {
		return 0, fmt.Errorf("import a history: %w", err)
	}
	if _, err := f.step.Root(root); err != nil {
		return 0, fmt.Errorf("import a history: %w: %s is of %.80q", ErrForeign, f.dir, root)
	}
	b, err := durable.ReadRegular(from, nook.MaxExport)
	if err != nil {
		return 0, fmt.Errorf("import a history: %w", err)
	}
	logs, err := nook.DecodeEvents(b)
	if err != nil || len(logs) == 0 {
		return 0, err
	}
	history := make([]nook.Event, len(logs))
	for i, l := range logs {
		history[i] = l.Event
	}
	for _, name := range []string{names[0], names[2], names[1]} {
		path := filepath.Join(f.dir, name)
		if err := os.Rename(path, path+imported); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("import a history: %w", err)
		}
	}
	if err := durable.SyncDir(f.dir); err != nil {
		return 0, fmt.Errorf("import a history: %w", err)
	}
	return len(history), f.step.Import(ctx, Own, history)
}
