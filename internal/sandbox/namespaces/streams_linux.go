package namespaces

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
)

// streams are our side of what flows in and out of a run.
type streams struct {
	inside []*os.File // the run's ends; they are the run's alone once it has begun
	stdio  [3]*os.File
	passed []*os.File // the command's from 3 on
	own    []*os.File // the first process's

	stdin, copies *os.File // our ends
	fed           chan struct{}
}

// out makes a pipe that the run writes, and copies it to w, until the last writer has ended.
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
			io.Copy(io.Discard, ours) // the run does not suffer from the caller's writer
		}
	})
	return theirs, nil
}

// in makes a pipe that the run reads.
func (r *coldRun) in() (ours, theirs *os.File, err error) {
	theirs, ours, err = os.Pipe()
	if err == nil {
		r.ends.inside = append(r.ends.inside, theirs)
	}
	return ours, theirs, err
}

// open makes everything that flows.
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
	return r.openOwn()
}

// openOwn makes what the first process has for itself, in the order of the plan.
func (r *coldRun) openOwn() error {
	e := &r.ends
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
			r.left, r.collected = sandbox.SiftFiles(orDiscard(r.streams.Files), ours, r.plan.Collect, r.spec.Limits)
			io.Copy(io.Discard, ours)
		})
	}
	e.own = append(e.own, r.trees.files...)
	return nil
}

// sendCopies sends the run's files. The first process may end before it has read them.
func (r *coldRun) sendCopies() {
	if r.ends.copies == nil {
		return
	}
	r.pump.Go(func() {
		defer r.ends.copies.Close()
		err := sandbox.WriteCopies(r.ends.copies, r.spec.Copies)
		if !errors.Is(err, unix.EPIPE) && !errors.Is(err, os.ErrClosed) {
			r.copied = err
		}
	})
}

// feed copies the caller's input in.
func (r *coldRun) feed() {
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

// patience is how long a reader may take to notice that nobody wants its input any more. One that does not, a
// terminal perhaps, is left to itself.
const patience = 100 * time.Millisecond

// starve ends feed.
func (r *coldRun) starve() {
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
	case <-time.After(patience):
	}
}

// close closes every end that is still open. Those of the run's streams end with it.
func (e *streams) close() {
	closeAll(e.inside)
	if e.stdin != nil {
		e.stdin.Close()
	}
	if e.copies != nil {
		e.copies.Close()
	}
}
