package main

import (
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/namespaces/plan"
)

// command is the started command. Without a pid, its status says why it could not be started.
type command struct {
	pid    int
	status uint32
}

// Exit codes of a command that cannot be started, as in a shell.
const (
	notExecutable = 126
	notFound      = 127
)

// start starts the command and reports that.
func (f *first) start() (command, error) {
	if err := f.setRlimits(); err != nil {
		return command{}, err
	}
	if err := chdir(f.plan.Dir); err != nil {
		return command{}, err
	}
	unix.Umask(0o022) // for the command; the file system is complete
	l := launch{f: f, filtered: make(chan int), told: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	select {
	case fd := <-l.filtered:
		f.report.send(plan.Message{Kind: plan.Listener}, fd)
		unix.Close(fd)
		close(l.told)
		<-l.done
	case <-l.done:
	}
	if l.err != nil || l.command.pid == 0 {
		return l.command, l.err
	}
	pidfd, err := unix.PidfdOpen(l.command.pid, 0)
	if err != nil {
		return command{}, failure{"pidfd_open", err}
	}
	f.report.send(plan.Message{Kind: plan.Started}, pidfd)
	unix.Close(pidfd)
	for fd := range 3 + f.plan.Passed {
		unix.Close(fd) // so that the command is the last writer
	}
	return l.command, nil
}

func (f *first) setRlimits() error {
	for _, r := range f.plan.Rlimits {
		if err := unix.Prlimit(0, r.Resource, &unix.Rlimit{Cur: r.Value, Max: r.Value}, nil); err != nil {
			return failure{"prlimit", err}
		}
	}
	return nil
}

// launch starts the command from a thread that has dropped everything that the command must not have. So no second
// program is needed for that, and the rest of this process keeps its privileges.
type launch struct {
	f        *first
	filtered chan int      // the listener of the filter, once it is installed
	told     chan struct{} // closed when the supervisor has the listener
	done     chan struct{}

	command command
	err     error
}

func (l *launch) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with this function
	defer close(l.done)
	var name string
	if l.f.plan.Trusted {
		if l.f.plan.Change {
			if l.err = become(uintptr(l.f.plan.User)); l.err != nil {
				return
			}
		}
		name, l.command.status = find(l.f.plan.Argv[0], l.f.plan.Env)
	} else {
		if l.err = dropPrivileges(l.f.plan); l.err != nil {
			return
		}
		name, l.command.status = find(l.f.plan.Argv[0], l.f.plan.Env)
		if l.err = obey(l.f.plan.Rules); l.err != nil {
			return
		}
		if l.err = l.filter(); l.err != nil {
			return
		}
	}
	if name != "" {
		l.exec(name)
	}
	if l.command.status != 0 {
		complain(l.f.plan.Argv[0], l.command.status)
	}
}

// filter installs the system call filter.
func (l *launch) filter() error {
	p := l.f.plan
	if len(p.Filter) == 0 {
		return nil
	}
	listener, err := installFilter(p.Filter, p.Asking)
	if err != nil {
		return failure{"seccomp", err}
	}
	if p.Asking {
		l.filtered <- listener
		<-l.told
	}
	return nil
}

func (l *launch) exec(name string) {
	p := l.f.plan
	attr := &syscall.ProcAttr{Env: p.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for fd := range 3 + p.Passed {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	pid, err := syscall.ForkExec(name, p.Argv, attr)
	switch err {
	case nil:
		l.command.pid = pid
	case syscall.ENOENT, syscall.ENOTDIR:
		l.command.status = notFound << 8
	default:
		l.command.status = notExecutable << 8
	}
}

// find looks up the file of a command as a shell does. It returns an exit status if there is none.
func find(name string, env []string) (string, uint32) {
	if strings.Contains(name, "/") {
		return name, 0
	}
	status := uint32(notFound << 8)
	for _, dir := range strings.Split(searchPath(env), ":") {
		if dir == "" {
			dir = "."
		}
		var st unix.Stat_t
		if unix.Stat(dir+"/"+name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if unix.Faccessat(unix.AT_FDCWD, dir+"/"+name, unix.X_OK, 0) == nil {
			return dir + "/" + name, 0
		}
		status = notExecutable << 8
	}
	return "", status
}

func searchPath(env []string) string {
	for _, v := range env {
		if value, found := strings.CutPrefix(v, "PATH="); found {
			return value
		}
	}
	return "/usr/bin:/bin"
}

// complain writes to the command's stderr what a shell would.
func complain(name string, status uint32) {
	what := ": cannot be executed\n"
	if status == notFound<<8 {
		what = ": not found\n"
	}
	unix.Write(2, []byte("sandbox: "+name+what))
}

// shrug handles the signals that would end this process. It does not ignore them, because the command would inherit
// that.
func shrug() {
	c := make(chan os.Signal, 1) // further signals are dropped
	signal.Notify(c, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS,
		unix.SIGFPE, unix.SIGUSR1, unix.SIGSEGV, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM, unix.SIGSTKFLT,
		unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGIO, unix.SIGPWR, unix.SIGSYS)
}
