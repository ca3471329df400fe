package main

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/namespaces/plan"
)

// Accesses that change files, by the version of Landlock's interface that added them. Reading is not restricted:
// files that must not be read are not in the file system.
const (
	changesDir = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	changesFile1 = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	changesFile3 = changesFile1 | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	changesFile5 = changesFile3 | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// obey puts this thread, and what it starts, under Landlock's rules: files can be changed only below the writable
// paths, and no outside process can be signalled or reached by an abstract socket.
func obey(r plan.Rules) error {
	if r.ABI == 0 {
		return nil
	}
	file := uint64(changesFile1)
	attr := unix.LandlockRulesetAttr{}
	if r.ABI >= 3 {
		file = changesFile3
	}
	if r.ABI >= 5 {
		file = changesFile5
	}
	if r.ABI >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	attr.Handled_access_fs = changesDir | file
	ruleset, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), rulesetSize(r.ABI), 0)
	if errno != 0 {
		return failure{"landlock", errno}
	}
	defer unix.Close(int(ruleset))
	for _, place := range r.Writable {
		if err := allow(ruleset, place, file); err != nil {
			return err
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return failure{"landlock", errno}
	}
	return nil
}

// rulesetSize returns the size of the attributes that a version knows. An older kernel accepts no longer ones.
func rulesetSize(abi int) uintptr {
	var a unix.LandlockRulesetAttr
	switch {
	case abi < 4:
		return unsafe.Offsetof(a.Handled_access_net)
	case abi < 6:
		return unsafe.Offsetof(a.Scoped)
	default:
		return unsafe.Offsetof(a.Scoped) + unsafe.Sizeof(a.Scoped)
	}
}

// allow allows all changes to a path and everything below it. A path that does not exist is no error.
func allow(ruleset uintptr, place string, file uint64) error {
	fd, err := unix.Open(place, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return failure{"landlock " + place, err}
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: file, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		rule.Allowed_access |= changesDir
	}
	if _, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return failure{"landlock " + place, errno}
	}
	return nil
}
