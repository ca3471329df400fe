package main

import (
	"path"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/namespaces/plan"
)

// ownInodes is how many directories the scratch file system has at first, at most.
const ownInodes = 16

// makeScratch makes one temporary file system and returns its parts as detached mounts. Its top is in none of them, so
// that no part can be reached from another; it is unmounted with the old root.
func (f *first) makeScratch() ([]int, error) {
	s := f.plan.Scratch
	if len(s.Parts) == 0 {
		return nil, nil
	}
	whole, err := mountNew("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		"size", strconv.FormatInt(s.Bytes, 10), "nr_inodes", strconv.FormatInt(s.Inodes+ownInodes, 10), "mode", "0755")
	if err != nil {
		return nil, err
	}
	defer unix.Close(whole)
	top, err := attach(whole, scratchAnchors)
	if err != nil {
		return nil, err
	}
	parts := make([]int, len(s.Parts))
	for i, p := range s.Parts {
		if parts[i], err = f.makePart(p, path.Join(top, strconv.Itoa(i))); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// makePart makes one directory and returns it as a detached mount.
func (f *first) makePart(p plan.Part, dir string) (int, error) {
	if err := unix.Mkdir(dir, p.Mode); err != nil {
		return -1, failure{"mkdir for " + p.Inside, err}
	}
	if p.Mine {
		if err := f.give(dir); err != nil {
			return -1, err
		}
	}
	for _, name := range p.Dirs {
		name = path.Join(dir, name)
		if err := unix.Mkdir(name, 0o755); err != nil {
			return -1, failure{"mkdir for " + p.Inside, err}
		}
		if err := f.give(name); err != nil {
			return -1, err
		}
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, failure{"open_tree for " + p.Inside, err}
	}
	return fd, nil
}

// listen makes the socket of the plan's port and passes it out. The connections to it are accepted by guild, outside of
// the network namespace.
func (f *first) listen() error {
	if f.plan.Port == 0 {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failure{"socket for the port", err}
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: f.plan.Port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return failure{"bind the port", err}
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return failure{"listen on the port", err}
	}
	f.report.send(plan.Message{Kind: plan.Serving}, fd)
	return nil
}

// startLoopback sets the loopback up, which also gives it its addresses.
func startLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failure{"socket for the loopback", err}
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return failure{"loopback", err}
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(request))); errno != 0 {
		return failure{"start the loopback", errno}
	}
	return nil
}
