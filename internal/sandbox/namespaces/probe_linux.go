package namespaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
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
		c.Reason, c.Remedy = explain(err)
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

// gaps is what works less well here than it could.
func (r *Runner) gaps() (gaps []string, lacks []sandbox.Feature) {
	if r.noProc.Load() {
		gaps = append(gaps, "this machine refuses a new /proc, so runs have none; in docker, add --security-opt systempaths=unconfined")
	}
	if len(confine.Filter(sandbox.Standard)) == 0 {
		gaps = append(gaps, "no system call filter for this processor")
		lacks = append(lacks, sandbox.ReportsEscapes, sandbox.ReportsDescendants, sandbox.CountsRefused, sandbox.ReportsAddresses)
	} else if r.unasked.Load() {
		gaps = append(gaps, "another supervisor watches guild's system calls: a forbidden one ends a run, and is reported only of the command itself")
		lacks = append(lacks, sandbox.ReportsDescendants, sandbox.CountsRefused, sandbox.ReportsAddresses)
	}
	if landlockVersion() == 0 {
		gaps = append(gaps, "no Landlock, from Linux 5.19 on, to stand behind the namespaces")
	}
	if r.Rootfs == "" {
		gaps = append(gaps, "the host's /usr is visible, so a run depends on the versions installed here")
	}
	if groupless := confine.GroupGaps(); groupless != nil {
		gaps = append(gaps, groupless...)
	} else if r.noGroup.Load() {
		gaps = append(gaps, "control groups cannot be entered: memory and processes are polled, not capped by the kernel")
	}
	if who, err := takeIDs(sandbox.User); err == nil {
		if who.release(); os.Geteuid() == 0 && !who.ranged {
			gaps = append(gaps, "guild is root of a user namespace with few users, so that runs share its own")
		}
	}
	return gaps, lacks
}

// explain says why there is no sandbox, in words and as one line that helps.
func explain(err error) (reason, remedy string) {
	reason = strings.TrimPrefix(err.Error(), "sandbox: ")
	for _, known := range signatures() {
		if known.applies(err) {
			return reason + ": " + known.reason, known.remedy
		}
	}
	return reason, "run guild as an ordinary user on Linux 5.12 or later, outside of containers"
}

// signature is how a machine that refuses what a sandbox needs can be told.
type signature struct {
	applies        func(error) bool
	reason, remedy string
}

func signatures() []signature {
	denied := func(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }
	building := func(err error) bool { _, ok := errors.AsType[*setupError](err); return ok }
	return []signature{
		{func(err error) bool { return errors.Is(err, unix.ENOSPC) || setting("user/max_user_namespaces") == 0 },
			"no more user namespaces are allowed (user.max_user_namespaces)", "sysctl -w user.max_user_namespaces=10000"},
		{func(err error) bool {
			return denied(err) && setting("kernel/unprivileged_userns_clone") == 0 && os.Geteuid() != 0
		},
			"user namespaces are for root only (kernel.unprivileged_userns_clone)", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{func(err error) bool {
			return denied(err) && setting("kernel/apparmor_restrict_unprivileged_userns") == 1
		},
			"AppArmor takes the rights in new user namespaces away", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for guild with \"userns,\""},
		{func(err error) bool { return denied(err) && !building(err) && filtered() },
			"a container's system call filter refuses new namespaces", "in docker or podman, add --security-opt seccomp=unconfined --security-opt systempaths=unconfined"},
		{func(err error) bool { return errors.Is(err, unix.ENOSYS) },
			"the kernel is too old or a filter hides its mount interface", "Linux 5.12 or later; in docker or podman, add --security-opt seccomp=unconfined"},
		{func(err error) bool { return denied(err) && setting("vm/memfd_noexec") == 2 },
			"programs in memory may not be executed (vm.memfd_noexec)", "sysctl -w vm.memfd_noexec=1"},
		{func(err error) bool { return denied(err) && building(err) },
			"the machine or container refuses mounts in a user namespace", "in docker or podman, add --security-opt seccomp=unconfined --security-opt systempaths=unconfined --security-opt apparmor=unconfined"},
		{denied, "new user namespaces are refused", "allow user namespaces, or install gVisor"},
	}
}

// setting reads a number below /proc/sys; -1 if it is not there.
func setting(name string) int {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

// filtered reports whether this process is under a system call filter.
func filtered() bool {
	b, _ := os.ReadFile("/proc/self/status")
	return strings.Contains(string(b), "\nSeccomp:\t2")
}
