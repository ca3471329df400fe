package namespaces

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// result returns the result of the run. All of its processes have ended. killed is the limit that it was killed for, if
// any.
func (r *coldRun) result(killed string) (sandbox.Result, error) {
	if r.collected != nil && killed == "" && r.last != nil {
		return sandbox.Result{}, r.collected
	}
	if r.supervisor != nil {
		r.supervisor.Close()
	}
	var status unix.WaitStatus
	var least guild.Usage
	full := false
	if r.last != nil {
		status, full = unix.WaitStatus(r.last.Status), r.last.Full
		least = guild.Usage{CPUMs: r.last.CPU / 1000, MemoryPeak: r.last.Memory, DiskPeak: r.last.Disk}
	}
	res := sandbox.Result{Cut: r.flood.Cut(), Usage: r.watch.Usage(least)}
	res.Killed = cmp.Or(killed, r.watch.Exceeded(res.Usage))
	if r.supervisor != nil {
		res.Usage.Refused = r.supervisor.Refused()
	}
	// The disk may have been filled between two polls.
	if res.Killed == "" && (full || confine.Filled(res.Usage.DiskPeak, r.spec.Limits)) {
		res.Killed = sandbox.KilledDisk
	}
	res.Breaches = r.breaches()
	res.Warnings = append(r.watch.Warnings(res.Usage), r.trees.warnings...)
	if r.supervisor != nil {
		res.Warnings = append(res.Warnings, r.supervisor.Warnings()...)
	}
	res.LeaveOut(r.skipped)
	switch {
	case res.Killed != "" || r.last == nil && len(res.Breaches) > 0:
		res.Exit, res.Signal = 128+int(unix.SIGKILL), unix.SignalName(unix.SIGKILL)
	// Nothing in the run can kill the first process, and it was not killed for a limit.
	case r.last == nil:
		return res, fmt.Errorf("sandbox: the run was killed from outside")
	case status.Signaled():
		res.Exit, res.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
	default:
		res.Exit = status.ExitStatus()
	}
	return res, nil
}

// breaches returns the breaches that the supervisor saw and, if it saw no attempt to reach the network, those that the
// network counters show.
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
