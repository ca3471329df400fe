// Package sandboxtest is what every sandbox.Runner must pass: the walls hold, the limits bite, what flows in and
// out arrives, and nothing is left behind. It owns no sandbox and knows none.
package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild/internal/sandbox"
)

// Test runs the suite. newRunner is called once for each part of it.
func Test(t *testing.T, newRunner func(*testing.T) sandbox.Runner) {
	for _, part := range []struct {
		name string
		test func(*testing.T, sandbox.Runner)
	}{
		{"it can be probed", probe},
		{"what flows in and out arrives", streams},
		{"how a command ends is reported", endings},
		{"the host is not visible", host},
		{"the network is not reachable", network},
		{"the limits bite", limits},
		{"escapes are refused", escapes},
		{"what is shared is shared as asked", shared},
		{"nothing is left behind", leftovers},
		{"a caller can stop a run", stopped},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, newRunner(t)) })
	}
}

// ran is a result with what it wrote.
type ran struct {
	sandbox.Result
	stdout, stderr, results string
}

// sh runs a script with small limits, which change may alter.
func sh(t *testing.T, r sandbox.Runner, script string, change ...func(*sandbox.Spec)) ran {
	t.Helper()
	return with(t, r, "", script, change...)
}

// py runs a Python program.
func py(t *testing.T, r sandbox.Runner, program string, change ...func(*sandbox.Spec)) ran {
	t.Helper()
	change = append(change, func(s *sandbox.Spec) { s.Argv = []string{"/usr/bin/python3", "-I", "-c", program} })
	return with(t, r, "", "", change...)
}

func with(t *testing.T, r sandbox.Runner, stdin, script string, change ...func(*sandbox.Spec)) ran {
	t.Helper()
	s := sandbox.Spec{
		Argv: []string{"/bin/sh", "-c", script},
		Env:  []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"},
		Limits: sandbox.Limits{
			Wall: 10 * time.Second, CPU: 5 * time.Second, Memory: 256 << 20, Disk: 32 << 20, Output: 64 << 10, Pids: 50,
		},
	}
	for _, c := range change {
		c(&s)
	}
	var stdout, stderr, results bytes.Buffer
	streams := sandbox.IO{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Results: &results}
	res, err := r.Run(t.Context(), s, streams)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return ran{res, stdout.String(), stderr.String(), results.String()}
}

// prints wants exactly this output and an ordinary end.
func (r ran) prints(t *testing.T, want string) {
	t.Helper()
	if r.Exit != 0 || r.Killed != "" || strings.TrimSpace(r.stdout) != want {
		t.Errorf("exit %d %s %s\nstdout: %s\nstderr: %s\nwant:   %s", r.Exit, r.Signal, r.Killed, r.stdout, r.stderr, want)
	}
}

// killed wants a run that the named limit ended.
func (r ran) killed(t *testing.T, by string) {
	t.Helper()
	if r.Killed != by {
		t.Errorf("killed by %q, want %q (exit %d, stdout %.200q, stderr %.200q)", r.Killed, by, r.Exit, r.stdout, r.stderr)
	}
}

func probe(t *testing.T, r sandbox.Runner) {
	c := r.Probe(t.Context())
	if !c.Usable || c.Tier == "" || c.Reason != "" || c.Remedy != "" {
		t.Errorf("probe: %+v", c)
	}
}

func streams(t *testing.T, r sandbox.Runner) {
	t.Run("stdin, stdout and stderr", func(t *testing.T) {
		got := with(t, r, "hello\n", "cat; echo oops >&2")
		got.prints(t, "hello")
		if got.stderr != "oops\n" {
			t.Errorf("stderr %q", got.stderr)
		}
	})
	t.Run("descriptor 3", func(t *testing.T) {
		if got := sh(t, r, "echo result >&3"); got.results != "result\n" || got.stdout != "" {
			t.Errorf("results %q, stdout %q", got.results, got.stdout)
		}
	})
	t.Run("no other descriptor is open", func(t *testing.T) {
		py(t, r, "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])").prints(t, "[0, 1, 2, 3]")
	})
	t.Run("the environment is what was given", func(t *testing.T) {
		got := py(t, r, "import os; print(*sorted(k for k in os.environ if k != 'LC_CTYPE' and k != 'PWD'))")
		got.prints(t, "LANG PATH")
	})
	t.Run("output beyond the limit is cut", func(t *testing.T) {
		got := sh(t, r, "head -c 100000 /dev/zero")
		if len(got.stdout) != 64<<10 || !got.Cut || got.Killed != "" {
			t.Errorf("%d bytes, cut %v, killed %q", len(got.stdout), got.Cut, got.Killed)
		}
	})
	t.Run("output arrives while the command runs", func(t *testing.T) { live(t, r) })
}

