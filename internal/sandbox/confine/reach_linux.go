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
	namePort = 53 // where names are looked up

	sizeOfSockaddr = 128 // of the longest, struct sockaddr_storage
	sizeOfMsghdr   = 56
	sizeOfMmsghdr  = 64 // struct msghdr, a length and padding
	messagesSeen   = 16 // of one sendmmsg
)

// reaching are the calls that may name an address.
var reaching = map[uint32]string{
	unix.SYS_CONNECT: "connect", unix.SYS_SENDTO: "sendto", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDMMSG: "sendmmsg",
}

// reach decides about a call that may name an address: on this machine, it goes on, and the run's empty network
// namespace is the wall; outside, the answer is what that namespace would say.
func (s *Supervisor) reach(n *notification, t thread) answer {
	v := answer{verb: goOn}
	if s.network {
		return v
	}
	call := reaching[uint32(n.number)]
	for _, a := range t.addresses() {
		switch where := a.where(); {
		case where == outside:
			return t.outside(a)
		case where == unreadable:
			v = answer{verb: goOn, call: call, detail: "to an address that cannot be read"}
		case where == loopback && a.Port() == namePort:
			v = answer{verb: goOn, call: call, detail: "to look up a name at " + a.String()}
		}
	}
	return v
}

// outside is the answer to an attempt to reach out.
func (t thread) outside(a address) answer {
	detail := strings.TrimSpace(a.String() + " " + t.protocol(int(int32(t.n.args[0]))))
	return answer{errno: unix.ENETUNREACH, breach: true, call: reaching[uint32(t.n.number)], detail: detail}
}

// address is one that a call named; the zero one is none, or of a family that does not lead out.
type address struct {
	netip.AddrPort
	unreadable bool // the kernel does not show us the thread's memory
}

const (
	nowhere = iota
	loopback
	outside
	unreadable
)

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

// addresses are those that the thread's call names.
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

// message is the address in a struct msghdr.
func (t thread) message(at uint64) address {
	b, err := t.memory(at, sizeOfMsghdr)
	if err != nil || len(b) < 16 {
		return address{unreadable: errors.Is(err, fs.ErrPermission)}
	}
	return t.address(binary.NativeEndian.Uint64(b), uint64(binary.NativeEndian.Uint32(b[8:])))
}

// address is the one in a struct sockaddr.
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

// parseAddress reads a struct sockaddr of the Internet families. To send, the kernel takes no family for the
// fourth version; to connect, it means to disconnect.
func parseAddress(b []byte, sending bool) address {
	if len(b) < 2 {
		return address{}
	}
	switch family := binary.NativeEndian.Uint16(b); {
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
