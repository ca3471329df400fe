package namespaces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// attempt runs a command and returns its stdout.
func attempt(t *testing.T, r *Runner, s sandbox.Spec) (sandbox.Result, string) {
	t.Helper()
	var out, complaint bytes.Buffer
	s.Env = append(s.Env, "PATH=/usr/bin:/bin")
	res, err := r.Run(t.Context(), s, sandbox.IO{Stdout: &out, Stderr: &complaint})
	if err != nil {
		t.Fatalf("%v\n%s", err, complaint.String())
	}
	return res, strings.TrimSpace(out.String())
}

func shell(script string) sandbox.Spec { return sandbox.Spec{Argv: []string{"sh", "-c", script}} }

func TestConcurrentRunUsers(t *testing.T) {
	r := &Runner{}
	var all sync.WaitGroup
	var maps [8]string
	for i := range maps {
		all.Go(func() { _, maps[i] = attempt(t, r, shell("sleep 0.3; cat /proc/self/uid_map")) })
	}
	all.Wait()
	for i, m := range maps {
		var inside, outside, count int
		fmt.Sscan(m, &inside, &outside, &count)
		switch who, err := takeIDs(sandbox.User); {
		case err != nil:
			t.Fatal(err)
		case who.ranged && (inside != 0 || outside < firstID || count != idsEach || slices.Contains(maps[:i], m)):
			t.Errorf("run %d: %q", i, m)
		case !who.ranged && (inside != sandbox.User || outside != os.Geteuid() || count != 1):
			t.Errorf("run %d: %q", i, m)
		default:
			who.release()
		}
	}
}

func TestUserRangeGivenOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("an ordinary user has none to give")
		return
	}
	a, err := takeIDs(sandbox.User)
	if err != nil || !a.ranged {
		t.Fatalf("%+v %v", a, err)
	}
	n := (a.first - firstID) / idsEach
	if _, err := lockRange(n); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("taken twice: %v", err)
	}
	a.release()
	lock, err := lockRange(n)
	if err != nil {
		t.Fatalf("not given back: %v", err)
	}
	lock.Close()
}

// traces counts resources that runs may leave.
func traces(t *testing.T) map[string]int {
	t.Helper()
	count := func(pattern string) int {
		all, _ := filepath.Glob(pattern)
		return len(all)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	groups := 0
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), fmt.Sprintf("guild-run-%d-", os.Getpid())) {
			groups++
		}
		return nil
	})
	return map[string]int{
		"files": count("/proc/self/fd/*"), "children": len(children()), "mounts": bytes.Count(mounts, []byte("\n")),
		"control groups": groups, "goroutines": runtime.NumGoroutine(),
	}
}

// children returns the children of this process.
func children() []int {
	var pids []int
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for f := range strings.FieldsSeq(string(b)) {
			pid, _ := strconv.Atoi(f)
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestConcurrentRunsLeaveNothing(t *testing.T) {
	r := &Runner{}
	attempt(t, r, shell("true"))
	before := traces(t)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			word := strconv.Itoa(i)
			if _, out := attempt(t, r, shell("sleep 1000 & echo "+word)); out != word {
				t.Errorf("run %s: %q", word, out)
			}
		})
	}
	all.Wait()
	runtime.GC()
	settles(t, before, traces)
}

