package confine

import (
	"errors"
	"fmt"
	"io/fs"

	"guild/internal/judging/sandbox"
)

// Enclose puts a process in a new control group. Processes that it starts later are in it too. If that is impossible it
// returns nil, and Watch polls instead. It returns an error only for a group that could not be removed again.
func Enclose(pid int, l sandbox.Limits) (*Cgroup, error) {
	g, err := NewCgroup(l)
	if err != nil {
		return nil, nil
	}
	if g.Add(pid) != nil {
		return nil, g.Remove()
	}
	return g, nil
}

// NoGroup returns the reason why no control group can be created on this machine; nil if one can. The error is the same
// each time: it omits the names of groups, which differ from run to run.
func NoGroup() error {
	g, err := NewCgroup(sandbox.Limits{}.WithDefaults())
	if err != nil {
		return withoutNames(err)
	}
	g.Remove() // it is empty
	return nil
}

// withoutNames removes the file name from an error.
func withoutNames(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", failed.Op, failed.Err)
	}
	return err
}

// GroupGaps returns the gaps of a runner on this machine without control groups, for sandbox.Caps.Gaps.
func GroupGaps() []string {
	err := NoGroup()
	if err == nil {
		return nil
	}
	return []string{"no control group (" + err.Error() + "): memory and processes are polled, not capped by the kernel"}
}
