package namespaces

import (
	_ "embed"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// templateSource is the Python program that a warm interpreter executes in place of main(). It forks a process for each
// run.
//
//go:embed template.py
var templateSource []byte

// hook executes templateSource from descriptor 4. It replaces the blank line before main() in Program.Source, so line
// numbers in tracebacks are the same as in a cold run. Without compile, each run would free the syntax tree.
const hook = `exec(compile(__import__("posix").read(4, 1<<20), "<string>", "exec"), {})`

// templatePatience limits the time in which an interpreter must execute Program.Setup, and later fork.
const templatePatience = 20 * time.Second

// template is one warm interpreter: a process in its own namespaces that forks for each request.
type template struct {
	begin   sync.Once
	failure error // the reason why it could not be started; read it after begin

	requests *net.UnixConn
	kill     func()        // kills the process and all its forks
	gone     chan struct{} // closed when the process has ended

	// Guarded by templates.mu.
	runs   int         // current runs
	used   int         // templates.asked at its last use
	idle   *time.Timer // ends the template; nil while it is in use
	broken bool        // it gets no new runs, and ends with its last one
}

// launcher starts a program in base namespaces, with files as its descriptors from 3 on. kill kills it; gone is closed
// when it and all processes that it started have ended.
type launcher func(argv, env []string, stdio [3]*os.File, files []*os.File) (kill func(), gone <-chan struct{}, err error)

// start starts the interpreter and waits until it accepts requests.
func (t *template) start(launch launcher, s sandbox.Spec) error {
	source, err := memory("template", templateSource)
	if err != nil {
		return err
	}
	defer source.Close()
	var theirs *os.File // the template's end of the socket for requests
	if t.requests, theirs, err = socketpair("requests"); err != nil {
		return err
	}
	defer theirs.Close()
	output, stdio, err := silentStreams()
	if err != nil {
		return err
	}
	defer output.Close()
	argv := append(slices.Clone(s.Argv), "-c", s.Program.Setup+"\n"+hook+"\nmain()\n")
	kill, ended, err := launch(argv, interpreterEnv(s.Env), stdio, []*os.File{theirs, source})
	closeAll(stdio[:])
	theirs.Close()
	if err != nil {
		t.requests.Close()
		return err
	}
	if err := t.awaitUp(output); err != nil {
		t.requests.Close()
		kill()
		<-ended
		return fmt.Errorf("%s does not stay warm: %w", s.Program.Name, err)
	}
	t.kill = kill
	go func() {
		<-ended
		close(t.gone)
	}()
	return nil
}

// awaitUp waits for the message that Program.Setup was executed. Output of Setup is an error, because the runs would
// miss it.
func (t *template) awaitUp(output *os.File) error {
	defer time.AfterFunc(templatePatience, func() { t.requests.SetReadDeadline(time.Unix(1, 0)) }).Stop()
	word := make([]byte, 4)
	n, err := t.requests.Read(word)
	if text := readAvailable(output); text != "" {
		return fmt.Errorf("it writes while it starts: %s", text)
	}
	if err != nil {
		return err
	}
	if string(word[:n]) != "up" {
		return fmt.Errorf("unexpected message %q", word[:n])
	}
	return nil
}

// ended reports whether the process has ended.
func (t *template) ended() bool {
	select {
	case <-t.gone:
		return true
	default:
		return false
	}
}

// end ends the process and waits until it has ended.
func (t *template) end() {
	t.requests.Close()
	t.kill()
	<-t.gone
}

// ask makes the template fork a process with a user id of the template's namespace. It returns our end of the socket to
// that process.
func (t *template) ask(user uint32) (*net.UnixConn, error) {
	ours, theirs, err := socketpair("run")
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if err := passCredentials(ours); err != nil {
		ours.Close()
		return nil, err
	}
	header := []byte{byte(user), byte(user >> 8), byte(user >> 16), byte(user >> 24)}
	if _, _, err := t.requests.WriteMsgUnix(header, unix.UnixRights(int(theirs.Fd())), nil); err != nil {
		ours.Close()
		return nil, fmt.Errorf("ask the template: %w", err)
	}
	return ours, nil
}

// interpreterEnv returns the variables of an environment that Python and the C library read only at their start.
func interpreterEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name != "PATH" && name != "HOME" && name != "TZ" && !slices.ContainsFunc(
			[]string{"PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}
