package namespaces

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
	"guild/internal/judging/sandbox/namespaces/plan"
)

// makePlan creates the plan for the first process.
func (r *coldRun) makePlan() error {
	p := world(cmp.Or(r.runner.Rootfs, "/"), r.spec.Network)
	r.plan = p
	if err := r.runner.openRootfs(p, r.who, &r.trees); err != nil {
		return err
	}
	p.Proc = plan.ProcessesOnly
	if r.runner.noProc.Load() {
		p.Proc = plan.NoProc
	}
	p.Scratch = plan.Scratch{Bytes: r.spec.Limits.Disk, Inodes: r.spec.Limits.Inodes, Parts: parts()}
	for _, m := range r.spec.Mounts {
		b := plan.Bind{From: path.Clean(m.Host), Inside: path.Clean(m.Inside), Writable: m.Writable}
		if r.who.ranged {
			var err error
			if b.Tree, err = r.trees.openMount(m, r.who); err != nil {
				return err
			}
		}
		p.Binds = append(p.Binds, b)
	}
	p.Trees = len(r.trees.files)

	if r.streams.Serve != nil {
		p.Port = sandbox.ServePort
	}
	p.Argv, p.Env = r.spec.Command(), r.spec.Env
	p.Dir = path.Clean(cmp.Or(r.spec.Dir, sandbox.Workspace))
	p.Passed = 1
	if r.streams.Channel != nil {
		p.Passed = 2
	}
	p.Change = r.who.ranged
	p.Rules = plan.Rules{ABI: landlockVersion(), Writable: writable(r.spec.Mounts)}
	p.Guard = !p.Change && p.Rules.ABI < abiOfSignals
	if r.runner.noSupervisor.Load() {
		p.Filter = confine.Denylist()
	} else {
		p.Filter = confine.Filter(cmp.Or(r.spec.Profile, sandbox.Standard))
		p.Asking = len(p.Filter) > 0
	}
	for resource, value := range confine.Rlimits(r.spec.Limits) {
		p.Rlimits = append(p.Rlimits, plan.Rlimit{Resource: resource, Value: value})
	}

	p.Copies = len(r.spec.Copies) > 0
	p.Places = []string{sandbox.Workspace, sandbox.Home, sandbox.Judge}
	p.ReadOnly = frozen(r.spec.Copies)
	if r.streams.Files != nil {
		p.Collect = r.spec.Collect
	}
	p.Workdir, p.Bytes, p.Entries = sandbox.Workspace, r.spec.Limits.Disk, r.spec.Limits.Inodes
	return nil
}

// openRootfs opens the directories of Rootfs for a first process whose user id differs from ours, and which may have no
// permission to open them itself.
func (r *Runner) openRootfs(p *plan.Plan, who *ids, t *trees) error {
	if r.Rootfs == "" || !who.ranged {
		return nil
	}
	for i, b := range p.Binds {
		if !strings.HasPrefix(b.From, path.Clean(r.Rootfs)+"/") {
			continue
		}
		position, err := t.openDir(b.From)
		switch {
		case err == nil:
			p.Binds[i].Tree = position
		case !b.Optional:
			return err
		}
	}
	p.Trees = len(t.files)
	return nil
}

// frozen returns the directories that become read-only after the copies were unpacked: those of the read-only copies,
// and Judge as a whole unless it contains a writable copy.
func frozen(copies []sandbox.Copy) []string {
	var at []string
	judge := true
	for _, c := range copies {
		inside := path.Clean(c.Inside)
		inJudge := inside == sandbox.Judge || strings.HasPrefix(inside, sandbox.Judge+"/")
		switch {
		case c.ReadOnly:
			at = append(at, inside)
		case inJudge:
			judge = false
		}
	}
	if judge {
		at = append(at, sandbox.Judge)
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// abiOfSignals is the first version of Landlock's interface that confines signals.
const abiOfSignals = 6

// landlockVersion returns the version of Landlock's interface. It returns 0 without Landlock, and also for version 1,
// under which no file can be moved to another directory.
var landlockVersion = sync.OnceValue(func() int {
	const canMove = 2
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < canMove {
		return 0
	}
	return int(abi)
})

// writable returns the paths that Landlock lets a run change.
func writable(mounts []sandbox.Mount) []string {
	w := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts"}
	for _, p := range parts() {
		w = append(w, p.Inside)
	}
	for _, m := range mounts {
		if m.Writable {
			w = append(w, path.Clean(m.Inside))
		}
	}
	return w
}