// live answers each line that the command prints, which goes on only then.
func live(t *testing.T, r sandbox.Runner) {
	in, answer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer answer.Close()
	var lines bytes.Buffer
	out := writerFunc(func(p []byte) (int, error) {
		lines.Write(p)
		return answer.Write([]byte("go\n"))
	})
	s := sandbox.Spec{
		Argv:   []string{"/bin/sh", "-c", "echo one; read x; echo two; read x"},
		Limits: sandbox.Limits{Wall: 10 * time.Second},
	}
	res, err := r.Run(t.Context(), s, sandbox.IO{Stdin: in, Stdout: out})
	if err != nil || res.Exit != 0 || lines.String() != "one\ntwo\n" {
		t.Errorf("%+v %v %q", res, err, lines.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func endings(t *testing.T, r sandbox.Runner) {
	if got := sh(t, r, "exit 7"); got.Exit != 7 || got.Signal != "" || got.Killed != "" {
		t.Errorf("exit 7: %+v", got.Result)
	}
	if got := sh(t, r, "kill -SEGV $$"); got.Exit != 139 || got.Signal != "SIGSEGV" {
		t.Errorf("SIGSEGV: %+v", got.Result)
	}
	if got := sh(t, r, "true"); got.Usage.WallMs < 0 || got.Usage.MemoryPeak <= 0 {
		t.Errorf("usage: %+v", got.Usage)
	}
	burn := "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
	if got := py(t, r, burn); got.Usage.CPUMs < 200 || got.Usage.CPUMs > 3000 {
		t.Errorf("usage of 300 ms of processor time: %+v", got.Usage)
	}
	missing := func(s *sandbox.Spec) { s.Argv = []string{"/no/such/program"} }
	if got := sh(t, r, "", missing); got.Exit == 0 {
		t.Errorf("missing program: %+v", got.Result)
	}
}

func host(t *testing.T, r sandbox.Runner) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/root", "/home", "/etc/shadow", "/sys", "/boot", "/var/lib", "/run", "/mnt", "/srv", secret} {
		sh(t, r, "test -e "+path+" || echo absent").prints(t, "absent")
	}
	for _, path := range []string{"/x", "/usr/x", "/etc/x", "/dev/x", "/proc/sys/kernel/core_pattern", "/usr/bin/x"} {
		sh(t, r, "echo x 2>/dev/null >"+path+" || echo refused").prints(t, "refused")
	}
	for _, dir := range []string{sandbox.Workspace, sandbox.Home, sandbox.Temp, "/var/tmp", "/dev/shm"} {
		sh(t, r, "echo fine >"+dir+"/x && cat "+dir+"/x").prints(t, "fine")
	}
	sh(t, r, "pwd; ls -A").prints(t, sandbox.Workspace)
	sh(t, r, "hostname; id -u; grep CapEff /proc/self/status | tr -d '0 \t'; grep NoNewPrivs /proc/self/status | tr -d ' \t'").
		prints(t, "box\n1000\nCapEff:\nNoNewPrivs:1")
	sh(t, r, "ls /proc | grep -c '^[0-9]' | xargs test 8 -gt && echo few").prints(t, "few")
	args := sh(t, r, "cat /proc/1/cmdline /proc/1/environ")
	if strings.Contains(args.stdout, "HOME=") || strings.Contains(args.stdout, os.Getenv("HOME")+"/") {
		t.Errorf("the first process tells: %q", args.stdout)
	}
}

func network(t *testing.T, r sandbox.Runner) {
	const attempt = `
import socket, sys
s = socket.socket(socket.%s, socket.%s)
s.settimeout(2)
try: s.connect((%q, 80)); s.send(b"x")
except OSError as e: print(e.errno)
`
	for _, c := range []struct{ family, kind, address string }{
		{"AF_INET", "SOCK_STREAM", "192.0.2.1"},
		{"AF_INET", "SOCK_DGRAM", "192.0.2.1"},
		{"AF_INET6", "SOCK_STREAM", "2001:db8::1"},
	} {
		got := py(t, r, fmt.Sprintf(attempt, c.family, c.kind, c.address))
		got.prints(t, "101") // ENETUNREACH
		if len(got.Breaches) != 1 || got.Breaches[0].Syscall != "connect" {
			t.Errorf("%s %s: breaches %+v", c.kind, c.address, got.Breaches)
		}
	}
	const loopback = `
import socket
l = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(l.getsockname())
l.accept()[0].send(b"hello"); print(c.recv(5).decode())
`
	got := py(t, r, loopback)
	got.prints(t, "hello")
	if len(got.Breaches) != 0 {
		t.Errorf("loopback is no breach: %+v", got.Breaches)
	}
}

func limits(t *testing.T, r sandbox.Runner) {
	quick := func(s *sandbox.Spec) { s.Limits.Wall = time.Second }
	sh(t, r, "sleep 100", quick).killed(t, sandbox.KilledWall)
	sh(t, r, "trap '' TERM INT HUP; sleep 100 & sleep 100", quick).killed(t, sandbox.KilledWall)

	second := func(s *sandbox.Spec) { s.Limits.CPU = time.Second }
	sh(t, r, "while :; do :; done", second).killed(t, sandbox.KilledCPU)
	py(t, r, "import os\nos.fork()\nos.fork()\nwhile True: pass", second).killed(t, sandbox.KilledCPU)

	py(t, r, "b = []\nwhile True: b.append(bytearray(8<<20))").killed(t, sandbox.KilledMemory)
	py(t, r, "import os,time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(9)").killed(t, sandbox.KilledPids)
	if got := sh(t, r, "b() { b | b & }; b; sleep 9", quick); got.Exit == 0 && !strings.Contains(got.stderr, "fork") {
		t.Errorf("a fork bomb had its way: %+v", got.Result)
	}
	sh(t, r, "yes").killed(t, sandbox.KilledOutput)
	sh(t, r, "yes >&2").killed(t, sandbox.KilledOutput)
	sh(t, r, "yes >&3").killed(t, sandbox.KilledOutput)
	fill := "for i in 1 2 3 4 5 6 7 8 9; do head -c 9000000 /dev/zero >%s/$i || sleep 9; done"
	sh(t, r, fmt.Sprintf(fill, sandbox.Temp)).killed(t, sandbox.KilledDisk)
	sh(t, r, fmt.Sprintf(fill, sandbox.Workspace)).killed(t, sandbox.KilledDisk)
	got := sh(t, r, "head -c 40000000 /dev/zero >/dev/shm/x && echo written")
	if strings.Contains(got.stdout, "written") {
		t.Error("/dev/shm is not bounded")
	}
}

func escapes(t *testing.T, r sandbox.Runner) {
	call := func(expr string) string {
		return "import ctypes; c = ctypes.CDLL(None, use_errno=True); r = " + expr + "; print('came back', r)"
	}
	for name, expr := range map[string]string{
		"ptrace":            "c.ptrace(0, 0, 0, 0)",
		"mount":             "c.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
		"unshare":           "c.unshare(0x10000000)",
		"setns":             "c.setns(0, 0)",
		"chroot":            "c.chroot(b'/tmp')",
		"process_vm_readv":  "c.process_vm_readv(1, None, 0, None, 0, 0)",
		"packet socket":     "c.socket(17, 3, 0)",
		"vsock":             "c.socket(40, 1, 0)",
		"bpf":               "c.syscall(__import__('platform').machine() == 'x86_64' and 321 or 280, 0, None, 0)",
		"open_by_handle_at": "c.open_by_handle_at(-100, None, 0)",
	} {
		t.Run(name, func(t *testing.T) {
			got := py(t, r, call(expr))
			if strings.Contains(got.stdout, "came back") || len(got.Breaches) != 1 {
				t.Errorf("stdout %q, exit %d %s, breaches %+v", got.stdout, got.Exit, got.Signal, got.Breaches)
			}
		})
	}
	py(t, r, "import os\nfor p in (1, -1):\n try: os.kill(p, 0 if p < 0 else 9)\n except OSError: pass\nprint('alive')").prints(t, "alive")
	sh(t, r, "kill -9 -1").killed(t, "")
	sh(t, r, "kill -STOP 1; echo on").prints(t, "on")
}

func shared(t *testing.T, r sandbox.Runner) {
	in, out := t.TempDir(), t.TempDir()
	os.WriteFile(filepath.Join(in, "a"), []byte("from outside"), 0o600)
	os.Mkdir(filepath.Join(in, "sub"), 0o700)
	os.WriteFile(filepath.Join(in, "sub", "run"), []byte("#!/bin/sh\necho ran"), 0o700)
	mounts := func(s *sandbox.Spec) {
		s.Mounts = []sandbox.Mount{{Host: in, Inside: "/in"}, {Host: out, Inside: "/out", Writable: true}}
	}
	sh(t, r, "cat /in/a; cp /in/a /out/b; echo x 2>/dev/null >/in/c || echo ' refused'", mounts).prints(t, "from outside refused")
	if b, err := os.ReadFile(filepath.Join(out, "b")); string(b) != "from outside" {
		t.Errorf("%q, %v", b, err)
	}

	below := filepath.Join(sandbox.Temp, "guild", "in") // where a directory of the host's own /tmp would be
	sh(t, r, "cat "+below+"/a; touch "+sandbox.Temp+"/b", func(s *sandbox.Spec) {
		s.Mounts = []sandbox.Mount{{Host: in, Inside: below}}
	}).prints(t, "from outside")

	over := t.TempDir()
	os.WriteFile(filepath.Join(over, "a"), []byte("later"), 0o644)
	copies := func(s *sandbox.Spec) {
		s.Copies = []sandbox.Copy{{Host: in, Inside: sandbox.Workspace}, {Host: over, Inside: sandbox.Workspace}}
	}
	sh(t, r, "cat a; echo; sub/run; echo mine >a; cat a; echo x >&3", copies).prints(t, "later\nran\nmine")
	py(t, r, "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])", copies).prints(t, "[0, 1, 2, 3]")
	if b, _ := os.ReadFile(filepath.Join(over, "a")); string(b) != "later" {
		t.Errorf("a copy was written back: %q", b)
	}

	os.Symlink("/etc/passwd", filepath.Join(over, "link"))
	s := sandbox.Spec{Argv: []string{"/bin/true"}}
	copies(&s)
	if _, err := r.Run(t.Context(), s, sandbox.IO{}); err == nil {
		t.Error("a link was copied")
	}
}

func leftovers(t *testing.T, r sandbox.Runner) {
	mark := fmt.Sprintf("guild-leftover-%d", time.Now().UnixNano())
	daemon := "import os, sys, time\n" +
		"if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  os.closerange(0, 9); time.sleep(1000)\n os._exit(0)\n" +
		"time.sleep(0.1)\nprint('parent') # " + mark
	mounts, groups := mounted(t), controlGroups(t)
	py(t, r, daemon).prints(t, "parent")
	for range 3 {
		sh(t, r, "sleep 1000 & exit 0 # "+mark)
	}
	if left := processes(mark); len(left) > 0 {
		t.Errorf("processes: %v", left)
	}
	if now := mounted(t); now != mounts {
		t.Errorf("mounts: %s\nbefore: %s", now, mounts)
	}
	if now := controlGroups(t); now > groups {
		t.Errorf("%d control groups, %d before", now, groups)
	}
}

// processes are those with mark in their command line.
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

func mounted(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Skip("this part looks at /proc: " + err.Error())
	}
	return string(b)
}

// controlGroups counts the directories of this process's runs.
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

func stopped(t *testing.T, r sandbox.Runner) {
	ctx, cancel := context.WithCancel(t.Context())
	out := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	s := sandbox.Spec{Argv: []string{"/bin/sh", "-c", "echo started; sleep 100"}}
	_, err := r.Run(ctx, s, sandbox.IO{Stdout: out})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Run(t.Context(), sandbox.Spec{}, sandbox.IO{}); err == nil {
		t.Error("a run of nothing")
	}
}
