package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"guild"
	"guild/internal/hand/workdir"
	"guild/nutshell"
)

// hiddenManifest is the manifest of the bundle that brings hidden tests to the node. It never leaves the machine.
const hiddenManifest = `{"nutshell_version": "0.2.0", "bundle_type": "partial", "id": "nut-hidden", "task": {"title": "hidden tests"}}`

// hiddenTests commits to the hidden tests of a task directory, keeps the salts beside them, and packs them for the
// node. The salts of new ones are read from random. Without any, both results are nil.
func hiddenTests(ctx context.Context, source string, random io.Reader) ([]guild.Commitment, []byte, error) {
	commitments, err := workdir.Commit(ctx, source, random)
	if err != nil || len(commitments) == 0 {
		return nil, nil, err
	}
	packed, err := packHidden(ctx, filepath.Join(source, nutshell.HiddenDir))
	return commitments, packed, err
}

// packHidden packs the hidden tests, with their salts, as the files of a bundle.
func packHidden(ctx context.Context, hidden string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "guild-hidden-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(filepath.Join(dir, "files"), os.DirFS(hidden)); err != nil {
		return nil, fmt.Errorf("hidden tests: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nutshell.json"), []byte(hiddenManifest), 0o600); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := nutshell.Pack(ctx, os.DirFS(dir), &b, nutshell.Options{}); err != nil {
		return nil, fmt.Errorf("pack the hidden tests: %w", err)
	}
	return b.Bytes(), nil
}
