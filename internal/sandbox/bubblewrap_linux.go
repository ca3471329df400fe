package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Bubblewrap is the Runner that calls bwrap(1), version 0.8 or later.
//
// bwrap builds the walls: namespaces for users, mounts, processes, network, IPC, host name and control groups;
// no capabilities, no new privileges, a new session, an empty environment. What it has no options for is done
// from outside while it waits on a descriptor (--block-fd), before the command starts: control group, resource
// limits, and a hold on the network namespace's counters.
type Bubblewrap struct {
	Path string // the bwrap executable; found on PATH if empty
}

const remedy = "install bubblewrap: apt-get install bubblewrap"

// Probe implements Runner by running true.
func (b Bubblewrap) Probe(ctx context.Context) Caps {
	c := Caps{Tier: "bubblewrap", Remedy: remedy}
	if _, err := b.path(); err != nil {
		c.Reason = err.Error()
		return c
	}
	var stderr bytes.Buffer
	spec := Spec{Argv: []string{"/bin/true"}, Env: []string{"PATH=/usr/bin:/bin"}, Limits: Limits{Wall: 10 * time.Second}}
	res, err := b.Run(ctx, spec, IO{Stderr: &stderr})
	switch {
	case err != nil:
		c.Reason = err.Error()
		c.Remedy = remedyFor(err)
	case res.Exit != 0:
		c.Reason = fmt.Sprintf("bwrap exits %d: %s", res.Exit, strings.TrimSpace(stderr.String()))
	default:
		c.Usable, c.Remedy = true, ""
		c.Gaps = gaps()
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
		"the host's /usr is visible, so a run depends on the versions installed here",
	}
	if os.Geteuid() == 0 {
		g = append(g, "runs share root's user id outside their user namespace; run guild as an ordinary user to avoid that")
	}
	if group, err := newCgroup(Limits{}.WithDefaults()); err != nil {
		g = append(g, "no control group ("+err.Error()+"): memory and processes are polled, not capped by the kernel")
	} else {
		group.remove() // made a moment ago and empty
	}
	if newFilter() == nil {
		g = append(g, "no system call filter for this processor")
	}
	return g
}

func (b Bubblewrap) path() (string, error) { return exec.LookPath(cmp.Or(b.Path, "bwrap")) }

// Run implements Runner.
func (b Bubblewrap) Run(ctx context.Context, s Spec, streams IO) (Result, error) {
	bwrap, err := b.path()
	if err != nil {
		return Result{}, &UnusableError{err.Error(), remedy}
	}
	if err := s.check(); err != nil {
		return Result{}, err
	}
	s.Limits = s.Limits.WithDefaults()
	r := &run{spec: s, streams: streams, flood: newFlood(s.Limits.Output)}
	defer r.close()
	if err := r.prepare(bwrap); err != nil {
		return Result{}, fmt.Errorf("bubblewrap: %w", err)
	}
	return r.run(ctx)
}
