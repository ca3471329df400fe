// Package bubblewrap is the sandbox.Runner that calls bwrap(1). It owns bwrap's command line, and nothing else of
// a run's life: limits and their enforcement are confine's.
package bubblewrap

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
)

// Tier is the runner's name in verdicts.
const Tier = "bubblewrap"

// Runner is the sandbox.Runner that calls bwrap(1), version 0.8 or later.
//
// bwrap builds the walls: namespaces for users, mounts, processes, network, IPC, host name and control groups;
// no capabilities, no new privileges, a new session, an empty environment. What it has no options for is done
// from outside while it waits on a descriptor (--block-fd), before the command starts: control group, resource
// limits, and a hold on the network namespace's counters.
type Runner struct {
	Path string // the bwrap executable; found on PATH if empty
}

const remedy = "install bubblewrap: apt-get install bubblewrap"

// Probe implements Runner by running true.
func (b Runner) Probe(ctx context.Context) sandbox.Caps {
	c := sandbox.Caps{Rootfs: "host", Tier: Tier, Remedy: remedy}
	if _, err := b.path(); err != nil {
		c.Reason = err.Error()
		return c
	}
	if err := sandbox.Try(ctx, b); err != nil {
		c.Reason, c.Remedy = err.Error(), remedyFor(err)
		return c
	}
	c.Usable, c.Remedy = true, ""
	c.Gaps = gaps()
	c.Lacks = []sandbox.Feature{
		sandbox.ReportsDescendants, sandbox.ReportsAddresses, sandbox.CountsRefused, sandbox.LimitsInodes,
	}
	return c
}

// remedyFor knows how machines come to refuse what bwrap needs.
func remedyFor(err error) string {
	if s := err.Error(); strings.Contains(s, "Operation not permitted") || strings.Contains(s, "No permissions") {
		return "allow unprivileged user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 " +
			"kernel.apparmor_restrict_unprivileged_userns=0, or run guild as root outside the container"
	}
	return remedy
}

// gaps is what this machine's bubblewrap does less well than a sandbox of our own could.
func gaps() []string {
	g := []string{
		"a forbidden system call is reported only if it ends the command itself, not a process that it started",
		"a network attempt is reported without its address, and a look-up of a name not at all",
		"the profiles strict and standard are the same, and calls that are refused are not counted",
		"the number of files is not limited while a run lasts",
		"the host's /usr is visible, so a run depends on the versions installed here",
	}
	if os.Geteuid() == 0 {
		g = append(g, "runs share root's user id outside their user namespace; run guild as an ordinary user to avoid that")
	}
	g = append(g, confine.GroupGaps()...)
	if confine.Denylist() == nil {
		g = append(g, "no system call filter for this processor")
	}
	return g
}

func (b Runner) path() (string, error) { return exec.LookPath(cmp.Or(b.Path, "bwrap")) }

// Run implements Runner.
func (b Runner) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	if streams.Channel != nil {
		defer streams.Channel.Close() // it is closed already once the sandbox has it
	}
	bwrap, err := b.path()
	if err != nil {
		return sandbox.Refuse(sandbox.Caps{Reason: err.Error(), Remedy: remedy}, streams)
	}
	if err := s.Check(); err != nil {
		return sandbox.Result{}, err
	}
	s.Limits = s.Limits.WithDefaults()
	r := &run{spec: s, streams: streams, flood: confine.NewFlood(s.Limits.Output)}
	defer r.close()
	if err := r.prepare(bwrap); err != nil {
		return sandbox.Result{}, fmt.Errorf("bubblewrap: %w", err)
	}
	return r.run(ctx)
}
