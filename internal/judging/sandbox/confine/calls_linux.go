//go:build linux && (amd64 || arm64)

package confine

import (
	"slices"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// plain lists the system calls of a computation that reads and writes files, has threads and starts processes. An
// interpreter and a test framework need these for an ordinary test.
var plain = []uint32{
	// Files that are open.
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64,
	unix.SYS_LSEEK, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FCNTL,
	unix.SYS_IOCTL, unix.SYS_FSTAT, unix.SYS_FTRUNCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FLOCK,
	unix.SYS_PIPE2, unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_FADVISE64, unix.SYS_SENDFILE,
	unix.SYS_COPY_FILE_RANGE, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,

	// Files by name.
	unix.SYS_OPENAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2,
	unix.SYS_READLINKAT, unix.SYS_GETDENTS64, unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_MKDIRAT,
	unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_UTIMENSAT, unix.SYS_UMASK, unix.SYS_STATFS, unix.SYS_FSTATFS,
	unix.SYS_TRUNCATE,

	// Memory.
	unix.SYS_BRK, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE,
	unix.SYS_MEMBARRIER, unix.SYS_MAP_SHADOW_STACK, unix.SYS_MSEAL,

	// Processes and threads. The flags of clone are checked by cloneFilter.
	unix.SYS_EXECVE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID, unix.SYS_KILL,
	unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETPGID,
	unix.SYS_SETPGID, unix.SYS_GETSID, unix.SYS_SETSID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID,
	unix.SYS_GETEGID, unix.SYS_GETGROUPS, unix.SYS_GETRESUID, unix.SYS_GETRESGID, unix.SYS_PRCTL,
	unix.SYS_PRLIMIT64, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT, unix.SYS_GETRUSAGE, unix.SYS_TIMES,
	unix.SYS_SYSINFO, unix.SYS_UNAME, unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETCPU, unix.SYS_RESTART_SYSCALL,
	unix.SYS_GETRANDOM,

	// Signals and time.
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGSUSPEND,
	unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_SIGALTSTACK, unix.SYS_NANOSLEEP,
	unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY,
	unix.SYS_GETITIMER, unix.SYS_SETITIMER,

	// Existing sockets, such as the channel. socket and connect are checked elsewhere.
	unix.SYS_SOCKETPAIR, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT,
	unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_SHUTDOWN, unix.SYS_BIND,
}

// wide lists the system calls that the standard profile adds: for event loops, servers on the loopback, shared memory,
// databases, and the runtimes of other languages.
var wide = []uint32{
	unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_SPLICE, unix.SYS_TEE,
	unix.SYS_VMSPLICE, unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_SYNC_FILE_RANGE, unix.SYS_FALLOCATE,
	unix.SYS_READAHEAD, unix.SYS_CACHESTAT,

	unix.SYS_OPENAT2, unix.SYS_MKNODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR,
	unix.SYS_FLISTXATTR, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR,
	unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH,
	unix.SYS_INOTIFY_RM_WATCH, unix.SYS_MEMFD_CREATE,

	unix.SYS_MSYNC, unix.SYS_MINCORE, unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MUNLOCK, unix.SYS_MLOCKALL,
	unix.SYS_MUNLOCKALL, unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT, unix.SYS_MBIND,
	unix.SYS_GET_MEMPOLICY, unix.SYS_SET_MEMPOLICY, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMDT,
	unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MSGGET,
	unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR,

	unix.SYS_EXECVEAT, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_SETUID, unix.SYS_SETGID,
	unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETGROUPS,
	unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_CAPGET, unix.SYS_CAPSET, unix.SYS_GETPRIORITY,
	unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_GET, unix.SYS_IOPRIO_SET, unix.SYS_PERSONALITY,
	unix.SYS_GET_ROBUST_LIST, unix.SYS_FUTEX_WAITV, unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_WAIT,
	unix.SYS_FUTEX_REQUEUE, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_SETPARAM,
	unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX,
	unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_RR_GET_INTERVAL, unix.SYS_SCHED_GETATTR,
	unix.SYS_SCHED_SETATTR,

	unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_SIGNALFD4, unix.SYS_TIMER_CREATE,
	unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_DELETE,
	unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME,

	unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2,
	unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_RECVMMSG,
}

// escapes lists system calls that only an attempt to leave the sandbox or to enter another process makes. Such an
// attempt ends the run.
var escapes = map[uint32]string{
	unix.SYS_PTRACE: "ptrace", unix.SYS_PROCESS_VM_READV: "process_vm_readv",
	unix.SYS_PROCESS_VM_WRITEV: "process_vm_writev", unix.SYS_PIDFD_GETFD: "pidfd_getfd",

	unix.SYS_MOUNT: "mount", unix.SYS_UMOUNT2: "umount2", unix.SYS_PIVOT_ROOT: "pivot_root",
	unix.SYS_CHROOT: "chroot", unix.SYS_OPEN_TREE: "open_tree", unix.SYS_OPEN_TREE_ATTR: "open_tree_attr",
	unix.SYS_MOVE_MOUNT: "move_mount", unix.SYS_FSOPEN: "fsopen", unix.SYS_FSCONFIG: "fsconfig",
	unix.SYS_FSMOUNT: "fsmount", unix.SYS_FSPICK: "fspick", unix.SYS_MOUNT_SETATTR: "mount_setattr",
	unix.SYS_UNSHARE: "unshare", unix.SYS_SETNS: "setns", unix.SYS_OPEN_BY_HANDLE_AT: "open_by_handle_at",

	unix.SYS_BPF: "bpf", unix.SYS_PERF_EVENT_OPEN: "perf_event_open", unix.SYS_USERFAULTFD: "userfaultfd",
	unix.SYS_KEYCTL: "keyctl", unix.SYS_ADD_KEY: "add_key", unix.SYS_REQUEST_KEY: "request_key",
	unix.SYS_KEXEC_LOAD: "kexec_load", unix.SYS_KEXEC_FILE_LOAD: "kexec_file_load",
	unix.SYS_INIT_MODULE: "init_module", unix.SYS_FINIT_MODULE: "finit_module",
	unix.SYS_DELETE_MODULE: "delete_module", unix.SYS_REBOOT: "reboot",
}

// quiet fails as on a kernel without it, and is not counted. The C library tries clone3 first for every thread, and
// falls back to clone. A filter can check clone but not clone3, whose arguments are in memory.
const quiet = unix.SYS_CLONE3

// unknown lists calls that fail as on a kernel without them.
var unknown = []uint32{
	quiet, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}

// refused lists calls that fail as for an ordinary user, and are not counted.
var refused = []uint32{
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_KCMP,
}

// allowed returns the calls of a profile that are always allowed, sorted.
func allowed(p sandbox.Profile) []uint32 {
	numbers := slices.Concat(plain, plainHere)
	if p != sandbox.Strict {
		numbers = slices.Concat(numbers, wide, wideHere)
	}
	slices.Sort(numbers)
	return numbers
}
