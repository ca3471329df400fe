package landlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// Runner is the sandbox.Runner that needs no namespaces. A run is a process of the same user on the host's own file
// system. It can read the host's programs and libraries and write one directory of its own. It can reach no network
// address, and no process except its own. The zero value works.
type Runner struct{}

// Tier is the runner's name in verdicts.
const Tier = "landlock"

const remedy = "a kernel from 5.13 on with Landlock among its security modules (lsm=landlock,…)"

// Probe implements sandbox.Runner by running true.
func (r Runner) Probe(ctx context.Context) sandbox.Caps {
	version := abi()
	c := sandbox.Caps{Tier: Tier, Rootfs: "host", Remedy: remedy}
	if version == 0 {
		c.Reason = "the kernel has no Landlock"
		return c
	}
	if err := sandbox.Try(ctx, r); err != nil {
		c.Reason = err.Error()
		return c
	}
	c.Usable, c.Remedy, c.MAC = true, "", fmt.Sprintf("landlock %d", version)
	c.Lacks = lacks
	c.Gaps = []string{ // compared with a tier that has namespaces
		"a run is a process of the user that runs guild, among all others: it sees that files of the host exist, and their names and times, though not their content",
		"no /proc, no /dev/shm and no temporary directory but TMPDIR: programs that insist on them fail",
		"no loopback: a program cannot talk to itself over the network, nor listen on a Unix socket",
		"modes, owners, times and attributes of files cannot be changed; the calls succeed and do nothing",
		"a run writes to the host's disk and its files are counted by polling; an open file without a name is not counted",
		"if guild is killed, what a run started in the background lives on until its processor time is used up",
		"the host's /usr is visible, so a run depends on the versions installed here",
	}
	if version < 6 {
		c.Gaps = append(c.Gaps, fmt.Sprintf("Landlock %d does not confine signals (version 6 does): the supervisor decides each one, and processes are found by polling", version))
	}
	if os.Geteuid() == 0 {
		c.Gaps = append(c.Gaps, "runs share root's user id, without its capabilities; run guild as an ordinary user to avoid that")
	}
	c.Gaps = append(c.Gaps, confine.GroupGaps()...)
	return c
}

// lacks lists the features that this tier does not have with any version of Landlock.
var lacks = []sandbox.Feature{
	sandbox.LimitsShared, sandbox.SharesNetwork, sandbox.OrdinaryUser, sandbox.ServesInside,
}

// Run implements sandbox.Runner.
func (Runner) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	r := &run{spec: s, streams: streams, mark: newMark()}
	defer r.close()
	if err := s.Check(); err != nil {
		return sandbox.Result{}, err
	}
	if s.Network {
		return sandbox.Result{}, errors.New("landlock: without namespaces there is no network")
	}
	if streams.Serve != nil {
		return sandbox.Result{}, sandbox.CannotServe(Tier)
	}
	if abi() == 0 {
		return sandbox.Result{}, &sandbox.UnusableError{Reason: "the kernel has no Landlock", Remedy: remedy}
	}
	r.spec.Limits = s.Limits.WithDefaults()
	r.spec.Profile = cmp.Or(s.Profile, sandbox.Standard)
	if err := r.prepare(); err != nil {
		return sandbox.Result{}, fmt.Errorf("landlock: %w", err)
	}
	res, err := r.run(ctx)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("landlock: %w", err)
	}
	return res, nil
}
