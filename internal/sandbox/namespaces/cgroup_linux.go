package namespaces

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox/confine"
)

// startIn starts a process in a control group. Version 2 has a clone flag for that; in version 1 a thread goes
// there first, which is quicker than to move a process, and ends there.
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
			if _, err = t.Write([]byte("0")); err != nil && !isShares(t, err) {
				err = fmt.Errorf("control group: %w", err)
				return
			}
		}
		p, err = os.StartProcess(name, argv, attr)
	})
	return p, err
}

// isShares reports whether a group refused a thread because it shares processors out, which the kernel does not do
// for a real-time thread; that one goes without.
func isShares(tasks *os.File, err error) bool {
	return errors.Is(err, unix.EINVAL) && strings.Contains(tasks.Name(), "/cpu")
}

// onThread calls f on a thread that ends afterwards, and waits for it. That is never the main thread, which
// cannot end.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onThread(f) // the main thread waits here, so this is another one
			return
		}
		f()
	}()
	<-done
}
