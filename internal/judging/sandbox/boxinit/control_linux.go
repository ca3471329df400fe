package main

import (
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/namespaces/plan"
)

// failure is an error with the step that failed.
type failure struct {
	what string
	err  error
}

func (f failure) Error() string { return f.what + ": " + f.err.Error() }

// control is the socket to the process that started this one.
type control int

func (c control) send(m plan.Message, descriptors ...int) {
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	if unix.Sendmsg(int(c), m.Encode(), rights, nil, unix.MSG_NOSIGNAL) != nil {
		syscall.Exit(3) // the other side has ended
	}
}

// failed reports why there is no run.
func (c control) failed(err error) {
	m := plan.Message{Kind: plan.Failed, Text: err.Error()}
	if f, ok := err.(failure); ok {
		m.Text = f.what
		if errno, ok := f.err.(syscall.Errno); ok {
			m.Errno = int(errno)
		} else {
			m.Text = f.Error()
		}
	}
	c.send(m)
}

// endWithParent waits for the end of the socket, and then ends this process.
func (c control) endWithParent() {
	var b [1]byte
	for {
		if n, err := unix.Read(int(c), b[:]); err != unix.EINTR && n <= 0 {
			syscall.Exit(4)
		}
	}
}

// receive reads the plan and takes the descriptors that this process was started with, once its namespace has users.
func receive() (*first, error) {
	next, err := planFD()
	if err != nil {
		return nil, err
	}
	encoded, err := readAll(next)
	if err != nil {
		return nil, err
	}
	f := &first{report: control(next + 1), copies: -1, files: -1, work: -1}
	if f.plan, err = plan.Decode(encoded); err != nil {
		f.report.failed(err)
		return nil, err
	}
	if err := f.rise(); err != nil {
		f.report.failed(err)
		return nil, err
	}
	next += 2
	take := func() int {
		unix.CloseOnExec(next)
		next++
		return next - 1
	}
	unix.CloseOnExec(next - 2)
	unix.CloseOnExec(next - 1)
	if f.plan.Copies {
		f.copies = take()
	}
	if len(f.plan.Collect) > 0 {
		f.files = take()
	}
	for range f.plan.Trees {
		f.trees = append(f.trees, take())
	}
	// Descriptors that the starter had inherited itself are not for the run.
	if err := unix.CloseRange(uint(next), math.MaxUint32, 0); err != nil {
		f.report.failed(failure{"close_range", err})
		return nil, err
	}
	return f, nil
}

// planFD returns the number in the first argument.
func planFD() (int, error) {
	if len(os.Args) != 2 {
		return 0, unix.EINVAL
	}
	return strconv.Atoi(os.Args[1])
}

// readAll reads a file from its beginning and closes it.
func readAll(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	b := make([]byte, st.Size)
	for done := 0; done < len(b); {
		n, err := unix.Pread(fd, b[done:], int64(done))
		if n <= 0 {
			return nil, failure{"read the plan", err}
		}
		done += n
	}
	return b, nil
}
