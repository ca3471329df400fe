//go:build linux && (amd64 || arm64)

package confine

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/judging/sandbox"
)

// Offsets in struct seccomp_data. Those of arguments are for the low half, on little-endian machines.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
	offsetArg1   = 24
	offsetArg2   = 32
	offsetArg3   = 40
	offsetArg4   = 48
)

// namespaces are the clone flags that create a namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// ask sends a call to the supervisor and makes its thread wait for the answer.
const ask = unix.SECCOMP_RET_USER_NOTIF

// Filter returns the system call filter of a profile for a supervised run, an array of struct sock_filter. Calls that the
// profile does not list go to the supervisor. It returns nil for an unsupported processor.
//
// The filter is installed by SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_NEW_LISTENER and, if the kernel has it,
// SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV. The listener cannot be handed over by sendmsg(2) under the filter, because that
// call waits for the supervisor. Use a thread that is not under the filter, or pidfd_getfd(2).
func Filter(p sandbox.Profile) []byte { return supervised(p).bytes() }

// ProfileHash returns the hash of a profile's filter on this processor.
func ProfileHash(p sandbox.Profile) guild.Hash { return guild.Sum(Filter(p)) }

// supervised returns the filter of a run with a network namespace of its own.
func supervised(p sandbox.Profile) filter {
	var f filter
	f.entry(ask)
	f.allow(allowed(p))
	f.when(unix.BPF_JEQ, quiet, fail(unix.ENOSYS))
	f.each(refused, fail(unix.EPERM))
	f.call(unix.SYS_CLONE, cloneFilter(ask))
	f.call(unix.SYS_SOCKET, socketFilter(ask))
	f.call(unix.SYS_SENDTO, sendtoFilter())
	if p != sandbox.Strict {
		f.call(unix.SYS_SECCOMP, seccompFilter())
	}
	f.end(ask)
	return f
}

// Denylist returns the filter of a run without a supervisor. It kills a process that attempts a breach. It returns nil
// for an unsupported processor.
func Denylist() []byte { return denylist().bytes() }

// denylist returns the rules of Denylist. Calls that it does not list are allowed.
func denylist() filter {
	const kill = unix.SECCOMP_RET_KILL_PROCESS
	var f filter
	f.entry(kill)
	f.each(slices.Sorted(maps.Keys(escapes)), kill)
	f.each(unknown, fail(unix.ENOSYS))
	f.each(refused, fail(unix.EPERM))
	f.call(unix.SYS_CLONE, cloneFilter(kill))
	f.call(unix.SYS_SOCKET, socketFilter(kill))
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// cloneFilter returns the answer breach for flags that create a namespace.
func cloneFilter(breach uint32) filter {
	var f filter
	f.load(offsetArg0)
	f.when(unix.BPF_JSET, namespaces, breach)
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// socketFilter allows sockets that a network namespace confines: Unix sockets, TCP and UDP, and the routing netlink
// that libc uses to list addresses. Packet sockets, raw sockets and sockets to a hypervisor are a breach. Other
// families fail as on a kernel without them.
func socketFilter(breach uint32) filter {
	var f filter
	f.load(offsetArg0)
	f.when(unix.BPF_JEQ, unix.AF_UNIX, unix.SECCOMP_RET_ALLOW)
	for _, family := range []uint32{unix.AF_PACKET, unix.AF_VSOCK} {
		f.when(unix.BPF_JEQ, family, breach)
	}
	var netlink filter
	netlink.load(offsetArg2)
	netlink.when(unix.BPF_JEQ, unix.NETLINK_ROUTE, unix.SECCOMP_RET_ALLOW)
	netlink.end(fail(unix.EAFNOSUPPORT))
	f.call(unix.AF_NETLINK, netlink)

	var internet filter
	internet.load(offsetArg1)
	internet.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, socketKind)
	for _, kind := range []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
		internet.when(unix.BPF_JEQ, kind, unix.SECCOMP_RET_ALLOW)
	}
	for _, kind := range []uint32{unix.SOCK_RAW, unix.SOCK_PACKET} {
		internet.when(unix.BPF_JEQ, kind, breach)
	}
	internet.end(fail(unix.EPROTONOSUPPORT))
	f.call(unix.AF_INET, internet)
	f.call(unix.AF_INET6, internet)
	f.end(fail(unix.EAFNOSUPPORT))
	return f
}

// sendtoFilter asks the supervisor if the call has an address, that is if either half of the pointer is not zero.
func sendtoFilter() filter {
	var f filter
	f.load(offsetArg4)
	f.unless(unix.BPF_JEQ, 0, ask)
	f.load(offsetArg4 + 4)
	f.unless(unix.BPF_JEQ, 0, ask)
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// seccompFilter lets a program restrict itself further, but not become a supervisor: a newer listener would receive the
// calls instead of ours.
func seccompFilter() filter {
	var f filter
	f.load(offsetArg1)
	f.when(unix.BPF_JSET, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, ask)
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// fail returns the answer that makes a call fail with an error.
func fail(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// filter is a classic BPF program for seccomp(2).
type filter []unix.SockFilter

func (f *filter) add(code uint16, jt, jf uint8, k uint32) {
	*f = append(*f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

// entry returns foreign for calls of another architecture or ABI, and loads the number of the call. Without this check
// a run could make a forbidden call under its number in another ABI.
func (f *filter) entry(foreign uint32) {
	f.load(offsetArch)
	f.unless(unix.BPF_JEQ, arch, foreign)
	f.load(offsetNumber)
	if otherABI != 0 {
		f.when(unix.BPF_JGE, otherABI, foreign)
	}
}

// load loads a word of struct seccomp_data into the accumulator.
func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

// end adds an instruction that returns an answer.
func (f *filter) end(answer uint32) { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, answer) }

// when adds instructions that return an answer if the comparison of the accumulator with k is true.
func (f *filter) when(comparison uint16, k, answer uint32) {
	f.add(unix.BPF_JMP|comparison|unix.BPF_K, 0, 1, k)
	f.end(answer)
}

// unless adds instructions that return an answer if the comparison is false.
func (f *filter) unless(comparison uint16, k, answer uint32) {
	f.add(unix.BPF_JMP|comparison|unix.BPF_K, 1, 0, k)
	f.end(answer)
}

// each adds the same answer for each of the system calls.
func (f *filter) each(numbers []uint32, answer uint32) {
	for _, n := range numbers {
		f.when(unix.BPF_JEQ, n, answer)
	}
}

// allow adds the answer allow for system calls, given as sorted numbers. A range of consecutive numbers takes two
// comparisons. The kernel caches which calls are always allowed, so a long list costs no time.
func (f *filter) allow(numbers []uint32) {
	for i := 0; i < len(numbers); {
		first, last := numbers[i], numbers[i]
		for i++; i < len(numbers) && numbers[i] <= last+1; i++ {
			last = numbers[i]
		}
		f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 2, first)
		f.add(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_K, 1, 0, last)
		f.end(unix.SECCOMP_RET_ALLOW)
	}
}

// call adds body for the system call n. body must always return an answer.
func (f *filter) call(n uint32, body filter) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(len(body)), n)
	*f = append(*f, body...)
}

// bytes returns the program in the kernel's format.
func (f filter) bytes() []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, []unix.SockFilter(f)) // cannot fail
	return b.Bytes()
}
