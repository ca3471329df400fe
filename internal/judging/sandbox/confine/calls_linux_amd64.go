package confine

import "golang.org/x/sys/unix"

// arch is the kernel's identifier of this architecture.
const arch = unix.AUDIT_ARCH_X86_64

// otherABI is the bit that marks a system call of the x32 ABI in its number.
const otherABI = 0x40000000

// plainHere and wideHere extend plain and wide with calls that only this architecture has, mostly older forms.
var (
	plainHere = []uint32{
		unix.SYS_ARCH_PRCTL, unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_READLINK,
		unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_GETDENTS, unix.SYS_MKDIR,
		unix.SYS_RMDIR, unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_SYMLINK, unix.SYS_CHMOD,
		unix.SYS_CREAT, unix.SYS_UTIMES, unix.SYS_UTIME, unix.SYS_FUTIMESAT, unix.SYS_TIME, unix.SYS_ALARM,
		unix.SYS_PAUSE, unix.SYS_GETPGRP, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT,
		unix.SYS_URETPROBE, unix.SYS_UPROBE, // the kernel inserts these when the host is traced
	}
	wideHere = []uint32{
		unix.SYS_EVENTFD, unix.SYS_SIGNALFD, unix.SYS_INOTIFY_INIT,
		unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_MKNOD,
	}
)

// pretendedHere extends pretended.
var pretendedHere = []uint32{
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
}
