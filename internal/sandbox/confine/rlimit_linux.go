package confine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
)

// MarkLimit is the resource limit by which the processes of a run without namespaces are told from others: the
// kernel ignores it, whoever is born has it from its parent, and AloneFilter lets nobody change it.
const MarkLimit = unix.RLIMIT_LOCKS

// SetRlimits sets the resource limits of a process; what it starts inherits them. They are a second line behind
// the control group, for each counts one process only.
func SetRlimits(pid int, l sandbox.Limits) error {
	for resource, n := range Rlimits(l) {
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	return nil
}

// spare is how many processes more than Limits.Pids the resource limit lets a run have: the control group, or who
// looks at the run, must come first, for nobody tells of a resource limit that was reached. To start so many takes
// longer than the time between two looks.
const spare = 512

// Rlimits are the resource limits of every process of a run.
func Rlimits(l sandbox.Limits) map[int]uint64 {
	limits := map[int]uint64{
		unix.RLIMIT_CPU:    uint64(l.CPU/time.Second) + 1,
		unix.RLIMIT_FSIZE:  uint64(l.Disk),
		unix.RLIMIT_NOFILE: 1024,
		unix.RLIMIT_CORE:   0,
	}
	if os.Geteuid() != 0 && limitsByNamespace() {
		limits[unix.RLIMIT_NPROC] = min(uint64(l.Pids)+spare, hardest(unix.RLIMIT_NPROC))
	}
	return limits
}

// hardest is the limit that this process has itself, above which it can set no other's.
func hardest(resource int) uint64 {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return unix.RLIM_INFINITY
	}
	return now.Max
}

// limitsByNamespace reports whether RLIMIT_NPROC counts the processes of a user namespace, as since Linux 5.14.
// Before, it counts all that the user has, and a busy desktop would be over the limit from the start.
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
