package container

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"guild"
)

// traced lists the system calls that gVisor's kernel reports, by number: calls that may reach the network, at their end
// with the error; and calls that only an attempt to escape makes, at their start.
var traced = map[int]tracedCall{
	unix.SYS_SENDTO:            {"sendto", atEnd},
	unix.SYS_SENDMSG:           {"sendmsg", atEnd},
	unix.SYS_SENDMMSG:          {"sendmmsg", atEnd},
	unix.SYS_SOCKET:            {"socket", atStart},
	unix.SYS_MOUNT:             {"mount", atStart},
	unix.SYS_UMOUNT2:           {"umount2", atStart},
	unix.SYS_PIVOT_ROOT:        {"pivot_root", atStart},
	unix.SYS_OPEN_TREE:         {"open_tree", atStart},
	unix.SYS_MOVE_MOUNT:        {"move_mount", atStart},
	unix.SYS_FSOPEN:            {"fsopen", atStart},
	unix.SYS_FSCONFIG:          {"fsconfig", atStart},
	unix.SYS_FSMOUNT:           {"fsmount", atStart},
	unix.SYS_FSPICK:            {"fspick", atStart},
	unix.SYS_MOUNT_SETATTR:     {"mount_setattr", atStart},
	unix.SYS_OPEN_BY_HANDLE_AT: {"open_by_handle_at", atStart},
	unix.SYS_BPF:               {"bpf", atStart},
	unix.SYS_PERF_EVENT_OPEN:   {"perf_event_open", atStart},
	unix.SYS_USERFAULTFD:       {"userfaultfd", atStart},
	unix.SYS_KEYCTL:            {"keyctl", atStart},
	unix.SYS_ADD_KEY:           {"add_key", atStart},
	unix.SYS_REQUEST_KEY:       {"request_key", atStart},
	unix.SYS_KEXEC_LOAD:        {"kexec_load", atStart},
	unix.SYS_INIT_MODULE:       {"init_module", atStart},
	unix.SYS_FINIT_MODULE:      {"finit_module", atStart},
	unix.SYS_DELETE_MODULE:     {"delete_module", atStart},
	unix.SYS_REBOOT:            {"reboot", atStart},
	unix.SYS_PIDFD_GETFD:       {"pidfd_getfd", atStart},
}

// The time of a report, in gVisor's words.
const (
	atStart = "enter"
	atEnd   = "exit"
)

type tracedCall struct{ name, when string }

// Types of messages that gVisor's remote sink sends (pkg/sentry/seccheck/points/common.proto).
const (
	messageExitNotifyParent = 4
	messageRawSyscall       = 6
	messageConnect          = 10
)

// maxBreaches limits the different breaches that are kept of a run.
const maxBreaches = 32

// tracer receives the reports of gVisor's kernel about a run. The kernel writes them, not the run, but they are parsed
// like hostile input, because they contain data of the run.
type tracer struct {
	listener *net.UnixListener
	network  bool
	breach   chan struct{} // closed at the first attempt to escape
	done     sync.WaitGroup

	mu    sync.Mutex
	found []guild.Breach
	heard bool // a report has arrived; read it after close
}

// traceSession is the file for runsc's --pod-init-config, with the fields that we use.
type traceSession struct {
	Session struct {
		Name    string       `json:"name"`
		Lenient bool         `json:"ignore_missing"` // ignore points that this version does not have
		Points  []tracePoint `json:"points"`
		Sinks   []traceSink  `json:"sinks"`
	} `json:"trace_session"`
}

type tracePoint struct {
	Name    string   `json:"name"`
	Context []string `json:"context_fields"`
}

type traceSink struct {
	Name   string         `json:"name"`
	Config map[string]any `json:"config"`
}

const traceConfig = "trace.json"

// newTracer listens on a socket in dir, and writes the file that tells runsc which reports to send to it.
func newTracer(dir string, network bool) (*tracer, error) {
	socket := filepath.Join(dir, "trace")
	var session traceSession
	session.Session.Name, session.Session.Lenient = "Default", true
	about := []string{"process_name"}
	session.Session.Points = []tracePoint{{"syscall/connect/exit", about}, {"sentry/exit_notify_parent", about}}
	for number, c := range traced {
		session.Session.Points = append(session.Session.Points, tracePoint{fmt.Sprintf("syscall/sysno/%d/%s", number, c.when), about})
	}
	session.Session.Sinks = []traceSink{{"remote", map[string]any{"endpoint": socket, "retries": 5}}}
	text, err := json.Marshal(session)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, traceConfig), text, 0o644); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	t := &tracer{listener: l, network: network, breach: make(chan struct{})}
	t.done.Go(t.run)
	return t, nil
}

// run accepts one connection and reads it to the end.
func (t *tracer) run() {
	conn, err := t.listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	message := make([]byte, 64<<10)
	for greeted := false; ; greeted = true {
		n, err := conn.Read(message)
		switch {
		case err != nil || n == 0:
			return
		case !greeted:
			conn.Write([]byte{0x08, 0x01}) // Handshake{version: 1}
		default:
			t.heard = true
			t.take(message[:n])
		}
	}
}

