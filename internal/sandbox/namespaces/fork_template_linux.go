package namespaces

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
)

// templateSource is what a warm interpreter executes in place of main(); its own comment says what it promises.
//
//go:embed template.py
var templateSource []byte

// hook executes templateSource from descriptor 4. It stands in the line that Program.Source leaves blank before
// main(), so that every line keeps its number.
const hook = `exec(__import__("posix").read(4, 1<<20), {})`

// templatePatience is how long an interpreter may take to import what its program needs, and later to fork.
const templatePatience = 20 * time.Second

// template is one warm interpreter: a process in namespaces of its own that forks for each request.
type template struct {
	begin   sync.Once
	failure error // why it does not serve; read after begin

	requests *net.UnixConn
	kill     func()        // ends the process, and with it whatever it has forked
	gone     chan struct{} // closed when a process that served has ended

	runs   int         // under way; guarded by templates.mu, as what follows
	used   int         // when it was last asked, in calls
	idle   *time.Timer // ends it; nil while it is used
	broken bool        // it is asked no more, and ends with its last run
}

// launcher starts a program in base namespaces, where it finds files from descriptor 3 on. It returns what kills
// it and a channel that is closed when it, and all that it had started, has ended.
type launcher func(argv, env []string, stdio [3]*os.File, files []*os.File) (kill func(), gone <-chan struct{}, err error)

// start starts the interpreter and waits until it serves.
func (t *template) start(launch launcher, s sandbox.Spec) error {
	source, err := memory("template", templateSource)
	if err != nil {
		return err
	}
	defer source.Close()
	theirs, err := t.connect()
	if err != nil {
		return err
	}
	defer theirs.Close()
	said, stdio, err := silence()
	if err != nil {
		return err
	}
	defer said.Close()
	argv := append(slices.Clone(s.Argv), "-c", s.Program.Setup+"\n"+hook+"\nmain()\n")
	kill, ended, err := launch(argv, interpreterEnv(s.Env), stdio, []*os.File{theirs, source})
	closeAll(stdio[:])
	theirs.Close()
	if err != nil {
		t.requests.Close()
		return err
	}
	if err := t.awaitUp(said); err != nil {
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

// connect makes the socket of requests and returns the template's end.
func (t *template) connect() (theirs *os.File, err error) {
	t.requests, theirs, err = socketpair("requests")
	return theirs, err
}

// awaitUp waits for the word that the program's first part has run. Whatever that part writes would be missing
// from the runs, so it may write nothing.
func (t *template) awaitUp(said *os.File) error {
	defer time.AfterFunc(templatePatience, func() { t.requests.SetReadDeadline(time.Unix(1, 0)) }).Stop()
	word := make([]byte, 4)
	n, err := t.requests.Read(word)
	if text := waiting(said); text != "" {
		return fmt.Errorf("it writes while it starts: %s", text)
	}
	if err != nil {
		return err
	}
	if string(word[:n]) != "up" {
		return errors.New("it says something else")
	}
	return nil
}

// ended reports whether the process has.
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

// ask has the template fork a process that will be user, a user id of the template's namespace, and talk over
// the socket whose other end it returns.
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

// interpreterEnv is the part of an environment that Python and the C library read once, when they start.
func interpreterEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name != "PATH" && name != "HOME" && name != "TZ" && !slices.ContainsFunc(
			[]string{"PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}
