package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lock keeps other processes out of a journal's directory. The server has no lock of its own, and entries that a second
// process appended would be lost. The system releases the lock when the process ends, however it ends.
type lock struct{ f *os.File }

// moment is the shortest wait for a lock. A program that its last holder has just started inherits the lock for a moment,
// until the program runs.
const moment = 200 * time.Millisecond

// acquire takes the lock. If another process still has it after the wait, the error is a *LockedError.
func acquire(ctx context.Context, path string, wait time.Duration) (*lock, error) {
	const pause = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, max(wait, moment))
	defer cancel()
	for {
		l, err := tryAcquire(path)
		if !errors.Is(err, ErrLocked) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// tryAcquire is acquire without waiting.
func tryAcquire(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(&LockedError{path, holder(f)}, f.Close())
	}
	if err == nil {
		err = sign(f)
	}
	if err != nil && !exhausted(err) { // it is locked all the same
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &lock{f}, nil
}

// release releases the lock. The file stays: if it were removed, two processes could lock two different files.
func (l *lock) release() error { return l.f.Close() }

// sign writes our process id into the file, for the error that another process gets.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	return err
}

// holder returns the id of the process that has the lock, 0 if unknown.
func holder(f *os.File) int {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0) // the file is shorter, so there is an error
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}
