package namespaces

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox/namespaces/plan"
)

// base starts a trusted program in a world like that of a run, but with all privileges within it, so that it can
// build a run's world for each process that it forks: it is root in its user namespace, which has idsEach users if
// we are root outside and else that one; it sees all of its /proc, as mounting others demands; where a run's
// scratch parts go there are empty directories. It finds files from descriptor 3 on. What is returned kills it,
// and tells when it and everything that it has started have ended, which is at the latest when we do.
func (r *Runner) base(argv, env []string, stdio [3]*os.File, files []*os.File) (kill func(), gone <-chan struct{}, err error) {
	who, err := takeIDs(0)
	if err != nil {
		return nil, nil, err
	}
	var t trees
	defer t.close()
	p, err := r.world(false)
	if err == nil {
		err = r.openRootfs(p, who, &t)
	}
	if err != nil {
		who.release()
		return nil, nil, err
	}
	p.Argv, p.Env, p.Dir, p.Passed = argv, env, "/", len(files)
	p.Trusted, p.User, p.Proc = true, 0, plan.FullProc
	for _, part := range parts() {
		p.Dirs = append(p.Dirs, part.Inside)
	}
	first, err := begin(beginning{plan: p, who: who, stdio: stdio, passed: files, own: t.files})
	if err != nil {
		who.release()
		return nil, nil, fmt.Errorf("base: %w", err)
	}
	end := func() {
		first.wait()
		who.release()
	}
	if err := first.awaitStart(); err != nil {
		first.kill()
		end()
		return nil, nil, fmt.Errorf("base: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		first.receive() // that the program has ended, or the end of the socket
		end()
	}()
	return first.kill, ended, nil
}

// awaitStart waits until the command runs.
func (p *process) awaitStart() error {
	m, file, err := p.receive()
	if file != nil {
		file.Close()
	}
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the first process ended early")
	case err != nil:
		return err
	case m.Kind == plan.Failed:
		return &setupError{m.Text, unix.Errno(m.Errno)}
	case m.Kind == plan.Ended:
		return fmt.Errorf("the program cannot be started: status %#x", m.Status)
	default:
		return nil
	}
}
