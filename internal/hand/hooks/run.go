package hooks

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"guild/nook"
)

// Command is a command that reports its start and its end.
type Command struct {
	Args       []string // the program and its arguments
	AgentID    string
	WorkUnitID string // the name of the program if empty

	Stdin  io.Reader
	Stdout io.Writer // searched for tokens, unless it is a terminal, which the command then gets itself
	Stderr io.Writer // streams can be nil
	Now    func() time.Time
}

// forwarded are the signals that are passed on.
var forwarded = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}

// Run runs the command to its end and returns its exit status, 128 and the signal's number if a signal ended it. It spools
// agent.started before, and agent.completed with the tokens that the command printed or agent.failed after; what cannot be
// spooled is lost, as the command comes first. A command that cannot be started is an error, and reports nothing. If ctx ends,
// the command gets SIGTERM.
func (c Command) Run(ctx context.Context, to Spool) (int, error) {
	if len(c.Args) == 0 {
		return 0, errors.New("no command")
	}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	var found counter
	switch {
	case c.Stdout == nil:
		cmd.Stdout = &found
	case !isTerminal(c.Stdout):
		cmd.Stdout = io.MultiWriter(c.Stdout, &found)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, append([]os.Signal{syscall.SIGPIPE}, forwarded...)...) // a closed output must not end us first
	defer signal.Stop(signals)
	id := "run-" + strings.ToLower(rand.Text())
	unit := cmp.Or(c.WorkUnitID, filepath.Base(c.Args[0]))
	began := c.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		pass(cmd.Process, signals, done, isTerminal(c.Stdin))
	}()
	_ = to.Write(nook.Event{ID: id + "-start", Type: nook.TypeStarted, AgentID: c.AgentID, WorkUnitID: unit, Timestamp: began.UnixMilli()})
	err := cmd.Wait()
	close(done)
	<-passed
	status, problem := outcome(cmd.ProcessState, err)
	e := nook.Event{ID: id + "-end", AgentID: c.AgentID, Timestamp: c.Now().UnixMilli()}
	if problem == "" {
		success := true
		e.Type, e.WorkUnitID, e.Tokens, e.Success = nook.TypeCompleted, unit, found.tokens(), &success
	} else {
		e.Type, e.Error = nook.TypeFailed, problem
	}
	_ = to.Write(e)
	return status, nil
}

// outcome returns the exit status, and what is wrong with it.
func outcome(state *os.ProcessState, err error) (status int, problem string) {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal()), fmt.Sprintf("signal: %v", w.Signal())
	}
	if status = state.ExitCode(); status != 0 {
		return status, fmt.Sprintf("exit status %d", status)
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) { // an output that nobody reads to its end is no failure
		return 0, err.Error()
	}
	return 0, ""
}

// pass passes signals on to a process until it is done. A terminal sends the keys Ctrl-C and Ctrl-\ and its changes of size to
// the process itself, so these are not sent twice.
func pass(p *os.Process, signals <-chan os.Signal, done <-chan struct{}, atTerminal bool) {
	for {
		select {
		case s := <-signals:
			switch s {
			case syscall.SIGPIPE:
			case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH:
				if !atTerminal {
					_ = p.Signal(s) // it may have ended
				}
			default:
				_ = p.Signal(s)
			}
		case <-done:
			return
		}
	}
}

// isTerminal reports whether a stream of this process is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
