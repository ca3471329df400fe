package namespaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// Tier is the runner's name in verdicts.
const Tier = "namespaces"

// Probe implements sandbox.Runner by running true.
func (r *Runner) Probe(ctx context.Context) sandbox.Caps {
	c := sandbox.Caps{Tier: Tier, Forks: true}
	var err error
	if c.Rootfs, err = r.rootfsHash(); err != nil {
		c.Reason, c.Remedy = err.Error(), "name a directory with a root file system that guild may read"
		return c
	}
	spec := sandbox.Spec{Argv: []string{"/bin/true"}, Env: []string{"PATH=/usr/bin:/bin"}, Limits: sandbox.Limits{Wall: 10 * time.Second}}
	res, err := r.Run(ctx, spec, sandbox.IO{})
	switch {
	case err != nil:
		c.Reason, c.Remedy = explain(err, confine.ThisMachine())
	case res.Exit != 0:
		c.Reason = fmt.Sprintf("/bin/true exits %d in the sandbox", res.Exit)
		c.Remedy = "name a root file system whose programs run on this machine"
	default:
		c.Usable = true
		if abi := landlockVersion(); abi > 0 {
			c.MAC = fmt.Sprintf("landlock %d", abi)
		}
		c.Gaps, c.Lacks = r.gaps()
		c.Gaps = append(c.Gaps, r.warm.gaps()...)
	}
	return c
}

// gaps returns the gaps on this machine, for people and for programs.
func (r *Runner) gaps() (gaps []string, lacks []sandbox.Feature) {
	if r.noProc.Load() {
		gaps = append(gaps, "this machine refuses a new /proc, so runs have none; in docker, add --security-opt systempaths=unconfined")
	}
	if len(confine.Filter(sandbox.Standard)) == 0 {
		gaps = append(gaps, "no system call filter for this processor")
		lacks = append(lacks, sandbox.ReportsEscapes, sandbox.ReportsDescendants, sandbox.CountsRefused, sandbox.ReportsAddresses)
	} else if r.noSupervisor.Load() {
		gaps = append(gaps, "another supervisor watches guild's system calls: a forbidden one ends a run, and is reported only of the command itself")
		lacks = append(lacks, sandbox.ReportsDescendants, sandbox.CountsRefused, sandbox.ReportsAddresses)
	}
	if landlockVersion() == 0 {
		gaps = append(gaps, "no Landlock, from Linux 5.19 on, to stand behind the namespaces")
	}
	if r.Rootfs == "" {
		gaps = append(gaps, "the host's /usr is visible, so a run depends on the versions installed here")
	}
	if missing := confine.GroupGaps(); missing != nil {
		gaps = append(gaps, missing...)
	} else if r.noGroup.Load() {
		gaps = append(gaps, "control groups cannot be entered: memory and processes are polled, not capped by the kernel")
	}
	if who, err := takeIDs(sandbox.User); err == nil {
		who.release()
		if os.Geteuid() == 0 && !who.ranged {
			gaps = append(gaps, "guild is root of a user namespace with few users, so that runs share its own")
		}
	}
	return gaps, lacks
}

// explain returns the reason why no sandbox could be built on a machine, and a remedy, each in one line.
func explain(err error, m confine.Machine) (reason, remedy string) {
	reason = strings.TrimPrefix(err.Error(), "sandbox: ")
	_, building := errors.AsType[*setupError](err) // the namespaces were created
	full := errors.Is(err, unix.ENOSPC)
	denied := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
	const unfiltered = "in docker or podman, add --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
	if obstacles := m.Obstacles(); len(obstacles) > 0 && (denied || full) {
		return reason + ": " + obstacles[0].Reason, obstacles[0].Remedy
	}
	var cause string
	switch {
	case full:
		cause, remedy = "no more user namespaces are allowed (user.max_user_namespaces)", "sudo sysctl -w user.max_user_namespaces=15000"
	case denied && !building && m.Filtered():
		cause, remedy = "a container's system call filter refuses new namespaces", unfiltered
	case errors.Is(err, unix.ENOSYS):
		cause = "the kernel is too old or a filter hides its mount interface"
		remedy = "Linux 5.12 or later; in docker or podman, add --security-opt seccomp=unconfined"
	case denied && m.Setting("vm/memfd_noexec") == "2":
		cause, remedy = "programs in memory may not be executed (vm.memfd_noexec)", "sudo sysctl -w vm.memfd_noexec=1"
	case denied && building:
		cause = "the machine or container refuses mounts in a user namespace"
		remedy = unfiltered + " --security-opt apparmor=unconfined"
	case denied:
		cause, remedy = "new user namespaces are refused", "allow user namespaces, or install gVisor"
	default:
		return reason, "run guild as an ordinary user on Linux 5.12 or later, outside of containers"
	}
	return reason + ": " + cause, remedy
}
