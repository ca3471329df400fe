package sandboxtest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func leftovers(t *testing.T, r runner) {
	mark := fmt.Sprintf("guild-leftover-%d", time.Now().UnixNano())
	daemon := "import os, sys, time\n" +
		"if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  os.closerange(0, 9); time.sleep(1000)\n os._exit(0)\n" +
		"time.sleep(0.1)\nprint('parent') # " + mark
	temp := shortTemp(t)
	t.Setenv("TMPDIR", temp)
	sh(t, r, "true") // resources that a runner keeps after its first run are not leftovers
	mounts, groups, goroutines, files := mounted(t), controlGroups(t), runtime.NumGoroutine(), descriptors(t)
	py(t, r, daemon).prints(t, "parent")
	for range 3 {
		sh(t, r, "sleep 1000 & exit 0 # "+mark)
	}
	if left := processes(mark); len(left) > 0 {
		t.Errorf("processes: %v", left)
	}
	if left := stillMounted(t, mounts); len(left) > 0 {
		t.Errorf("mounts: %q", left)
	}
	settles(t, "control groups", groups, controlGroups)
	settles(t, "open files", files, descriptors)
	settles(t, "goroutines", goroutines, func(*testing.T) int { return runtime.NumGoroutine() })
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("files: %v", left)
	}
}

// settled limits the duration of the cleanup after a run on a busy machine.
const settled = time.Minute

// settles waits until no count is higher than before. The cleanup may end shortly after the run.
func settles(t *testing.T, what string, before int, count func(*testing.T) int) {
	t.Helper()
	for deadline := time.After(settled); count(t) > before; {
		select {
		case <-deadline:
			t.Errorf("%d %s, %d before", count(t), what, before)
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// shortTemp creates a temporary directory with a name short enough for sockets in it.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// descriptors returns the number of files that this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this part looks at /proc: " + err.Error())
	}
	return len(list)
}

// processes returns the processes with mark in their command line.
func processes(mark string) []string {
	var left []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, _ := os.ReadFile(f); bytes.Contains(b, []byte(mark)) {
			left = append(left, fmt.Sprintf("%s: %q", f, b))
		}
	}
	return left
}

// mounted returns the machine's mounts.
func mounted(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Skip("this part looks at /proc: " + err.Error())
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		all[strings.TrimSpace(line)] = true
	}
	return all
}

// stillMounted returns new mounts that remain. Mounts of other programs on the machine may come and go.
func stillMounted(t *testing.T, before map[string]bool) []string {
	t.Helper()
	left := mounted(t)
	maps.DeleteFunc(left, func(line string, _ bool) bool { return before[line] })
	for deadline := time.After(settled); len(left) > 0; {
		select {
		case <-deadline:
			return slices.Collect(maps.Keys(left))
		case <-time.After(50 * time.Millisecond):
			now := mounted(t)
			maps.DeleteFunc(left, func(line string, _ bool) bool { return !now[line] })
		}
	}
	return nil
}

// controlGroups returns the number of control groups of this process's runs.
func controlGroups(t *testing.T) int {
	t.Helper()
	n := 0
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), fmt.Sprintf("guild-run-%d-", os.Getpid())) {
			n++
		}
		return nil
	})
	return n
}
