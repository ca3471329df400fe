package landlock

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cage is a thread under the rules of one run. Processes started from it inherit the rules and cannot drop them. Other
// threads of this process are not affected.
type cage struct {
	work chan func()
	done chan struct{}

	listener *os.File // listener of the system call filter
	scoped   bool     // signals of this thread reach only processes of the run
}

// newCage starts a thread and puts it under the rules and the filter. scoped means that the rules confine signals.
func newCage(r *rules, filter []byte, scoped bool) (*cage, error) {
	c := &cage{work: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go c.live(ready, func() error { return c.lock(r, filter, scoped) })
	return c, <-ready
}

// live runs on the thread: it puts itself under the rules, calls the functions that do sends, and ends.
func (c *cage) live(ready chan<- error, lock func() error) {
	runtime.LockOSThread() // never unlocked, so the runtime ends the thread with the goroutine
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot end. While this goroutine holds it, the next one gets another.
		go c.live(ready, lock)
		<-c.done
		runtime.UnlockOSThread()
		return
	}
	defer close(c.done)
	err := lock()
	ready <- err
	if err != nil {
		return
	}
	for f := range c.work {
		f()
	}
}

// do calls f on the thread and waits for it. f cannot open files, because the rules apply to this thread too.
func (c *cage) do(f func()) {
	finished := make(chan struct{})
	c.work <- func() { defer close(finished); f() }
	<-finished
}

// close ends the thread.
func (c *cage) close() {
	close(c.work)
	<-c.done
}

// lock puts the thread under the rules.
func (c *cage) lock(r *rules, filter []byte, scoped bool) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	// If guild runs as root, the thread drops all capabilities, and with no_new_privs the programs that it executes get
	// none.
	unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // old kernels have no ambient capabilities
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("restrict a thread: %w", errno)
	}
	// killAll sends kill(-1). Check first that no outside process can be signalled.
	c.scoped = scoped && unix.Kill(1, 0) == unix.EPERM && unix.Kill(unix.Getppid(), 0) == unix.EPERM
	return c.filter(filter)
}

// filter installs a system call filter on the thread and keeps its listener.
func (c *cage) filter(program []byte) error {
	const instruction = int(unsafe.Sizeof(unix.SockFilter{}))
	if len(program) == 0 {
		return errors.New("no system call filter for this processor")
	}
	p := unix.SockFprog{
		Len: uint16(len(program) / instruction), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0])),
	}
	for _, more := range []uintptr{unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0} { // the first exists since Linux 5.19
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|more, uintptr(unsafe.Pointer(&p)))
		if errno == 0 {
			c.listener = os.NewFile(fd, "seccomp")
			return nil
		}
		if errno != unix.EINVAL {
			return fmt.Errorf("seccomp: %w", errno)
		}
	}
	return errors.New("seccomp: no user notification")
}

// killAll sends SIGKILL to every process in the cage at once, if signals are scoped.
func (c *cage) killAll() {
	if c.scoped {
		c.do(func() { unix.Kill(-1, unix.SIGKILL) })
	}
}
