package confine

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
)

func TestPeakOfProcesses(t *testing.T) {
	limits := sandbox.Limits{Pids: 10}.WithDefaults()
	for peak, want := range map[int64]string{0: "", 9: "", 10: sandbox.KilledPids, 11: sandbox.KilledPids} {
		w := Watch{Limits: limits, pids: peak}
		if got := w.Exceeded(guild.Usage{}); got != want {
			t.Errorf("%d processes: killed by %q, want %q", peak, got, want)
		}
	}
}

func TestProcessorTimeThatNoPollSaw(t *testing.T) {
	w := Watch{Limits: sandbox.Limits{CPU: 2 * time.Second}.WithDefaults()}
	for used, want := range map[int64]string{1999: "", 2000: sandbox.KilledCPU, 2600: sandbox.KilledCPU} {
		if got := w.Exceeded(guild.Usage{CPUMs: used}); got != want {
			t.Errorf("%d ms used: killed by %q, want %q", used, got, want)
		}
	}
}

func TestShortage(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"some avg10=80.51 avg60=87.60 avg300=77.24 total=1500\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": 1500 * time.Microsecond,
		"":                        0,
		"some avg10=0 total=-1\n": 0,
		"some avg10=0 total=x\n":  0,
	} {
		if got := parseShortage(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// What a run computes it did not wait for.
func TestWaitedForProcessor(t *testing.T) {
	for _, c := range []struct {
		name             string
		wall, short, cpu time.Duration
		want             int64 // ms
	}{
		{"a quiet machine", time.Second, 0, 100 * time.Millisecond, 0},
		{"a busy one", time.Second, 300 * time.Millisecond, 100 * time.Millisecond, 300},
		{"busy all the time", time.Second, time.Second, 100 * time.Millisecond, 900},
		{"it computes with two processors", time.Second, time.Second, 1900 * time.Millisecond, 0},
	} {
		w := Watch{Flood: &Flood{}, wall: c.wall, short: c.short}
		if got := w.Usage(guild.Usage{CPUMs: c.cpu.Milliseconds()}).WaitedMs; got != c.want {
			t.Errorf("%s: %d ms, want %d", c.name, got, c.want)
		}
	}
}

func TestNextLook(t *testing.T) {
	old := time.Now().Add(-time.Minute)
	for _, c := range []struct {
		watch Watch
		want  time.Duration
	}{
		{Watch{started: time.Now()}, firstLook},
		{Watch{started: old, threads: 5}, lookEvery},
		{Watch{started: old, threads: 6}, lookOften},
		{Watch{started: time.Now(), Group: &Cgroup{}}, lookEvery},
	} {
		c.watch.Limits.Pids = 10
		if got := c.watch.nextLook(); got != c.want {
			t.Errorf("%d threads: %v, want %v", c.watch.threads, got, c.want)
		}
	}
}

func TestFilled(t *testing.T) {
	limits := sandbox.Limits{Disk: 100 << 20}
	for used, want := range map[int64]bool{0: false, 99 << 20: false, 100<<20 - 4096: true, 100 << 20: true} {
		if Filled(used, limits) != want {
			t.Errorf("%d bytes: %v", used, !want)
		}
	}
}

func TestZombieCounts(t *testing.T) {
	var f family
	f.count("7 (x) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 0 0 100 0 0 rest")
	if f.threads != 1 {
		t.Errorf("%+v", f)
	}
}

func TestFamilyExcludesHost(t *testing.T) {
	if all := shownIn("/proc"); len(all) > 0 {
		t.Errorf("%d processes", len(all))
	}
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	if f := familyOf(sleep.Process.Pid); f.threads != 1 {
		t.Errorf("%+v", f)
	}
}

func TestNoGroupReason(t *testing.T) {
	h := hierarchies{mounts: map[string]string{"memory": filepath.Join(t.TempDir(), "none"), "pids": "/none"}}
	_, err := h.group()
	if err == nil {
		t.Fatal("a group was made")
	}
	if said := withoutNames(err).Error(); strings.Contains(said, groupPrefix) || strings.Contains(said, "/") {
		t.Errorf("%q", said)
	}
}
