package bubblewrap

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// descriptors are the files handed to a child, numbered from 3 in the order in which they are added, and our
// ends of the pipes among them.
type descriptors struct {
	child []*os.File
	ours  []*os.File
}

// give hands f to the child and returns the number it has there.
func (d *descriptors) give(f *os.File) string {
	d.child = append(d.child, f)
	return strconv.Itoa(2 + len(d.child))
}

// memory hands content to the child as a file that exists in memory only.
func (d *descriptors) memory(name string, content []byte) (string, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("memfd %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	number := d.give(f)
	if _, err := f.Write(content); err != nil {
		return "", fmt.Errorf("memfd %s: %w", name, err)
	}
	_, err = f.Seek(0, io.SeekStart)
	return number, err
}

// out makes a pipe that the child writes: our end and its number there.
func (d *descriptors) out() (*os.File, string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	d.ours = append(d.ours, r)
	return r, d.give(w), nil
}

// in makes a pipe that the child reads: our end and its number there.
func (d *descriptors) in() (*os.File, string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	d.ours = append(d.ours, w)
	return w, d.give(r), nil
}

// started closes what is the child's alone.
func (d *descriptors) started() {
	for _, f := range d.child {
		f.Close()
	}
	d.child = nil
}

// close closes everything that is still open.
func (d *descriptors) close() {
	d.started()
	for _, f := range d.ours {
		f.Close() // some are closed already
	}
}
