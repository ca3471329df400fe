package namespaces

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
	"guild/internal/sandbox/namespaces/plan"
)

// makePlan says what the first process is to do.
func (r *coldRun) makePlan() error {
	p, err := r.runner.world(r.spec.Network)
	if err != nil {
		return err
	}
	r.plan = p
	if err := r.runner.openRootfs(p, r.who, &r.trees); err != nil {
		return err
	}
	if p.Proc = plan.ProcessesOnly; r.runner.noProc.Load() {
		p.Proc = plan.NoProc
	}
	p.Scratch = plan.Scratch{Bytes: r.spec.Limits.Disk, Inodes: r.spec.Limits.Inodes, Parts: parts()}
	if err := r.mounts(); err != nil {
		return err
	}
	p.Trees = len(r.trees.files)
	r.planCommand()
	r.planFiles()
	return nil
}

// openRootfs opens on this side what the first process, as a stranger to the host, may not reach.
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

// mounts shows what the caller asks for.
func (r *coldRun) mounts() error {
	for _, m := range r.spec.Mounts {
		b := plan.Bind{From: path.Clean(m.Host), Inside: path.Clean(m.Inside), Writable: m.Writable}
		if r.who.ranged {
			var err error
			if b.Tree, err = r.trees.openMount(m, r.who); err != nil {
				return err
			}
		}
		r.plan.Binds = append(r.plan.Binds, b)
	}
	return nil
}

func (r *coldRun) planCommand() {
	p := r.plan
	p.Argv, p.Env = r.spec.Command(), r.spec.Env
	p.Dir = path.Clean(cmp.Or(r.spec.Dir, sandbox.Workspace))
	p.Passed = 1
	if r.streams.Channel != nil {
		p.Passed = 2
	}
	p.Change = r.who.ranged
	p.Rules = plan.Rules{ABI: landlockVersion(), Writable: writable(r.spec.Mounts)}
	p.Guard = !p.Change && p.Rules.ABI < abiOfSignals
	if r.runner.unasked.Load() {
		p.Filter = confine.Denylist()
	} else {
		p.Filter = confine.Filter(cmp.Or(r.spec.Profile, sandbox.Standard))
		p.Asking = len(p.Filter) > 0
	}
	for resource, value := range confine.Rlimits(r.spec.Limits) {
		p.Rlimits = append(p.Rlimits, plan.Rlimit{Resource: resource, Value: value})
	}
}

func (r *coldRun) planFiles() {
	p := r.plan
	p.Copies = len(r.spec.Copies) > 0
	p.Places = []string{sandbox.Workspace, sandbox.Home, sandbox.Judge}
	p.ReadOnly = frozen(r.spec.Copies)
	if r.streams.Files != nil {
		p.Collect = r.spec.Collect
	}
	p.Workdir, p.Bytes, p.Entries = sandbox.Workspace, r.spec.Limits.Disk, r.spec.Limits.Inodes
}

// frozen are the places that nobody may change once the copies are there: the read-only copies, and Judge as a
// whole unless something writable lies there.
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

// abiOfSignals is the version of Landlock's interface since which it confines signals.
const abiOfSignals = 6

// landlockVersion is the version of Landlock's interface here; 0 if it is not there, or so old that it forbids what
// programs do every day.
var landlockVersion = sync.OnceValue(func() int {
	const anythingMoves = 2 // since then files can be moved between directories
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < anythingMoves {
		return 0
	}
	return int(abi)
})

// writable is where a run may change something at all.
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
