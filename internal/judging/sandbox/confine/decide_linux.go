package confine

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Answers to a system call.
const (
	refuse = iota // it fails with an error
	goOn          // the kernel executes it
	wait          // it gets no answer, because the run is about to be killed
)

// socketKind masks the part of socket's second argument that is not a flag.
const socketKind = 0xf

// answer is the answer to a call, with its report. Without a breach and a name, the call is only counted.
type answer struct {
	verb   int
	errno  unix.Errno
	breach bool
	call   string // name of the system call, in a breach or a warning
	detail string
}

// escape returns the answer that ends the run.
func escape(call, detail string) answer {
	return answer{verb: wait, breach: true, call: call, detail: detail}
}

// answer returns the answer to a call.
func (s *Supervisor) answer(n *notification, t thread) answer {
	switch {
	case n.arch != arch:
		return escape("foreign architecture", fmt.Sprintf("call %d as architecture %#x", n.number, n.arch))
	case otherABI != 0 && uint32(n.number) >= otherABI:
		return escape("x32", fmt.Sprintf("call %d", uint32(n.number)&^otherABI))
	}
	if s.member != nil {
		if v, decided := s.alone(n, t); decided {
			return v
		}
	}
	if reaching[uint32(n.number)] != "" {
		return s.reach(n, t)
	}
	switch uint32(n.number) {
	case unix.SYS_CLONE:
		return escape("clone", flags(n.args[0], cloneFlags))
	case unix.SYS_SOCKET:
		return escape("socket", socketArguments(n.args))
	case unix.SYS_SECCOMP:
		// A filter of the run with a listener would receive its calls before our supervisor.
		if n.args[1]&unix.SECCOMP_FILTER_FLAG_NEW_LISTENER != 0 {
			return escape("seccomp", "a filter with a listener")
		}
	}
	if name := escapes[uint32(n.number)]; name != "" {
		return escape(name, arguments(n, t))
	}
	return answer{errno: unix.ENOSYS}
}

// arguments describes the arguments of a call of escapes.
func arguments(n *notification, t thread) string {
	switch uint32(n.number) {
	case unix.SYS_UNSHARE:
		return flags(n.args[0], cloneFlags)
	case unix.SYS_SETNS:
		return fmt.Sprintf("descriptor %d, %s", int32(n.args[0]), flags(n.args[1], cloneFlags))
	case unix.SYS_PTRACE:
		return fmt.Sprintf("request %#x of process %d", n.args[0], int32(n.args[1]))
	case unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV:
		return fmt.Sprintf("process %d", int32(n.args[0]))
	case unix.SYS_MOUNT:
		return fmt.Sprintf("%s at %s, type %s", t.text(n.args[0]), t.text(n.args[1]), t.text(n.args[2]))
	case unix.SYS_UMOUNT2, unix.SYS_CHROOT, unix.SYS_FSOPEN:
		return t.text(n.args[0])
	case unix.SYS_PIVOT_ROOT:
		return t.text(n.args[0]) + " " + t.text(n.args[1])
	case unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR, unix.SYS_FSPICK:
		return t.text(n.args[1])
	case unix.SYS_BPF, unix.SYS_KEYCTL:
		return fmt.Sprintf("command %d", int32(n.args[0]))
	case unix.SYS_USERFAULTFD:
		return fmt.Sprintf("flags %#x", n.args[0])
	default:
		return fmt.Sprintf("%s, %s, %s", word(n.args[0]), word(n.args[1]), word(n.args[2]))
	}
}

// word formats an argument: a negative number in decimal, any other as hexadecimal.
func word(v uint64) string {
	if n := int32(v); n < 0 && (v>>32 == 0 || int64(v) < 0) {
		return strconv.Itoa(int(n))
	}
	return fmt.Sprintf("%#x", v)
}

type flag struct {
	bit  uint64
	name string
}

var cloneFlags = []flag{
	{unix.CLONE_NEWUSER, "CLONE_NEWUSER"}, {unix.CLONE_NEWNS, "CLONE_NEWNS"}, {unix.CLONE_NEWPID, "CLONE_NEWPID"},
	{unix.CLONE_NEWNET, "CLONE_NEWNET"}, {unix.CLONE_NEWIPC, "CLONE_NEWIPC"}, {unix.CLONE_NEWUTS, "CLONE_NEWUTS"},
	{unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"}, {unix.CLONE_NEWTIME, "CLONE_NEWTIME"},
}

// flags returns the names of the known bits, or the number if it has none.
func flags(word uint64, known []flag) string {
	var names []string
	for _, f := range known {
		if word&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("flags %#x", word)
	}
	return strings.Join(names, "|")
}

// socketArguments describes the arguments of socket(2).
func socketArguments(args [6]uint64) string {
	family := map[int32]string{
		unix.AF_PACKET: "AF_PACKET", unix.AF_VSOCK: "AF_VSOCK", unix.AF_INET: "AF_INET", unix.AF_INET6: "AF_INET6",
	}[int32(args[0])]
	if family == "" {
		family = fmt.Sprintf("family %d", int32(args[0]))
	}
	kind := map[uint64]string{
		unix.SOCK_STREAM: "SOCK_STREAM", unix.SOCK_DGRAM: "SOCK_DGRAM", unix.SOCK_RAW: "SOCK_RAW",
	}[args[1]&socketKind]
	if kind == "" {
		kind = fmt.Sprintf("kind %d", args[1]&socketKind)
	}
	return fmt.Sprintf("%s, %s, protocol %d", family, kind, int32(args[2]))
}
