package judge_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// trace lists what a run can leave behind on the host, one line each.
type trace struct{ processes, mounts, groups, files, descriptors []string }

// traces lists what is there now. Orphans below this process are found because it adopts them.
func traces(t *testing.T) trace {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return trace{
		processes:   descendants("self"),
		mounts:      slices.DeleteFunc(strings.Split(string(mounts), "\n"), ofAnother),
		groups:      groups(),
		files:       append(names(os.TempDir()), marks()...),
		descriptors: descriptors(),
	}
}

// ofAnother reports whether a mount belongs to a container that other software runs at the same time.
func ofAnother(mount string) bool {
	return strings.Contains(mount, "/containers/") || strings.Contains(mount, "/docker/")
}

// compare fails the test if there is anything now that was not there before. It waits a moment for the kernel to clean
// up.
func (before trace) compare(t *testing.T, now trace) {
	t.Helper()
	late := time.After(10 * time.Second)
	for tick, waits := time.Tick(10*time.Millisecond), true; waits && len(before.left(now)) > 0; now = traces(t) {
		select {
		case <-tick:
		case <-late:
			waits = false
		}
	}
	for what, left := range before.left(now) {
		t.Errorf("%s are left: %q", what, left)
	}
}

// left returns what is there now and was not before, by kind.
func (before trace) left(now trace) map[string][]string {
	all := map[string][]string{}
	for _, c := range []struct {
		what        string
		before, now []string
	}{
		{"processes", before.processes, now.processes},
		{"mounts", before.mounts, now.mounts},
		{"control groups", before.groups, now.groups},
		{"files", before.files, now.files},
		{"descriptors", before.descriptors, now.descriptors},
	} {
		if left := without(c.now, c.before); len(left) > 0 {
			all[c.what] = left
		}
	}
	return all
}

// without returns a minus b, as multisets.
func without(a, b []string) []string {
	b = slices.Clone(b)
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool {
		i := slices.Index(b, s)
		if i >= 0 {
			b = slices.Delete(b, i, i+1)
		}
		return i >= 0
	})
}

// descendants returns the command lines of all processes below pid. Zombies have none and do not count.
func descendants(pid string) []string {
	var all []string
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(children)) {
			if line := commandLine(child); line != "" {
				all = append(all, line)
			}
			all = append(all, descendants(child)...)
		}
	}
	return all
}

func commandLine(pid string) string {
	line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	return strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
}

// groups returns the control groups of this process's runs.
func groups() []string {
	var all []string
	filepath.WalkDir("/sys/fs/cgroup", func(name string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), fmt.Sprintf("guild-run-%d-", os.Getpid())) {
			all = append(all, name)
		}
		return nil
	})
	return all
}

// descriptors returns the targets of this process's open descriptors.
func descriptors() []string {
	runtime.GC() // closes unreachable files
	var all []string
	for _, fd := range names("/proc/self/fd") {
		to, err := os.Readlink("/proc/self/fd/" + fd)
		if err == nil && !strings.HasPrefix(to, "/memfd:guild-box") { // this program's own first process, which is kept for good
			all = append(all, to)
		}
	}
	return all
}

// marks returns the files and shared objects of the host whose names are those that the submissions use.
func marks() []string {
	var all []string
	for _, dir := range []string{"/", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/dev/mqueue", "/etc", "/usr", "/usr/bin", "/lib", "/run"} {
		for _, name := range names(dir) {
			if strings.HasPrefix(name, "guild-attack") {
				all = append(all, filepath.Join(dir, name))
			}
		}
	}
	for _, kind := range []string{"shm", "sem", "msg"} {
		table, _ := os.ReadFile("/proc/sysvipc/" + kind)
		for line := range strings.Lines(string(table)) {
			var key int64
			if fmt.Sscan(line, &key); key>>16 == 0x6174 {
				all = append(all, kind+" "+line)
			}
		}
	}
	return all
}

func names(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestHostileDeliveriesAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the test above has run as one")
	}
	user := 60_000 + os.Getpid()%5000
	dir := t.TempDir()
	program := filepath.Join(dir, "judge.test")
	copyProgram(t, program)
	home, temp := filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	for _, d := range []string{home, temp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, user, user); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir)
	args := []string{"-test.run=^TestHostileDeliveries$/^submission$/^(" + strings.Join(walls, "|") + ")$"}
	if end, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+(time.Until(end)-time.Minute).String())
	}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + temp, asUser + "=true", "GUILD_SOAK=" + os.Getenv("GUILD_SOAK")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, d := range []string{home, temp} {
		if left := names(d); len(left) > 0 {
			t.Errorf("%s has %q", filepath.Base(d), left)
		}
	}
	if left := processesOf(user); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

// open makes the directories that the testing package has created for this test accessible to all users.
func open(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// copyProgram copies the running program, which only its builder can read where it is.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	from, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// processesOf returns the command lines of a user's processes.
func processesOf(user int) []string {
	var all []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) == user {
			if line := commandLine(filepath.Base(dir)); line != "" {
				all = append(all, line)
			}
		}
	}
	return all
}
