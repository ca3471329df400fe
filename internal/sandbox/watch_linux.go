package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// How often the limits that the kernel does not enforce are looked at: often at first, for most runs are short.
const (
	firstLook = 10 * time.Millisecond
	lookEvery = 50 * time.Millisecond
)

// watch waits for the end, which it brings about when a limit is passed or ctx ends. It returns the limit.
func (r *run) watch(ctx context.Context, ended <-chan error) (killed string, err error) {
	wall := time.NewTimer(r.spec.Limits.Wall)
	defer wall.Stop()
	look := time.NewTimer(firstLook)
	defer look.Stop()
	scratch := &scratch{first: r.first, limit: r.spec.Limits.Disk}
	defer scratch.close()
	over, cancelled := r.flood.over, ctx.Done()
	for {
		if killed != "" || err != nil {
			r.kill()
			over, cancelled, wall.C, look.C = nil, nil, nil, nil
		}
		select {
		case end := <-ended:
			return killed, errors.Join(err, waitError(end))
		case <-cancelled:
			err = fmt.Errorf("bubblewrap: %w", context.Cause(ctx))
		case <-wall.C:
			killed = KilledWall
		case <-over:
			killed = KilledOutput
		case <-look.C:
			killed = r.look(scratch)
			look.Reset(lookEvery)
		}
	}
}

// waitError leaves out what is about the command and not about the sandbox.
func waitError(err error) error {
	if _, exited := errors.AsType[*exec.ExitError](err); exited || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// look names the limit that the run is over, if any.
func (r *run) look(s *scratch) string {
	l, now := r.spec.Limits, familyOf(r.first)
	if r.group != nil {
		if killed := r.group.exceeded(); killed != "" {
			return killed
		}
		if t, counted := r.group.cpuTime(); counted {
			now.cpu = t
		}
	}
	r.peak, r.cpu = max(r.peak, now.memory), max(r.cpu, now.cpu)
	switch {
	case now.cpu >= l.CPU:
		return KilledCPU
	case s.full():
		return KilledDisk
	case r.group != nil:
		return ""
	case now.threads >= l.Pids:
		return KilledPids
	case now.memory+s.used() >= l.Memory && now.proportional()+s.used() >= l.Memory:
		return KilledMemory
	default:
		return ""
	}
}

// scratch looks at the sandbox's temporary file system from outside.
type scratch struct {
	first int
	limit int64
	fd    int // 0 until it is mounted
}

func (s *scratch) stat() (unix.Statfs_t, bool) {
	var st unix.Statfs_t
	if s.fd == 0 {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", s.first, box), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return st, false
		}
		s.fd = fd
	}
	if err := unix.Fstatfs(s.fd, &st); err != nil {
		return st, false
	}
	if st.Type != unix.TMPFS_MAGIC { // not there yet: this is the host's
		s.close()
		return st, false
	}
	return st, true
}

// full reports whether nothing more can be written.
func (s *scratch) full() bool {
	st, ok := s.stat()
	return ok && (st.Bavail == 0 || st.Ffree == 0)
}

// used is how many bytes are written.
func (s *scratch) used() int64 {
	st, _ := s.stat()
	return int64(st.Blocks-st.Bfree) * st.Bsize
}

func (s *scratch) close() {
	if s.fd != 0 {
		unix.Close(s.fd)
	}
	s.fd = 0
}
