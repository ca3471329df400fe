package container

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// Podman is the sandbox.Runner that calls podman(1), version 4.3 or later, as root or as an ordinary user. It needs no
// image: the host's own programs are mounted in a root directory made for each run.
//
// podman makes the namespaces and installs our system call filter. The limits are set from outside while the run's first
// process waits for its files.
type Podman struct {
	Path string // the podman executable; found on PATH if empty

	home string // directory for podman's own files; the user's directories if empty
}

const podmanRemedy = "install podman: apt-get install podman crun"

// Limits on the time that podman takes to start a run, to say why it did not, and to remove one.
const (
	podmanStarts = time.Minute
	podmanSays   = 5 * time.Second
	podmanClears = 30 * time.Second
)

// Probe implements Runner by running true.
func (p Podman) Probe(ctx context.Context) sandbox.Caps {
	c := sandbox.Caps{Rootfs: "host", Tier: TierPodman, Remedy: podmanRemedy}
	podman, err := p.path()
	if err != nil {
		c.Reason = err.Error()
		return c
	}
	if reason := noRange(); reason != "" {
		c.Reason, c.Remedy = reason, remedyFor(podman, reason)
		return c
	}
	if err := p.try(ctx); err != nil {
		c.Reason, c.Remedy = err.Error(), remedyFor(podman, err.Error())
		return c
	}
	c.Usable, c.Remedy = true, ""
	c.Gaps = []string{
		"starting a run takes about half a second",
		"a forbidden system call is reported only if it ends the command itself, not a process that it started",
		"a network attempt is reported without its address, and a look-up of a name not at all",
		"the profiles strict and standard are the same, and calls that are refused are not counted",
		"the number of files is not limited, and nothing can be collected from a run that a limit ended",
	}
	c.Lacks = []sandbox.Feature{
		sandbox.ReportsDescendants, sandbox.ReportsAddresses, sandbox.CountsRefused, sandbox.LimitsInodes,
		sandbox.CollectsKilled, sandbox.ServesInside,
	}
	return c
}

// remedyFor returns a remedy for the reason why podman fails.
func remedyFor(podman, reason string) string {
	switch {
	case strings.Contains(reason, "hybrid mode"):
		return "crun does not work with this machine's control groups: apt-get install runc, and set runtime = \"runc\" in containers.conf"
	case strings.Contains(reason, "subuid") || strings.Contains(reason, "newuidmap"):
		return "give this user ids for containers: apt-get install uidmap; usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER"
	case strings.Contains(reason, "executable file not found"), strings.Contains(reason, "could not find"):
		return "install what podman needs: apt-get install crun conmon"
	default:
		return podman + " info says what is wrong"
	}
}

func (p Podman) path() (string, error) { return exec.LookPath(cmp.Or(p.Path, "podman")) }

// Run implements Runner.
func (p Podman) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	podman, err := p.path()
	if err != nil {
		return sandbox.Refuse(sandbox.Caps{Reason: err.Error(), Remedy: podmanRemedy}, streams)
	}
	return whole(TierPodman, s, streams, func(r *run) (sandbox.Result, error) { return r.podman(ctx, podman, podmanEnv(p.home)) })
}

// podman runs the command with podman.
func (r *run) podman(ctx context.Context, podman string, env []string) (sandbox.Result, error) {
	name := "guild-" + strings.ToLower(rand.Text())
	argv, err := r.podmanCommand(podman, name)
	if err != nil {
		return sandbox.Result{}, err
	}
	for i, f := range r.child { // podman passes on a range of descriptors, with those that this run does not use
		if f != nil {
			continue
		}
		if r.child[i], err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
			return sandbox.Result{}, err
		}
	}
	defer pin()()
	if err := r.start(argv, env, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}); err != nil {
		return sandbox.Result{}, err
	}
	if err := r.begin(ctx); err != nil {
		kill := time.AfterFunc(podmanSays, func() { r.cmd.Process.Kill() })
		stop := context.AfterFunc(ctx, func() { r.cmd.Process.Kill() })
		r.cmd.Wait()
		kill.Stop()
		stop()
		remove(podman, env, name)
		return sandbox.Result{}, fmt.Errorf("%w: %s", err, complaint(r.stderr.String()))
	}
	killed, err := r.wait(ctx)
	if err != nil || killed != "" {
		remove(podman, env, name)
	}
	if err != nil {
		return sandbox.Result{}, err
	}
	res, err := r.result(killed)
	if res.Signal == "SIGSYS" {
		res.Breaches = append(res.Breaches, confine.Forbidden())
	}
	return res, err
}

// complaint returns the last error of podman's log.
func complaint(log string) string {
	if _, last, found := strings.Cut(log, "Error: "); found {
		log = last
	}
	return strings.TrimSuffix(strings.TrimSpace(log), ": %!w(<nil>)") // a bug of podman
}

