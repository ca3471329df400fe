//go:build linux && (amd64 || arm64)

package confine

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// Calls that are refused only in a run without namespaces. There they would reach IPC objects of the host, change other
// processes of the same user, or change files that the run may only read.
var (
	sharedWithHost = []uint32{
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMDT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP,
		unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
		unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	}
	// Landlock cannot confine these. They do nothing and return success, so that programs that copy a file with its mode
	// still work.
	pretended = []uint32{
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_UTIMENSAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR,
		unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	}
	// Calls with a process id as the first argument, 0 for the caller.
	ofOneself = []uint32{
		unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER,
		unix.SYS_SCHED_SETATTR,
	}
	// Calls with a process id as the second argument.
	ofOneself2 = []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET}

	signals = []uint32{
		unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
		unix.SYS_PIDFD_SEND_SIGNAL,
	}
)

// AloneFilter returns the filter of a run without namespaces, which only Landlock and this filter confine. No socket
// can reach anything outside. Calls that Landlock of version abi cannot confine are refused or, like signals before
// version 6, decided by the supervisor. It returns nil for an unsupported processor.
//
// Here the supervisor's answer is the protection, not only a report. So no answer depends on memory of the run, which
// another thread could change between the check and the call. The supervisor decides by registers only, and refuses
// calls whose address is in memory, whatever the address is.
func AloneFilter(p sandbox.Profile, abi int) []byte { return alone(p, abi).bytes() }

// alone returns the rules of this tier, followed by those of every supervised run. The first matching rule decides, so
// calls that are refused here cannot be allowed by the profile.
func alone(p sandbox.Profile, abi int) filter {
	var f filter
	f.entry(ask)
	start := len(f)
	f.each(sharedWithHost, fail(unix.ENOSYS))
	f.each(slices.Concat(pretended, pretendedHere), fail(0))
	f.each([]uint32{unix.SYS_BIND, unix.SYS_LISTEN}, fail(unix.EACCES))
	f.call(unix.SYS_SOCKET, aloneSocketFilter())
	f.call(unix.SYS_SOCKETPAIR, connectedFilter())
	f.call(unix.SYS_SENDTO, aloneSendtoFilter())
	f.call(unix.SYS_SENDMSG, fastOpenFilter(offsetArg2))
	f.call(unix.SYS_SENDMMSG, fastOpenFilter(offsetArg3))
	f.call(unix.SYS_FCNTL, ownerFilter())
	f.call(unix.SYS_IOCTL, ioctlFilter())
	f.call(unix.SYS_SETRLIMIT, limitFilter(offsetArg0))
	for _, n := range ofOneself {
		f.call(n, selfFilter(offsetArg0, n == unix.SYS_PRLIMIT64))
	}
	for _, n := range ofOneself2 {
		f.call(n, selfFilter(offsetArg1, false))
	}
	if abi < 6 {
		f.each(signals, ask)
	}
	if abi < 3 {
		f.each([]uint32{unix.SYS_TRUNCATE}, fail(unix.ENOSYS))
	}
	return append(f, supervised(p)[start:]...) // without its first instructions, which are the same entry
}

// aloneSocketFilter allows stream sockets, so that the supervisor sees an attempt to connect one. It refuses datagram
// sockets, because they can send without connecting.
func aloneSocketFilter() filter {
	var f filter
	f.load(offsetArg0)
	f.call(unix.AF_UNIX, connectedFilter())
	for _, family := range []uint32{unix.AF_PACKET, unix.AF_VSOCK} {
		f.when(unix.BPF_JEQ, family, ask)
	}
	var internet filter
	internet.load(offsetArg1)
	internet.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, socketKind)
	internet.when(unix.BPF_JEQ, unix.SOCK_STREAM, unix.SECCOMP_RET_ALLOW)
	internet.end(ask)
	f.call(unix.AF_INET, internet)
	f.call(unix.AF_INET6, internet)
	f.end(fail(unix.EAFNOSUPPORT))
	return f
}

// connectedFilter allows the kinds of Unix sockets that ignore the address of a message.
func connectedFilter() filter {
	var f filter
	f.load(offsetArg1)
	f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, socketKind)
	for _, kind := range []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET} {
		f.when(unix.BPF_JEQ, kind, unix.SECCOMP_RET_ALLOW)
	}
	f.end(fail(unix.EPROTONOSUPPORT))
	return f
}

