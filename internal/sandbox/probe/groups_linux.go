package probe

import (
	"os"

	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
)

// groupRemedies help where no control group can be made for a run.
func groupRemedies() []string {
	g, err := confine.NewCgroup(sandbox.Limits{}.WithDefaults())
	if err == nil {
		g.Remove() // made a moment ago and empty
		return nil
	}
	if os.Geteuid() == 0 {
		return []string{"limits are polled, for no control group can be made (" + err.Error() + "): in a container, docker run --cgroupns=private with a writable /sys/fs/cgroup"}
	}
	return []string{"limits are polled, for no control group can be made (" + err.Error() + "): systemd-run --user --scope -p Delegate=yes guild …"}
}
