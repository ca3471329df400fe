package confine

import (
	"bytes"
	"encoding/binary"
	"runtime"

	"golang.org/x/sys/unix"
)

// The system calls that nobody in a sandbox needs. An attempt at one of the first kind is an attempt to get
// out and ends the process; the second kind is refused as a kernel without it would; the third as an ordinary
// user would be.
var (
	escapes = []uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE,
		unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
		unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
	}
	unknown = []uint32{
		unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	}
	refused = []uint32{
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE,
		unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_KCMP,
	}
)

// Offsets in struct seccomp_data; the low half of an argument, on the little-endian machines we know.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
	offsetArg2   = 32
)

// x32 is the bit that marks a system call of the x32 ABI, which would pass under other numbers.
const x32 = 0x40000000

// namespaces are the clone flags that make a namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// architectures maps GOARCH to the kernel's name for it. Elsewhere there is no filter, and Caps says so.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Denylist is the filter for a runner that cannot supervise: a breach ends the process that tries it. Nil for a
// processor that it does not know.
func Denylist() []byte {
	if f := newFilter(); f != nil {
		return f.bytes()
	}
	return nil
}

// filter is a classic BPF program as seccomp(2) takes it.
type filter []unix.SockFilter

// newFilter assembles the denylist; nil for an architecture that it does not know.
func newFilter() filter {
	arch, known := architectures[runtime.GOARCH]
	if !known {
		return nil
	}
	var f filter
	f.load(offsetArch)
	f.unless(unix.BPF_JEQ, arch, unix.SECCOMP_RET_KILL_PROCESS)
	f.load(offsetNumber)
	if runtime.GOARCH == "amd64" {
		f.when(unix.BPF_JGE, x32, unix.SECCOMP_RET_KILL_PROCESS)
	}
	f.each(escapes, unix.SECCOMP_RET_KILL_PROCESS)
	f.each(unknown, fail(unix.ENOSYS))
	f.each(refused, fail(unix.EPERM))
	f.call(unix.SYS_CLONE, cloneFilter())
	f.call(unix.SYS_SOCKET, socketFilter())
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// cloneFilter refuses new namespaces.
func cloneFilter() filter {
	var f filter
	f.load(offsetArg0)
	f.when(unix.BPF_JSET, namespaces, unix.SECCOMP_RET_KILL_PROCESS)
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// socketFilter lets through the families that a network namespace confines: Unix, Internet, and the routing
// netlink that libc asks for its addresses.
func socketFilter() filter {
	var f filter
	f.load(offsetArg0)
	for _, family := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		f.when(unix.BPF_JEQ, family, unix.SECCOMP_RET_ALLOW)
	}
	for _, family := range []uint32{unix.AF_PACKET, unix.AF_VSOCK} {
		f.when(unix.BPF_JEQ, family, unix.SECCOMP_RET_KILL_PROCESS)
	}
	f.unless(unix.BPF_JEQ, unix.AF_NETLINK, fail(unix.EAFNOSUPPORT))
	f.load(offsetArg2)
	f.when(unix.BPF_JEQ, unix.NETLINK_ROUTE, unix.SECCOMP_RET_ALLOW)
	f.end(fail(unix.EAFNOSUPPORT))
	return f
}

// fail is the answer "the call fails with this error".
func fail(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

func (f *filter) add(code uint16, jt, jf uint8, k uint32) {
	*f = append(*f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

// load takes a word of the call into the accumulator.
func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

// end answers.
func (f *filter) end(answer uint32) { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, answer) }

// when answers if the accumulator compares so with k.
func (f *filter) when(comparison uint16, k, answer uint32) {
	f.add(unix.BPF_JMP|comparison|unix.BPF_K, 0, 1, k)
	f.end(answer)
}

// unless answers if it does not.
func (f *filter) unless(comparison uint16, k, answer uint32) {
	f.add(unix.BPF_JMP|comparison|unix.BPF_K, 1, 0, k)
	f.end(answer)
}

// each answers alike for a list of system calls.
func (f *filter) each(numbers []uint32, answer uint32) {
	for _, n := range numbers {
		f.when(unix.BPF_JEQ, n, answer)
	}
}

// call goes through body, which answers in every case, if the system call is n.
func (f *filter) call(n uint32, body filter) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(len(body)), n)
	*f = append(*f, body...)
}

// bytes is the program as the kernel and bwrap read it.
func (f filter) bytes() []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, []unix.SockFilter(f)) // fixed-size structs into memory cannot fail
	return b.Bytes()
}
