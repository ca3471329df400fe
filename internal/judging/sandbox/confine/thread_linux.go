package confine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// longestText limits the shown part of a string argument, in bytes.
const longestText = 100

// thread is the thread that made a call and waits for the answer. Data read from it is untrusted.
type thread struct {
	n *notification
	l *listener
}

// memory reads bytes at an address of the thread; fewer if fewer are mapped. It returns an error if none could be read,
// or if the call has ended meanwhile, because the bytes may then be another process's.
func (t thread) memory(address uint64, size int) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", t.n.tid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, size)
	got, err := f.ReadAt(b, int64(address))
	if !t.l.valid(t.n) {
		return nil, unix.ENOENT
	}
	if got == 0 && err != nil {
		return nil, err
	}
	return b[:got], nil
}

// text returns a string argument, quoted.
func (t thread) text(address uint64) string {
	if address == 0 {
		return "NULL"
	}
	b, err := t.memory(address, longestText)
	if err != nil {
		return fmt.Sprintf("%#x", address)
	}
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return strconv.Quote(string(b))
}

// pidInside returns the process id in the run's namespace, or else the thread id in ours.
func (t thread) pidInside() string {
	if pids := strings.Fields(t.status("NSpid:")); len(pids) > 0 {
		return pids[len(pids)-1]
	}
	return strconv.Itoa(t.n.tid)
}

// status returns the value of a line of the thread's status file; empty if there is none.
func (t thread) status(name string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.n.tid))
	if err != nil || !t.l.valid(t.n) {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if value, found := strings.CutPrefix(line, name); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// protocol returns the protocol of a socket of the thread, as "tcp" or "udp"; empty if it is unknown.
func (t thread) protocol(fd int) string {
	tgid, err := strconv.Atoi(t.status("Tgid:"))
	if err != nil {
		return ""
	}
	// The pidfd is opened by a number. Only if the call still waits afterwards, the number has not been reused.
	pidfd, err := unix.PidfdOpen(tgid, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(pidfd)
	if !t.l.valid(t.n) {
		return ""
	}
	socket, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(socket)
	protocol, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	switch {
	case err != nil:
		return ""
	case protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_MPTCP:
		return "tcp"
	case protocol == unix.IPPROTO_UDP || protocol == unix.IPPROTO_UDPLITE:
		return "udp"
	default:
		return fmt.Sprintf("protocol %d", protocol)
	}
}
