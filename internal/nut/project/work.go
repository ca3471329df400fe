package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/hand/workdir"
	"guild/nutshell"
)

// Work is a delivery beside its request, both unpacked.
type Work struct {
	Changes []Change
	Prefix  string // of the project in its repository, ending in a slash

	dir string
}

// OpenWork unpacks a request and the delivery that answers it, and finds what it changes. The caller closes the Work.
func OpenWork(ctx context.Context, request, delivery []byte) (w *Work, err error) {
	w = &Work{}
	if w.dir, err = os.MkdirTemp("", "guild-work-"); err != nil {
		return nil, err
	}
	trees := map[string]fs.FS{}
	for name, packed := range map[string][]byte{"request": request, "delivery": delivery} {
		b, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.DefaultLimits())
		if err == nil {
			err = workdir.Unpack(ctx, b, filepath.Join(w.dir, name))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the %s: %w", name, err), w.Close())
		}
		trees[name] = os.DirFS(filepath.Join(w.dir, name))
		if name == "request" {
			w.Prefix = originOf(b.Manifest()).Prefix
		}
	}
	if w.Changes, err = Changes(ctx, trees["request"], trees["delivery"]); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Before returns the file that a change was made to, "" for a new one.
func (w *Work) Before(c Change) string {
	if c.Before == "" {
		return ""
	}
	return filepath.Join(w.dir, "request", filepath.FromSlash(c.Before))
}

// After returns the delivered file.
func (w *Work) After(c Change) string {
	return filepath.Join(w.dir, "delivery", filepath.FromSlash(c.After))
}

// Close removes the files.
func (w *Work) Close() error { return os.RemoveAll(w.dir) }
