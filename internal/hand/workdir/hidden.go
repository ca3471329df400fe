package workdir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"guild"
	"guild/nutshell"
)

// Commit makes commitments to the hidden tests of a task's directory, and stores the salts beside them in nutshell.SaltsFile.
// So unchanged tests get the same commitments again. Without hidden tests, or without such a directory, it returns none and
// writes nothing. A link out of the directory is an error: by one the author of the directory could have the salts written
// anywhere.
func Commit(ctx context.Context, dir string, random io.Reader) ([]guild.Commitment, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(nutshell.HiddenDir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	known, err := readSalts(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, nutshell.SaltsFile), err)
	}
	commitments, err := nutshell.Commit(ctx, root.FS(), random, known)
	if err != nil || len(commitments) == 0 {
		return nil, err
	}
	raw, err := nutshell.Salts(commitments)
	if err != nil {
		return nil, err
	}
	if err := writeSalts(root, raw); err != nil {
		return nil, fmt.Errorf("keep the salts: %w", err)
	}
	return commitments, nil
}

// readSalts reads the file of salts. It returns none if there is no file.
func readSalts(root *os.Root) ([]guild.Commitment, error) {
	f, err := openRegular(root, nutshell.SaltsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, nutshell.DefaultLimits().File))
	if err != nil {
		return nil, err
	}
	return nutshell.ParseSalts(raw)
}

// writeSalts replaces the file of salts, whole or not at all.
func writeSalts(root *os.Root, raw []byte) (err error) {
	folder, err := root.OpenRoot(nutshell.HiddenDir)
	if err != nil {
		return err
	}
	defer folder.Close()
	temporary := ".tmp-" + rand.Text()
	f, err := folder.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = folder.Rename(temporary, path.Base(nutshell.SaltsFile))
	}
	if err != nil {
		return errors.Join(err, folder.Remove(temporary))
	}
	return syncFolder(folder)
}

// syncFolder flushes the names in a folder to the disk.
func syncFolder(folder *os.Root) error {
	d, err := folder.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