// settles waits until no count is higher than before. The cleanup may end shortly after the run.
func settles(t *testing.T, before map[string]int, count func(*testing.T) map[string]int) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		left := count(t)
		maps.DeleteFunc(left, func(what string, n int) bool { return n <= before[what] })
		if len(left) == 0 {
			return
		}
		select {
		case <-deadline:
			t.Errorf("there are %v, before there were %v", left, before)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// playsJudge is the variable that makes this binary act as a judge that is killed.
const playsJudge = "GUILD_TEST_PLAYS_JUDGE"

func TestMain(m *testing.M) {
	if script := os.Getenv(playsJudge); script != "" {
		(&Runner{}).Run(context.Background(), shell(script), sandbox.IO{Stdout: os.Stdout})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestRunEndsWithJudge(t *testing.T) {
	killJudges(t, 20, 2*time.Millisecond, playsJudge+"=echo started; (setsid sleep 1000 &) ; sleep 1000")
}

// killJudges starts this binary as a judge, with the variable and the arguments, and kills it several times: first
// during its run, then at increasing times after its start.
func killJudges(t *testing.T, judges int, later time.Duration, variable string, args ...string) {
	t.Helper()
	// Orphans become our children, so that we can see them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for i := range judges {
		judge := exec.Command("/proc/self/exe", args...)
		judge.Env = []string{variable}
		out, err := judge.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := judge.Start(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			out.Read(make([]byte, 8)) // the run has started
		} else {
			<-time.After(time.Duration(i) * later)
		}
		judge.Process.Kill()
		judge.Wait()
		if left := orphans(); len(left) > 0 {
			t.Errorf("attempt %d left %v", i, left)
		}
	}
}

// orphans returns the children that do not end by themselves within a minute.
func orphans() []int {
	deadline := time.After(time.Minute)
	for {
		left := children()
		for _, pid := range left {
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-deadline:
			return left
		case <-time.After(time.Millisecond):
		}
	}
}

func TestCommandNotFound(t *testing.T) {
	r := &Runner{}
	for name, want := range map[string]int{
		"/no/such/program": 127, "no-such-program": 127, "/etc/passwd": 126, "/etc": 126, "/etc/passwd/x": 127,
	} {
		res, _ := attempt(t, r, sandbox.Spec{Argv: []string{name}})
		if res.Exit != want || res.Signal != "" || res.Killed != "" {
			t.Errorf("%s: %+v, want exit %d", name, res, want)
		}
	}
}

func TestCopiesExceedDisk(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, 5<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	s := shell("true")
	s.Copies = []sandbox.Copy{{Host: dir, Inside: sandbox.Workspace}}
	s.Limits.Disk = 4 << 20
	if res, _ := attempt(t, &Runner{}, s); res.Killed != sandbox.KilledDisk {
		t.Errorf("%+v", res)
	}
}

func TestMissingKernelFeatures(t *testing.T) {
	r := &Runner{}
	r.noProc.Store(true)
	r.noSupervisor.Store(true)
	if _, out := attempt(t, r, shell("ls /proc; echo fine")); out != "fine" {
		t.Errorf("without /proc: %q", out)
	}
	res, out := attempt(t, r, sandbox.Spec{Argv: []string{"python3", "-c",
		"import ctypes; ctypes.CDLL(None).unshare(0x10000000); print('came back')"}})
	if out != "" || res.Signal != "SIGSYS" || len(res.Breaches) != 1 {
		t.Errorf("without a supervisor: %q %+v", out, res)
	}
	if !r.adapt(&setupError{"seccomp", unix.EBUSY}) && !r.noSupervisor.Load() {
		t.Error("it does not adapt")
	}
	c := r.Probe(t.Context())
	if !c.Usable || c.Has(sandbox.ReportsDescendants) || !slices.ContainsFunc(c.Gaps, func(g string) bool { return strings.Contains(g, "/proc") }) {
		t.Errorf("%+v", c)
	}
}

func TestFirstProcessSurvivesSignals(t *testing.T) {
	attack := `
import os, signal
for n in range(1, 65):
    for pid in (1, -1):
        if n in (signal.SIGKILL, signal.SIGSTOP) and pid == -1: continue
        if pid == -1: signal.signal(n, signal.SIG_IGN) if n not in (9, 19, 32, 33) else None
        try: os.kill(pid, n) if n not in (32, 33) or pid == 1 else None
        except OSError: pass
print("alive")
`
	s := sandbox.Spec{Argv: []string{"python3", "-c", attack}}
	known := landlockVersion
	defer func() { landlockVersion = known }()
	for _, abi := range []int{known(), 0} { // without Landlock, the run of an ordinary user could send signals
		landlockVersion = func() int { return abi }
		if res, out := attempt(t, &Runner{}, s); out != "alive" || res.Exit != 0 {
			t.Errorf("with Landlock %d: %q %+v", abi, out, res)
		}
	}
}

func TestRootfs(t *testing.T) {
	root := filepath.Join(t.TempDir(), "rootfs")
	dash, err := exec.Command("ldd", "/bin/dash").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"/bin/dash"}
	for f := range strings.FieldsSeq(string(dash)) {
		if strings.HasPrefix(f, "/") {
			files = append(files, f)
		}
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, "usr", f)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin", "lib", "lib64"} {
		os.Symlink("usr/"+dir, filepath.Join(root, dir))
	}
	r := &Runner{Rootfs: root}
	_, out := attempt(t, r, sandbox.Spec{Argv: []string{"dash", "-c", "echo /usr/bin/*; echo x >/usr/y || echo read-only"}})
	if out != "/usr/bin/dash\nread-only" {
		t.Errorf("it sees %q", out)
	}
	first, err := r.rootfsHash()
	if err != nil || !strings.HasPrefix(first, "sha256:") {
		t.Errorf("%q %v", first, err)
	}
	os.Chmod(filepath.Join(root, "usr/bin/dash"), 0o700)
	if again, _ := (&Runner{Rootfs: root}).rootfsHash(); again == first {
		t.Error("a change does not change the hash")
	}
}

func TestIdleRunMemory(t *testing.T) {
	reads, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := (&Runner{}).Run(ctx, shell("echo; exec sleep 1000"), sandbox.IO{Stdout: out})
		done <- err
	}()
	reads.Read(make([]byte, 1))
	var kb int
	for _, pid := range children() {
		kb += proportional(pid)
	}
	cancel()
	<-done
	t.Logf("%d kB", kb)
	if kb == 0 || kb > 4096 {
		t.Errorf("%d kB in memory", kb)
	}
}

// proportional returns the memory of a process and its descendants in kilobytes. Shared pages count in parts.
func proportional(pid int) int {
	var kb int
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(b)) {
		if rest, found := strings.CutPrefix(line, "Pss:"); found {
			fmt.Sscan(rest, &kb)
		}
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for f := range strings.FieldsSeq(string(b)) {
			child, _ := strconv.Atoi(f)
			kb += proportional(child)
		}
	}
	return kb
}
