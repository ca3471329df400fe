package main

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// layOut unpacks the run's files as its user, makes the read-only ones read-only, and opens the directory to collect
// from. No code of a stranger runs yet, but names and contents are a stranger's.
func (f *first) layOut() error {
	if f.copies >= 0 {
		if err := f.unpackCopies(); err != nil {
			return err
		}
	}
	for _, at := range f.plan.ReadOnly {
		if err := f.freeze(at); err != nil {
			return err
		}
	}
	if len(f.plan.Collect) == 0 {
		return nil
	}
	var err error
	if f.work, err = unix.Open(f.plan.Workdir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return failure{"open " + f.plan.Workdir, err}
	}
	return nil
}

func (f *first) unpackCopies() error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failure{"open /", err}
	}
	defer unix.Close(root)
	if f.plan.Change { // files that this thread makes belong to the command's user
		unix.Setfsgid(f.plan.User)
		unix.Setfsuid(f.plan.User)
		defer unix.Setfsgid(0)
		defer unix.Setfsuid(0)
	}
	u := unpacker{root: root, places: f.plan.Places, from: newTarReader(f.copies), parent: -1}
	defer u.close()
	err = u.run()
	unix.Close(f.copies)
	if err != nil {
		return failure{"unpack " + u.name, err}
	}
	return nil
}

// freeze makes a directory read-only for all processes.
func (f *first) freeze(at string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, at, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return failure{"open_tree " + at, err}
	}
	defer unix.Close(fd)
	if err := restrict(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
		return failure{"mount_setattr " + at, err}
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return failure{"mount " + at, err}
	}
	return nil
}

// unpacker writes the files of a tar stream below a directory.
type unpacker struct {
	root   int
	places []string // directories where files may be
	from   *tarReader
	name   string // of the current entry
	dir    string // the directory that parent is open for; consecutive files are mostly in the same one
	parent int    // -1 if none is open
}

var errPlace = errors.New("no place for files")

func (u *unpacker) run() error {
	for {
		e, err := u.from.next()
		if err != nil || e == nil {
			return err
		}
		u.name = strings.TrimSuffix(e.name, "/")
		if !u.allows(u.name) {
			return errPlace
		}
		if e.dir {
			err = u.open(u.name)
		} else {
			err = u.file(e)
		}
		if err != nil {
			return err
		}
	}
}

// allows reports whether a name is clean and in one of the places.
func (u *unpacker) allows(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || len(part) > 255 || strings.IndexByte(part, 0) >= 0 {
			return false
		}
	}
	for _, p := range u.places {
		if "/"+name == p || strings.HasPrefix("/"+name, p+"/") {
			return true
		}
	}
	return false
}

// open makes a directory and its parents, and keeps it open. It follows no link on the way.
func (u *unpacker) open(dir string) error {
	if u.parent >= 0 && dir == u.dir {
		return nil
	}
	u.close()
	fd, err := unix.FcntlInt(uintptr(u.root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(dir, "/") {
		if err := unix.Mkdirat(fd, part, 0o755); err != nil && err != unix.EEXIST && err != unix.EROFS && err != unix.EACCES {
			unix.Close(fd)
			return err
		}
		next, err := unix.Openat(fd, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			return err
		}
		fd = next
	}
	u.dir, u.parent = dir, fd
	return nil
}

func (u *unpacker) close() {
	if u.parent >= 0 {
		unix.Close(u.parent)
	}
	u.parent = -1
}

// file writes one file. It replaces an earlier one of the same name.
func (u *unpacker) file(e *entry) error {
	slash := strings.LastIndexByte(u.name, '/')
	if slash < 0 {
		return errPlace
	}
	if err := u.open(u.name[:slash]); err != nil {
		return err
	}
	base := u.name[slash+1:]
	if err := unix.Unlinkat(u.parent, base, 0); err != nil && err != unix.ENOENT {
		return err
	}
	fd, err := unix.Openat(u.parent, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644|e.mode&0o111)
	if err != nil {
		return err
	}
	err = u.from.content(e.size, func(b []byte) error { return writeAll(fd, b) })
	closed := unix.Close(fd)
	if err == nil {
		err = closed
	}
	return err
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		default:
			b = b[n:]
		}
	}
	return nil
}
