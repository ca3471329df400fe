package confine

import (
	"errors"
	"fmt"
	"io/fs"

	"guild/internal/sandbox"
)

// Enclose puts a process in a control group of its own; what it starts later is in, too. Where that cannot be done
// there is none, and Watch polls. The error is about a group that cannot be removed again.
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

// NoGroup says why no control group can be made for a run here; nil if one can. It says the same each time: names of
// groups, which differ from run to run, are left out.
func NoGroup() error {
	g, err := NewCgroup(sandbox.Limits{}.WithDefaults())
	if err != nil {
		return withoutNames(err)
	}
	g.Remove() // made a moment ago and empty
	return nil
}

// withoutNames is an error about a file that leaves its name out.
func withoutNames(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", failed.Op, failed.Err)
	}
	return err
}

// GroupGaps are the gaps of a runner on this machine, as in sandbox.Caps, for want of control groups.
func GroupGaps() []string {
	err := NoGroup()
	if err == nil {
		return nil
	}
	return []string{"no control group (" + err.Error() + "): memory and processes are polled, not capped by the kernel"}
}
