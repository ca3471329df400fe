package namespaces

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
)

// result reads what is left when everything has ended.
func (r *coldRun) result(killed string) (sandbox.Result, error) {
	if r.collected != nil && killed == "" && r.last != nil {
		return sandbox.Result{}, r.collected
	}
	if r.supervisor != nil {
		r.supervisor.Close()
	}
	res := sandbox.Result{Killed: cmp.Or(killed, r.watch.Exceeded()), Cut: r.flood.Cut(), Usage: r.usage()}
	if res.Killed == "" && r.filled(res.Usage) {
		res.Killed = sandbox.KilledDisk
	}
	res.Breaches = r.breaches()
	res.Warnings = append(r.watch.Warnings(res.Usage), r.trees.warnings...)
	if r.supervisor != nil {
		res.Warnings = append(res.Warnings, r.supervisor.Warnings()...)
	}
	res.LeaveOut(r.left)
	return res, r.ending(&res)
}

// filled reports whether the run has used all of its disk up, which it may have done between two looks at it.
func (r *coldRun) filled(u guild.Usage) bool {
	return r.last != nil && r.last.Full || confine.Filled(u.DiskPeak, r.spec.Limits)
}

// ending says how the command ended.
func (r *coldRun) ending(res *sandbox.Result) error {
	var status unix.WaitStatus
	if r.last != nil {
		status = unix.WaitStatus(r.last.Status)
	}
	switch {
	case res.Killed != "" || r.last == nil && len(res.Breaches) > 0:
		res.Exit, res.Signal = 128+int(unix.SIGKILL), unix.SignalName(unix.SIGKILL)
	case r.last == nil:
		return fmt.Errorf("sandbox: the run was ended from outside")
	case status.Signaled():
		res.Exit, res.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
	default:
		res.Exit = status.ExitStatus()
	}
	return nil
}

// usage adds what the first process has seen, at least.
func (r *coldRun) usage() guild.Usage {
	u := r.watch.Usage()
	if r.last != nil {
		u.CPUMs = max(u.CPUMs, r.last.CPU/1000)
		u.MemoryPeak = max(u.MemoryPeak, r.last.Memory)
		u.DiskPeak = max(u.DiskPeak, r.last.Disk)
	}
	if r.supervisor != nil {
		u.Refused = r.supervisor.Refused()
	}
	return u
}

// breaches are what the supervisor saw and, where it saw nobody reach out, what the network counted.
func (r *coldRun) breaches() []guild.Breach {
	var found []guild.Breach
	if r.supervisor != nil {
		found = r.supervisor.Breaches()
	} else if r.last != nil && unix.WaitStatus(r.last.Status).Signal() == unix.SIGSYS {
		found = append(found, confine.Forbidden())
	}
	reached := slices.ContainsFunc(found, func(b guild.Breach) bool {
		return slices.Contains([]string{"connect", "sendto", "sendmsg", "sendmmsg"}, b.Syscall)
	})
	if reached {
		return found
	}
	return append(found, r.counters.Breaches()...)
}