// podmanCommand returns podman's command line.
func (r *run) podmanCommand(podman, name string) ([]string, error) {
	uid := sandbox.User
	root, binds, err := r.skeleton(uid, true)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(root, "etc/sandbox"), []byte(wholeEntry(r.spec, r.streams.Channel != nil)), 0o644); err != nil {
		return nil, err
	}
	text, err := json.Marshal(engineSeccomp())
	if err != nil {
		return nil, err
	}
	filter := filepath.Join(r.dir, "seccomp.json")
	if err := os.WriteFile(filter, text, 0o644); err != nil {
		return nil, err
	}
	l := r.spec.Limits
	argv := []string{
		podman, "--log-level", "error", // its warnings would be in the run's standard error
		"run", "--interactive", "--rm", "--name", name, "--pidfile", r.pidfile(), "--log-driver", "none",
		"--read-only", "--read-only-tmpfs=false", "--cap-drop", "ALL", "--hostname", "box", "--no-hosts", "--passwd=false",
		"--security-opt", "no-new-privileges", "--security-opt", "seccomp=" + filter, "--security-opt", "mask=/sys",
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096", "--ulimit", "core=0:0",
		"--timeout", strconv.Itoa(int((l.Wall + podmanStarts) / time.Second)),
		"--preserve-fds", strconv.Itoa(len(r.child)), "--user", fmt.Sprintf("%d:%[1]d", uid),
	}
	if r.spec.Network {
		argv = append(argv, "--network", "host")
	} else {
		argv = append(argv, "--network", "none")
	}
	if os.Geteuid() == 0 {
		argv = append(argv, "--uidmap", fmt.Sprintf("%d:0:1", uid), "--uidmap", "0:100000:1000",
			"--gidmap", fmt.Sprintf("%d:0:1", uid), "--gidmap", "0:100000:1000")
	} else {
		argv = append(argv, fmt.Sprintf("--userns=keep-id:uid=%d,gid=%[1]d", uid))
	}
	// /dev/shm and a writable /judge get fixed parts of the disk limit, because podman mounts a file system for each.
	shm, judged := l.Disk/8, int64(0)
	tmpfs := func(at string, size int64) []string {
		return []string{"--tmpfs", fmt.Sprintf("%s:rw,exec,nosuid,nodev,mode=0777,tmpcopyup,size=%d", at, size)}
	}
	argv = append(argv, "--shm-size", strconv.FormatInt(shm, 10))
	if r.spec.WritesJudge() {
		judged = l.Disk / 8
		argv = append(argv, tmpfs(sandbox.Judge, judged)...)
	}
	argv = append(argv, tmpfs(sandbox.Box, l.Disk-shm-judged)...)
	for _, m := range binds {
		kind := "true"
		if m.writable {
			kind = "false"
		}
		argv = append(argv, "--mount", fmt.Sprintf(`type=bind,"src=%s","dst=%s",readonly=%s`, m.host, m.inside, kind))
	}
	return append(argv, "--rootfs", root, "/bin/sh", "/etc/sandbox"), nil
}

func (r *run) pidfile() string { return filepath.Join(r.dir, "pid") }

// begin waits until the run's first process waits for its files; then it sets the limits, and sends the files. So the
// command never runs without limits.
func (r *run) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, podmanStarts)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { r.done.SetReadDeadline(time.Unix(1, 0)) })
	ready := r.awaitReady()
	if !stop() {
		return fmt.Errorf("the run does not start: %w", context.Cause(ctx))
	}
	if !ready {
		return errors.New("the run does not start")
	}
	first, err := os.ReadFile(r.pidfile())
	if err != nil {
		return err
	}
	if err := r.hold(first, r.spec.Limits); err != nil {
		return err
	}
	r.watch.Scratch = sandbox.Box
	if err := confine.SetRlimits(r.watch.First, r.spec.Limits); err != nil {
		return err
	}
	if !r.spec.Network {
		r.counters = confine.OpenCounters(r.watch.First)
	}
	r.unpack()
	return nil
}

// podmanEnv returns the environment for podman itself. If home is not empty, podman writes only below it.
func podmanEnv(home string) []string {
	env := []string{"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/bin:/bin:/usr/sbin:/sbin")}
	for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "DBUS_SESSION_BUS_ADDRESS"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if home == "" {
		return env
	}
	settings := cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(os.Getenv("HOME"), ".config"))
	if _, err := os.Stat(filepath.Join(settings, "containers")); err != nil { // the user has not configured podman
		settings = home
	}
	// If a variable occurs twice, the last value counts.
	return append(env, "HOME="+home, "TMPDIR="+home, "XDG_RUNTIME_DIR="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+settings)
}

// remove removes the container of a run that podman did not finish.
func remove(podman string, env []string, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), podmanClears)
	defer cancel()
	cmd := exec.CommandContext(ctx, podman, "rm", "--force", "--time", "0", "--ignore", name)
	cmd.Env = env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run() // fails if there is none
}
