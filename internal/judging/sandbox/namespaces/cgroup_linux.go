package namespaces

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/confine"
)

// startIn starts a process in a control group. Version 2 has a clone flag for that. In version 1 a thread moves into the
// group, starts the process and ends; that is faster than moving the process afterwards.
func startIn(g *confine.Cgroup, name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if g == nil {
		return os.StartProcess(name, argv, attr)
	}
	if dir := g.FD(); dir != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(dir.Fd())
		return os.StartProcess(name, argv, attr)
	}
	tasks, err := g.Tasks()
	if err != nil {
		return nil, err
	}
	defer closeAll(tasks)
	var p *os.Process
	onThread(func() {
		for _, t := range tasks {
			_, err = t.Write([]byte("0"))
			// A group that limits processors refuses real-time threads. The process then runs without that limit.
			realTime := errors.Is(err, unix.EINVAL) && strings.Contains(t.Name(), "/cpu")
			if err != nil && !realTime {
				err = fmt.Errorf("control group: %w", err)
				return
			}
		}
		p, err = os.StartProcess(name, argv, attr)
	})
	return p, err
}

// onThread calls f on a thread that ends afterwards, and waits for it. The thread is never the main thread, because
// that cannot end.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onThread(f) // this goroutine holds the main thread, so the next one gets another
			return
		}
		f()
	}()
	<-done
}
