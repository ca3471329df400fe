package workdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"guild"
	"guild/internal/durable"
	"guild/nutshell"
)

// Commit commits to the hidden tests of a task's directory and keeps the salts beside them, in nutshell.SaltsFile:
// committing again gives the same for what has not changed. Without hidden tests there are no commitments, and
// nothing is written.
func Commit(ctx context.Context, dir string, random io.Reader) ([]guild.Commitment, error) {
	if info, err := os.Stat(filepath.Join(dir, nutshell.HiddenDir)); err != nil || !info.IsDir() {
		return nil, nil
	}
	salts := filepath.Join(dir, nutshell.SaltsFile)
	known, err := readSalts(salts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", salts, err)
	}
	commitments, err := nutshell.Commit(ctx, os.DirFS(dir), random, known)
	if err != nil || len(commitments) == 0 {
		return nil, err
	}
	raw, err := nutshell.Salts(commitments)
	if err != nil {
		return nil, err
	}
	if err := durable.WriteBytes(salts, raw); err != nil {
		return nil, fmt.Errorf("keep the salts: %w", err)
	}
	return commitments, nil
}

// readSalts reads the side file; without one there are none.
func readSalts(path string) ([]guild.Commitment, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return nutshell.ParseSalts(raw)
}
