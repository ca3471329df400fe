package bubblewrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
)

// firstStep is our side of what the shell does in the sandbox before the command: we give it the copies, and
// take hold of the file system of the run before anything of a stranger's can have changed it.
type firstStep struct {
	copies, done     *os.File // the files to unpack; a byte when the world stands, and one when all is laid out
	copiesFD, doneFD string   // the same inside

	scratch *os.File // the directory sandbox.Box; nil until it is held
	laidOut bool
	err     error
}

// needsFirstStep reports whether a run has something to lay out or to collect.
func needsFirstStep(s sandbox.Spec) bool {
	return len(s.Collect) > 0 || len(s.Writable()) > 0
}

// newFirstStep hands its two descriptors to the child. They must be below 10: a plain shell knows no others.
func newFirstStep(fds *descriptors) (*firstStep, error) {
	var f firstStep
	var err error
	if f.copies, f.copiesFD, err = fds.in(); err != nil {
		return nil, err
	}
	f.done, f.doneFD, err = fds.out()
	return &f, err
}

// run plays our part, with the copies to lay out. It ends with the shell at the latest.
func (f *firstStep) run(first int, copies []sandbox.Copy) {
	defer f.copies.Close()
	var b [1]byte
	if n, _ := f.done.Read(b[:]); n == 0 {
		return
	}
	if f.scratch, f.err = os.OpenFile(fmt.Sprintf("/proc/%d/root%s", first, sandbox.Box), unix.O_PATH|unix.O_DIRECTORY, 0); f.err != nil {
		return
	}
	if err := sandbox.WriteCopies(f.copies, copies); err != nil {
		if !errors.Is(err, unix.EPIPE) && !errors.Is(err, os.ErrClosed) {
			f.err = err
		}
		return
	}
	f.copies.Close()
	n, _ := f.done.Read(b[:])
	f.laidOut = n > 0
}

// used is how much of the file system is, and whether nothing more can be, now that the run has ended.
func (f *firstStep) used() (bytes, inodes int64, full bool) {
	var st unix.Statfs_t
	if f.scratch == nil || unix.Fstatfs(int(f.scratch.Fd()), &st) != nil {
		return 0, 0, false
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Files - st.Ffree), st.Bavail == 0 || st.Ffree == 0
}

// collect writes what the run leaves, which nothing changes any more, and warns of what it left out.
func (f *firstStep) collect(w io.Writer, s sandbox.Spec, res *sandbox.Result) error {
	work, err := f.workspace()
	if err != nil {
		res.Warnings = append(res.Warnings, err.Error())
		_, err := sandbox.WriteFiles(w, nil, nil, s.Limits) // a stream of no files
		return err
	}
	defer work.Close()
	left, err := sandbox.WriteFiles(w, work, s.Collect, s.Limits)
	res.LeaveOut(left)
	return err
}

// Why nothing can be collected.
var (
	errGone       = errors.New("the workspace is gone")
	errUnreadable = errors.New("the workspace cannot be read")
)

// workspace opens the workspace, in whose place the run may have put anything.
func (f *firstStep) workspace() (*os.Root, error) {
	box, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.scratch.Fd()))
	if err != nil {
		return nil, errUnreadable
	}
	defer box.Close()
	name := path.Base(sandbox.Workspace)
	if info, err := box.Lstat(name); err != nil || !info.IsDir() {
		return nil, errGone
	}
	work, err := box.OpenRoot(name)
	if err != nil {
		return nil, errUnreadable
	}
	return work, nil
}

func (f *firstStep) close() {
	if f.scratch != nil {
		f.scratch.Close()
	}
}
