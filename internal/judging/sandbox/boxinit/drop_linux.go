package main

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/namespaces/plan"
)

// lastCapability is greater than any kernel's last capability.
const lastCapability = 63

// rise waits until the namespace has users, and makes this thread its root if there are several.
func (f *first) rise() error {
	var b [1]byte
	n, err := unix.Read(int(f.report), b[:])
	for err == unix.EINTR {
		n, err = unix.Read(int(f.report), b[:])
	}
	if n != 1 || b[0] != plan.Begin {
		return failure{"wait for the users", err}
	}
	if !f.plan.Change {
		return nil
	}
	return become(0)
}

// dropPrivileges makes this thread, and what it starts, an ordinary user for good. It uses raw system calls, because
// the wrappers of the syscall package change all threads.
func dropPrivileges(p *plan.Plan) error {
	for c := range lastCapability + 1 {
		if unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0) != nil {
			break // the kernel has no more
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return failure{"drop ambient capabilities", err}
	}
	if p.Change {
		if err := become(uintptr(p.User)); err != nil {
			return err
		}
	}
	none := [2]unix.CapUserData{}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return failure{"drop capabilities", err}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return failure{"no_new_privs", err}
	}
	return nil
}

// become changes to another user and group, without supplementary groups.
func become(id uintptr) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return failure{"setgroups", errno}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); errno != 0 {
		return failure{"setresgid", errno}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
		return failure{"setresuid", errno}
	}
	return nil
}

// installFilter installs a filter on this thread. With asking it returns the filter's listener.
func installFilter(program []byte, asking bool) (int, error) {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	if len(program)%size != 0 || len(program)/size > unix.BPF_MAXINSNS {
		return -1, unix.EINVAL
	}
	fprog := unix.SockFprog{Len: uint16(len(program) / size), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	set := func(flags uintptr) (int, unix.Errno) {
		fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
		return int(fd), errno
	}
	if !asking {
		if _, errno := set(0); errno != 0 {
			return -1, errno
		}
		return -1, nil
	}
	// While a call waits for the supervisor, only a fatal signal should interrupt it, if the kernel supports that.
	fd, errno := set(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errno == unix.EINVAL {
		fd, errno = set(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	if errno != 0 {
		return -1, errno
	}
	return fd, nil
}
