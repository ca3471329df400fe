package exam

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"guild/internal/hand/workdir"
	"guild/nutshell"
)

// Open returns the directory of a bundle, which may be a directory or packed (.nut). It unpacks a packed bundle into a
// new directory below scratch, or in the system's temporary directory if scratch is empty; close removes it. The bundle
// may be hostile: the errors are those of nutshell.Open.
func Open(ctx context.Context, path, scratch string) (dir string, close func() error, err error) {
	nothing := func() error { return nil }
	info, err := os.Stat(path)
	if err != nil {
		return "", nothing, err
	}
	if info.IsDir() {
		dir, err = filepath.Abs(path)
		return dir, nothing, err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", nothing, err
	}
	defer f.Close()
	b, err := nutshell.Open(f, info.Size(), nutshell.DefaultLimits())
	if err != nil {
		return "", nothing, fmt.Errorf("%s: %w", path, err)
	}
	top, err := os.MkdirTemp(scratch, "bundle-")
	if err != nil {
		return "", nothing, err
	}
	dir = filepath.Join(top, "bundle")
	if err := workdir.Unpack(ctx, b, dir); err != nil {
		return "", nothing, errors.Join(fmt.Errorf("%s: %w", path, err), os.RemoveAll(top))
	}
	return dir, func() error { return os.RemoveAll(top) }, nil
}
