package namespaces

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// streams holds the pipes and sockets of a run.
type streams struct {
	inside []*os.File // the run's ends, closed here once it has started
	stdio  [3]*os.File
	passed []*os.File // the command's descriptors from 3 on
	own    []*os.File // the first process's further descriptors

	stdin, copies *os.File      // our ends
	fed           chan struct{} // closed when the caller's input has been copied; nil if there is none
}

// out creates a pipe that the run writes to, and copies it to w until the last writer has closed it.
func (r *coldRun) out(w io.Writer) (*os.File, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.ends.inside = append(r.ends.inside, theirs)
	kept := r.flood.Keep(w, r.spec.Limits.Output)
	r.pump.Go(func() {
		defer ours.Close()
		if _, err := io.Copy(kept, ours); err != nil {
			io.Copy(io.Discard, ours) // a failing writer of the caller must not block the run
		}
	})
	return theirs, nil
}

// in creates a pipe that the run reads from.
func (r *coldRun) in() (ours, theirs *os.File, err error) {
	theirs, ours, err = os.Pipe()
	if err == nil {
		r.ends.inside = append(r.ends.inside, theirs)
	}
	return ours, theirs, err
}

// open creates all pipes, those of the first process in the order of the plan.
func (r *coldRun) open() error {
	e := &r.ends
	var err error
	if e.stdin, e.stdio[0], err = r.in(); err != nil {
		return err
	}
	for i, w := range []io.Writer{r.streams.Stdout, r.streams.Stderr, r.streams.Results} {
		theirs, err := r.out(w)
		if err != nil {
			return err
		}
		if i < 2 {
			e.stdio[1+i] = theirs
		} else {
			e.passed = append(e.passed, theirs)
		}
	}
	if r.streams.Channel != nil {
		e.passed = append(e.passed, r.streams.Channel)
	}
	if r.plan.Copies {
		ours, theirs, err := r.in()
		if err != nil {
			return err
		}
		e.copies, e.own = ours, append(e.own, theirs)
	}
	if len(r.plan.Collect) > 0 {
		ours, theirs, err := os.Pipe()
		if err != nil {
			return err
		}
		e.inside, e.own = append(e.inside, theirs), append(e.own, theirs)
		r.pump.Go(func() {
			defer ours.Close()
			r.skipped, r.collected = sandbox.SiftFiles(r.streams.Files, ours, r.plan.Collect, r.spec.Limits)
			io.Copy(io.Discard, ours)
		})
	}
	// The plan refers to these by their position after the pipes.
	e.own = append(e.own, r.trees.files...)
	return nil
}

// sendCopies writes header and then the run's copies to a pipe, and closes it. It is not an error if the first process
// ends before it has read them.
func (r *coldRun) sendCopies(to *os.File, header []byte) {
	r.pump.Go(func() {
		defer to.Close()
		_, err := to.Write(header)
		if err == nil {
			err = sandbox.WriteCopies(to, r.spec.Copies)
		}
		if !errors.Is(err, unix.EPIPE) && !errors.Is(err, os.ErrClosed) {
			r.copied = err
		}
	})
}

// serve passes the socket that listens inside of the run to the caller.
func (r *coldRun) serve(socket *os.File) error {
	defer socket.Close() // FileListener has its own descriptor
	l, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("the port of the run: %w", err)
	}
	r.served = l
	r.pump.Go(func() { r.streams.Serve(l) })
	return nil
}

// stopServing ends serve.
func (r *coldRun) stopServing() {
	if r.served != nil {
		r.served.Close()
	}
}

// copyStdin starts to copy the caller's input to the command.
func (r *coldRun) copyStdin() {
	if r.streams.Stdin == nil {
		r.ends.stdin.Close()
		return
	}
	r.ends.fed = make(chan struct{})
	go func() {
		defer close(r.ends.fed)
		defer r.ends.stdin.Close()
		io.Copy(r.ends.stdin, r.streams.Stdin)
	}()
}

// stdinPatience limits the time that stopStdin waits for a blocked Read of the caller's input, such as a terminal.
// After that, the goroutine remains and ends with that Read.
const stdinPatience = 100 * time.Millisecond

// stopStdin ends copyStdin.
func (r *coldRun) stopStdin() {
	if r.ends.stdin != nil {
		r.ends.stdin.Close()
	}
	if r.ends.fed == nil {
		return
	}
	if d, ok := r.streams.Stdin.(interface{ SetReadDeadline(time.Time) error }); ok {
		if d.SetReadDeadline(time.Unix(1, 0)) == nil {
			defer d.SetReadDeadline(time.Time{})
		}
	}
	select {
	case <-r.ends.fed:
	case <-time.After(stdinPatience):
	}
}

// close closes all ends that are still open. Then the goroutines that read the run's output end.
func (e *streams) close() {
	closeAll(e.inside)
	if e.stdin != nil {
		e.stdin.Close()
	}
	if e.copies != nil {
		e.copies.Close()
	}
}
