package confine

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	namePort = 53 // of DNS

	sizeOfSockaddr = 128 // struct sockaddr_storage, the longest
	sizeOfMsghdr   = 56
	sizeOfMmsghdr  = 64 // struct msghdr, a length and padding
	messagesSeen   = 16 // maximum that is read of one sendmmsg
)

// reaching lists the system calls that may have an address.
var reaching = map[uint32]string{
	unix.SYS_CONNECT: "connect", unix.SYS_SENDTO: "sendto", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDMMSG: "sendmmsg",
}

// reach answers a call that may have an address. For a local address the kernel executes it, and the run's empty
// network namespace confines it. For an outside address the answer is the error that the kernel would return in that
// namespace.
//
// The address is in memory that the run can change after it was read here. That does not help it: if the kernel then
// connects to another address, the namespace still has no route. Only the report would be missing.
func (s *Supervisor) reach(n *notification, t thread) answer {
	v := answer{verb: goOn}
	if s.network {
		return v
	}
	call := reaching[uint32(n.number)]
	for _, a := range t.addresses() {
		switch a.where() {
		case outside:
			return t.outside(a)
		case unreadable:
			v = answer{verb: goOn, call: call, detail: "to an address that cannot be read"}
		case loopback:
			if a.Port() == namePort {
				v = answer{verb: goOn, call: call, detail: "to look up a name at " + a.String()}
			}
		}
	}
	return v
}

// outside returns the answer to an attempt to reach an address outside.
func (t thread) outside(a address) answer {
	detail := strings.TrimSpace(a.String() + " " + t.protocol(int(int32(t.n.args[0]))))
	return answer{errno: unix.ENETUNREACH, breach: true, call: reaching[uint32(t.n.number)], detail: detail}
}

// address is the address of a call. The zero value is none, or one of a family that does not lead outside.
type address struct {
	netip.AddrPort
	unreadable bool // the kernel does not let us read the thread's memory
}

// Kinds of addresses.
const (
	nowhere = iota
	loopback
	outside
	unreadable
)

// where returns the kind of an address.
func (a address) where() int {
	ip := a.Addr().Unmap()
	switch {
	case a.unreadable:
		return unreadable
	case !ip.IsValid():
		return nowhere
	case ip.IsLoopback() || ip.IsUnspecified(): // connecting to 0.0.0.0 connects to this machine
		return loopback
	default:
		return outside
	}
}

func (a address) String() string {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port()).String()
}

// addresses returns the addresses in the thread's call.
func (t thread) addresses() []address {
	args := t.n.args
	switch uint32(t.n.number) {
	case unix.SYS_CONNECT:
		return []address{t.address(args[1], args[2])}
	case unix.SYS_SENDTO:
		return []address{t.address(args[4], args[5])}
	case unix.SYS_SENDMSG:
		return []address{t.message(args[1])}
	default:
		var all []address
		for i := range min(args[2]&0xffffffff, messagesSeen) {
			all = append(all, t.message(args[1]+i*sizeOfMmsghdr))
		}
		return all
	}
}

// message returns the address in a struct msghdr.
func (t thread) message(at uint64) address {
	b, err := t.memory(at, sizeOfMsghdr)
	if err != nil || len(b) < 16 {
		return address{unreadable: errors.Is(err, fs.ErrPermission)}
	}
	return t.address(binary.NativeEndian.Uint64(b), uint64(binary.NativeEndian.Uint32(b[8:])))
}

// address returns the address in a struct sockaddr.
func (t thread) address(at, length uint64) address {
	if at == 0 || length == 0 {
		return address{}
	}
	b, err := t.memory(at, int(min(length&0xffffffff, sizeOfSockaddr)))
	if err != nil {
		return address{unreadable: errors.Is(err, fs.ErrPermission)}
	}
	return parseAddress(b, t.n.number != unix.SYS_CONNECT)
}

// parseAddress parses a struct sockaddr of an Internet family. AF_UNSPEC means IPv4 in a send, and disconnects in a
// connect.
func parseAddress(b []byte, sending bool) address {
	if len(b) < 2 {
		return address{}
	}
	family := binary.NativeEndian.Uint16(b)
	switch {
	case (family == unix.AF_INET || family == unix.AF_UNSPEC && sending) && len(b) >= 8:
		ip := netip.AddrFrom4([4]byte(b[4:8]))
		return address{AddrPort: netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[2:]))}
	case family == unix.AF_INET6 && len(b) >= 24:
		ip := netip.AddrFrom16([16]byte(b[8:24]))
		return address{AddrPort: netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[2:]))}
	default:
		return address{}
	}
}
