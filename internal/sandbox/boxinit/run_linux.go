package main

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox/namespaces/plan"
)

// first is the first process.
type first struct {
	plan   *plan.Plan
	report control
	copies int   // descriptors of our own, -1 where the plan has none
	files  int   //
	trees  []int //
	work   int   // the directory to collect from, held before the command can move it
}

// hold is the argument of a process that only lends its namespaces, until its standard input ends.
const hold = "hold"

func run() {
	if len(os.Args) == 2 && os.Args[1] == hold {
		unix.Read(0, make([]byte, 1))
		return
	}
	// What is particular to this thread, as whose files are made, stays on it.
	runtime.LockOSThread()
	f, err := receive()
	if err != nil {
		syscall.Exit(2) // started by hand: there is nobody to tell
	}
	if err := f.run(); err != nil {
		f.report.failed(err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

func (f *first) run() error {
	if err := f.settle(); err != nil {
		return err
	}
	if err := f.build(); err != nil {
		return err
	}
	if err := f.layOut(); err != nil {
		return err
	}
	c, err := f.start()
	if err != nil {
		return err
	}
	ended := plan.Message{Kind: plan.Ended, Status: reap(c)}
	f.measure(&ended)
	f.report.send(ended)
	if len(f.plan.Collect) > 0 {
		f.collect()
	}
	return nil
}

// settle is what the first process does about itself: it hides from the others, and ends with those who started
// it.
func (f *first) settle() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failure{"prctl dumpable", err}
	}
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&[]byte("box\x00")[0])), 0, 0, 0) // else a number
	unix.Umask(0)
	if f.plan.Guard {
		shrug()
	}
	go f.report.endWithParent()
	return nil
}

// reap waits for everything there is until the command has ended, ends the rest, and returns the command's
// status. A command that could not be started has one already.
func reap(c command) uint32 {
	status := c.status
	for c.pid > 0 {
		var ended unix.WaitStatus
		pid, err := unix.Wait4(-1, &ended, 0, nil)
		if pid == c.pid {
			status = uint32(ended)
			break
		}
		if err == unix.ECHILD {
			break
		}
	}
	// The kernel lets nobody be born between the look at all processes and the signal to them.
	unix.Kill(-1, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			return status
		}
	}
}

// measure says what the run, which has ended, used and leaves.
func (f *first) measure(m *plan.Message) {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	m.CPU = (u.Utime.Nano() + u.Stime.Nano()) / 1000
	m.Memory = u.Maxrss << 10
	var st unix.Statfs_t
	if parts := f.plan.Scratch.Parts; len(parts) > 0 && unix.Statfs(parts[0].Inside, &st) == nil {
		m.Disk = int64(st.Blocks-st.Bfree) * int64(st.Bsize)
		m.Full = st.Bavail == 0 || st.Ffree == 0
	}
}
