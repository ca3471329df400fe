package main

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/namespaces/plan"
)

// first is the first process.
type first struct {
	plan   *plan.Plan
	report control
	copies int   // descriptors of our own, -1 if the plan has none
	files  int   //
	trees  []int //
	work   int   // the directory to collect from, opened before the command can move it
}

// hold is the argument of a process that only provides its namespaces, until its standard input ends.
const hold = "hold"

func run() {
	if len(os.Args) == 2 && os.Args[1] == hold {
		unix.Read(0, make([]byte, 1))
		return
	}
	// The owner of new files is set per thread, so stay on this one.
	runtime.LockOSThread()
	f, err := receive()
	if err != nil {
		syscall.Exit(2) // started by hand, so there is no socket to report to
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
	if err := f.listen(); err != nil {
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

// settle prepares this process: the command cannot see its memory, and it ends with the process that started
// it.
func (f *first) settle() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failure{"prctl dumpable", err}
	}
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&[]byte("box\x00")[0])), 0, 0, 0) // else it is a number
	unix.Umask(0)
	if f.plan.Guard {
		shrug()
	}
	go f.report.endWithParent()
	return nil
}

// reap waits for all children until the command has ended, kills the rest, and returns the command's status. A
// command that could not be started has a status already.
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
	// The kernel lets no process be created while it sends a signal to all of them.
	unix.Kill(-1, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			return status
		}
	}
}

// measure returns what the run used. It has ended.
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
