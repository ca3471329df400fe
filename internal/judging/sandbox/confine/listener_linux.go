package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of struct seccomp_notif and struct seccomp_notif_resp. Later kernels may have a longer seccomp_notif.
const (
	sizeNotif    = 80
	sizeResponse = 24
	roomForNotif = 4096
)

// notification is a system call that waits for an answer.
type notification struct {
	id     uint64
	tid    int // of the thread in our process namespace; 0 if it is not visible
	number int32
	arch   uint32
	args   [6]uint64
}

// listener receives the notifications of a filter. Waiting for one does not occupy a thread.
type listener struct {
	file   *os.File
	conn   syscall.RawConn
	buffer [roomForNotif]byte
}

// newListener takes ownership of a file. It uses a second descriptor of it, non-blocking so that Go's runtime can poll
// it.
func newListener(f *os.File) (*listener, error) {
	defer f.Close()
	given, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	controlled := given.Control(func(old uintptr) {
		if fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	})
	if controlled != nil || err != nil {
		return nil, fmt.Errorf("listener: %w", errors.Join(controlled, err))
	}
	file := os.NewFile(uintptr(fd), "seccomp")
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &listener{file: file, conn: conn}, nil
}

// receive waits for the next call. It returns nil and no error if the process of the call has already ended, and io.EOF
// if no process is left under the filter.
func (l *listener) receive() (*notification, error) {
	var n *notification
	var end error
	err := l.conn.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 0); err != nil {
			return err != unix.EINTR // then poll again
		}
		switch {
		case poll[0].Revents&unix.POLLIN != 0:
			n = l.read(fd)
			return true
		case poll[0].Revents != 0:
			end = io.EOF
			return true
		default:
			return false
		}
	})
	if err != nil {
		return nil, err
	}
	return n, end
}

// read reads a notification that is available, so it does not block. It returns nil if the call is gone.
func (l *listener) read(fd uintptr) *notification {
	// The kernel refuses a buffer that is not zero.
	clear(l.buffer[:])
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&l.buffer)))
	if errno != 0 {
		return nil
	}
	order, b := binary.NativeEndian, l.buffer[:sizeNotif] // a struct seccomp_notif
	n := &notification{
		id: order.Uint64(b), tid: int(int32(order.Uint32(b[8:]))),
		number: int32(order.Uint32(b[16:])), arch: order.Uint32(b[20:]),
	}
	for i := range n.args {
		n.args[i] = order.Uint64(b[32+8*i:])
	}
	return n
}

// valid reports whether the call still waits. If not, its thread id may belong to another process by now, so data read
// by that id must be discarded.
func (l *listener) valid(n *notification) bool {
	ok := false
	l.conn.Control(func(fd uintptr) {
		id := n.id
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, uintptr(unsafe.Pointer(&id)))
		ok = errno == 0
	})
	return ok
}

// send answers a call. It ignores errors, because the process may have ended.
func (l *listener) send(n *notification, v answer) {
	var b [sizeResponse]byte
	order := binary.NativeEndian
	order.PutUint64(b[0:], n.id)
	if v.verb == goOn {
		order.PutUint32(b[20:], unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE)
	} else {
		order.PutUint32(b[16:], uint32(-int32(v.errno)))
	}
	l.conn.Control(func(fd uintptr) {
		unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&b)))
	})
}
