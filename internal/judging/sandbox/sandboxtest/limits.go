package sandboxtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"guild/internal/judging/sandbox"
)

// stopped fails the test unless the run was killed for the named limit, or for any limit if the runner cannot name it.
func (r ran) stopped(t *testing.T, of runner, by string) {
	t.Helper()
	if of.has(t, sandbox.NamesLimits) || r.Killed == "" {
		r.killed(t, by)
	}
}

func limits(t *testing.T, r runner) {
	quick := func(s *sandbox.Spec) { s.Limits.Wall = time.Second }
	sh(t, r, "sleep 100", quick).killed(t, sandbox.KilledWall)
	sh(t, r, "trap '' TERM INT HUP; sleep 100 & sleep 100", quick).killed(t, sandbox.KilledWall)

	second := func(s *sandbox.Spec) { s.Limits.CPU, s.Limits.Wall = time.Second, 2*time.Minute }
	sh(t, r, "while :; do :; done", second).killed(t, sandbox.KilledCPU)
	py(t, r, "import os\nos.fork()\nos.fork()\nwhile True: pass", second).killed(t, sandbox.KilledCPU)

	py(t, r, "b = []\nwhile True: b.append(bytearray(8<<20))").killed(t, sandbox.KilledMemory)
	py(t, r, "import os,time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(9)").stopped(t, r, sandbox.KilledPids)
	if got := sh(t, r, "b() { b | b & }; b; sleep 9", quick); got.Exit == 0 && !strings.Contains(got.stderr, "fork") {
		t.Errorf("a fork bomb was not stopped: %+v", got.Result)
	}
	sh(t, r, "yes").killed(t, sandbox.KilledOutput)
	sh(t, r, "yes >&2").killed(t, sandbox.KilledOutput)
	sh(t, r, "yes >&3").killed(t, sandbox.KilledOutput)
	fill := "for i in 1 2 3 4 5 6 7 8 9; do head -c 9000000 /dev/zero >%s/$i || sleep 9; done"
	sh(t, r, fmt.Sprintf(fill, sandbox.Temp)).stopped(t, r, sandbox.KilledDisk)
	sh(t, r, fmt.Sprintf(fill, sandbox.Workspace)).stopped(t, r, sandbox.KilledDisk)
	got := sh(t, r, "head -c 40000000 /dev/zero >/dev/shm/x && echo written")
	if strings.Contains(got.stdout, "written") {
		t.Error("/dev/shm is not bounded")
	}
	if r.has(t, sandbox.LimitsInodes) {
		few := func(s *sandbox.Spec) { s.Limits.Inodes = 500 }
		got := py(t, r, "import time\nfor i in range(5000):\n open(f'{i}', 'w')\n\nprint('made')", few)
		if strings.Contains(got.stdout, "made") {
			t.Error("the number of files is not bounded")
		}
	}
}

// metrics checks that usage is measured even if it is released before the end of the run.
func metrics(t *testing.T, r runner) {
	const busy = `
import os, subprocess, time
open("big", "wb").write(bytes(9_000_000))
children = [subprocess.Popen(["sleep", "3"]) for _ in range(10)]
time.sleep(2)
os.unlink("big")
print("x" * 999)
os.write(2, b"y" * 1000)
os.write(3, b"z" * 1000)
for c in children: c.wait()
`
	got := py(t, r, busy)
	u := got.Usage
	if got.Exit != 0 || u.Output != 3000 || u.WallMs < 2000 {
		t.Errorf("exit %d, stderr %s, usage %+v", got.Exit, got.stderr, u)
	}
	if r.has(t, sandbox.MeasuresDisk) && (u.DiskPeak < 9_000_000 || u.DiskPeak > 32<<20) {
		t.Errorf("9 MB of disk: %d", u.DiskPeak)
	}
	if r.has(t, sandbox.MeasuresPids) && (u.PidsPeak < 11 || u.PidsPeak > 30) {
		t.Errorf("11 processes: %d", u.PidsPeak)
	}
	if r.has(t, sandbox.CountsRefused) {
		got := py(t, r, "import ctypes\nfor _ in range(5): ctypes.CDLL(None).syscall(425, 1, 0)\nprint('on')")
		got.prints(t, "on")
		if got.Usage.Refused < 5 || len(got.Breaches) > 0 {
			t.Errorf("5 calls of io_uring_setup: %+v, breaches %v", got.Usage, got.Breaches)
		}
	}
}

// soft checks that exceeding a soft limit is only a warning.
func soft(t *testing.T, r runner) {
	low := func(s *sandbox.Spec) { s.Limits.SoftCPU, s.Limits.SoftMemory = 200*time.Millisecond, 64<<20 }
	const greedy = `
import time
b = b"x" * (120 << 20)
end = time.process_time() + 0.6
while time.process_time() < end: pass
print("done")
`
	got := py(t, r, greedy, low)
	got.prints(t, "done")
	if all := strings.Join(got.Warnings, "\n"); !strings.Contains(all, "processor") || !strings.Contains(all, "memory") {
		t.Errorf("warnings %q of %+v", all, got.Usage)
	}
	if got := sh(t, r, "true"); len(got.Warnings) > 0 {
		t.Errorf("warnings of nothing: %q", got.Warnings)
	}
}
