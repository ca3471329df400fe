package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"guild/internal/journal/fact"
)

// Shred erases the key of a guard, so that nobody can read the private members of its entries again. The entries stay as they are
// stored, and with them their hashes, seals and proofs. Snapshots from before now are replaced, since they have states from
// before the guard's last entry; and those that a repair has put aside are removed. It may be called again after an error.
func (j *Journal) Shred(ctx context.Context, guard fact.Subject) error {
	err := ctx.Err()
	if err == nil {
		err = j.keys.erase(guard)
	}
	if err == nil {
		err = j.replaceSnapshots()
	}
	if err != nil {
		return fmt.Errorf("shred %s: %w", guard, err)
	}
	return nil
}

// replaceSnapshots takes snapshots and removes all others.
func (j *Journal) replaceSnapshots() error {
	if err := j.takeSnapshots(); err != nil {
		return err
	}
	j.snapshotting.Lock()
	defer j.snapshotting.Unlock()
	if err := j.snaps.KeepFrom(j.snapped); err != nil {
		return err
	}
	aside, err := filepath.Glob(filepath.Join(j.files.damaged(), "*", filepath.Base(j.files.snapshots())))
	for _, dir := range aside {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return err
}
