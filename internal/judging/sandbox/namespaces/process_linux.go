package namespaces

import (
	"io"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/confine"
	"guild/internal/judging/sandbox/namespaces/plan"
)

// process is the first process of a run's namespaces.
type process struct {
	os      *os.Process
	pidfd   *os.File
	control *net.UnixConn
}

// newNamespaces are the clone flags of every run. A run without the host's network gets CLONE_NEWNET too.
//
// The new process uses our memory until it executes its program, as all that Go starts do, but those in a new user
// namespace: copying the tables of our memory takes longer than the rest of the start. Go copies them because it lets
// such a process wait for its users. Ours waits when it is another program.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_VM | unix.CLONE_VFORK

// processConfig configures the start of a first process.
type processConfig struct {
	plan    *plan.Plan
	who     *ids
	stdio   [3]*os.File
	passed  []*os.File      // the command's descriptors from 3 on
	own     []*os.File      // the first process's descriptors after the plan and the control socket
	network bool            // share the host's network
	group   *confine.Cgroup // may be nil
}

// begin starts a first process. It is in its control group from the start, so no process of the run is ever without
// limits.
func begin(c processConfig) (*process, error) {
	encoded, err := memory("plan", c.plan.Encode())
	if err != nil {
		return nil, err
	}
	defer encoded.Close()
	control, theirs, err := socketpair("control")
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	files := append(append([]*os.File{}, c.stdio[:]...), c.passed...)
	number := len(files)
	files = append(append(files, encoded, theirs), c.own...)
	pidfd := -1
	// Some machines have memory in pages of 2 MiB; in those the process would take twice as much.
	env := []string{"GOMAXPROCS=2", "GOGC=off", "GODEBUG=disablethp=1"}
	attr := &os.ProcAttr{Env: env, Files: files, Dir: "/", Sys: &syscall.SysProcAttr{
		Cloneflags: newNamespaces, Setsid: true, PidFD: &pidfd, AmbientCaps: c.who.capabilities(),
	}}
	if !c.network {
		attr.Sys.Cloneflags |= unix.CLONE_NEWNET
	}
	first, err := startInit(c.group, strconv.Itoa(number), attr)
	if err != nil {
		control.Close()
		return nil, err
	}
	p := &process{os: first, pidfd: os.NewFile(uintptr(pidfd), "pidfd"), control: control}
	if err := c.who.assign(first.Pid); err != nil {
		p.kill()
		p.wait()
		return nil, err
	}
	_, _ = control.Write([]byte{plan.Begin}) // a process that has ended is noticed by who receives
	return p, nil
}

// receive waits for the next message and the file that comes with it, which may be nil. The error is io.EOF if the
// process has ended.
func (p *process) receive() (*plan.Message, *os.File, error) {
	text, extra := make([]byte, plan.MaxMessage), make([]byte, unix.CmsgSpace(4))
	n, extraN, _, _, err := p.control.ReadMsgUnix(text, extra)
	if err != nil {
		return nil, nil, err
	}
	if n == 0 {
		return nil, nil, io.EOF
	}
	m, err := plan.DecodeMessage(text[:n])
	if err != nil {
		return nil, nil, err
	}
	parts, err := unix.ParseSocketControlMessage(extra[:extraN])
	if err != nil || len(parts) != 1 {
		return m, nil, err
	}
	fds, err := unix.ParseUnixRights(&parts[0])
	if err != nil || len(fds) != 1 {
		return m, nil, err
	}
	return m, os.NewFile(uintptr(fds[0]), "received"), nil
}

// kill kills the process. The kernel then kills all others of its process namespace.
func (p *process) kill() {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return // wait has closed the pidfd
	}
	raw.Control(func(fd uintptr) { // wait cannot close it meanwhile
		unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) // fails if it has already ended
	})
}

// wait waits for the end of the process and closes the pidfd and the socket.
func (p *process) wait() *os.ProcessState {
	state, _ := p.os.Wait()
	p.control.Close()
	p.pidfd.Close()
	return state
}

// setupError is the reason why a first process could not prepare the run.
type setupError struct {
	what  string
	errno unix.Errno
}

func (e *setupError) Error() string {
	if e.errno == 0 {
		return e.what
	}
	return e.what + ": " + e.errno.Error()
}

func (e *setupError) Unwrap() error { return e.errno }