// close stops listening, and waits until all sent reports have been read.
func (t *tracer) close() {
	t.listener.Close()
	t.done.Wait()
}

func (t *tracer) breaches() []guild.Breach {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.found
}

// report stores a breach once. An attempt to escape ends the run.
func (t *tracer) report(b guild.Breach, escape bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.found {
		if known == b {
			return
		}
	}
	if len(t.found) < maxBreaches {
		t.found = append(t.found, b)
	}
	if escape {
		select {
		case <-t.breach:
		default:
			close(t.breach)
		}
	}
}

// take parses one message. Its header has at least 8 bytes: the first 16-bit word is the header's length, the second
// the type of the message.
func (t *tracer) take(message []byte) {
	if len(message) < 8 {
		return
	}
	size, kind := int(binary.LittleEndian.Uint16(message)), binary.LittleEndian.Uint16(message[2:])
	if size > len(message) {
		return
	}
	e, err := readEvent(message[size:])
	if err != nil {
		return
	}
	switch kind {
	case messageExitNotifyParent: // field 2 is the wait status
		if unix.WaitStatus(e.numbers[2]).Signal() == unix.SIGSYS {
			detail := fmt.Sprintf("%q was killed at a forbidden system call", e.process)
			t.report(guild.Breach{Syscall: "seccomp", Detail: detail}, true)
		}
	case messageConnect:
		to, ok := address(e.bytes[6])
		if ok && !t.network && !to.Addr().IsLoopback() && !to.Addr().IsUnspecified() {
			t.report(guild.Breach{Syscall: "connect", Detail: fmt.Sprintf("%s by %q", to, e.process)}, false)
		}
	case messageRawSyscall:
		t.call(e)
	}
}

// call reports a system call that gVisor has not decoded: fields 4 to 10 are its number and arguments.
func (t *tracer) call(e event) {
	c, known := traced[int(e.numbers[4])]
	switch {
	case !known:
	case e.numbers[4] == unix.SYS_SOCKET:
		if family := e.numbers[5]; family == unix.AF_PACKET || family == unix.AF_VSOCK {
			t.report(guild.Breach{Syscall: "socket", Detail: fmt.Sprintf("family %d by %q", family, e.process)}, true)
		}
	case c.when == atEnd:
		if errno := unix.Errno(e.exit); !t.network && (errno == unix.ENETUNREACH || errno == unix.EHOSTUNREACH) {
			t.report(guild.Breach{Syscall: "connect", Detail: fmt.Sprintf("%s by %q", c.name, e.process)}, false)
		}
	default:
		t.report(guild.Breach{Syscall: c.name, Detail: fmt.Sprintf("by %q", e.process)}, true)
	}
}

// address parses a struct sockaddr_in or sockaddr_in6.
func address(b []byte) (netip.AddrPort, bool) {
	if len(b) < 8 {
		return netip.AddrPort{}, false
	}
	port := binary.BigEndian.Uint16(b[2:])
	family := binary.LittleEndian.Uint16(b)
	switch {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), true
	case family == unix.AF_INET6 && len(b) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), port), true
	default:
		return netip.AddrPort{}, false
	}
}

// event has the fields of a protocol buffers message of gVisor. Field 1 describes the process; field 2 of a system call
// is its result.
type event struct {
	numbers [16]uint64
	bytes   [16][]byte
	process string
	exit    uint64 // the error number
}

var errEvent = errors.New("invalid event")

// readEvent parses an event, with the name of its process and the result of its system call.
func readEvent(b []byte) (e event, err error) {
	if e.numbers, e.bytes, err = fields(b); err != nil {
		return e, err
	}
	if _, about, err := fields(e.bytes[1]); err == nil {
		e.process = string(about[9]) // process_name
	}
	if how, _, err := fields(e.bytes[2]); err == nil {
		e.exit = how[2] // errorno
	}
	return e, nil
}

// fields returns the fields 1 to 15 of a protocol buffers message; the last one of a repeated field.
func fields(b []byte) (numbers [16]uint64, bytes [16][]byte, err error) {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return numbers, bytes, errEvent
		}
		b = b[n:]
		field := int(min(key>>3, 16))
		switch key & 7 {
		case 0:
			value, n := binary.Uvarint(b)
			if n <= 0 {
				return numbers, bytes, errEvent
			}
			b = b[n:]
			if field < 16 {
				numbers[field] = value
			}
		case 2:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return numbers, bytes, errEvent
			}
			if field < 16 {
				bytes[field] = b[n : n+int(size)]
			}
			b = b[n+int(size):]
		case 1, 5:
			width := map[uint64]int{1: 8, 5: 4}[key&7]
			if len(b) < width {
				return numbers, bytes, io.ErrUnexpectedEOF
			}
			b = b[width:]
		default:
			return numbers, bytes, errEvent
		}
	}
	return numbers, bytes, nil
}
