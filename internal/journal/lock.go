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

// lock is our hold on a journal's directory. The server has none of its own: what a second process appended
// would vanish. The system gives the lock back when the process ends, however it ends.
type lock struct{ f *os.File }

// moment is how long the lock is waited for in any case: a program that the last holder was just starting has it too, until
// it runs.
const moment = 200 * time.Millisecond

// acquire takes the lock, or says who still has it after a while.
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

// tryAcquire takes the lock, or says at once who has it.
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
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &lock{f}, nil
}

// release gives the lock back. The file stays: removing it would let two processes lock two files.
func (l *lock) release() error { return l.f.Close() }

// sign writes our process id into the file, for the message that another process shows.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	return err
}

// holder reads who has the lock, 0 if that is not known.
func holder(f *os.File) int {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0) // short, as a rule
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}
