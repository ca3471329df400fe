package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	reserveSize = 8 << 20 // bytes of a file that is removed when the disk is full, so that running work can be recorded
	least       = 1 << 20 // bytes that must be free to append an entry
)

// space watches the free space of the disk that the journal is on.
type space struct {
	files files
	floor uint64
	least uint64
}

func newSpace(f files, floor int64) space { return space{f, uint64(floor), least} }

// free returns ErrFull if less than the floor is free.
func (s space) free() error {
	free, err := s.available()
	if err != nil {
		return err
	}
	if free < s.floor {
		return fmt.Errorf("%d MiB free, want %d: %w", free>>20, s.floor>>20, ErrFull)
	}
	return nil
}

// room returns ErrFull if an entry cannot be written. On a full disk it removes the reserve first.
func (s space) room() error {
	free, err := s.available()
	if err != nil || free >= s.least {
		return err
	}
	if err := s.release(); err != nil {
		return err
	}
	if free, err = s.available(); err != nil || free >= s.least {
		return err
	}
	return fmt.Errorf("%d KiB free: %w", free>>10, ErrFull)
}

// reserve makes the reserve if it is missing and the disk has room for it above the floor.
func (s space) reserve() error {
	info, err := os.Stat(s.files.reserved())
	if err == nil && info.Size() == reserveSize {
		return nil
	}
	free, err := s.available()
	if err != nil || free < s.floor+reserveSize {
		return err
	}
	f, err := os.OpenFile(s.files.reserved(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(allocate(f, reserveSize), f.Close())
}

// release removes the reserve.
func (s space) release() error {
	err := os.Remove(s.files.reserved())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// available returns the free space that this process may use, in bytes.
func (s space) available() (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(string(s.files), &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", string(s.files), err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// exhausted reports whether a write failed because the disk, or what its owner may use of it, is full.
func exhausted(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
