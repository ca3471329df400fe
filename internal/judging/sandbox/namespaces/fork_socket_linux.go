package namespaces

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// socketpair creates a pair of connected sockets that preserve message boundaries: our end, and one to pass on.
func socketpair(name string) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair %s: %w", name, err)
	}
	theirs := os.NewFile(uintptr(fds[1]), name)
	ours := os.NewFile(uintptr(fds[0]), name)
	defer ours.Close() // net makes a duplicate
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("socketpair %s: %w", name, err)
	}
	return conn.(*net.UnixConn), theirs, nil
}

// passCredentials makes the kernel add the sender's credentials to each message. So the process id of a message cannot
// be forged.
func passCredentials(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	})
	if err == nil {
		err = failed
	}
	return err
}

// message is a message of a run's first process.
type message struct {
	text string
	pid  int      // of the sender, as seen from here
	file *os.File // a file that was sent with it, or nil
}

// receive reads one message. The error is io.EOF if the other side has closed its end.
func receive(c *net.UnixConn) (message, error) {
	var m message
	text := make([]byte, 1024)
	extra := make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4))
	n, extraN, _, _, err := c.ReadMsgUnix(text, extra)
	if err != nil {
		return m, err
	}
	m.text = string(text[:n])
	parts, err := unix.ParseSocketControlMessage(extra[:extraN])
	if err != nil {
		return m, err
	}
	for _, p := range parts {
		switch p.Header.Type {
		case unix.SCM_CREDENTIALS:
			if who, err := unix.ParseUnixCredentials(&p); err == nil {
				m.pid = int(who.Pid)
			}
		case unix.SCM_RIGHTS:
			if fds, err := unix.ParseUnixRights(&p); err == nil && len(fds) == 1 {
				m.file = os.NewFile(uintptr(fds[0]), "received")
			}
		}
	}
	return m, nil
}

// memory creates a file in memory, positioned at its start.
func memory(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, fmt.Errorf("memfd %s: %w", name, err)
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// silentStreams creates the standard streams of a process that should read and write nothing. Input is empty; output
// returns anything that the process writes nevertheless.
func silentStreams() (output *os.File, stdio [3]*os.File, err error) {
	in, none, err := os.Pipe()
	if err != nil {
		return nil, stdio, err
	}
	none.Close()
	output, out, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, stdio, err
	}
	return output, [3]*os.File{in, out, out}, nil
}

// readAvailable returns the text that can be read from a pipe without waiting, at most its last 500 bytes.
func readAvailable(pipe *os.File) string {
	n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
	if err != nil || n == 0 {
		return ""
	}
	b := make([]byte, n)
	n, _ = pipe.Read(b)
	return strings.TrimSpace(string(b[max(0, n-500):n]))
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close() // some are already closed
	}
}
