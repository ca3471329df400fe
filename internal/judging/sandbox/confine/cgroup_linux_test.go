package confine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"guild/internal/judging/sandbox"
)

// tree creates directories with files of one line, like a control group file system.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestBaseV2(t *testing.T) {
	for name, c := range map[string]struct {
		files     map[string]string
		own, want string
	}{
		"the root hands on": {
			map[string]string{"cgroup.subtree_control": "cpu memory pids"}, "", "",
		},
		"the group above hands on": {
			map[string]string{
				"app.slice/cgroup.subtree_control": "memory pids", "app.slice/cgroup.procs": "",
				"app.slice/shell.scope/cgroup.subtree_control": "", "app.slice/shell.scope/cgroup.controllers": "",
			}, "app.slice/shell.scope", "app.slice",
		},
		"we have left before": {
			map[string]string{
				"unit/cgroup.subtree_control": "memory pids", "unit/guild-supervisor/cgroup.controllers": "memory pids",
				"unit/guild-runs/cgroup.subtree_control": "memory pids",
			}, "unit/guild-supervisor", "unit/guild-runs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, c.files)
			got, err := baseV2(root, filepath.Join(root, c.own))
			if err != nil || got != filepath.Join(root, c.want) {
				t.Errorf("%s, %v, want %s", strings.TrimPrefix(got, root), err, c.want)
			}
		})
	}
	root := tree(t, map[string]string{"cgroup.subtree_control": "cpu", "session/cgroup.controllers": "cpu", "cgroup.controllers": "cpu"})
	if got, err := baseV2(root, filepath.Join(root, "session")); err == nil {
		t.Errorf("%s hands nothing on", got)
	}
}

func TestParseHierarchies(t *testing.T) {
	h := parseHierarchies("4:cpu,cpuacct:/user.slice\n1:name=systemd:/a:b\n0::/session.scope\nx\n",
		"cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nproc\n")
	if h.own["cpuacct"] != "/user.slice" || h.own[""] != "/session.scope" || h.own["name=systemd"] != "/a:b" {
		t.Errorf("own: %v", h.own)
	}
	if h.mounts["cpu"] != "/sys/fs/cgroup/cpu,cpuacct" || h.mounts[""] != "/sys/fs/cgroup/unified" {
		t.Errorf("mounts: %v", h.mounts)
	}
}

// group creates a control group, or skips the test.
func group(t *testing.T, l sandbox.Limits) *Cgroup {
	t.Helper()
	g, err := NewCgroup(l.WithDefaults())
	if err != nil {
		t.Skip("no control group here: " + err.Error())
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// inside runs a Python program in the group and reports whether it exited with 0.
func inside(t *testing.T, g *Cgroup, program string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-I", "-c", "input()\n"+program)
	if g.FD() != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.FD().Fd())}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if g.FD() == nil {
		if err := g.Add(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	in.Write([]byte("go\n"))
	return cmd.Wait() == nil
}

func TestGroupMemory(t *testing.T) {
	g := group(t, sandbox.Limits{Memory: 64 << 20})
	if inside(t, g, "b = bytearray(500 << 20)") || g.Exceeded() != sandbox.KilledMemory {
		t.Errorf("version %d: exceeded %q", g.Version(), g.Exceeded())
	}
	if peak := g.MemoryPeak(); peak < 32<<20 || peak > 65<<20 {
		t.Errorf("version %d: peak %d", g.Version(), peak)
	}
}

func TestGroupProcesses(t *testing.T) {
	g := group(t, sandbox.Limits{Pids: 8})
	fork := "import os, time\nfor _ in range(50):\n try:\n  if os.fork() == 0: time.sleep(0.2); os._exit(0)\n except OSError: break\n"
	inside(t, g, fork)
	if g.Exceeded() != sandbox.KilledPids {
		t.Errorf("version %d: exceeded %q", g.Version(), g.Exceeded())
	}
	g.Kill()
}

func TestGroupCountsAndKills(t *testing.T) {
	g := group(t, sandbox.Limits{})
	if !inside(t, g, "import os\nfor _ in range(3):\n if os.fork() == 0: os.execv('/bin/sleep', ['sleep', '100'])\nsum(range(3_000_000))") {
		t.Error("it did not end by itself")
	}
	if cpu, counted := g.CPUTime(); !counted || cpu <= 0 {
		t.Errorf("version %d: %v %v", g.Version(), cpu, counted)
	}
	if n := g.Pids(); n < 3 {
		t.Errorf("version %d: %d processes", g.Version(), n)
	}
	if g.Exceeded() != "" {
		t.Errorf("exceeded %q", g.Exceeded())
	}
	g.Kill()
	if g.Exceeded() != "" {
		t.Errorf("exceeded %q after Kill", g.Exceeded())
	}
}

func TestGroupTasks(t *testing.T) {
	g := group(t, sandbox.Limits{Memory: 64 << 20})
	tasks, err := g.Tasks()
	if err != nil {
		t.Fatal(err)
	}
	if g.Version() == 2 { // a process is started in a group of version 2 by FD
		if len(tasks) > 0 || g.FD() == nil {
			t.Errorf("version 2: %d tasks files, descriptor %v", len(tasks), g.FD())
		}
		return
	}
	cmd := exec.Command("/bin/sh", "-c", "echo 0 >&3; echo 0 >&4; [ -e /dev/fd/5 ] && echo 0 >&5; [ -e /dev/fd/6 ] && echo 0 >&6; exec python3 -I -c 'bytearray(500 << 20)'")
	cmd.ExtraFiles = tasks
	err = cmd.Run()
	for _, f := range tasks {
		f.Close()
	}
	if err == nil || g.Exceeded() != sandbox.KilledMemory {
		t.Errorf("%v, exceeded %q", err, g.Exceeded())
	}
}

func TestGroupProcessors(t *testing.T) {
	if runtime.NumCPU() == 1 {
		t.Skip("a limit of all processors is none")
	}
	g := group(t, sandbox.Limits{CPUs: 1})
	file := "cpu.cfs_quota_us"
	if g.v2 {
		file = "cpu.max"
	}
	b, err := os.ReadFile(filepath.Join(g.cpu, file))
	if g.cpu == "" || errors.Is(err, os.ErrNotExist) {
		t.Skip("no group of processor time here")
	}
	if !strings.HasPrefix(string(b), "100000") {
		t.Errorf("%s: %q %v", file, b, err)
	}
}
