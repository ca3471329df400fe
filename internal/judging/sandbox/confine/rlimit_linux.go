package confine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// MarkLimit is the resource limit that marks the processes of a run without namespaces. The kernel does not use it, children
// inherit it, and AloneFilter does not let the run change it.
const MarkLimit = unix.RLIMIT_LOCKS

// SetRlimits sets the resource limits of a process; its children inherit them. They only back up the control group,
// because each applies to one process.
func SetRlimits(pid int, l sandbox.Limits) error {
	for resource, n := range Rlimits(l) {
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	return nil
}

// spare is the amount by which RLIMIT_NPROC exceeds Limits.Pids. Nothing reports that a resource limit was reached, so
// the control group or the polling must notice first. Starting so many processes takes longer than the time between two
// polls.
const spare = 512

// spareCPU is the number of seconds by which RLIMIT_CPU exceeds Limits.CPU, rounded down. The kernel counts whole ticks
// for it, which on a busy machine are more than the time used, and it does not report the kill. So the polling, which
// counts exactly, must end a run first.
const spareCPU = 3

// Rlimits returns the resource limits of each process of a run, by resource.
func Rlimits(l sandbox.Limits) map[int]uint64 {
	limits := map[int]uint64{
		unix.RLIMIT_CPU:    uint64(l.CPU/time.Second) + spareCPU,
		unix.RLIMIT_FSIZE:  uint64(l.Disk),
		unix.RLIMIT_NOFILE: 1024,
		unix.RLIMIT_CORE:   0,
	}
	if os.Geteuid() != 0 && limitsByNamespace() {
		n := uint64(l.Pids) + spare
		var own unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err == nil {
			n = min(n, own.Max) // an ordinary user cannot set a higher one
		}
		limits[unix.RLIMIT_NPROC] = n
	}
	return limits
}

// limitsByNamespace reports whether RLIMIT_NPROC counts the processes of a user namespace, as since Linux 5.14. Older
// kernels count all processes of the user, and a busy desktop alone would exceed the limit.
func limitsByNamespace() bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, _ := strconv.Atoi(major)
	y, _ := strconv.Atoi(minor)
	return x > 5 || x == 5 && y >= 14
}
