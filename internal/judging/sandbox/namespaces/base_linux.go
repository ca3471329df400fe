package namespaces

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/namespaces/plan"
)

// base starts a trusted program in the file system of a run, but with all privileges in its namespaces, so that it can
// build the file system of a run for each process that it forks. The program is root in its user namespace, which has
// idsEach users if we are root on the host, and one otherwise. It sees the whole /proc of its namespace, because the
// kernel requires that for mounting another one. The directories of a run's scratch file system exist and are empty.
// The program has files as its descriptors from 3 on.
//
// kill kills the program. gone is closed when the program and all processes that it started have ended; they end at the
// latest with this process.
func (r *Runner) base(argv, env []string, stdio [3]*os.File, files []*os.File) (kill func(), gone <-chan struct{}, err error) {
	who, err := takeIDs(0)
	if err != nil {
		return nil, nil, err
	}
	var t trees
	defer t.close()
	p := world(cmp.Or(r.Rootfs, "/"), false)
	if err := r.openRootfs(p, who, &t); err != nil {
		who.release()
		return nil, nil, err
	}
	p.Argv, p.Env, p.Dir, p.Passed = argv, env, "/", len(files)
	p.Trusted, p.User, p.Change, p.Proc = true, 0, who.ranged, plan.FullProc
	for _, part := range parts() {
		p.Dirs = append(p.Dirs, part.Inside)
	}
	first, err := begin(processConfig{plan: p, who: who, stdio: stdio, passed: files, own: t.files})
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
		first.receive() // a message that the program has ended, or the end of the socket
		end()
	}()
	return first.kill, ended, nil
}

// awaitStart waits until the process has started its command.
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
		return &setupError{what: m.Text, errno: unix.Errno(m.Errno)}
	case m.Kind == plan.Ended:
		return fmt.Errorf("the program cannot be started: status %#x", m.Status)
	default:
		return nil
	}
}