func aloneSendtoFilter() filter {
	var f filter
	f.load(offsetArg3)
	f.when(unix.BPF_JSET, unix.MSG_FASTOPEN, ask)
	return append(f, sendtoFilter()...)
}

// fastOpenFilter refuses sends that connect a socket. The flags are at an offset.
func fastOpenFilter(offset uint32) filter {
	var f filter
	f.load(offset)
	f.when(unix.BPF_JSET, unix.MSG_FASTOPEN, fail(unix.EOPNOTSUPP))
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// ownerFilter refuses to change which process gets the signals of a descriptor, and which signal.
func ownerFilter() filter {
	var f filter
	f.load(offsetArg1)
	for _, command := range []uint32{unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG} {
		f.when(unix.BPF_JEQ, command, fail(unix.EPERM))
	}
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// ioctlFilter refuses the same for sockets. It also refuses the command groups 'f' and 'X' of the file systems: they
// change the flags and the project of a file that is open only for reading, and can make it immutable.
func ioctlFilter() filter {
	const setOwner, group = 0x8901, 0xff00 // FIOSETOWN
	var f filter
	f.load(offsetArg1)
	for _, command := range []uint32{setOwner, unix.SIOCSPGRP} {
		f.when(unix.BPF_JEQ, command, fail(unix.EPERM))
	}
	f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, group)
	for _, command := range []uint32{'f' << 8, 'X' << 8} {
		f.when(unix.BPF_JEQ, command, fail(unix.ENOTTY))
	}
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// limitFilter refuses to change MarkLimit. The resource's number is at an offset.
func limitFilter(offset uint32) filter {
	var f filter
	f.load(offset)
	f.when(unix.BPF_JEQ, MarkLimit, fail(unix.EPERM))
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// selfFilter lets a process change only itself. The process id is at an offset. If limits is true, it may not change
// MarkLimit.
func selfFilter(offset uint32, limits bool) filter {
	var f filter
	f.load(offset)
	f.unless(unix.BPF_JEQ, 0, fail(unix.EPERM))
	if limits {
		return append(f, limitFilter(offsetArg1)...)
	}
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// alone answers the calls that only a filter for runs without namespaces sends to the supervisor.
func (s *Supervisor) alone(n *notification, t thread) (v answer, decided bool) {
	number := uint32(n.number)
	switch {
	case reaching[number] != "":
		return s.reachAlone(n, t), true
	case number == unix.SYS_SOCKET && n.args[1]&socketKind == unix.SOCK_DGRAM:
		detail := "for datagrams was refused: " + socketArguments(n.args)
		return answer{errno: unix.EACCES, call: "socket", detail: detail}, true
	case slices.Contains(signals, number):
		return s.signal(n), true
	default:
		return answer{}, false
	}
}

// reachAlone refuses a call that may have an address. It reads the address only to report it.
func (s *Supervisor) reachAlone(n *notification, t thread) answer {
	v, call := answer{errno: unix.EACCES}, reaching[uint32(n.number)]
	for _, a := range t.addresses() {
		switch a.where() {
		case outside:
			return t.outside(a)
		case loopback:
			v = answer{errno: unix.ECONNREFUSED, call: call, detail: "to the host's own loopback was refused: " + a.String()}
		case unreadable:
			v = answer{errno: unix.EACCES, call: call, detail: "to an address that cannot be read was refused"}
		}
	}
	return v
}

// signal allows signals to the run's own processes. The process id is in a register, so the run cannot change it after
// the check.
func (s *Supervisor) signal(n *notification) answer {
	target := int(int32(n.args[0]))
	if uint32(n.number) != unix.SYS_PIDFD_SEND_SIGNAL && target > 0 && s.member(target) {
		return answer{verb: goOn}
	}
	if target == 0 && uint32(n.number) == unix.SYS_KILL && s.member(n.tid) {
		return answer{verb: goOn} // its process group, which is in the run's session
	}
	return answer{errno: unix.EPERM, call: "kill", detail: fmt.Sprintf("of process %d was refused", target)}
}
