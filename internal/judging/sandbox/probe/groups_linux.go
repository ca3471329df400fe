package probe

import (
	"os"

	"guild/internal/judging/sandbox/confine"
)

// groupRemedies returns remedies if no control group can be created for a run.
func groupRemedies() []string {
	err := confine.NoGroup()
	if err == nil {
		return nil
	}
	if os.Geteuid() == 0 {
		return []string{"limits are polled, for no control group can be made (" + err.Error() + "): in a container, docker run --cgroupns=private with a writable /sys/fs/cgroup"}
	}
	return []string{"limits are polled, for no control group can be made (" + err.Error() + "): systemd-run --user --scope -p Delegate=yes guild …"}
}
